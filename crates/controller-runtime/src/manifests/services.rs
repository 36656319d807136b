//! Services of the metrics server and the webhook server.

use serde_json::{Value, json};

use super::{
    ManifestObject, MetricsPort, Part, RenderInput,
    deployment::{METRICS_PORT, WEBHOOKS_PORT},
};

/// The Services of the ports that other hosts can reach.
pub(super) fn objects(target: &RenderInput<'_>) -> Vec<ManifestObject> {
    let ports = target.program.ports;
    let metrics = ports.metrics.map(|metrics| {
        let port = json!({ "name": scheme(metrics), "port": metrics.port, "targetPort": METRICS_PORT });
        service(target, &name_of(target, METRICS_PORT), METRICS_PORT, &port)
    });
    let webhooks = ports.webhooks.map(|_| {
        let port = json!({ "name": "https", "port": 443, "targetPort": WEBHOOKS_PORT });
        service(target, &target.webhook_service(), WEBHOOKS_PORT, &port)
    });
    metrics.into_iter().chain(webhooks).collect()
}

/// Name of an object for a port of the operator.
pub(super) fn name_of(target: &RenderInput<'_>, port: &str) -> String {
    format!("{}-{port}", target.name())
}

/// Name of the Secret with the certificate of a server.
pub(super) fn secret_of(target: &RenderInput<'_>, port: &str) -> String {
    format!("{}-{port}-certificate", target.name())
}

/// Labels of the Service of a port.
pub(super) fn labels(target: &RenderInput<'_>, port: &str) -> Value {
    json!({ "app.kubernetes.io/name": target.name(), "app.kubernetes.io/component": port })
}

/// Scheme of the metrics server, and name of its Service's port.
pub(super) fn scheme(metrics: MetricsPort) -> &'static str {
    if metrics.https { "https" } else { "http" }
}

/// Renders a Service with one port, which selects the operator's pods.
fn service(target: &RenderInput<'_>, name: &str, component: &str, port: &Value) -> ManifestObject {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": name, "namespace": target.namespace, "labels": labels(target, component) },
        "spec": { "selector": target.selector(), "ports": [port] },
    });
    ManifestObject::new(Part::Services, object)
}
