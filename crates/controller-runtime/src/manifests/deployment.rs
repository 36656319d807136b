//! The Deployment.

use serde_json::{Value, json};

use super::{ManifestObject, Part, Program, Target, object::present};

/// Name of the probes' port.
const PROBES: &str = "probes";
/// Name of the webhook server's port.
pub(super) const WEBHOOKS: &str = "webhooks";
/// Name of the metrics server's port.
pub(super) const METRICS: &str = "metrics";

/// The Deployment.
pub(super) fn object(target: &Target<'_>) -> ManifestObject {
    let Target { program, parameters, namespace } = *target;
    // Without a lease two replicas must not run at the same time, not even during an update.
    let strategy = if program.elects { Value::Null } else { json!({ "type": "Recreate" }) };
    let pod = json!({
        "serviceAccountName": program.name,
        "terminationGracePeriodSeconds": program.grace.as_secs() + u64::from(program.grace.subsec_nanos() > 0),
        "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
        "containers": [container(target)],
    });
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": program.name, "namespace": namespace, "labels": target.selector() },
        "spec": present([
            ("replicas", json!(parameters.replicas)),
            ("strategy", strategy),
            ("selector", json!({ "matchLabels": target.selector() })),
            ("template", json!({ "metadata": { "labels": target.selector() }, "spec": pod })),
        ]),
    });
    ManifestObject::new(Part::Deployment, object)
}

fn container(target: &Target<'_>) -> Value {
    let Target { program, parameters, .. } = *target;
    let image = parameters.image.clone().unwrap_or_else(|| format!("{}:latest", program.name));
    let (arguments, ports) = (&parameters.arguments, ports(program));
    let probe = |path: &str| {
        program.ports.probes.map_or(Value::Null, |_| json!({ "httpGet": { "path": path, "port": PROBES } }))
    };
    present([
        ("name", json!("operator")),
        ("image", json!(image)),
        ("args", if arguments.is_empty() { Value::Null } else { json!(arguments) }),
        ("ports", if ports.is_empty() { Value::Null } else { json!(ports) }),
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
    ])
}

fn ports(program: &Program) -> Vec<Value> {
    let ports = program.ports;
    let named = [
        (METRICS, ports.metrics.map(|metrics| metrics.port)),
        (PROBES, ports.probes),
        (WEBHOOKS, ports.webhooks),
    ];
    let named = named.into_iter().filter_map(|(name, port)| Some((name, port?)));
    named.map(|(name, port)| json!({ "name": name, "containerPort": port })).collect()
}
