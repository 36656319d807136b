//! Acceptance of a definition's names, and its establishment.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use kube_apimachinery::metadata;
use serde_json::{Map, Value, json};

use crate::kind::registry::ServedKind;
use crate::kinds::definition::{approval_condition, condition, set_condition};
use crate::state::ClusterState;
use crate::state::writer;

/// Returns the new `status` of a definition that has accepted names and is not established yet.
pub(super) fn establish(cluster: &ClusterState, definition: &Value) -> Option<Value> {
    if condition(definition, "NamesAccepted") != "True"
        || condition(definition, "Established") == "True"
        || metadata::is_terminating(definition)
    {
        return None;
    }
    let mut next = json!({"status": definition["status"]});
    let why = "the initial names have been accepted";
    set_condition(
        &cluster.clock.now_seconds(),
        &mut next,
        "Established",
        "True",
        "InitialNamesAccepted",
        why,
    );
    Some(next["status"].take())
}

/// Returns the new `status` of a definition if its condition about the approval is missing or outdated.
pub(super) fn show_approval(cluster: &ClusterState, definition: &Value) -> Option<Value> {
    const KIND: &str = "KubernetesAPIApprovalPolicyConformant";
    let (value, reason, message) = approval_condition(definition)?;
    let mut next = json!({"status": definition["status"]});
    if !next["status"].is_object() {
        next["status"] = json!({});
    }
    let mut conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    if conditions.find(|condition| condition["type"] == KIND).is_some_and(|known| {
        known["status"] == value && known["reason"] == reason && known["message"] == message
    }) {
        return None;
    }
    set_condition(&cluster.clock.now_seconds(), &mut next, KIND, value, reason, &message);
    Some(next["status"].take())
}

/// Records the server's ownership of the status fields that it writes.
pub(super) fn track(cluster: &ClusterState, served: &ServedKind, old: &Value, new: &mut Value) {
    writer::track_as(cluster, served, "kube-apiserver", "status", Some(old), new);
}

/// Use of a name. Names with different uses do not conflict.
#[derive(Clone, Copy)]
enum NameUse {
    Resource,
    Kind,
}

/// Names that other definitions of the group use.
#[derive(Default)]
struct Used {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Used {
    fn by<'a>(definitions: impl Iterator<Item = &'a Value>) -> Self {
        let mut used = Self::default();
        for definition in definitions {
            let names = &definition["status"]["acceptedNames"];
            let text = |field: &str| names[field].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
            used.resources.extend(["plural", "singular"].into_iter().filter_map(text));
            used.resources.extend(texts(&names["shortNames"]));
            used.kinds.extend(["kind", "listKind"].into_iter().filter_map(text));
        }
        used
    }
}

/// Fields with names, the reasons of conflicts about them, and the use of the names.
const NAMES: [(&str, &str, NameUse); 5] = [
    ("plural", "PluralConflict", NameUse::Resource),
    ("singular", "SingularConflict", NameUse::Resource),
    ("shortNames", "ShortNamesConflict", NameUse::Resource),
    ("kind", "KindConflict", NameUse::Kind),
    ("listKind", "ListKindConflict", NameUse::Kind),
];

/// Returns the message about those of the wanted names that are taken; `None` if all are free. Short names that are accepted for the
/// definition itself are free.
fn clash(wanted: &Value, accepted: Option<&Value>, taken: &BTreeSet<String>) -> Option<String> {
    let names = if wanted.is_array() {
        texts(wanted)
    } else {
        wanted.as_str().map(str::to_owned).into_iter().collect()
    };
    let already = texts(accepted.unwrap_or(&Value::Null));
    let clashes: Vec<String> = names
        .iter()
        .filter(|name| !already.contains(name) && taken.contains(*name))
        .map(|name| format!("\"{name}\" is already in use"))
        .collect();
    match clashes.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Accepts those of the requested names that are free, and sets the conditions. Returns the new `status` if it changed. `others` are the
/// other definitions of the group.
pub(super) fn accept<'a, O: Iterator<Item = &'a Value>>(
    cluster: &ClusterState,
    definition: &Value,
    others: impl FnOnce() -> O,
) -> Option<Value> {
    let requested = &definition["spec"]["names"];
    // kube-apiserver stops here too; conditions that a client removed are not restored.
    if *requested == definition["status"]["acceptedNames"] {
        return None;
    }
    let mut accepted: Map<String, Value> =
        definition["status"]["acceptedNames"].as_object().cloned().unwrap_or_default();
    // Computed lazily: most definitions already have their names.
    let used = LazyCell::new(|| Used::by(others()));
    let mut conflict: Option<(&str, String)> = None;
    for (field, reason, use_of) in NAMES {
        let wanted = &requested[field];
        if accepted.get(field) == Some(wanted) {
            continue;
        }
        let taken = match use_of {
            NameUse::Resource => &used.resources,
            NameUse::Kind => &used.kinds,
        };
        // Of several conflicts the condition reports the last, as in kube-apiserver.
        match clash(wanted, accepted.get(field), taken) {
            Some(message) => conflict = Some((reason, message)),
            None if wanted.is_null() => {
                accepted.remove(field);
            }
            None => {
                accepted.insert(field.to_owned(), wanted.clone());
            }
        }
    }
    // Several definitions may have the same category, so categories cannot conflict.
    match requested.get("categories") {
        Some(categories) => accepted.insert("categories".to_owned(), categories.clone()),
        None => accepted.remove("categories"),
    };
    // Go writes these fields even if they are empty.
    for always in ["plural", "kind"] {
        accepted.entry(always).or_insert_with(|| json!(""));
    }
    let mut next = json!({"status": definition["status"]});
    if !next["status"].is_object() {
        next["status"] = json!({});
    }
    next["status"]["acceptedNames"] = Value::Object(accepted);
    let (accepted, reason, message) = match &conflict {
        None => ("True", "NoConflicts", "no conflicts found"),
        Some((reason, message)) => ("False", *reason, message.as_str()),
    };
    set_condition(&cluster.clock.now_seconds(), &mut next, "NamesAccepted", accepted, reason, message);
    if condition(&next, "Established") != "True" {
        let (reason, message) = if conflict.is_none() {
            ("Installing", "the initial names have been accepted")
        } else {
            ("NotAccepted", "not all names are accepted")
        };
        set_condition(&cluster.clock.now_seconds(), &mut next, "Established", "False", reason, message);
    }
    (next["status"] != definition["status"]).then(|| next["status"].take())
}
