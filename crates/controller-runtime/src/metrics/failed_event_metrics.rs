//! Metrics of events that predicates and handlers failed to handle.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::LabelPairs;

/// Metric families of all controllers.
#[derive(Clone, Default)]
pub(super) struct FailedEventFamilies {
    failures: Family<LabelPairs, Counter>,
    dropped: Family<LabelPairs, Counter>,
    waiting: Family<LabelPairs, Gauge>,
}

impl FailedEventFamilies {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let families = Self::default();
        registry.register(
            "controller_runtime_event_failures",
            "Deliveries of events that failed: a predicate or handler panicked, a handler failed, or the object does not decode",
            families.failures.clone(),
        );
        registry.register(
            "controller_runtime_events_dropped",
            "Failed events that were dropped and will not be delivered again",
            families.dropped.clone(),
        );
        registry.register(
            "controller_runtime_failed_events",
            "Objects with failed events that wait for redelivery, or for a change if the object does not decode",
            families.waiting.clone(),
        );
        families
    }

    pub(super) fn of(&self, controller: &str) -> FailedEventMetrics {
        FailedEventMetrics { controller: controller.to_owned(), families: self.clone() }
    }
}

/// Metrics of the failed events of one controller.
#[derive(Clone, Default)]
pub(crate) struct FailedEventMetrics {
    controller: String,
    families: FailedEventFamilies,
}

impl FailedEventMetrics {
    fn labels(&self, source: &str) -> LabelPairs {
        vec![("controller", self.controller.clone()), ("source", source.to_owned())]
    }

    /// Counts a failed delivery. `reason` is `panic`, `error` or `undecodable`.
    pub(crate) fn count(&self, source: &str, reason: &str) {
        let mut labels = self.labels(source);
        labels.push(("reason", reason.to_owned()));
        self.families.failures.get_or_create_owned(&labels).inc();
    }

    pub(crate) fn count_dropped(&self, source: &str) {
        self.families.dropped.get_or_create_owned(&self.labels(source)).inc();
    }

    pub(crate) fn add_waiting(&self, source: &str, objects: i64) {
        if objects != 0 {
            self.families.waiting.get_or_create_owned(&self.labels(source)).inc_by(objects);
        }
    }
}
