//! Events that user code failed to handle, for metrics and explanations.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use serde::{Serialize, Serializer};
use tokio::time::{Duration, Instant};

use super::EventFailure;
use crate::{brief::Brief, metrics::FailedEventMetrics};

/// An event that a predicate or handler failed to handle.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub struct FailedEvent {
    /// Name of the source.
    pub source: String,
    /// The object, as namespace and name.
    pub object: String,
    /// Cause of the failure: a panic, an error, or an object that does not decode.
    pub error: String,
    /// Number of deliveries so far.
    pub attempts: u32,
    /// Time until it is delivered again; in JSON in seconds. `None`: not before the object changes.
    #[serde(serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub retry_in: Option<Duration>,
}

fn seconds<S: Serializer>(duration: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_secs_f64()).serialize(to)
}

impl fmt::Display for FailedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, object, error, attempts, retry_in } = self;
        write!(f, "event of {source} {object} failed at attempt {attempts}, ")?;
        match retry_in {
            Some(delay) => write!(f, "delivered again in {}: {error}", Brief(*delay)),
            None => write!(f, "delivered again when the object changes: {error}"),
        }
    }
}

/// Failed events of a controller. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct FailedEvents {
    /// By run of a source and name of the object.
    all: Arc<Mutex<BTreeMap<(u64, String), FailedEventEntry>>>,
    runs: Arc<AtomicU64>,
    metrics: FailedEventMetrics,
}

struct FailedEventEntry {
    source: Arc<str>,
    error: String,
    attempts: u32,
    due: Option<Instant>,
}

impl FailedEvents {
    pub(crate) fn new(metrics: FailedEventMetrics) -> Self {
        Self { metrics, ..Self::default() }
    }

    /// Recorder of failed events for a new run of a source.
    pub(crate) fn of_source(&self, controller: &Arc<str>, source: &Arc<str>) -> FailedEventsOfSource {
        let run = self.runs.fetch_add(1, Relaxed);
        FailedEventsOfSource {
            run,
            controller: Arc::clone(controller),
            source: Arc::clone(source),
            all: self.clone(),
        }
    }

    /// Counts an event that failed and will not be delivered again.
    pub(crate) fn count_lost(&self, source: &str, failure: &EventFailure) {
        self.metrics.count(source, failure.reason());
        self.metrics.count_dropped(source);
    }

    /// The first `limit` failed events; only those of `object`, if given.
    pub(crate) fn first(&self, limit: usize, object: Option<&str>) -> Vec<FailedEvent> {
        let (all, now) = (self.all.lock(), Instant::now());
        let wanted = all.iter().filter(|((_, name), _)| object.is_none_or(|object| object == name));
        let show = |((_, object), entry): (&(u64, String), &FailedEventEntry)| FailedEvent {
            source: entry.source.to_string(),
            object: object.clone(),
            error: entry.error.clone(),
            attempts: entry.attempts,
            retry_in: entry.due.map(|due| due.saturating_duration_since(now)),
        };
        wanted.take(limit).map(show).collect()
    }
}

/// Failed events of one run of a source. Dropping it removes their records.
pub(crate) struct FailedEventsOfSource {
    run: u64,
    controller: Arc<str>,
    source: Arc<str>,
    all: FailedEvents,
}

impl FailedEventsOfSource {
    /// Records that events of an object have failed `attempts` times, and when they are delivered again.
    pub(crate) fn failed(
        &self,
        object: &impl fmt::Display,
        failure: &EventFailure,
        attempts: u32,
        due: Option<Instant>,
    ) {
        self.all.metrics.count(&self.source, failure.reason());
        let error = failure.to_string();
        // Logged once: metrics and explanations show later attempts.
        if attempts == 1 {
            let (controller, source) = (&*self.controller, &*self.source);
            match failure {
                EventFailure::Panicked(_) | EventFailure::Failed(_) => {
                    tracing::error!(controller, source, %object, "an event failed and is delivered again: {error}");
                }
                EventFailure::Undecodable(_) => tracing::error!(
                    controller,
                    source,
                    %object,
                    "an event failed and is delivered again when the object changes: {error}"
                ),
            }
        }
        let entry = FailedEventEntry { source: Arc::clone(&self.source), error, attempts, due };
        if self.all.all.lock().insert((self.run, object.to_string()), entry).is_none() {
            self.all.metrics.add_waiting(&self.source, 1);
        }
    }

    /// Records that the events of an object were handled.
    pub(crate) fn handled(&self, object: &impl fmt::Display) {
        let mut all = self.all.all.lock();
        if all.is_empty() {
            return; // the usual case, without the cost of a text
        }
        if all.remove(&(self.run, object.to_string())).is_some() {
            self.all.metrics.add_waiting(&self.source, -1);
        }
    }

    /// Records that the events of an object were dropped, because too many are waiting.
    pub(crate) fn dropped(&self, object: &impl fmt::Display) {
        let (controller, source) = (&*self.controller, &*self.source);
        tracing::error!(controller, source, %object, "too many failed events wait for redelivery: those of this object are dropped");
        self.all.metrics.count_dropped(source);
        self.handled(object);
    }
}

impl Drop for FailedEventsOfSource {
    fn drop(&mut self) {
        let mut all = self.all.all.lock();
        let before = all.len();
        all.retain(|(run, _), _| *run != self.run);
        let ended = before - all.len();
        self.all.metrics.add_waiting(&self.source, -i64::try_from(ended).unwrap_or(i64::MAX));
    }
}
