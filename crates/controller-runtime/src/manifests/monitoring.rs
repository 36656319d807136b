//! The ServiceMonitor of the Prometheus operator.

use serde_json::{Value, json};

use super::{
    ManifestObject, Part, RenderInput, deployment::METRICS_PORT, program::MetricsCertificate,
    rendered_object::without_nulls, services,
};

/// File with the token of Prometheus' service account.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// The ServiceMonitor, if it is wanted and there are metrics. Over HTTPS it verifies the certificate by `ca.crt` of its Secret.
pub(super) fn monitor(target: &RenderInput<'_>) -> Option<ManifestObject> {
    let metrics = target.program.ports.metrics.filter(|_| target.parameters.service_monitor)?;
    let service = services::name_of(target, METRICS_PORT);
    let tls = match &target.program.metrics_certificate {
        MetricsCertificate::InFolder(_) => json!({
            "ca": { "secret": { "name": services::secret_of(target, METRICS_PORT), "key": "ca.crt" } },
            "serverName": format!("{service}.{}.svc", target.namespace),
        }),
        MetricsCertificate::None | MetricsCertificate::SelfSigned => Value::Null,
    };
    let endpoint = without_nulls([
        ("port", json!(services::scheme(metrics))),
        ("scheme", json!(services::scheme(metrics))),
        ("path", json!("/metrics")),
        ("bearerTokenFile", if metrics.authorized { json!(TOKEN) } else { Value::Null }),
        ("tlsConfig", tls),
    ]);
    let object = json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": { "name": target.name(), "namespace": target.namespace },
        "spec": { "selector": { "matchLabels": services::labels(target, METRICS_PORT) }, "endpoints": [endpoint] },
    });
    Some(ManifestObject::new(Part::Monitoring, object))
}
