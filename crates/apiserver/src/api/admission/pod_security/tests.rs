//! The pods that the Pod Security Standards refuse, warnings about existing pods, and updates that are checked.

mod baseline;
mod restricted;

use serde_json::{Value, json};

use super::*;

/// A pod that level `restricted` allows, with containers `a` and `b`, and with changes: of its `spec`, of its containers by name, and an
/// init container.
fn pod(changes: &Value) -> Value {
    let container = |name: &str| {
        let context = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
        json!({"name": name, "image": "i", "securityContext": context})
    };
    let mut spec = json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container("a"), container("b")],
    });
    merge(&mut spec, &changes["spec"]);
    merge(&mut spec["containers"][0], &changes["a"]);
    merge(&mut spec["containers"][1], &changes["b"]);
    if changes["init"].is_object() {
        spec["initContainers"] = json!([changes["init"]]);
    }
    json!({"metadata": {"annotations": changes["annotations"]}, "spec": spec})
}

/// Merges objects; null removes a field.
fn merge(into: &mut Value, changes: &Value) {
    for (name, change) in changes.as_object().into_iter().flatten() {
        match (change, into.get_mut(name)) {
            (Value::Null, _) => _ = into.as_object_mut().unwrap().remove(name),
            (Value::Object(_), Some(part @ Value::Object(_))) => merge(part, change),
            _ => into[name] = change.clone(),
        }
    }
}

/// Checks that a standard, such as `restricted:latest`, has these violations.
fn check(standard: &str, pod: &Value, expected: &str) {
    assert_eq!(details(&violations(parsed(standard), &CheckedPod::of(pod))), expected, "{standard} {pod}");
}

fn parsed(standard: &str) -> Standard {
    let (level, version) = standard.split_once(':').unwrap();
    let label = |name: &str| format!("pod-security.kubernetes.io/{name}");
    let labels = json!({label("enforce"): level, label("enforce-version"): version});
    let (policy, errors) = PodSecurityPolicy::of(&json!({"metadata": {"labels": labels}}));
    assert_eq!(errors, []);
    policy.enforce
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn existing_pods_share_a_warning_by_reason() {
    let plain = |name: &str, changes: Value| {
        let mut pod =
            json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        merge(&mut pod["spec"], &changes);
        pod
    };
    let host = plain("q", json!({"hostNetwork": true}));
    let pods = [host, plain("p2", json!({})), plain("p0", json!({})), plain("p1", json!({}))];
    let hardening =
        "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile";
    assert_eq!(
        existing_pods("n", parsed("restricted:latest"), &pods),
        [
            "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"restricted:latest\"".to_owned(),
            format!("p0 (and 2 other pods): {hardening}"),
            format!("q: host namespaces, {hardening}"),
        ]
    );
    assert_eq!(
        existing_pods("n", parsed("baseline:v1.20"), &pods),
        [
            "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:v1.20\"",
            "q: host namespaces",
        ]
    );
    assert!(existing_pods("n", parsed("baseline:latest"), &pods[1..]).is_empty());
}

#[test]
fn a_pod_of_each_controller_is_checked_before_the_others() {
    let pod = |name: &str, controller: &str| json!({"metadata": {"name": name, "ownerReferences": [{"controller": true, "uid": controller}]}});
    let free = json!({"metadata": {"name": "d"}});
    let pods = [pod("a", "1"), pod("b", "1"), pod("c", "2"), free];
    let names: Vec<&str> = by_controller(&pods).into_iter().map(|pod| metadata::text(pod, "name")).collect();
    assert_eq!(names, ["a", "c", "d", "b"]);
}

#[test]
fn an_update_without_another_image_is_not_checked() {
    let pod = |image: &str, ephemeral: Value| json!({"spec": {"containers": [{"name": "c", "image": image}], "ephemeralContainers": ephemeral}});
    let old = pod("i", Value::Null);
    assert!(!is_significant(&old, &old));
    assert!(is_significant(&old, &pod("j", Value::Null)));
    let debugged = pod("i", json!([{"name": "e", "image": "k"}]));
    assert!(is_significant(&old, &debugged));
    assert!(!is_significant(&debugged, &debugged));
}
