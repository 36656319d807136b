//! Metrics of webhooks.

use std::time::Duration;

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use tokio::time::Instant;

use super::{Histograms, LabelPairs, TEN_NANOSECONDS_TO_1000_SECONDS};

/// Metric families of a manager's webhooks.
#[derive(Clone)]
pub(crate) struct WebhookMetrics {
    latency: Histograms,
    total: Family<LabelPairs, Counter>,
    in_flight: Family<LabelPairs, Gauge>,
    admission_panics: Counter,
    conversion_panics: Counter,
    /// By Secret. Without self-managed certificates there is no series: with a value of 0, an alert would report an expired
    /// certificate.
    certificate_expiry: Family<LabelPairs, Gauge>,
    certificate_changes: Counter,
    certificate_errors: Counter,
    ca_bundle_writes: Counter,
}

/// Metrics of one path.
pub(crate) struct WebhookPathMetrics {
    path: String,
    all: WebhookMetrics,
}

/// A running request.
pub(crate) struct WebhookRequest {
    metrics: WebhookPathMetrics,
    began: Instant,
    code: Option<u16>,
}

impl WebhookMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            latency: Family::new_with_constructor(|| Histogram::new(TEN_NANOSECONDS_TO_1000_SECONDS)),
            total: Family::default(),
            in_flight: Family::default(),
            admission_panics: Counter::default(),
            conversion_panics: Counter::default(),
            certificate_expiry: Family::default(),
            certificate_changes: Counter::default(),
            certificate_errors: Counter::default(),
            ca_bundle_writes: Counter::default(),
        };
        let mut add = |name: &str, help: &str, family: Family<LabelPairs, Counter>| {
            registry.register(name, help, family);
        };
        add(
            "controller_runtime_webhook_requests",
            "Webhook requests by path and HTTP status",
            metrics.total.clone(),
        );
        registry.register(
            "controller_runtime_webhook_latency_seconds",
            "Time to answer webhook requests",
            metrics.latency.clone(),
        );
        registry.register(
            "controller_runtime_webhook_requests_in_flight",
            "Webhook requests being answered",
            metrics.in_flight.clone(),
        );
        registry.register(
            "controller_runtime_webhook_panics",
            "Panics of admission webhook handlers",
            metrics.admission_panics.clone(),
        );
        registry.register(
            "controller_runtime_conversion_webhook_panics",
            "Panics of conversions",
            metrics.conversion_panics.clone(),
        );
        registry.register(
            "controller_runtime_webhook_certificate_expiry_timestamp_seconds",
            "Time since 1970 at which the served self-managed webhook certificate expires",
            metrics.certificate_expiry.clone(),
        );
        for (name, help, counter) in [
            (
                "changes",
                "Self-managed webhook certificates that were served for the first time",
                &metrics.certificate_changes,
            ),
            (
                "errors",
                "Failed attempts to keep webhook certificates and configurations up to date",
                &metrics.certificate_errors,
            ),
        ] {
            registry.register(
                format!("controller_runtime_webhook_certificate_{name}"),
                help,
                counter.clone(),
            );
        }
        registry.register(
            "controller_runtime_webhook_ca_bundle_writes",
            "Objects whose caBundle was written",
            metrics.ca_bundle_writes.clone(),
        );
        metrics
    }

    /// Counts a change of the served certificate, which expires `not_after` 1970.
    pub(crate) fn certificate_served(&self, secret: &str, not_after: Duration) {
        let expiry = self.certificate_expiry.get_or_create(&vec![("secret", secret.to_owned())]);
        expiry.set(i64::try_from(not_after.as_secs()).unwrap_or(i64::MAX));
        self.certificate_changes.inc();
    }

    pub(crate) fn certificate_failed(&self) {
        self.certificate_errors.inc();
    }

    pub(crate) fn ca_bundles_written(&self, objects: u64) {
        self.ca_bundle_writes.inc_by(objects);
    }

    /// Metrics of a path, which show 0 from now on, as in Go.
    pub(crate) fn of(&self, path: &str) -> WebhookPathMetrics {
        let metrics = WebhookPathMetrics { path: path.to_owned(), all: self.clone() };
        for code in [200, 500] {
            let _ = self.total.get_or_create(&metrics.with_code(code));
        }
        let _ = self.in_flight.get_or_create(&metrics.labels());
        metrics
    }

    pub(crate) fn admission_panicked(&self) {
        self.admission_panics.inc();
    }

    pub(crate) fn conversion_panicked(&self) {
        self.conversion_panics.inc();
    }
}

impl WebhookPathMetrics {
    /// Counts a request, until the returned value is dropped.
    pub(crate) fn begin(self) -> WebhookRequest {
        self.all.in_flight.get_or_create(&self.labels()).inc();
        WebhookRequest { metrics: self, began: Instant::now(), code: None }
    }

    fn labels(&self) -> LabelPairs {
        vec![("webhook", self.path.clone())]
    }

    fn with_code(&self, code: u16) -> LabelPairs {
        vec![("webhook", self.path.clone()), ("code", code.to_string())]
    }
}

impl WebhookRequest {
    /// Counts the response.
    pub(crate) fn end(mut self, code: u16) {
        self.code = Some(code);
    }
}

impl Drop for WebhookRequest {
    fn drop(&mut self) {
        let (metrics, labels) = (&self.metrics, self.metrics.labels());
        metrics.all.in_flight.get_or_create(&labels).dec();
        // Without a response, because the client closed the connection, the request has no status and is not counted.
        if let Some(code) = self.code {
            metrics.all.total.get_or_create(&metrics.with_code(code)).inc();
            metrics.all.latency.get_or_create(&labels).observe(self.began.elapsed().as_secs_f64());
        }
    }
}
