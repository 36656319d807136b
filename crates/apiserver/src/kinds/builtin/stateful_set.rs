//! StatefulSets.

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{elements, list, set, text, within};
use super::shared::{pod_spec, workload};
use crate::kind::resource::Resource;

/// Fields of the spec that an update may change.
const CHANGEABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

#[derive(Debug)]
pub(super) struct StatefulSet;

impl BuiltinKind for StatefulSet {
    fn default(&self, object: &mut Value) {
        within(object, "spec", default_spec);
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let spec = &new["spec"];
        let mut errors = validate_policies(spec);
        errors.extend(workload::validate_selector("statefulset", workload::UnusableSelector::Bare, spec));
        let claims = list(spec, "volumeClaimTemplates").iter().map(|claim| text(&claim["metadata"], "name"));
        errors.extend(pod_spec::validate_with_volumes(new, pod_spec::IN_WORKLOAD, claims));
        errors.extend(workload::validate_numbers(spec));
        errors.extend(old.and_then(|old| keep_spec(&old["spec"], spec)));
        errors
    }

    fn warnings(&self, _resource: &Resource, object: &Value, _old: Option<&Value>) -> Vec<String> {
        pod_spec::warnings(object, pod_spec::IN_WORKLOAD)
    }
}

fn default_spec(spec: &mut Value) {
    set(spec, "replicas", json!(1));
    set(spec, "revisionHistoryLimit", json!(10));
    set(spec, "podManagementPolicy", json!("OrderedReady"));
    within(spec, "updateStrategy", |strategy| {
        workload::default_rolling_update(strategy, &[("partition", json!(0))]);
    });
    set(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
    within(spec, "persistentVolumeClaimRetentionPolicy", |retention| {
        set(retention, "whenDeleted", json!("Retain"));
        set(retention, "whenScaled", json!("Retain"));
    });
    for claim in elements(spec, "volumeClaimTemplates") {
        set(claim, "apiVersion", json!("v1"));
        set(claim, "kind", json!("PersistentVolumeClaim"));
        within(claim, "spec", |spec| set(spec, "volumeMode", json!("Filesystem")));
        within(claim, "status", |status| set(status, "phase", json!("Pending")));
    }
    within(spec, "template", pod_spec::default);
}

fn validate_policies(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match text(spec, "podManagementPolicy") {
        "" => errors.push(FieldError::required("spec.podManagementPolicy", "")),
        "OrderedReady" | "Parallel" => {}
        other => {
            let why = "must be 'OrderedReady' or 'Parallel'";
            errors.push(FieldError::invalid("spec.podManagementPolicy", &json!(other).to_string(), why));
        }
    }
    match text(&spec["updateStrategy"], "type") {
        "" => errors.push(FieldError::required("spec.updateStrategy", "")),
        "OnDelete" | "RollingUpdate" => {}
        // The message shows the value as a Go struct, which has no limits for unknown types.
        other => {
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":null}}", json!(other));
            let why = "must be 'RollingUpdate' or 'OnDelete'";
            errors.push(FieldError::invalid("spec.updateStrategy", &shown, why));
        }
    }
    let retention = &spec["persistentVolumeClaimRetentionPolicy"];
    for field in ["whenDeleted", "whenScaled"] {
        let supported = ["Retain", "Delete"];
        let policy = text(retention, field);
        if retention.is_object() && !supported.contains(&policy) {
            let field = format!("spec.persistentVolumeClaimRetentionPolicy.{field}");
            errors.push(FieldError::not_supported(field, policy, &supported));
        }
    }
    errors
}

/// Checks that an update only changes the mutable fields of the spec.
fn keep_spec(old: &Value, new: &Value) -> Option<FieldError> {
    let kept = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|key, _| !CHANGEABLE.contains(&key.as_str()));
        }
        spec
    };
    (kept(old) != kept(new)).then(|| {
        let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                   'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                   'minReadySeconds' are forbidden";
        FieldError::forbidden("spec", why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::{check, workload_defaults};

    #[test]
    fn defaults_are_the_recorded_ones() {
        workload_defaults(
            "StatefulSet",
            &json!({
                "selector": {}, "serviceName": "svc",
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
            }),
            &json!({
                "selector": {}, "replicas": 1, "serviceName": "svc", "podManagementPolicy": "OrderedReady",
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "revisionHistoryLimit": 10,
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
                "volumeClaimTemplates": [{
                    "kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": "data"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {}, "volumeMode": "Filesystem"},
                    "status": {"phase": "Pending"},
                }],
            }),
        );
    }

    #[test]
    fn required_fields_are_named() {
        check(
            "StatefulSet",
            &json!({"spec": {
                "selector": null, "template": {"metadata": {}, "spec": {"containers": null}},
                "podManagementPolicy": "Parallel", "updateStrategy": {"type": "OnDelete"},
            }}),
            None,
            &[
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
                "spec.template.spec.containers: Required value",
            ],
        );
    }

    #[test]
    fn containers_mount_claims_of_the_set() {
        let object = json!({"spec": {
            "selector": {"matchLabels": {"a": "b"}}, "podManagementPolicy": "Parallel", "updateStrategy": {"type": "OnDelete"},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
                {"name": "c", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
            ]}},
            "volumeClaimTemplates": [{"metadata": {"name": "v"}}],
        }});
        check("StatefulSet", &object, None, &[]);
        let mut without = object;
        without["spec"]["volumeClaimTemplates"] = Value::Null;
        check(
            "StatefulSet",
            &without,
            None,
            &["spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"v\""],
        );
    }
}
