//! Fields that the server sets in objects of builtin kinds when they are created or updated.

use serde_json::{Value, json};

use super::{batch, pod, service_addresses};
use crate::kind::resource::Resource;

/// Annotation with a counter of a DaemonSet's templates, a field in older versions.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Finalizer that protects volumes in use.
pub(crate) const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
/// Finalizer that protects claims in use.
pub(crate) const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";

/// Prepares a new object.
pub(super) fn create(resource: &Resource, object: &mut Value) {
    // Nodes report their status when they register.
    if resource.status
        && resource.kind != "Node"
        && let Some(fields) = object.as_object_mut()
    {
        // Reset the status to the empty one of a typed server.
        fields.remove("status");
        super::conform(resource, object);
    }
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Service") => service_addresses::drop_traffic_policy(object),
        ("", "Pod") => pod::prepare_create(object),
        ("", "PersistentVolume") => {
            let now = object["metadata"]["creationTimestamp"].clone();
            object["status"]["lastPhaseTransitionTime"] = now;
        }
        ("batch", "Job") => batch::prepare_job(object),
        ("apps", "DaemonSet") => {
            let generation = template_generation(object).max(1);
            set_template_generation(object, generation);
        }
        _ => {}
    }
}

/// Prepares the new state of an object.
pub(super) fn update(resource: &Resource, old: &Value, new: &mut Value) {
    if resource.group.is_empty() && resource.kind == "Service" {
        service_addresses::drop_unneeded(old, new);
    }
    if is_daemon_set(resource) {
        let changed = old["spec"]["template"] != new["spec"]["template"];
        let generation = template_generation(old).max(1) + i64::from(changed);
        set_template_generation(new, generation);
    }
}

/// Adds the counter of a DaemonSet. It is part of decoding, so the client becomes its owner.
pub(super) fn count_templates(object: &mut Value) {
    let generation = template_generation(object);
    set_template_generation(object, generation);
}

fn is_daemon_set(resource: &Resource) -> bool {
    resource.group == "apps" && resource.kind == "DaemonSet"
}

fn template_generation(object: &Value) -> i64 {
    object["metadata"]["annotations"][TEMPLATE_GENERATION]
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

fn set_template_generation(object: &mut Value, generation: i64) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Value::Object(annotations) = annotations {
        annotations.insert(TEMPLATE_GENERATION.to_owned(), json!(generation.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_set_counts_its_templates() {
        let served = super::super::served();
        let (resource, _) = served.iter().find(|(resource, _)| resource.kind == "DaemonSet").unwrap();
        let shown = |object: &Value| object["metadata"]["annotations"][TEMPLATE_GENERATION].clone();
        let mut first = json!({"metadata": {}, "spec": {"template": {}}});
        super::super::conform(resource, &mut first);
        create(resource, &mut first);
        assert_eq!(shown(&first), "1");
        let mut same = first.clone();
        same["spec"]["minReadySeconds"] = json!(3);
        update(resource, &first, &mut same);
        assert_eq!(shown(&same), "1");
        let mut other = same.clone();
        other["metadata"]["annotations"] = json!({"x": "y"});
        other["spec"]["template"]["metadata"] = json!({"labels": {"a": "b"}});
        update(resource, &same, &mut other);
        assert_eq!(shown(&other), "2");
    }
}
