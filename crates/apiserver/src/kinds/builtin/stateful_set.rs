//! StatefulSets.

use std::collections::BTreeMap;

use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::persistent_volume_claim::{self, PersistentVolumeClaim};
use super::shared::field_checks::not_negative;
use super::shared::fields::{elements, list, put, set, text, within};
use super::shared::label_selector::invalid;
use super::shared::workload::StatusNumbers;
use super::shared::{pod_spec, rolling_update, workload};
use crate::kind::WriteContext;
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

    fn prepare_create(&self, _context: &WriteContext<'_>, set: &mut Value) {
        drop_limit(&Value::Null, set);
    }

    fn prepare_update(&self, _context: &WriteContext<'_>, old: &Value, set: &mut Value) {
        drop_limit(old, set);
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let spec = &new["spec"];
        let mut errors = validate_policies(spec);
        if old.is_none() {
            errors.extend(validate_claims(spec));
        }
        errors.extend(workload::validate_numbers(spec, &["replicas", "minReadySeconds"]));
        errors.extend(not_negative(&spec["ordinals"], "start", "spec.ordinals"));
        // The name is immutable. An older server may have accepted an invalid one, so only creation validates it.
        let service = text(spec, "serviceName");
        if old.is_none() && !service.is_empty() {
            errors.extend(invalid("spec.serviceName", service, &names::label(service)));
        }
        let (of_selector, validity) = workload::validate_selector("statefulset", "", spec);
        errors.extend(of_selector);
        // An older server may have accepted an invalid template. Updates of other fields stay possible without repairing it.
        let was_valid = old.is_none_or(|old| validate_pods(old, Some(old)).is_empty());
        if validity == workload::SelectorValidity::Usable {
            if was_valid {
                errors.extend(validate_pods(new, old));
            }
            // kube-apiserver validates the metadata of the template twice, and skips only the first time for such sets.
            errors.extend(pod_spec::validate_template_metadata(&spec["template"], "spec.template"));
        }
        // kube-apiserver checks this even if it skips the template.
        errors.extend(workload::validate_endless(spec, "StatefulSet"));
        errors.extend(old.and_then(|old| keep_spec(&old["spec"], spec)));
        errors
    }

    fn validate_subresource(&self, subresource: &str, old: &Value, new: &Value) -> Vec<FieldError> {
        const NUMBERS: StatusNumbers = StatusNumbers {
            not_negative: &[
                "replicas",
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
                "observedGeneration",
                "collisionCount",
            ],
            up_to_replicas: &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
            ready: "status.readyReplicas",
        };
        if subresource == "status" { workload::validate_status(&NUMBERS, old, new) } else { Vec::new() }
    }

    fn pod_spec(&self) -> Option<&'static str> {
        Some(pod_spec::IN_WORKLOAD)
    }

    fn warnings(&self, _resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = match old {
            // An unchanged template was warned about when it was written.
            Some(old) if workload::generation(old) == workload::generation(object) => Vec::new(),
            _ => pod_spec::warnings(object, pod_spec::IN_WORKLOAD),
        };
        // In updates, kube-apiserver's path ends with the Go name of the field.
        let of_update = if old.is_some() { ".Spec" } else { "" };
        for (index, claim) in list(&object["spec"], "volumeClaimTemplates").iter().enumerate() {
            let path = format!("spec.volumeClaimTemplates[{index}]{of_update}");
            warnings.extend(pod_spec::claim_fractions(&claim["spec"], &path));
        }
        if object["spec"]["revisionHistoryLimit"].as_i64().is_some_and(|limit| limit < 0) {
            let why = "a negative value retains all historical revisions; a value >= 0 is recommended";
            warnings.push(format!("spec.revisionHistoryLimit: {why}"));
        }
        warnings
    }
}

/// Drops the limit of unavailable pods, whose feature gate is off by default, unless the old set has one.
fn drop_limit(old: &Value, set: &mut Value) {
    const PLACE: &str = "/spec/updateStrategy/rollingUpdate";
    // The feature gate is `MaxUnavailableStatefulSet`.
    let has_limit = old.pointer(PLACE).is_some_and(|update| !update["maxUnavailable"].is_null());
    if let Some(update) = set.pointer_mut(PLACE).filter(|_| !has_limit) {
        put(update, "maxUnavailable", Value::Null);
    }
}

fn default_spec(spec: &mut Value) {
    set(spec, "replicas", json!(1));
    set(spec, "revisionHistoryLimit", json!(10));
    set(spec, "podManagementPolicy", json!("OrderedReady"));
    within(spec, "updateStrategy", |strategy| {
        // Unlike in other workloads, an explicit type without `rollingUpdate` gets no default for it.
        if text(strategy, "type").is_empty() {
            set(strategy, "type", json!("RollingUpdate"));
            set(strategy, "rollingUpdate", json!({}));
        }
        // Go's internal type has no absent partition, whatever the strategy is.
        within(strategy, "rollingUpdate", |rolling| set(rolling, "partition", json!(0)));
    });
    set(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
    within(spec, "persistentVolumeClaimRetentionPolicy", |retention| {
        set(retention, "whenDeleted", json!("Retain"));
        set(retention, "whenScaled", json!("Retain"));
    });
    for claim in elements(spec, "volumeClaimTemplates") {
        // The conversion to v1 writes the type of claim templates, whatever the client sent.
        put(claim, "apiVersion", json!("v1"));
        put(claim, "kind", json!("PersistentVolumeClaim"));
        PersistentVolumeClaim.default(claim);
    }
    within(spec, "template", pod_spec::default);
}

/// Validates the pod template as the controller completes it. A volume of each claim replaces the template's own volume of that name; host
/// name and subdomain are ignored, because the controller sets them. `old` is the set before an update.
fn validate_pods(set: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut volumes: BTreeMap<&str, Value> = BTreeMap::new();
    for claim in list(&set["spec"], "volumeClaimTemplates") {
        let name = text(&claim["metadata"], "name");
        volumes.insert(name, json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    }
    let mut template = set["spec"]["template"].clone();
    within(&mut template, "spec", |spec| {
        // The controller overwrites them with the name of the service and that of the pod.
        for field in ["subdomain", "hostname"] {
            put(spec, field, Value::Null);
        }
        let own: Vec<Value> = list(spec, "volumes")
            .iter()
            .filter(|volume| !volumes.contains_key(text(volume, "name")))
            .cloned()
            .collect();
        if !volumes.is_empty() {
            spec["volumes"] = volumes.into_values().chain(own).collect();
        }
    });
    pod_spec::validate(&json!({"spec": {"template": template}}), old, pod_spec::IN_WORKLOAD)
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
    errors.extend(validate_strategy(&spec["updateStrategy"]));
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

/// Validates the claim templates of a new set. They are immutable, so updates do not validate them again.
fn validate_claims(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, claim) in list(spec, "volumeClaimTemplates").iter().enumerate() {
        for mut error in persistent_volume_claim::validate_spec(&claim["spec"], &Value::Null) {
            error.field = format!("spec.volumeClaimTemplates[{index}].{}", error.field);
            errors.push(error);
        }
    }
    errors
}

fn validate_strategy(strategy: &Value) -> Vec<FieldError> {
    const PATH: &str = "spec.updateStrategy";
    let (rolling, field) = (&strategy["rollingUpdate"], format!("{PATH}.rollingUpdate"));
    // Messages show the JSON of Go's internal structs.
    let shown = || match rolling {
        Value::Null => Value::Null.to_string(),
        _ => {
            let partition = rolling["partition"].as_i64().unwrap_or_default();
            format!("{{\"Partition\":{partition},\"MaxUnavailable\":{}}}", rolling["maxUnavailable"])
        }
    };
    match text(strategy, "type") {
        "" => vec![FieldError::required(PATH, "")],
        "OnDelete" | "RollingUpdate" if rolling.is_null() => Vec::new(),
        "OnDelete" => {
            let why = "only allowed for updateStrategy 'RollingUpdate'";
            vec![FieldError::invalid(field, &shown(), why)]
        }
        "RollingUpdate" => rolling_update::of_stateful_set(rolling, &field),
        other => {
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":{}}}", json!(other), shown());
            vec![FieldError::invalid(PATH, &shown, "must be 'RollingUpdate' or 'OnDelete'")]
        }
    }
}

/// Checks that an update changes only mutable fields of the spec.
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
    use crate::kinds::builtin::test_helpers::{check, served_kind, workload_defaults};

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
    fn only_an_absent_strategy_gets_limits() {
        for (strategy, expected) in [
            (json!({}), json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})),
            (json!({"type": "RollingUpdate"}), json!({"type": "RollingUpdate"})),
            (
                json!({"type": "RollingUpdate", "rollingUpdate": {}}),
                json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
            ),
            (
                json!({"rollingUpdate": {"partition": 2}}),
                json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}),
            ),
            (json!({"type": "OnDelete"}), json!({"type": "OnDelete"})),
            (
                json!({"type": "OnDelete", "rollingUpdate": {}}),
                json!({"type": "OnDelete", "rollingUpdate": {"partition": 0}}),
            ),
        ] {
            let mut spec = json!({"updateStrategy": strategy});
            default_spec(&mut spec);
            assert_eq!(spec["updateStrategy"], expected);
        }
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

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn only_creation_validates_the_name_of_the_service() {
        let set = |service: &str| {
            json!({"spec": {
                "serviceName": service, "selector": {"matchLabels": {"a": "b"}}, "podManagementPolicy": "Parallel",
                "updateStrategy": {"type": "OnDelete"},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
            }})
        };
        let fields = |old: Option<&Value>| -> Vec<String> {
            let served = served_kind("StatefulSet");
            let errors = BuiltinKind::validate(&StatefulSet, &served.resource, &set("A_"), old);
            errors.into_iter().map(|error| error.field).collect()
        };
        assert_eq!(fields(None), ["spec.serviceName"]);
        assert_eq!(fields(Some(&set("a"))), ["spec"]);
        assert_eq!(fields(Some(&set("A_"))), [""; 0]);
    }

    #[test]
    fn containers_mount_claims_of_the_set() {
        let object = json!({"spec": {
            "selector": {"matchLabels": {"a": "b"}}, "podManagementPolicy": "Parallel", "updateStrategy": {"type": "OnDelete"},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
                {"name": "c", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
            ]}},
            "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            }}],
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

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn an_invalid_label_of_the_template_is_reported_twice() {
        let error = "spec.template.labels: Invalid value: \"bad key\": name part must consist of alphanumeric characters, '-', '_' or '.', \
                     and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used \
                     for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        let mut set = json!({"spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "updateStrategy": {},
            "template": {
                "metadata": {"labels": {"a": "b", "bad key": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        }});
        StatefulSet.default(&mut set);
        check("StatefulSet", &set, None, &[error, error]);
    }
}
