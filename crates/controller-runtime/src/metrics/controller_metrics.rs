//! Metrics of controllers.

use std::time::Duration;

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

#[cfg(feature = "opentelemetry")]
use super::example::Trace;
use super::{
    Histograms, LabelPairs, of_controller,
    reasons::{ReasonFamily, Reasons, RunsByCause},
};
use crate::reconcile::{Action, Causes, NextRun, Outcome};

/// Go's buckets of `controller_runtime_reconcile_time_seconds`.
const RECONCILE_TIME: [f64; 39] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0,
];

/// A histogram. If traces are exported, each bucket has its last trace as an exemplar.
#[cfg(not(feature = "opentelemetry"))]
type TimeHistogram = Histogram;
#[cfg(feature = "opentelemetry")]
type TimeHistogram = prometheus_client::metrics::exemplar::HistogramWithExemplars<Trace>;

/// Metric families of a manager's controllers.
pub(super) struct ControllerFamilies {
    total: Family<LabelPairs, Counter>,
    errors: Family<LabelPairs, Counter>,
    terminal_errors: Family<LabelPairs, Counter>,
    panics: Family<LabelPairs, Counter>,
    timeouts: Family<LabelPairs, Counter>,
    time: Family<LabelPairs, TimeHistogram, fn() -> TimeHistogram>,
    max_concurrent: Family<LabelPairs, Gauge>,
    active_workers: Family<LabelPairs, Gauge>,
    lag: Histograms,
    reasons: ReasonFamily,
}

/// Buckets from the latency of a queue to the longest back-off.
const LAG: [f64; 15] =
    [0.000_1, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 1000.0];

impl ControllerFamilies {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let families = Self {
            total: Family::default(),
            errors: Family::default(),
            terminal_errors: Family::default(),
            panics: Family::default(),
            timeouts: Family::default(),
            time: Family::new_with_constructor(|| {
                TimeHistogram::new(RECONCILE_TIME.into_iter().chain([60.0]))
            }),
            max_concurrent: Family::default(),
            active_workers: Family::default(),
            lag: Family::new_with_constructor(|| Histogram::new(LAG)),
            reasons: ReasonFamily::register(registry),
        };
        let mut counter = |name: &str, help: &str, family: &Family<LabelPairs, Counter>| {
            registry.register(format!("controller_runtime_{name}"), help, family.clone());
        };
        counter("reconcile", "Reconciles per controller and result", &families.total);
        counter("reconcile_errors", "Reconciles that failed, terminal errors included", &families.errors);
        counter(
            "terminal_reconcile_errors",
            "Reconciles that failed with a terminal error, which is not retried",
            &families.terminal_errors,
        );
        counter("reconcile_panics", "Reconciles that panicked", &families.panics);
        counter("reconcile_timeouts", "Reconciles stopped at the controller's timeout", &families.timeouts);
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "How long reconciles take",
            families.time.clone(),
        );
        registry.register(
            "controller_runtime_max_concurrent_reconciles",
            "Maximum number of concurrent reconciles of a controller",
            families.max_concurrent.clone(),
        );
        registry.register(
            "controller_runtime_active_workers",
            "Number of reconciles of a controller that are running",
            families.active_workers.clone(),
        );
        registry.register(
            "controller_runtime_event_to_reconcile_seconds",
            "Time from the first event that leads to a reconcile until the reconcile starts",
            families.lag.clone(),
        );
        families
    }

    /// Makes the metrics of one controller, starting at zero.
    pub(super) fn of(&self, controller: &str, max_concurrent_reconciles: usize) -> ControllerMetrics {
        let labels = of_controller(controller);
        let total = |result: &str| {
            let labels = vec![("controller", controller.to_owned()), ("result", result.to_owned())];
            self.total.get_or_create_owned(&labels)
        };
        let metrics = ControllerMetrics {
            max_concurrent: self.max_concurrent.get_or_create_owned(&labels),
            success: total("success"),
            error: total("error"),
            requeue: total("requeue"),
            requeue_after: total("requeue_after"),
            errors: self.errors.get_or_create_owned(&labels),
            terminal_errors: self.terminal_errors.get_or_create_owned(&labels),
            panics: self.panics.get_or_create_owned(&labels),
            timeouts: self.timeouts.get_or_create_owned(&labels),
            time: self.time.get_or_create_owned(&labels),
            active_workers: self.active_workers.get_or_create_owned(&labels),
            lag: self.lag.get_or_create_owned(&labels),
            reasons: self.reasons.of(controller),
        };
        metrics.set_max_concurrent_reconciles(max_concurrent_reconciles);
        metrics
    }
}

/// Metrics of one controller.
#[derive(Debug, Clone)]
pub(crate) struct ControllerMetrics {
    success: Counter,
    error: Counter,
    requeue: Counter,
    requeue_after: Counter,
    errors: Counter,
    terminal_errors: Counter,
    panics: Counter,
    timeouts: Counter,
    time: TimeHistogram,
    max_concurrent: Gauge,
    active_workers: Gauge,
    lag: Histogram,
    reasons: Reasons,
}

impl ControllerMetrics {
    /// Sets `controller_runtime_max_concurrent_reconciles`.
    pub(crate) fn set_max_concurrent_reconciles(&self, workers: usize) {
        self.max_concurrent.set(i64::try_from(workers).unwrap_or(i64::MAX));
    }

    /// Counts the start of a reconcile with these causes, which began `lag` after the first event that led to it, if there was
    /// one.
    pub(crate) fn begin(&self, causes: &Causes, lag: Option<Duration>) -> Measured<'_> {
        self.reasons.count(causes);
        if let Some(lag) = lag {
            self.lag.observe(lag.as_secs_f64());
        }
        self.active_workers.inc();
        Measured {
            metrics: self,
            #[cfg(feature = "opentelemetry")]
            trace: None,
        }
    }

    /// Number of reconciles that have ended, and of those that failed.
    pub(crate) fn runs(&self) -> (u64, u64) {
        let errors = self.error.get();
        let others = [&self.success, &self.requeue, &self.requeue_after];
        (others.iter().map(|counter| counter.get()).sum::<u64>() + errors, errors)
    }

    /// Number of reconciles by the source and type of the events that led to them.
    pub(crate) fn runs_by_cause(&self) -> Vec<RunsByCause> {
        self.reasons.totals()
    }

    /// Counts a panic of a reconcile.
    pub(crate) fn panicked(&self) {
        self.panics.inc();
    }

    fn count(&self, outcome: &Outcome) {
        match outcome {
            Outcome::Returned(Ok(Action { next, .. })) => {
                match next {
                    NextRun::Done => self.success.inc(),
                    NextRun::Requeue => self.requeue.inc(),
                    NextRun::RequeueAfter(_) => self.requeue_after.inc(),
                };
                return;
            }
            Outcome::Returned(Err(error)) => {
                if error.is_terminal() {
                    self.terminal_errors.inc();
                }
            }
            Outcome::Panicked(_) => self.panicked(),
            Outcome::TimedOut => {
                self.timeouts.inc();
            }
        }
        // Every failure counts as an error, also if it has a counter of its own.
        self.errors.inc();
        self.error.inc();
    }
}

/// A running reconcile. If it is dropped, it has no outcome and counts nowhere.
#[must_use = "dropping it ends the measurement"]
pub(crate) struct Measured<'m> {
    metrics: &'m ControllerMetrics,
    #[cfg(feature = "opentelemetry")]
    trace: Option<Trace>,
}

impl Measured<'_> {
    /// Attaches the span of the reconcile, if it is exported.
    #[cfg(feature = "opentelemetry")]
    pub(crate) fn in_trace(mut self, span: Option<&crate::telemetry::SpanContext>) -> Self {
        self.trace = span.map(|span| Trace(span.trace_id()));
        self
    }

    /// Counts the end of the reconcile, which took this long.
    pub(crate) fn end(self, outcome: &Outcome, took: Duration) {
        let seconds = took.as_secs_f64();
        #[cfg(not(feature = "opentelemetry"))]
        self.metrics.time.observe(seconds);
        #[cfg(feature = "opentelemetry")]
        self.metrics.time.observe(seconds, self.trace, None);
        self.metrics.count(outcome);
    }
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        self.metrics.active_workers.dec();
    }
}
