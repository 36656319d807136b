//! Events that user code has failed to handle, for metrics and explanations.

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

use crate::metrics::FailedEventMetrics;

/// An event that a predicate or handler has not handled.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub struct FailedEvent {
    /// The source.
    pub source: String,
    /// The object, as namespace and name.
    pub object: String,
    /// Why it was not handled: a panic, or an object that does not decode.
    pub error: String,
    /// How often it was delivered.
    pub attempts: u32,
    /// How long from now it is delivered again; in JSON in seconds. `None`: when the object changes.
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
            Some(delay) => write!(f, "delivered again in {delay:.0?}: {error}"),
            None => write!(f, "delivered again when the object changes: {error}"),
        }
    }
}

/// Why an event was not handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EventFailure {
    /// A predicate or handler panicked.
    Panicked(String),
    /// An object does not decode, which no retry can mend.
    Undecodable(String),
}

impl EventFailure {
    pub(crate) fn is_worth_a_retry(&self) -> bool {
        matches!(self, Self::Panicked(_))
    }
}

impl fmt::Display for EventFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(panic) => write!(f, "a predicate or handler panicked: {panic}"),
            Self::Undecodable(error) => f.write_str(error),
        }
    }
}

/// Failed events of a controller. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct FailedEvents {
    /// By run of a source, and object.
    all: Arc<Mutex<BTreeMap<(u64, String), Entry>>>,
    runs: Arc<AtomicU64>,
    metrics: FailedEventMetrics,
}

struct Entry {
    source: Arc<str>,
    error: String,
    attempts: u32,
    due: Option<Instant>,
}

impl FailedEvents {
    pub(super) fn new(metrics: FailedEventMetrics) -> Self {
        Self { metrics, ..Self::default() }
    }

    /// Those of a run of a source that begins.
    pub(crate) fn of_source(&self, controller: &Arc<str>, source: &Arc<str>) -> FailedEventsOfSource {
        let run = self.runs.fetch_add(1, Relaxed);
        FailedEventsOfSource {
            run,
            controller: Arc::clone(controller),
            source: Arc::clone(source),
            all: self.clone(),
        }
    }

    /// Counts an event that failed and is not delivered again.
    pub(crate) fn count_lost(&self, source: &str, failure: &EventFailure) {
        self.metrics.count(source, failure);
        self.metrics.count_dropped(source);
    }

    /// At most so many, those of an object if one is given.
    pub(super) fn first(&self, limit: usize, object: Option<&str>) -> Vec<FailedEvent> {
        let (all, now) = (self.all.lock(), Instant::now());
        let wanted = all.iter().filter(|((_, name), _)| object.is_none_or(|object| object == name));
        let show = |((_, object), entry): (&(u64, String), &Entry)| FailedEvent {
            source: entry.source.to_string(),
            object: object.clone(),
            error: entry.error.clone(),
            attempts: entry.attempts,
            retry_in: entry.due.map(|due| due.saturating_duration_since(now)),
        };
        wanted.take(limit).map(show).collect()
    }
}

/// Failed events of one run of a source. Dropping it ends their record.
pub(crate) struct FailedEventsOfSource {
    run: u64,
    controller: Arc<str>,
    source: Arc<str>,
    all: FailedEvents,
}

impl FailedEventsOfSource {
    /// Records that events of an object have failed so often, and when they are delivered again.
    pub(crate) fn failed(
        &self,
        object: &impl fmt::Display,
        failure: &EventFailure,
        attempts: u32,
        due: Option<Instant>,
    ) {
        self.all.metrics.count(&self.source, failure);
        let error = failure.to_string();
        if attempts == 1 {
            let (controller, source) = (&*self.controller, &*self.source);
            match failure {
                EventFailure::Panicked(_) => {
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
        let entry = Entry { source: Arc::clone(&self.source), error, attempts, due };
        if self.all.all.lock().insert((self.run, object.to_string()), entry).is_none() {
            self.all.metrics.add_waiting(&self.source, 1);
        }
    }

    /// Records that the events of an object were handled.
    pub(crate) fn handled(&self, object: &impl fmt::Display) {
        let mut all = self.all.all.lock();
        if all.is_empty() {
            return; // as a rule; no text is made then
        }
        if all.remove(&(self.run, object.to_string())).is_some() {
            self.all.metrics.add_waiting(&self.source, -1);
        }
    }

    /// Records that the events of an object were dropped, because too many wait.
    pub(crate) fn dropped(&self, object: &impl fmt::Display) {
        let (controller, source) = (&*self.controller, &*self.source);
        tracing::error!(controller, source, %object, "too many events have failed: those of this object are dropped");
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
