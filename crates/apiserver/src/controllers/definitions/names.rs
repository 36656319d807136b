//! Acceptance of a definition's names, and its establishment.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use kube_apimachinery::metadata;
use serde_json::{Map, Value, json};

use super::{Definition, put};
use crate::kind::registry::Served;
use crate::kinds::definition::{condition, set_condition};
use crate::state::ClusterState;
use crate::state::writer;

/// Accepts the free names of each definition, and establishes the definitions that have all of theirs.
///
/// One pass may free names for the next, so passes are repeated while they change anything, at most as often as there
/// are definitions. A definition with accepted names only costs a look at its `status`.
pub(super) fn settle(cluster: &ClusterState, served: &Served, definitions: &mut [Definition]) {
    for _ in 0..=definitions.len() {
        let mut changed = false;
        for at in 0..definitions.len() {
            if let Some(status) = accept_names(cluster, definitions, at) {
                changed |= put_status(cluster, served, &mut definitions[at], status);
            }
            if let Some(status) = establish(cluster, &definitions[at].2) {
                changed |= put_status(cluster, served, &mut definitions[at], status);
            }
        }
        if !changed {
            return;
        }
    }
}

/// Stores a new `status`; returns `false` if the definition changed meanwhile, in which case that write runs this
/// again.
fn put_status(cluster: &ClusterState, served: &Served, definition: &mut Definition, status: Value) -> bool {
    let (key, revision, value) = definition;
    let mut next = Value::clone(value);
    next["status"] = status;
    track(cluster, served, value, &mut next);
    if !put(cluster, served, key, *revision, &next) {
        return false;
    }
    if let Some(stored) = cluster.read(|store| store.get(served.storage(), key).cloned()) {
        *revision = stored.revision;
        *value = Arc::new(served.value(&stored));
    }
    true
}

/// Returns the new `status` of a definition whose names are accepted and that is not established yet.
fn establish(cluster: &ClusterState, definition: &Value) -> Option<Value> {
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

/// Records the server's ownership of the status fields that it writes.
pub(super) fn track(cluster: &ClusterState, served: &Served, old: &Value, new: &mut Value) {
    writer::track_as(cluster, served, "kube-apiserver", "status", Some(old), new);
}

/// Names that other definitions of the group use.
#[derive(Default)]
struct Used {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Used {
    fn beside(definitions: &[Definition], at: usize) -> Self {
        let mut used = Self::default();
        let group = &definitions[at].2["spec"]["group"];
        let others = definitions.iter().enumerate().filter(|(other, _)| *other != at);
        for (_, (_, _, other)) in others.filter(|(_, (_, _, other))| other["spec"]["group"] == *group) {
            let names = &other["status"]["acceptedNames"];
            let text = |field: &str| names[field].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
            used.resources.extend(["plural", "singular"].into_iter().filter_map(text));
            used.resources.extend(texts(&names["shortNames"]));
            used.kinds.extend(["kind", "listKind"].into_iter().filter_map(text));
        }
        used
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Accepts the requested names that are free, and sets the conditions. Returns the new `status`, if it changed.
fn accept_names(cluster: &ClusterState, definitions: &[Definition], at: usize) -> Option<Value> {
    let definition = &definitions[at].2;
    let requested = &definition["spec"]["names"];
    // kube-apiserver stops here too, so conditions that a client removed are not restored.
    if *requested == definition["status"]["acceptedNames"] {
        return None;
    }
    let mut accepted: Map<String, Value> =
        definition["status"]["acceptedNames"].as_object().cloned().unwrap_or_default();
    // Computed lazily: most definitions already have their names.
    let used = LazyCell::new(|| Used::beside(definitions, at));
    let mut conflict: Option<(&str, String)> = None;
    for (field, reason, of_kind) in [
        ("plural", "PluralConflict", false),
        ("singular", "SingularConflict", false),
        ("shortNames", "ShortNamesConflict", false),
        ("kind", "KindConflict", true),
        ("listKind", "ListKindConflict", true),
    ] {
        let wanted = &requested[field];
        if accepted.get(field) == Some(wanted) {
            continue;
        }
        let names = if wanted.is_array() {
            texts(wanted)
        } else {
            wanted.as_str().map(str::to_owned).into_iter().collect()
        };
        let taken = if of_kind { &used.kinds } else { &used.resources };
        let already = texts(accepted.get(field).unwrap_or(&Value::Null));
        let clashes: Vec<String> = names
            .iter()
            .filter(|name| !already.contains(name) && taken.contains(*name))
            .map(|name| format!("\"{name}\" is already in use"))
            .collect();
        match clashes.as_slice() {
            [] if wanted.is_null() => {
                accepted.remove(field);
            }
            [] => {
                accepted.insert(field.to_owned(), wanted.clone());
            }
            [one] => conflict = Some((reason, one.clone())),
            many => conflict = Some((reason, format!("[{}]", many.join(", ")))),
        }
    }
    // Definitions may share categories, so these cannot conflict.
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
