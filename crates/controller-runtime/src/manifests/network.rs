//! The NetworkPolicy.

use serde_json::{Value, json};

use super::{
    ManifestObject, Part, RenderInput,
    deployment::{METRICS_PORT, WEBHOOKS_PORT},
};

/// Label of the namespaces of pods that may read metrics, as in kubebuilder's scaffold.
const READERS: (&str, &str) = ("metrics", "enabled");

/// The NetworkPolicy: metrics for pods in labelled namespaces, webhooks for everyone, because API servers have no pod labels. The kubelet
/// reaches the probes in any case. `None` if the program has neither port.
pub(super) fn policy(target: &RenderInput<'_>) -> Option<ManifestObject> {
    let ports = target.program.ports;
    let readers = json!([{ "namespaceSelector": { "matchLabels": { READERS.0: READERS.1 } } }]);
    let metrics = ports.metrics.map(|_| json!({ "from": readers, "ports": [{ "port": METRICS_PORT }] }));
    let webhooks = ports.webhooks.map(|_| json!({ "ports": [{ "port": WEBHOOKS_PORT }] }));
    let ingress: Vec<Value> = metrics.into_iter().chain(webhooks).collect();
    (!ingress.is_empty()).then(|| {
        let object = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": { "name": target.name(), "namespace": target.namespace },
            "spec": {
                "podSelector": { "matchLabels": target.selector() },
                "policyTypes": ["Ingress"],
                "ingress": ingress,
            },
        });
        ManifestObject::new(Part::Network, object)
    })
}
