//! Metrics of certificate watchers.

use prometheus_client::{metrics::counter::Counter, registry::Registry};

/// Counters of the certificate watchers of a manager.
#[derive(Debug, Clone, Default)]
pub(crate) struct CertificateMetrics {
    reads: Counter,
    errors: Counter,
}

impl CertificateMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("certwatcher_read_certificate", "Reads of a certificate", metrics.reads.clone());
        registry.register(
            "certwatcher_read_certificate_errors",
            "Reads of a certificate that failed",
            metrics.errors.clone(),
        );
        metrics
    }

    pub(crate) fn read(&self) {
        self.reads.inc();
    }

    pub(crate) fn failed(&self) {
        self.errors.inc();
    }
}
