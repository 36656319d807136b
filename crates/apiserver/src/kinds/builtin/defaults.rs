//! Defaults that are not in the schema: of Secrets and workloads here, of other kinds in sibling modules.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use super::{autoscaler, batch, cluster, pod, pod_template, prepare, service};

/// Sets defaults of a kind after its fields were completed.
pub(super) fn apply(group: &str, kind: &str, object: &mut Value) {
    match (group, kind) {
        ("", "Secret") => secret(object),
        ("", "Service") => service::default(object),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler::default(object),
        ("apps", "Deployment") => within(object, "spec", deployment),
        ("apps", "ReplicaSet") => within(object, "spec", |spec| {
            set(spec, "replicas", json!(1));
            within(spec, "template", pod_template::default);
        }),
        ("apps", "StatefulSet") => within(object, "spec", stateful_set),
        ("apps", "DaemonSet") => {
            prepare::count_templates(object);
            within(object, "spec", daemon_set);
        }
        ("", "Pod") => pod::default(object),
        ("", "PodTemplate") => within(object, "template", pod_template::default),
        ("", "ReplicationController") => replication_controller(object),
        ("batch", "Job") => batch::default_job(object),
        ("batch", "CronJob") => batch::default_cron_job(object),
        _ => cluster::default(group, kind, object),
    }
}

/// Changes a part of an object, if the part exists.
pub(super) fn within(object: &mut Value, key: &str, change: impl FnOnce(&mut Value)) {
    if let Some(part) = object.get_mut(key).filter(|part| part.is_object()) {
        change(part);
    }
}

/// Sets an absent field. Like Go's defaulting, it treats the empty string as absent.
pub(super) fn set(object: &mut Value, key: &str, value: Value) {
    if let Value::Object(fields) = object {
        let present = fields.get(key).is_some_and(|value| !value.is_null() && *value != "");
        if !present {
            fields.insert(key.to_owned(), value);
        }
    }
}

/// Moves `stringData`, which is write-only, into `data`.
fn secret(object: &mut Value) {
    set(object, "type", json!("Opaque"));
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    let Some(Value::Object(plain)) = fields.remove("stringData") else {
        return;
    };
    if plain.is_empty() {
        return;
    }
    let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(data) = data {
        for (key, value) in plain {
            data.insert(key, json!(BASE64.encode(value.as_str().unwrap_or_default())));
        }
    }
}

fn deployment(spec: &mut Value) {
    set(spec, "replicas", json!(1));
    set(spec, "revisionHistoryLimit", json!(10));
    set(spec, "progressDeadlineSeconds", json!(600));
    within(spec, "strategy", |strategy| {
        rolling_update(strategy, &[("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))]);
    });
    within(spec, "template", pod_template::default);
}

/// Copies the template's labels to the selector and the labels of a ReplicationController, if they are
/// missing.
fn replication_controller(object: &mut Value) {
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object() {
        within(object, "spec", |spec| set(spec, "selector", labels.clone()));
        within(object, "metadata", |metadata| set(metadata, "labels", labels));
    }
    within(object, "spec", |spec| {
        set(spec, "replicas", json!(1));
        within(spec, "template", pod_template::default);
    });
}

fn stateful_set(spec: &mut Value) {
    set(spec, "replicas", json!(1));
    set(spec, "revisionHistoryLimit", json!(10));
    set(spec, "podManagementPolicy", json!("OrderedReady"));
    within(spec, "updateStrategy", |strategy| {
        rolling_update(strategy, &[("partition", json!(0))]);
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
    within(spec, "template", pod_template::default);
}

fn daemon_set(spec: &mut Value) {
    set(spec, "revisionHistoryLimit", json!(10));
    within(spec, "updateStrategy", |strategy| {
        rolling_update(strategy, &[("maxUnavailable", json!(1)), ("maxSurge", json!(0))]);
    });
    within(spec, "template", pod_template::default);
}

/// Sets the rolling update strategy and its limits, unless another strategy is set.
fn rolling_update(strategy: &mut Value, limits: &[(&str, Value)]) {
    set(strategy, "type", json!("RollingUpdate"));
    if strategy.get("type").is_some_and(|kind| kind == "RollingUpdate") {
        set(strategy, "rollingUpdate", json!({}));
        within(strategy, "rollingUpdate", |rolling| {
            for (key, limit) in limits {
                set(rolling, key, limit.clone());
            }
        });
    }
}

/// Iterates over the objects in a list; empty if there is no list.
pub(super) fn elements<'a>(object: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    object
        .get_mut(key)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter(|element| element.is_object())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &str, spec: &Value, expected: &Value) {
        let resource =
            super::super::served().into_iter().find(|(resource, _)| resource.kind == kind).unwrap().0;
        let mut object = json!({ "metadata": {"name": "x"}, "spec": spec });
        super::super::conform(&resource, &mut object);
        let mut got = object["spec"].clone();
        // Templates have tests of their own.
        got.as_object_mut().unwrap().remove("template");
        assert_eq!(got, *expected);
        let again = object.clone();
        super::super::conform(&resource, &mut object);
        assert_eq!(object, again, "defaults change nothing that they set");
    }

    #[test]
    fn workloads_have_the_recorded_defaults() {
        check(
            "Deployment",
            &json!({"selector": {}}),
            &json!({
                "selector": {}, "replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            }),
        );
        check(
            "Deployment",
            &json!({"selector": {}, "replicas": 0, "strategy": {"type": "Recreate"}}),
            &json!({
                "selector": {}, "replicas": 0, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                "strategy": {"type": "Recreate"},
            }),
        );
        check("ReplicaSet", &json!({"selector": {}}), &json!({"selector": {}, "replicas": 1}));
        check(
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
        check(
            "DaemonSet",
            &json!({"selector": {}}),
            &json!({
                "selector": {}, "revisionHistoryLimit": 10,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            }),
        );
    }

    #[test]
    fn plain_text_of_a_secret_becomes_data() {
        let mut object = json!({"data": {"a": "Yg==", "b": "Yg=="}, "stringData": {"a": "hunter2"}});
        apply("", "Secret", &mut object);
        assert_eq!(object, json!({"data": {"a": "aHVudGVyMg==", "b": "Yg=="}, "type": "Opaque"}));
    }

    #[test]
    fn what_is_not_of_the_type_is_left_alone() {
        for mut object in
            [json!("x"), json!({"spec": 5}), json!({"spec": {"strategy": [], "template": {"spec": 1}}})]
        {
            apply("apps", "Deployment", &mut object);
        }
    }
}
