//! Validation of writes of a pod's status.

use std::collections::BTreeSet;

use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::pod_status_devices;
use crate::kinds::builtin::shared::field_checks::{address, invalid_text};
use crate::kinds::builtin::shared::fields::{list, text};
use crate::kinds::builtin::shared::immutable_fields::immutable;
use crate::kinds::builtin::shared::label_selector::invalid;

/// Conditions that the system sets. kube-apiserver does not check their types.
const SYSTEM: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];
const GENERATION: &str = "must be a non-negative integer";

/// Validates the new status of a pod.
pub(super) fn validate(old: &Value, new: &Value) -> Vec<FieldError> {
    let (before, after) = (&old["status"], &new["status"]);
    let mut errors = conditions(after);
    let node = text(after, "nominatedNodeName");
    if !node.is_empty() && node != text(before, "nominatedNodeName") {
        const FIELD: &str = "status.nominatedNodeName";
        errors.extend(invalid(FIELD, node, &names::subdomain(node)));
        // A nomination reserves room on a node for a pod that still waits to be scheduled.
        if !text(&old["spec"], "nodeName").is_empty() {
            let why = "may not be set on pods that are already bound to a node";
            errors.push(FieldError::forbidden(FIELD, why));
        }
    }
    errors.extend(generation(after, "status.observedGeneration"));
    errors.extend(immutable("status", before, after, &["qosClass"]));
    errors.extend(restarts(old, after));
    errors.extend(pod_status_devices::claims(new));
    errors.extend(pod_status_devices::extended_claim(new));
    errors.extend(addresses(list(before, "podIPs"), list(after, "podIPs"), "status.podIPs"));
    let hosts = list(after, "hostIPs");
    let first = hosts.first().map(|host| text(host, "ip"));
    if let Some(first) = first.filter(|first| *first != text(after, "hostIP")) {
        errors.push(invalid_text("status.hostIPs[0].ip", first, "must be equal to `hostIP`"));
    }
    errors.extend(addresses(list(before, "hostIPs"), hosts, "status.hostIPs"));
    errors.extend(pod_status_devices::users(new));
    errors.extend(pod_status_devices::allocated(new));
    errors
}

fn generation(object: &Value, field: &str) -> Option<FieldError> {
    let number = object["observedGeneration"].as_i64().filter(|number| *number < 0)?;
    Some(FieldError::invalid(field, &number.to_string(), GENERATION))
}

fn conditions(status: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, condition) in list(status, "conditions").iter().enumerate() {
        let path = format!("status.conditions[{index}]");
        errors.extend(generation(condition, &format!("{path}.observedGeneration")));
        let kind = text(condition, "type");
        if !SYSTEM.contains(&kind) {
            // kube-apiserver's path has Go's name of the field.
            errors.extend(invalid(&format!("{path}.Type"), kind, &names::qualified(kind)));
        }
    }
    errors
}

/// Checks that a container that has terminated for good does not run again. The restart policies in the spec decide whether it may.
fn restarts(old: &Value, after: &Value) -> Vec<FieldError> {
    let spec = &old["spec"];
    let mut rules = ["initContainers", "containers"]
        .into_iter()
        .flat_map(|kind| list(spec, kind))
        .flat_map(|container| list(container, "restartPolicyRules"));
    // Such a rule restarts all containers of the pod, including those that have terminated.
    let restarts_all = rules.any(|rule: &Value| rule["action"] == "RestartAllContainers");
    let mut errors = Vec::new();
    for (field, kind) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        // Ephemeral containers never restart, so the spec is not searched for their policy.
        ("ephemeralContainerStatuses", ""),
    ] {
        if restarts_all && !kind.is_empty() {
            continue;
        }
        // kube-apiserver iterates over the old list, so the path has the index in that list.
        for (index, before) in list(&old["status"], field).iter().enumerate() {
            let ended = &before["state"]["terminated"];
            let runs =
                |status: &&Value| status["name"] == before["name"] && status["state"]["terminated"].is_null();
            if ended.is_null() || !list(after, field).iter().any(|status| runs(&status)) {
                continue;
            }
            let container = list(spec, kind).iter().find(|container| container["name"] == before["name"]);
            let exit_code = ended["exitCode"].as_i64().unwrap_or_default();
            if !container.is_some_and(|container| may_restart(spec, container, exit_code)) {
                let why = "may not be transitioned to non-terminated state";
                errors.push(FieldError::forbidden(format!("status.{field}[{index}].state"), why));
            }
        }
    }
    errors
}

/// Whether a container that terminated with this exit code may restart.
fn may_restart(spec: &Value, container: &Value, exit_code: i64) -> bool {
    let matches = |rule: &Value| {
        let codes = &rule["exitCodes"];
        let is_listed = list(codes, "values").iter().any(|value| value.as_i64() == Some(exit_code));
        match text(codes, "operator") {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        }
    };
    let has_policy = !container["restartPolicy"].is_null();
    // Rules refine the container's own policy, which validation requires beside them.
    if has_policy && list(container, "restartPolicyRules").iter().any(matches) {
        return true;
    }
    let owner = if has_policy { container } else { spec };
    match text(owner, "restartPolicy") {
        "OnFailure" => exit_code != 0,
        "Never" => false,
        _ => true,
    }
}

/// Checks that new addresses are valid, and that there is at most one per IP family. Addresses of the old status are not checked again.
fn addresses(before: &[Value], after: &[Value], field: &str) -> Vec<FieldError> {
    let known: BTreeSet<&str> = before.iter().map(|entry| text(entry, "ip")).collect();
    let mut errors = Vec::new();
    for (index, entry) in after.iter().enumerate() {
        let given = text(entry, "ip");
        if !known.contains(given) {
            errors.extend(address(given, &format!("{field}[{index}]")));
        }
    }
    if after.len() > 1 {
        let of_new_family = |entry: &Value| text(entry, "ip").contains(':');
        let families: BTreeSet<bool> = after.iter().map(of_new_family).collect();
        if families.len() < 2 || after.len() > 2 {
            // The message shows the JSON of Go's internal struct.
            let shown: Vec<String> =
                after.iter().map(|entry| format!("{{\"IP\":{}}}", entry["ip"])).collect();
            let why = "may specify no more than one IP for each IP family";
            errors.push(FieldError::invalid(field, &format!("[{}]", shown.join(",")), why));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(old: Value, new: Value, expected: &[&str]) {
        let pod = |status: Value| json!({"spec": {"nodeName": "n", "restartPolicy": "OnFailure", "containers": [{"name": "c"}]}, "status": status});
        let errors: Vec<String> = validate(&pod(old), &pod(new)).iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected);
    }

    #[test]
    fn the_class_stays_and_names_are_valid() {
        check(
            json!({"qosClass": "BestEffort"}),
            json!({
                "qosClass": "Guaranteed", "nominatedNodeName": "m", "observedGeneration": -1,
                "conditions": [{"type": "Ready"}, {"type": ""}],
            }),
            &[
                "status.conditions[1].Type: Invalid value: \"\": name part must be non-empty",
                "status.conditions[1].Type: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' \
                 or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', \
                 regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node",
                "status.observedGeneration: Invalid value: -1: must be a non-negative integer",
                "status.qosClass: Invalid value: \"Guaranteed\": field is immutable",
            ],
        );
    }

    #[test]
    fn containers_that_succeeded_do_not_run_again() {
        let status = |state: Value| json!({"containerStatuses": [{"name": "c", "state": state}]});
        let why =
            "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state";
        let running = || status(json!({"running": {}}));
        check(status(json!({"terminated": {"exitCode": 0}})), running(), &[why]);
        check(status(json!({"terminated": {"exitCode": 1}})), running(), &[]);
        check(running(), running(), &[]);
    }

    #[test]
    fn addresses_have_different_families() {
        check(json!({}), json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "2001:db8::1"}]}), &[]);
        check(
            json!({}),
            json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}),
            &[
                "status.podIPs: Invalid value: [{\"IP\":\"10.0.0.1\"},{\"IP\":\"10.0.0.2\"}]: may specify no more than one IP for each IP family",
            ],
        );
        check(
            json!({}),
            json!({"hostIPs": [{"ip": "x"}]}),
            &[
                "status.hostIPs[0].ip: Invalid value: \"x\": must be equal to `hostIP`",
                "status.hostIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ],
        );
    }
}
