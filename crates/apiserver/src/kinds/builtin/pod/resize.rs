//! `pods/resize`, which changes the resources of a running pod and of its containers.

use kube_apimachinery::status::FieldError;
use serde_json::{Map, Value, json};

use super::qos_class;
use crate::kinds::builtin::shared::fields::{keep_write, list, put, text};
use crate::kinds::builtin::shared::pod_spec;

const LISTS: [&str; 2] = ["containers", "initContainers"];
/// Resources that a resize may change.
const RESIZABLE: [&str; 2] = ["cpu", "memory"];
const KINDS: [&str; 2] = ["requests", "limits"];

/// Restores all fields except resources and resize policies. If the containers differ, they stay as the client sent them, so that
/// validation refuses them.
pub(super) fn keep_all_but_resources(old: &Value, new: &mut Value) {
    let count = |pod: &Value, field: &str| list(&pod["spec"], field).len();
    if LISTS.iter().any(|field| count(old, field) != count(new, field)) {
        return;
    }
    let mut wanted = new.take();
    new.clone_from(old);
    put(&mut new["spec"], "resources", wanted["spec"]["resources"].take());
    for field in LISTS {
        let given = list(&wanted["spec"], field).to_vec();
        let mut kept = list(&old["spec"], field).to_vec();
        if given.iter().zip(&kept).any(|(given, kept)| text(given, "name") != text(kept, "name")) {
            kept = given;
        } else {
            for (container, given) in kept.iter_mut().zip(given) {
                for field in ["resources", "resizePolicy"] {
                    put(container, field, given[field].clone());
                }
            }
        }
        put(&mut new["spec"], field, if kept.is_empty() { Value::Null } else { json!(kept) });
    }
    keep_write(wanted["metadata"].take(), new);
}

/// Validates a resize.
pub(super) fn validate(old: &Value, new: &Value) -> Vec<FieldError> {
    // Go passes an empty name for the path, which prints as `[]`. Each of these errors replaces all others.
    if pod_spec::is_mirror(old) {
        return vec![FieldError::forbidden("[]", "static pods cannot be resized")];
    }
    if old["spec"]["os"]["name"] == "windows" {
        return vec![FieldError::forbidden("[]", "windows pods cannot be resized")];
    }
    let mut errors = pod_spec::validate_pod(new, Some(old));
    // The status of an older pod may lack the class, which then follows from the old spec.
    let class = match text(&old["status"], "qosClass") {
        "" => qos_class(&old["spec"]),
        class => class,
    };
    if qos_class(&new["spec"]) != class {
        let why = "Pod QOS Class may not change as a result of resizing";
        let shown = json!(text(&new["status"], "qosClass")).to_string();
        errors.push(FieldError::invalid("spec", &shown, why));
    }
    let is_running = |status: &&Value| !status["state"]["running"].is_null();
    let running = list(&old["status"], "containerStatuses").iter().find(is_running);
    // A kubelet that supports resizing reports the resources of running containers.
    if running.is_some_and(|status| status["resources"].is_null()) {
        errors.push(FieldError::forbidden("spec", "Pod running on node without support for resize"));
    }
    errors.extend(validate_pod_level(&old["spec"]["resources"], &new["spec"]["resources"]));
    // The comparisons below pair containers by index.
    let order = validate_order(&old["spec"], &new["spec"]);
    if !order.is_empty() {
        errors.extend(order);
        return errors;
    }
    let pairs = |field: &str| list(&old["spec"], field).iter().zip(list(&new["spec"], field)).enumerate();
    for field in ["initContainers", "containers"] {
        for (index, (before, after)) in pairs(field) {
            for kind in KINDS {
                if loses_any(&before["resources"][kind], &after["resources"][kind]) {
                    let field = format!("spec.{field}[{index}].resources.{kind}");
                    errors.push(FieldError::forbidden(field, &format!("resource {kind} cannot be removed")));
                }
            }
        }
    }
    for (_, (before, after)) in pairs("containers") {
        if changes_more(before, after) {
            errors.push(FieldError::forbidden("spec", "only cpu and memory resources are mutable"));
        }
    }
    for (index, (before, after)) in pairs("initContainers") {
        let path = format!("spec.initContainers[{index}]");
        if changes_more(before, after) {
            let why = "only cpu and memory resources for init or sidecar containers are mutable";
            errors.push(FieldError::forbidden(&*path, why));
        }
        if before != after && after["restartPolicy"] != "Always" {
            let restarts = |policy: &&Value| policy["restartPolicy"] == "RestartContainer";
            // kube-apiserver reports one error per policy.
            for _ in list(after, "resizePolicy").iter().filter(restarts) {
                let why =
                    "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                errors.push(FieldError::forbidden(&*path, why));
            }
        }
    }
    errors
}

/// Validates changes of pod-level resources.
fn validate_pod_level(old: &Value, new: &Value) -> Vec<FieldError> {
    const PATH: &str = "spec.resources";
    let has_any = |resources: &Value| KINDS.iter().any(|kind| !is_empty(&resources[*kind]));
    if !has_any(old) && !has_any(new) {
        return Vec::new();
    }
    if !old.is_null() && new.is_null() {
        return vec![FieldError::forbidden(PATH, "pod-level resources cannot be removed")];
    }
    let mut errors = Vec::new();
    for kind in KINDS.iter().filter(|kind| !old.is_null() && loses_any(&old[**kind], &new[**kind])) {
        let why = format!("pod-level resource {kind} cannot be removed");
        errors.push(FieldError::forbidden(format!("{PATH}.{kind}"), &why));
    }
    if with_old_amounts(new, old) != without_empty(old) {
        errors.push(FieldError::forbidden("spec", "only cpu and memory resources are mutable at pod-level"));
    }
    errors
}

/// Checks that the pod still has the same containers in the same order.
fn validate_order(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in LISTS {
        let (before, after) = (list(old, field), list(new, field));
        if before.len() != after.len() {
            let why = format!("{field} may not be added or removed on resize");
            errors.push(FieldError::forbidden(format!("spec.{field}"), &why));
            continue;
        }
        for (index, (before, after)) in before.iter().zip(after).enumerate() {
            if text(before, "name") != text(after, "name") {
                let why = format!("{field} may not be renamed or reordered on resize");
                errors.push(FieldError::forbidden(format!("spec.{field}[{index}].name"), &why));
            }
        }
    }
    errors
}

fn is_empty(amounts: &Value) -> bool {
    amounts.as_object().is_none_or(Map::is_empty)
}

fn loses_any(before: &Value, after: &Value) -> bool {
    before.as_object().into_iter().flat_map(Map::keys).any(|name| after.get(name).is_none())
}

/// Whether a container changes in more than the amounts that a resize may change.
fn changes_more(before: &Value, after: &Value) -> bool {
    let mut compared = after.clone();
    compared["resources"] = with_old_amounts(&after["resources"], &before["resources"]);
    let mut before = before.clone();
    before["resources"] = without_empty(&before["resources"]);
    compared != before
}

/// Returns the new resources with the old amounts of CPU and memory. kube-apiserver does not copy claims, so they are lost here too.
fn with_old_amounts(new: &Value, old: &Value) -> Value {
    let mut resources = Map::new();
    for kind in KINDS {
        let mut amounts = new[kind].as_object().cloned().unwrap_or_default();
        amounts.retain(|name, _| !RESIZABLE.contains(&name.as_str()));
        let kept =
            RESIZABLE.iter().filter_map(|name| Some(((*name).to_owned(), old[kind].get(name)?.clone())));
        amounts.extend(kept);
        resources.insert(kind.to_owned(), Value::Object(amounts));
    }
    without_empty(&Value::Object(resources))
}

/// Returns resources without empty lists of amounts, which Go's comparison ignores.
fn without_empty(resources: &Value) -> Value {
    let mut resources = resources.as_object().cloned().unwrap_or_default();
    resources
        .retain(|kind, amounts| !(amounts.is_null() || KINDS.contains(&kind.as_str()) && is_empty(amounts)));
    Value::Object(resources)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        json!({"metadata": {}, "status": {"qosClass": "Burstable"}, "spec": {"containers": [{"name": "c", "image": "x", "resources": {
            "requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"},
        }}]}})
    }

    fn check(resources: &Value, expected: &[&str]) {
        let old = pod();
        let mut new = old.clone();
        new["spec"]["nodeName"] = json!("elsewhere");
        new["spec"]["containers"][0]["resources"] = resources.clone();
        keep_all_but_resources(&old, &mut new);
        assert_eq!(new["spec"]["nodeName"], Value::Null);
        let errors: Vec<String> = validate(&old, &new).iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected);
    }

    #[test]
    fn cpu_and_memory_change_within_limits() {
        let limits = json!({"cpu": "0.5", "memory": "64Mi"});
        check(&json!({"requests": {"cpu": "500m", "memory": "32Mi"}, "limits": limits}), &[]);
        check(
            &json!({"requests": {"cpu": "501m", "memory": "32Mi"}, "limits": limits}),
            &[
                "spec.containers[0].resources.requests: Invalid value: \"501m\": must be less than or equal to cpu limit of 500m",
            ],
        );
    }

    #[test]
    fn neither_the_class_nor_other_resources_change() {
        check(
            &json!({}),
            &[
                "spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing",
                "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
                "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed",
            ],
        );
        check(
            &json!({"requests": {"cpu": "1m", "memory": "1Mi", "x/y": "1"}, "limits": {"cpu": "2", "memory": "2Mi", "x/y": "1"}}),
            &["spec: Forbidden: only cpu and memory resources are mutable"],
        );
    }

    /// Recorded from kube-apiserver v1.36.3, where the field is a path with an empty name.
    #[test]
    fn a_pod_of_windows_cannot_be_resized() {
        let mut old = pod();
        old["spec"]["os"] = json!({"name": "windows"});
        let errors: Vec<String> = validate(&old, &old).iter().map(ToString::to_string).collect();
        assert_eq!(errors, ["[]: Forbidden: windows pods cannot be resized"]);
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn containers_and_their_policies_stay_the_same() {
        let old = pod();
        let mut new = old.clone();
        new["spec"]["containers"] = json!([]);
        keep_all_but_resources(&old, &mut new);
        let errors: Vec<String> = validate(&old, &new).iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "spec.containers: Required value",
                "spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing",
                "spec.containers: Forbidden: containers may not be added or removed on resize",
            ]
        );
        let mut new = old.clone();
        new["spec"]["containers"][0]["resizePolicy"] =
            json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
        keep_all_but_resources(&old, &mut new);
        let errors: Vec<String> = validate(&old, &new).iter().map(ToString::to_string).collect();
        assert_eq!(errors, ["spec: Forbidden: only cpu and memory resources are mutable"]);
    }
}
