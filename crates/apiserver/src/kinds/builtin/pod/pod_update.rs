//! Validation of pod updates.

use std::collections::{BTreeMap, BTreeSet};

use kube_apimachinery::go::quote;
use kube_apimachinery::go_struct::internal_diff;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::constraints;
use crate::kinds::builtin::shared::fields::{elements, keep_write, list, put, text};
use crate::kinds::builtin::shared::pod_spec::{self, GatedValues};

/// Checks that an update changes only mutable parts of the spec: images, a shorter deadline, added tolerations, removed scheduling gates.
/// While the pod has scheduling gates, it may also add constraints on nodes.
pub(super) fn validate(old: &Value, new: &Value) -> Vec<FieldError> {
    const WHY: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                       `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
                       existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                       previously negative)";
    let (before, after) = (&old["spec"], &new["spec"]);
    let mut errors = Vec::new();
    for field in ["containers", "initContainers"] {
        if list(before, field).len() != list(after, field).len() {
            let why = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(format!("spec.{field}"), why));
            return errors;
        }
        errors.extend(images(after, field));
    }
    match deadline(before, after) {
        Deadline::Valid => {}
        Deadline::Removed(error) => errors.push(error),
        Deadline::Wrong(error) => {
            errors.push(error);
            return errors;
        }
    }
    // Keys of JSON objects are sorted, so equal tolerations have equal texts.
    let kept: BTreeSet<String> = tolerations(after).iter().map(Value::to_string).collect();
    if tolerations(before).iter().any(|toleration| !kept.contains(&toleration.to_string())) {
        errors.push(FieldError::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    } else {
        // kube-apiserver validates the tolerations here a second time, and reports errors twice.
        errors.extend(pod_spec::validate_tolerations(after, "spec", GatedValues::of(Some(before))));
    }
    errors.extend(new_gates(before, after));
    // Permitted changes are undone in a copy, which must then equal the old spec.
    let mut kept = after.clone();
    for field in ["containers", "initContainers"] {
        let images: Vec<Value> =
            list(before, field).iter().map(|container| container["image"].clone()).collect();
        for (container, image) in elements(&mut kept, field).zip(images) {
            put(container, "image", image);
        }
        // kube-apiserver copies the containers, so that an empty list becomes an absent one.
        if list(&kept, field).is_empty() {
            put(&mut kept, field, Value::Null);
        }
    }
    let mut changeable = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    if before["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0)
        && after["terminationGracePeriodSeconds"] == 1
    {
        // Older servers stored negative periods. Defaults of new pods replace them by 1.
        changeable.push("terminationGracePeriodSeconds");
    }
    // A pod with gates has not been scheduled yet, so its constraints may still become stricter.
    if !list(before, "schedulingGates").is_empty() {
        errors.extend(constraints::validate(before, after));
        changeable.push("nodeSelector");
        constraints::restore_node_affinity(before, &mut kept);
    }
    for field in changeable {
        put(&mut kept, field, before[field].clone());
    }
    if kept != *before {
        let diff = internal_diff("core.PodSpec", before, &kept);
        errors.push(FieldError::forbidden("spec", &format!("{WHY}\n{diff}")));
    }
    errors
}

/// Checks that each container has an image without surrounding whitespace.
fn images(spec: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, container) in list(spec, field).iter().enumerate() {
        let (image, place) = (text(container, "image"), format!("spec.{field}[{index}].image"));
        if image.is_empty() {
            errors.push(FieldError::required(place, ""));
        } else if image.trim() != image {
            errors.push(FieldError::invalid(
                place,
                &quote(image),
                "must not have leading or trailing whitespace",
            ));
        }
    }
    errors
}

/// Result of checking `activeDeadlineSeconds`. Invalid deadlines differ in whether the validation goes on.
enum Deadline {
    Valid,
    /// The update removes the deadline. kube-apiserver goes on with the other fields.
    Removed(FieldError),
    /// The deadline is out of range or later than before. kube-apiserver ends the validation here.
    Wrong(FieldError),
}

/// Checks that an update neither extends nor removes the deadline.
fn deadline(before: &Value, after: &Value) -> Deadline {
    const FIELD: &str = "spec.activeDeadlineSeconds";
    let wrong =
        |number: i64, why: &str| Deadline::Wrong(FieldError::invalid(FIELD, &number.to_string(), why));
    match (before["activeDeadlineSeconds"].as_i64(), after["activeDeadlineSeconds"].as_i64()) {
        (Some(_), None) => Deadline::Removed(FieldError::invalid(
            FIELD,
            "null",
            "must not update from a positive integer to nil value",
        )),
        (_, Some(new)) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            wrong(new, &format!("must be between 0 and {}, inclusive", i32::MAX))
        }
        (Some(old), Some(new)) if new > old => wrong(new, "must be less than or equal to previous value"),
        _ => Deadline::Valid,
    }
}

/// Checks that an update adds no scheduling gates.
fn new_gates(before: &Value, after: &Value) -> Vec<FieldError> {
    let known: BTreeSet<&str> =
        list(before, "schedulingGates").iter().map(|gate| text(gate, "name")).collect();
    let gates = list(after, "schedulingGates").iter().map(|gate| text(gate, "name")).enumerate();
    let errors = gates.filter(|(_, gate)| !known.contains(gate)).map(|(index, gate)| {
        let why = format!("only deletion is allowed, but found new scheduling gate '{gate}'");
        FieldError::forbidden(format!("spec.schedulingGates[{index}].name"), &why)
    });
    errors.collect()
}

/// Returns the tolerations without `tolerationSeconds`, which may change.
fn tolerations(spec: &Value) -> Vec<Value> {
    let mut list = list(spec, "tolerations").to_vec();
    for toleration in &mut list {
        put(toleration, "tolerationSeconds", Value::Null);
    }
    list
}

/// Restores everything except the ephemeral containers, which `/ephemeralcontainers` writes.
pub(super) fn keep_all_but_ephemeral_containers(old: &Value, new: &mut Value) {
    let wanted = new["spec"]["ephemeralContainers"].clone();
    let metadata = new["metadata"].clone();
    new.clone_from(old);
    put(&mut new["spec"], "ephemeralContainers", wanted);
    keep_write(metadata, new);
}

/// Checks that existing ephemeral containers are neither removed nor changed.
pub(super) fn validate_ephemeral_containers(old: &Value, new: &Value) -> Vec<FieldError> {
    const FIELD: &str = "spec.ephemeralContainers";
    let mut errors = Vec::new();
    let after: BTreeMap<&str, &Value> = list(&new["spec"], "ephemeralContainers")
        .iter()
        .map(|container| (container["name"].as_str().unwrap_or_default(), container))
        .collect();
    for container in list(&old["spec"], "ephemeralContainers") {
        let name = &container["name"];
        match after.get(name.as_str().unwrap_or_default()) {
            None => {
                // kube-apiserver's message ends with a line break.
                let why = format!("existing ephemeral containers {name} may not be removed\n");
                errors.push(FieldError::forbidden(FIELD, &why));
            }
            Some(other) if *other != container => {
                let diff = internal_diff("core.EphemeralContainer", container, other);
                let why = format!("existing ephemeral containers {name} may not be changed\n{diff}");
                errors.push(FieldError::forbidden(FIELD, &why));
            }
            Some(_) => {}
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(change: impl FnOnce(&mut Value), fields: &[&str]) {
        let old = json!({"spec": {
            "containers": [{"name": "c", "image": "a"}], "activeDeadlineSeconds": 9, "nodeName": "n",
            "tolerations": [{"key": "k", "effect": "NoExecute", "tolerationSeconds": 1}],
        }});
        let mut new = old.clone();
        change(&mut new["spec"]);
        let errors: Vec<String> = validate(&old, &new).into_iter().map(|error| error.field).collect();
        assert_eq!(errors, fields, "{new}");
    }

    #[test]
    fn images_deadlines_and_tolerations_change() {
        check(|spec| spec["containers"][0]["image"] = json!("b"), &[]);
        check(|spec| spec["activeDeadlineSeconds"] = json!(5), &[]);
        check(
            |spec| {
                spec["tolerations"] =
                    json!([{"key": "l"}, {"key": "k", "effect": "NoExecute", "tolerationSeconds": 2}]);
            },
            &[],
        );
    }

    #[test]
    fn other_fields_do_not_change() {
        check(|spec| spec["containers"][0]["name"] = json!("d"), &["spec"]);
        check(|spec| spec["nodeName"] = json!("m"), &["spec"]);
        check(|spec| spec["nodeSelector"] = json!({"a": "b"}), &["spec"]);
        check(|spec| spec["containers"] = json!([]), &["spec.containers"]);
        check(|spec| spec["tolerations"] = json!([]), &["spec.tolerations"]);
        check(|spec| spec["activeDeadlineSeconds"] = json!(null), &["spec.activeDeadlineSeconds"]);
        check(|spec| spec["activeDeadlineSeconds"] = json!(-1), &["spec.activeDeadlineSeconds"]);
        check(|spec| spec["activeDeadlineSeconds"] = json!(1_i64 << 31), &["spec.activeDeadlineSeconds"]);
        check(|spec| spec["containers"][0]["image"] = json!(" b"), &["spec.containers[0].image"]);
        check(|spec| spec["containers"][0]["image"] = json!(""), &["spec.containers[0].image"]);
        check(|spec| spec["schedulingGates"] = json!([{"name": "g"}]), &["spec.schedulingGates[0].name"]);
    }

    /// A changed number of containers or an invalid deadline ends the validation. Other errors are collected.
    #[test]
    fn some_errors_end_the_validation() {
        let both = |spec: &mut Value| {
            spec["tolerations"] = json!([]);
            spec["nodeName"] = json!("m");
        };
        check(both, &["spec.tolerations", "spec"]);
        check(
            |spec| {
                both(spec);
                spec["activeDeadlineSeconds"] = json!(null);
            },
            &["spec.activeDeadlineSeconds", "spec.tolerations", "spec"],
        );
        check(
            |spec| {
                both(spec);
                spec["activeDeadlineSeconds"] = json!(10);
                spec["containers"][0]["image"] = json!("");
            },
            &["spec.containers[0].image", "spec.activeDeadlineSeconds"],
        );
        check(
            |spec| {
                both(spec);
                spec["initContainers"] = json!([{"name": "i"}]);
                spec["containers"][0]["image"] = json!("");
            },
            &["spec.containers[0].image", "spec.initContainers"],
        );
        check(|spec| spec["activeDeadlineSeconds"] = json!(10), &["spec.activeDeadlineSeconds"]);
    }

    /// Checks the diff at the end of the error about a changed pod.
    fn check_diff(change: impl FnOnce(&mut Value), expected: &str) {
        let mut old = json!({"spec": {
            "containers": [
                {"name": "c", "image": "i", "ports": [{"containerPort": 80}], "livenessProbe": {"httpGet": {"port": 80}}},
                {"name": "d", "image": "i", "env": [{"name": "A", "value": "x"}]},
            ],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "m"}}], "hostNetwork": true,
        }});
        crate::kinds::builtin::test_helpers::default("Pod", &mut old);
        let mut new = old.clone();
        change(&mut new["spec"]);
        let errors = validate(&old, &new);
        let [error] = errors.as_slice() else { panic!("{errors:?}") };
        let (_, diff) = error.message.split_once('\n').unwrap();
        assert_eq!(diff, expected, "{new}");
    }

    /// Observed: kube-apiserver copies the containers before it compares them.
    #[test]
    fn an_empty_list_of_containers_is_no_change() {
        let old = json!({"spec": {"containers": [{"name": "a", "image": "x"}]}});
        let mut new = old.clone();
        new["spec"]["initContainers"] = json!([]);
        assert!(validate(&old, &new).is_empty());
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn an_error_ends_with_a_diff_of_internal_structs() {
        check_diff(
            |spec| {
                spec["nodeName"] = json!("n");
                spec["hostname"] = json!("h");
            },
            r#"@@ -179,7 +179,7 @@
  "NodeSelector": null,
  "ServiceAccountName": "",
  "AutomountServiceAccountToken": null,
- "NodeName": "",
+ "NodeName": "n",
  "SecurityContext": {
   "HostNetwork": true,
   "HostPID": false,
@@ -201,7 +201,7 @@
   "SELinuxChangePolicy": null
  },
  "ImagePullSecrets": null,
- "Hostname": "",
+ "Hostname": "h",
  "Subdomain": "",
  "SetHostnameAsFQDN": null,
  "Affinity": null,
"#,
        );
        check_diff(
            |spec| {
                spec["containers"][0]["args"] = json!(["a"]);
                spec["containers"][0]["image"] = json!("j");
                spec["containers"][1]["command"] = json!(["x"]);
                spec["hostPID"] = json!(true);
            },
            r#"@@ -81,7 +81,9 @@
    "Name": "c",
    "Image": "i",
    "Command": null,
-   "Args": null,
+   "Args": [
+    "a"
+   ],
    "WorkingDir": "",
    "Ports": [
     {
@@ -136,7 +138,9 @@
   {
    "Name": "d",
    "Image": "i",
-   "Command": null,
+   "Command": [
+    "x"
+   ],
    "Args": null,
    "WorkingDir": "",
    "Ports": null,
@@ -182,7 +186,7 @@
  "NodeName": "",
  "SecurityContext": {
   "HostNetwork": true,
-  "HostPID": false,
+  "HostPID": true,
   "HostIPC": false,
   "ShareProcessNamespace": null,
   "HostUsers": null,
"#,
        );
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn a_changed_ephemeral_container_is_shown() {
        let pod = |container: Value| json!({"spec": {"ephemeralContainers": [container]}});
        let errors = validate_ephemeral_containers(
            &pod(json!({"name": "e", "image": "i"})),
            &pod(json!({"name": "e", "image": "j", "tty": true})),
        );
        let expected = r#"Forbidden: existing ephemeral containers "e" may not be changed
@@ -1,6 +1,6 @@
 {
  "Name": "e",
- "Image": "i",
+ "Image": "j",
  "Command": null,
  "Args": null,
  "WorkingDir": "",
@@ -27,6 +27,6 @@
  "SecurityContext": null,
  "Stdin": false,
  "StdinOnce": false,
- "TTY": false,
+ "TTY": true,
  "TargetContainerName": ""
 }
"#;
        assert_eq!(errors[0].message, expected);
    }

    #[test]
    fn ephemeral_containers_are_only_added() {
        let pod = |list: Value| json!({"spec": {"ephemeralContainers": list}});
        let one = pod(json!([{"name": "a", "image": "x"}]));
        let two = pod(json!([{"name": "a", "image": "x"}, {"name": "b"}]));
        assert!(validate_ephemeral_containers(&one, &two).is_empty());
        assert_eq!(validate_ephemeral_containers(&two, &one).len(), 1);
        assert_eq!(validate_ephemeral_containers(&one, &pod(json!([{"name": "a", "image": "y"}]))).len(), 1);
    }
}
