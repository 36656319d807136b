//! Fields of pod specs behind feature gates that are off by default. kube-apiserver drops such fields silently, unless the old object uses
//! them.

use serde_json::Value;

use super::at;
use crate::kinds::builtin::shared::fields::{elements, list, put};

/// Gated sources of projected volumes.
const SOURCES: [&str; 2] = ["clusterTrustBundle", "podCertificate"];
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Drops gated fields from the pod spec at `path` that `old`, the object before an update, does not use.
pub(in crate::kinds::builtin) fn drop_disabled(object: &mut Value, old: Option<&Value>, path: &str) {
    let Some(spec) = object.pointer_mut(&format!("/{}", path.replace('.', "/"))) else { return };
    let old = old.and_then(|old| at(old, path)).unwrap_or(&Value::Null);
    // The feature gate is `GenericWorkload`.
    if old["schedulingGroup"].is_null() {
        put(spec, "schedulingGroup", Value::Null);
    }
    // The feature gate is `ContainerStopSignals`.
    let stops = |container: &Value| !container["lifecycle"]["stopSignal"].is_null();
    if !CONTAINERS.iter().any(|kind| list(old, kind).iter().any(stops)) {
        for kind in CONTAINERS {
            elements(spec, kind).filter(|container| stops(container)).for_each(drop_stop_signal);
        }
    }
    // The feature gates are `ClusterTrustBundleProjection` and `PodCertificateRequest`.
    for source in SOURCES {
        let has_source = |volume: &Value| {
            list(&volume["projected"], "sources").iter().any(|projected| !projected[source].is_null())
        };
        if list(old, "volumes").iter().any(has_source) {
            continue;
        }
        for volume in elements(spec, "volumes").filter(|volume| volume["projected"].is_object()) {
            elements(&mut volume["projected"], "sources").for_each(|given| put(given, source, Value::Null));
        }
    }
}

fn drop_stop_signal(container: &mut Value) {
    put(&mut container["lifecycle"], "stopSignal", Value::Null);
    if container["lifecycle"].as_object().is_some_and(|lifecycle| lifecycle.values().all(Value::is_null)) {
        put(container, "lifecycle", Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_disabled_features_are_dropped_unless_they_are_in_use() {
        let spec = json!({
            "schedulingGroup": {"podGroupName": "g"}, "containers": [{"name": "a", "lifecycle": {"stopSignal": "SIGTERM"}}],
            "volumes": [{"name": "v", "projected": {"sources": [{"clusterTrustBundle": {"path": "a"}}]}}],
        });
        let used = json!({ "spec": spec });
        let mut object = used.clone();
        drop_disabled(&mut object, Some(&used), "spec");
        assert_eq!(object, used);
        drop_disabled(&mut object, None, "spec");
        let rest = json!({"containers": [{"name": "a"}], "volumes": [{"name": "v", "projected": {"sources": [{}]}}]});
        assert_eq!(object["spec"], rest);
        let mut empty = json!({});
        drop_disabled(&mut empty, None, "spec");
        assert_eq!(empty, json!({}));
    }
}
