//! Services of the metrics server and the webhook server.

use serde_json::{Value, json};

use super::{
    ManifestObject, Part, Target,
    deployment::{METRICS, WEBHOOKS},
};

/// The Services.
pub(super) fn objects(target: &Target<'_>) -> Vec<ManifestObject> {
    let ports = target.program.ports;
    let metrics = ports.metrics.map(|metrics| {
        let name = if metrics.https { "https" } else { "http" };
        service(target, METRICS, &json!({ "name": name, "port": metrics.port, "targetPort": METRICS }))
    });
    let webhooks = ports
        .webhooks
        .map(|_| service(target, WEBHOOKS, &json!({ "name": "https", "port": 443, "targetPort": WEBHOOKS })));
    metrics.into_iter().chain(webhooks).collect()
}

/// Name of the Service in front of a port.
pub(super) fn name_of(target: &Target<'_>, port: &str) -> String {
    format!("{}-{port}", target.name())
}

fn service(target: &Target<'_>, suffix: &str, port: &Value) -> ManifestObject {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name_of(target, suffix),
            "namespace": target.namespace,
            "labels": target.selector(),
        },
        "spec": { "selector": target.selector(), "ports": [port] },
    });
    ManifestObject::new(Part::Services, object)
}
