//! Metrics of requests to the API server.

use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use super::{Histograms, LabelPairs};
use crate::client::ClientMetrics;

/// client-go's buckets of latencies.
const SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// client-go's buckets of sizes: 64 bytes to 16 MiB.
const BYTES: [f64; 11] =
    [64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0];

/// Metric families of a manager's requests to the API server.
pub(crate) struct RestClientFamilies {
    requests: Family<LabelPairs, Counter>,
    undeclared: Family<LabelPairs, Counter>,
    /// Registered only on demand.
    detailed: Mutex<Option<Detailed>>,
}

#[derive(Clone)]
struct Detailed {
    duration: Histograms,
    rate_limiter_duration: Histograms,
    request_size: Histograms,
    response_size: Histograms,
    retries: Family<LabelPairs, Counter>,
}

impl RestClientFamilies {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let requests = Family::default();
        registry.register(
            "rest_client_requests",
            "Requests to the API server by response code",
            Family::clone(&requests),
        );
        let undeclared = Family::default();
        registry.register(
            "controller_runtime_undeclared_requests",
            "Requests that need a right which no registration declares; resource is empty for paths outside of the resource API",
            Family::clone(&undeclared),
        );
        Self { requests, undeclared, detailed: Mutex::new(None) }
    }

    /// Registers histograms by verb and host, which cost more. Go's `RegisterRESTClientMetrics`.
    pub(super) fn register_detailed(&self, registry: &mut Registry) {
        let mut detailed = self.detailed.lock();
        if detailed.is_some() {
            return; // a second registration would list each family twice
        }
        let of = |buckets: fn() -> Histogram| Histograms::new_with_constructor(buckets);
        let seconds: fn() -> Histogram = || Histogram::new(SECONDS);
        let bytes: fn() -> Histogram = || Histogram::new(BYTES);
        let new = Detailed {
            duration: of(seconds),
            rate_limiter_duration: of(seconds),
            request_size: of(bytes),
            response_size: of(bytes),
            retries: Family::default(),
        };
        let histograms = [
            (
                "request_duration_seconds",
                "Time from sending a request until its response begins",
                &new.duration,
            ),
            (
                "rate_limiter_duration_seconds",
                "Time that requests wait for the client's rate limit",
                &new.rate_limiter_duration,
            ),
            ("request_size_bytes", "Size of request bodies", &new.request_size),
            ("response_size_bytes", "Size of response bodies", &new.response_size),
        ];
        for (name, help, family) in histograms {
            registry.register(format!("rest_client_{name}"), help, family.clone());
        }
        registry.register(
            "rest_client_request_retries",
            "Requests that were sent again",
            new.retries.clone(),
        );
        *detailed = Some(new);
    }

    fn observe(&self, which: impl Fn(&Detailed) -> &Histograms, verb: &str, host: &str, value: f64) {
        if let Some(detailed) = &*self.detailed.lock() {
            let labels = vec![("verb", verb.to_owned()), ("host", host.to_owned())];
            which(detailed).get_or_create(&labels).observe(value);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a length in a histogram")]
impl ClientMetrics for RestClientFamilies {
    fn request(&self, code: &str, method: &str, host: &str) {
        let labels =
            vec![("code", code.to_owned()), ("method", method.to_owned()), ("host", host.to_owned())];
        self.requests.get_or_create(&labels).inc();
    }

    fn request_duration(&self, verb: &str, host: &str, took: Duration) {
        self.observe(|families| &families.duration, verb, host, took.as_secs_f64());
    }

    fn rate_limiter_duration(&self, verb: &str, host: &str, waited: Duration) {
        self.observe(|families| &families.rate_limiter_duration, verb, host, waited.as_secs_f64());
    }

    fn request_size(&self, verb: &str, host: &str, bytes: u64) {
        self.observe(|families| &families.request_size, verb, host, bytes as f64);
    }

    fn response_size(&self, verb: &str, host: &str, bytes: u64) {
        self.observe(|families| &families.response_size, verb, host, bytes as f64);
    }

    fn undeclared(&self, verb: &str, resource: &str) {
        let labels = vec![("verb", verb.to_owned()), ("resource", resource.to_owned())];
        self.undeclared.get_or_create(&labels).inc();
    }

    fn retry(&self, code: &str, verb: &str, host: &str) {
        if let Some(detailed) = &*self.detailed.lock() {
            let labels =
                vec![("code", code.to_owned()), ("verb", verb.to_owned()), ("host", host.to_owned())];
            detailed.retries.get_or_create(&labels).inc();
        }
    }
}
