//! Plugin `RuntimeClass`: a new pod with a runtime class gets the class's overhead, node selector and tolerations.
//!
//! Only the class may set the overhead. A node selector of the pod that contradicts the class is refused. If one toleration covers another
//! one, the wider one stays.

use kube_apimachinery::go::quote;
use kube_apimachinery::names::{self, NameRule};
use kube_apimachinery::status::ApiError;
use serde_json::{Value, json};

use super::rules::WriteRule;
use super::{Attributes, Operation};
use crate::kinds::builtin::shared::amounts::Amounts;
use crate::store::Key;

pub(super) struct RuntimeClassAdmission;

impl WriteRule for RuntimeClassAdmission {
    fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        if !applies(attributes) {
            return Ok(());
        }
        let Some(class) = class(attributes, object)? else {
            return Ok(());
        };
        apply(&class, object).map_err(|why| attributes.forbidden(object, &why))
    }

    fn validate(&self, attributes: &Attributes<'_>, object: &Value) -> Result<(), ApiError> {
        if !applies(attributes) {
            return Ok(());
        }
        let class = class(attributes, object)?;
        // `mutate` has set the overhead, but webhooks may have changed it since.
        let overhead = class.as_ref().map_or(&Value::Null, |class| &class["overhead"]);
        let own = &object["spec"]["overhead"];
        if overhead.is_object() && differs(&overhead["podFixed"], own) {
            return Err(attributes.forbidden(object, MISMATCH));
        }
        if !overhead.is_object() && own.is_object() {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            return Err(attributes.forbidden(object, why));
        }
        Ok(())
    }
}

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

fn applies(attributes: &Attributes<'_>) -> bool {
    attributes.operation == Operation::Create && attributes.is_of("", "pods")
}

/// Returns the runtime class of a pod, if it names one.
fn class(attributes: &Attributes<'_>, pod: &Value) -> Result<Option<Value>, ApiError> {
    let Some(name) = pod["spec"]["runtimeClassName"].as_str() else {
        return Ok(None);
    };
    // kube-apiserver's plugin reads the class with a client, which refuses to send a request without a name.
    if name.is_empty() {
        return Err(ApiError::internal("resource name may not be empty"));
    }
    let refused = names::name(NameRule::PathSegment, name);
    if !refused.is_empty() {
        let why = refused.join(" ");
        return Err(ApiError::internal(format!("invalid resource name {}: [{why}]", quote(name))));
    }
    match attributes.get("node.k8s.io", "runtimeclasses", &Key::new("", name)) {
        Some(class) => Ok(Some(class)),
        None => {
            let why = format!("pod rejected: RuntimeClass {} not found", quote(name));
            Err(attributes.forbidden(pod, &why))
        }
    }
}

fn differs(one: &Value, other: &Value) -> bool {
    Amounts::read(one) != Amounts::read(other)
}

/// Sets the fields of a pod that its class defines.
///
/// # Errors
/// The reason why the pod contradicts its class.
fn apply(class: &Value, pod: &mut Value) -> Result<(), String> {
    let spec = &mut pod["spec"];
    let fixed = &class["overhead"]["podFixed"];
    if class["overhead"].is_object() {
        let own = spec["overhead"].as_object().is_some_and(|own| !own.is_empty());
        if own && differs(fixed, &spec["overhead"]) {
            return Err(MISMATCH.to_owned());
        }
        spec["overhead"] = fixed.clone();
    }
    for (key, wanted) in class["scheduling"]["nodeSelector"].as_object().into_iter().flatten() {
        if !spec["nodeSelector"].is_object() {
            spec["nodeSelector"] = json!({});
        }
        let own = &mut spec["nodeSelector"][key];
        if !own.is_null() && own != wanted {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                text(wanted),
                text(own)
            ));
        }
        own.clone_from(wanted);
    }
    if class["scheduling"].is_object() {
        let own = spec["tolerations"].as_array().cloned().unwrap_or_default();
        let further = class["scheduling"]["tolerations"].as_array().cloned().unwrap_or_default();
        let merged = merge_tolerations(&[own, further].concat());
        if !merged.is_empty() {
            spec["tolerations"] = Value::Array(merged);
        }
    }
    Ok(())
}

/// Drops tolerations that another one covers. Of equal tolerations the first stays.
fn merge_tolerations(all: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for (index, toleration) in all.iter().enumerate() {
        let is_covered = merged.iter().any(|kept| covers(kept, toleration))
            || all[index + 1..].iter().any(|later| later != toleration && covers(later, toleration));
        if !is_covered {
            merged.push(toleration.clone());
        }
    }
    merged
}

/// Whether a toleration tolerates everything that another one does.
fn covers(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let text = |toleration: &Value, field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
    let exists = text(wide, "operator") == "Exists";
    // `Exists` without a key tolerates all keys.
    let has_key = text(wide, "key") == text(narrow, "key") || text(wide, "key").is_empty() && exists;
    let has_effect = ["", &text(narrow, "effect")].contains(&text(wide, "effect").as_str());
    // `tolerationSeconds` limits only tolerations of NoExecute.
    let lasts = match (wide["tolerationSeconds"].as_i64(), narrow["tolerationSeconds"].as_i64()) {
        (Some(_), None) => text(wide, "effect") != "NoExecute",
        (Some(wide_seconds), Some(narrow_seconds)) => {
            text(wide, "effect") != "NoExecute" || narrow_seconds <= wide_seconds
        }
        (None, _) => true,
    };
    let has_value = match text(wide, "operator").as_str() {
        "Exists" => true,
        "Equal" | "" => text(narrow, "operator") == "Equal" && text(narrow, "value") == text(wide, "value"),
        _ => false,
    };
    has_key && has_effect && lasts && has_value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_gets_the_fields_that_its_class_defines() {
        let class = json!({
            "overhead": {"podFixed": {"cpu": "10m"}},
            "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "x", "operator": "Exists"}]},
        });
        let mut pod = json!({"spec": {"nodeSelector": {"c": "d"}}});
        apply(&class, &mut pod).unwrap();
        assert_eq!(
            pod["spec"],
            json!({
                "nodeSelector": {"a": "b", "c": "d"}, "overhead": {"cpu": "10m"},
                "tolerations": [{"key": "x", "operator": "Exists"}],
            })
        );
        pod["spec"]["overhead"] = json!({"cpu": "0.01"});
        assert_eq!(apply(&class, &mut pod), Ok(()));
        pod["spec"]["overhead"] = json!({"cpu": "1"});
        assert_eq!(apply(&class, &mut pod), Err(MISMATCH.to_owned()));
        let mut other = json!({"spec": {"nodeSelector": {"a": "c"}}});
        assert_eq!(
            apply(&class, &mut other),
            Err("conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c"
                .to_owned())
        );
    }

    #[test]
    fn wider_tolerations_stay() {
        let key = |key: &str, seconds: Option<i64>| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
        for (all, kept) in [
            (vec![key("a", Some(5)), key("a", None)], vec![1]),
            (vec![key("a", None), key("a", Some(5))], vec![0]),
            (vec![key("a", Some(5)), key("a", Some(5))], vec![0]),
            (vec![key("a", Some(5)), key("b", Some(9))], vec![0, 1]),
            (vec![key("a", Some(5)), json!({"operator": "Exists"})], vec![1]),
            (
                vec![
                    json!({"key": "a", "value": "v", "operator": "Equal"}),
                    json!({"key": "a", "value": "w"}),
                ],
                vec![0, 1],
            ),
        ] {
            let expected: Vec<Value> = kept.iter().map(|index| all[*index].clone()).collect();
            assert_eq!(merge_tolerations(&all), expected, "{all:?}");
        }
    }
}
