//! The Deployment.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    ManifestObject, Part, Program, RenderInput, program::MetricsCertificate, rendered_object::without_nulls,
    services,
};

/// Name of the probes' port.
const PROBES: &str = "probes";
/// Name of the webhook server's port.
pub(super) const WEBHOOKS_PORT: &str = "webhooks";
/// Name of the metrics server's port.
pub(super) const METRICS_PORT: &str = "metrics";

/// The Deployment.
pub(super) fn object(target: &RenderInput<'_>) -> ManifestObject {
    let RenderInput { program, parameters, namespace } = *target;
    // Without a lease, two replicas must not run at the same time, not even during an update: `Recreate` stops the old one first.
    let strategy = if program.elects { Value::Null } else { json!({ "type": "Recreate" }) };
    let certificates = certificates(target);
    let volumes: Vec<Value> = certificates
        .iter()
        .map(|(port, _)| {
            json!({ "name": format!("{port}-certificate"), "secret": { "secretName": services::secret_of(target, port) } })
        })
        .collect();
    // Rounded up, so that the pod is not killed before the end of its grace period.
    let seconds = program.grace.as_secs() + u64::from(program.grace.subsec_nanos() > 0);
    let pod = without_nulls([
        ("serviceAccountName", json!(program.name)),
        ("terminationGracePeriodSeconds", json!(seconds)),
        // Together with the container's settings below, this satisfies level `restricted`, which the rendered namespace enforces.
        ("securityContext", json!({ "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } })),
        ("containers", json!([container(target, &certificates)])),
        ("volumes", list(volumes)),
    ]);
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": program.name, "namespace": namespace, "labels": target.selector() },
        "spec": without_nulls([
            ("replicas", json!(parameters.replicas)),
            ("strategy", strategy),
            ("selector", json!({ "matchLabels": target.selector() })),
            ("template", json!({ "metadata": { "labels": target.selector() }, "spec": pod })),
        ]),
    });
    ManifestObject::new(Part::Deployment, object)
}

/// Servers with a certificate in a folder: name of the port, and the folder.
fn certificates<'t>(target: &'t RenderInput<'_>) -> Vec<(&'static str, &'t Path)> {
    let Program { ports, metrics_certificate, webhook_certificate, .. } = target.program;
    let metrics = match metrics_certificate {
        MetricsCertificate::InFolder(folder) => folder.as_deref().filter(|_| ports.metrics.is_some()),
        MetricsCertificate::None | MetricsCertificate::SelfSigned => None,
    };
    let webhooks = webhook_certificate.as_deref().filter(|_| ports.webhooks.is_some());
    let certificates = [(METRICS_PORT, metrics), (WEBHOOKS_PORT, webhooks)];
    certificates.into_iter().filter_map(|(port, folder)| Some((port, folder?))).collect()
}

fn container(target: &RenderInput<'_>, certificates: &[(&str, &Path)]) -> Value {
    let RenderInput { program, parameters, .. } = *target;
    let image = parameters.image_of(program);
    let mounts: Vec<Value> = certificates
        .iter()
        .map(|(port, folder)| {
            json!({ "name": format!("{port}-certificate"), "mountPath": folder, "readOnly": true })
        })
        .collect();
    let arguments = parameters.arguments.iter().map(|argument| json!(argument)).collect();
    let probe = |path: &str| {
        program.ports.probes.map_or(Value::Null, |_| json!({ "httpGet": { "path": path, "port": PROBES } }))
    };
    without_nulls([
        ("name", json!("operator")),
        ("image", json!(image)),
        ("args", list(arguments)),
        ("ports", list(ports(program))),
        ("livenessProbe", probe(&program.liveness)),
        ("readinessProbe", probe(&program.readiness)),
        ("resources", parameters.resources.clone()),
        (
            "securityContext",
            json!({
                "allowPrivilegeEscalation": false,
                "capabilities": { "drop": ["ALL"] },
                "readOnlyRootFilesystem": true,
            }),
        ),
        ("volumeMounts", list(mounts)),
    ])
}

/// A list; null if it is empty.
fn list(items: Vec<Value>) -> Value {
    if items.is_empty() { Value::Null } else { Value::Array(items) }
}

fn ports(program: &Program) -> Vec<Value> {
    let ports = program.ports;
    let named = [
        (METRICS_PORT, ports.metrics.map(|metrics| metrics.port)),
        (PROBES, ports.probes),
        (WEBHOOKS_PORT, ports.webhooks),
    ];
    let named = named.into_iter().filter_map(|(name, port)| Some((name, port?)));
    named.map(|(name, port)| json!({ "name": name, "containerPort": port })).collect()
}
