//! Plugin `Priority`: new pods get priority and preemption policy from their PriorityClass; an update that omits the two fields keeps them.
//! Only one class can be the default.

use std::sync::Arc;

use kube_apimachinery::metadata;
use kube_apimachinery::status::ApiError;
use serde_json::{Value, json};

use super::rules::WriteRule;
use super::{Attributes, Operation};
use crate::kind::resource::StorageKey;
use crate::state::ClusterState;
use crate::store::{Key, Stored};

const GROUP: &str = "scheduling.k8s.io";
const PLURAL: &str = "priorityclasses";
/// Policy of pods without a class.
const POLICY: &str = "PreemptLowerPriority";

pub(super) struct Priority;

impl WriteRule for Priority {
    fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        if !attributes.is_of("", "pods") {
            return Ok(());
        }
        if attributes.operation == Operation::Create {
            return assign(attributes.cluster, object);
        }
        keep(attributes.old, object);
        Ok(())
    }

    fn validate(&self, attributes: &Attributes<'_>, object: &Value) -> Result<(), ApiError> {
        if attributes.is_of(GROUP, PLURAL) { single_default(attributes, object) } else { Ok(()) }
    }
}

/// Refuses a second default class.
fn single_default(attributes: &Attributes<'_>, class: &Value) -> Result<(), ApiError> {
    if class["globalDefault"] != true {
        return Ok(());
    }
    let name = metadata::text(class, "name");
    match default_class(attributes.cluster) {
        Some(default)
            if attributes.operation == Operation::Create || metadata::text(&default, "name") != name =>
        {
            let default = metadata::text(&default, "name");
            let why =
                format!("PriorityClass {default} is already marked as default. Only one default can exist");
            Err(ApiError::forbidden(GROUP, PLURAL, name, &why))
        }
        _ => Ok(()),
    }
}

/// Copies the priority and the preemption policy of the old state to a new state that omits them.
fn keep(old: Option<&Value>, pod: &mut Value) {
    let (Some(old), Some(spec)) = (old, pod.get_mut("spec").and_then(Value::as_object_mut)) else {
        return;
    };
    // This plugin set the fields at the create. A client that sends its own manifest again omits them, and
    // validation would refuse their removal.
    for field in ["priority", "preemptionPolicy"] {
        let kept = &old["spec"][field];
        if spec.get(field).is_none_or(Value::is_null) && !kept.is_null() {
            spec.insert(field.to_owned(), kept.clone());
        }
    }
}

/// Sets the priority, the preemption policy and the class of a new pod.
///
/// # Errors
/// 403 if the class does not exist, or the pod has values other than those of its class.
fn assign(cluster: &ClusterState, pod: &mut Value) -> Result<(), ApiError> {
    let refuse = |pod: &Value, why: &str| {
        let names = [metadata::text(pod, "name"), metadata::text(pod, "generateName")];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        Err(ApiError::forbidden("", "pods", name, why))
    };
    let class = match pod["spec"]["priorityClassName"].as_str().unwrap_or_default() {
        "" => default_class(cluster).unwrap_or_else(|| json!({"value": 0, "preemptionPolicy": POLICY})),
        name => match stored(cluster, name) {
            Some(class) => class,
            None => return refuse(pod, &format!("no PriorityClass with name {name} was found")),
        },
    };
    let computed = "priority admission controller computed";
    let from = "from the given PriorityClass name";
    let (given, priority) = (&pod["spec"]["priority"], class["value"].as_i64().unwrap_or(0));
    if given.as_i64().is_some_and(|given| given != priority) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; {computed} {priority} {from}"
        );
        return refuse(pod, &why);
    }
    if let Some(policy) = class["preemptionPolicy"].as_str()
        && let Some(given) = pod["spec"]["preemptionPolicy"].as_str().filter(|given| *given != policy)
    {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; {computed} {policy} {from}"
        );
        return refuse(pod, &why);
    }
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("priority".to_owned(), json!(priority));
        for (field, value) in [
            ("preemptionPolicy", &class["preemptionPolicy"]),
            ("priorityClassName", &class["metadata"]["name"]),
        ] {
            if value.is_string() {
                spec.insert(field.to_owned(), value.clone());
            }
        }
    }
    Ok(())
}

fn table() -> StorageKey {
    StorageKey { group: GROUP.to_owned(), plural: PLURAL.to_owned() }
}

fn stored(cluster: &ClusterState, name: &str) -> Option<Value> {
    let stored = cluster.read(|store| store.get(&table(), &Key::new("", name)).cloned())?;
    value(cluster, &stored)
}

/// Returns the class of pods that name none. Concurrent writes can create several default classes; the one with the lowest value is used.
fn default_class(cluster: &ClusterState) -> Option<Value> {
    // Searched for in the text first, because most classes are not the default and need not be parsed then.
    const MARK: &[u8] = b"\"globalDefault\":true";
    let snapshot = cluster.read(|store| store.snapshot(&table()));
    let marked = snapshot
        .range("", None)
        .filter(|(_, stored)| stored.document.text().windows(MARK.len()).any(|text| text == MARK));
    let classes = marked.filter_map(|(_, stored)| value(cluster, stored));
    classes.filter(|class| class["globalDefault"] == true).min_by_key(|class| class["value"].as_i64())
}

fn value(cluster: &ClusterState, stored: &Arc<Stored>) -> Option<Value> {
    let registry = cluster.registry();
    registry.get(GROUP, "v1", PLURAL).map(|served| served.value(stored))
}
