//! Kubernetes Events: a controller's actions and their reasons, for `kubectl describe` and `kubectl events`.
//!
//! Recording never waits: events go through a bounded queue to a task of the manager, which writes them. When events
//! are recorded faster than the API server accepts them, the newest are dropped and counted in the log; reconciles are
//! not delayed. An event that could not be written is retried for two minutes, unless the API server refuses it.

mod limits;
mod publisher;
mod report;
mod series;
mod write_retries;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube_clock::Clock;
use tokio::sync::mpsc::{self, error::TrySendError};

pub(crate) use self::publisher::Publisher;
pub use self::report::EventReport;
use crate::object::TypedObject;

/// Largest number of events waiting to be written.
const CAPACITY: usize = 1000;

/// Records Kubernetes Events on behalf of a controller.
///
/// Cheap to clone. Reconcilers get it from [`Context::events`](crate::Context::events).
///
/// Repeating an event about the same object within six minutes raises the count of the first event instead of creating another.
/// The first ten repetitions are written at once, later ones whenever the count has doubled. A count that was not written is
/// written six minutes after the last repetition, or after half an hour while the series continues.
#[derive(Debug, Clone)]
#[doc(alias = "EventRecorder")]
pub struct Recorder {
    controller: Arc<str>,
    queue: mpsc::Sender<EventRecord>,
    dropped: Arc<AtomicU64>,
}

/// An event to be written.
#[derive(Debug, Clone, PartialEq)]
struct EventRecord {
    controller: Arc<str>,
    regarding: ObjectReference,
    report: EventReport,
}

impl Recorder {
    /// Makes a recorder, and the task that writes the events of it and its clones.
    pub(crate) fn new(client: kube::Client, rng: fastrand::Rng, clock: Clock) -> (Self, Publisher) {
        let (queue, records) = mpsc::channel(CAPACITY);
        let recorder = Self { controller: Arc::from(""), queue, dropped: Arc::default() };
        (recorder, Publisher::new(client, records, rng, clock))
    }

    /// A recorder that reports on behalf of a controller.
    pub(crate) fn named(&self, controller: &str) -> Self {
        Self { controller: Arc::from(controller), ..self.clone() }
    }

    /// Records a normal event: [`Recorder::record`] of an [`EventReport::normal`].
    pub fn normal(&self, object: &impl TypedObject, reason: &str, action: &str, note: impl Into<String>) {
        self.record(object, EventReport::normal(reason, action, note));
    }

    /// Records a warning: [`Recorder::record`] of an [`EventReport::warning`].
    pub fn warning(&self, object: &impl TypedObject, reason: &str, action: &str, note: impl Into<String>) {
        self.record(object, EventReport::warning(reason, action, note));
    }

    /// Records an event about an object. For an object of a kind known at run time, pass the kind with it:
    ///
    /// ```
    /// use controller_runtime::{DynamicKind, EventReport, Recorder};
    /// use kube::core::DynamicObject;
    ///
    /// fn report(events: &Recorder, kind: &DynamicKind, widget: &DynamicObject) {
    ///     events.record(&kind.object(widget), EventReport::normal("Scaled", "Scale", "three pieces"));
    /// }
    /// ```
    #[doc(alias = "Eventf")]
    pub fn record(&self, object: &impl TypedObject, report: EventReport) {
        let controller = Arc::clone(&self.controller);
        // Never waits, so that events do not delay a reconcile.
        match self.queue.try_send(EventRecord { controller, regarding: object.reference(), report }) {
            Ok(()) => {}
            Err(TrySendError::Full(lost)) => {
                let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
                let (controller, reason) = (&*self.controller, lost.report.reason);
                tracing::warn!(
                    controller,
                    dropped,
                    "Kubernetes Event {reason} dropped: too many events are waiting to be written"
                );
            }
            Err(TrySendError::Closed(lost)) => {
                let (controller, reason) = (&*self.controller, lost.report.reason);
                tracing::debug!(controller, "Kubernetes Event {reason} dropped: the manager has stopped");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    /// A recorder without a task that writes.
    fn unwritten() -> (Recorder, mpsc::Receiver<EventRecord>) {
        let (queue, records) = mpsc::channel(CAPACITY);
        (Recorder { controller: Arc::from("test"), queue, dropped: Arc::default() }, records)
    }

    #[test]
    fn events_beyond_the_queue_capacity_are_dropped_and_counted() {
        let (recorder, mut records) = unwritten();
        let map = ConfigMap::default();
        for number in 0..CAPACITY + 7 {
            recorder.clone().normal(&map, "Fine", "Look", number.to_string());
        }
        assert_eq!(recorder.dropped.load(Ordering::Relaxed), 7, "of all clones together");
        let notes: Vec<_> =
            std::iter::from_fn(|| records.try_recv().ok()).map(|record| record.report.note).collect();
        assert_eq!((notes.len(), &*notes[0], &*notes[CAPACITY - 1]), (CAPACITY, "0", "999"));
        recorder.normal(&map, "Fine", "Look", "there is room again");
        assert!(records.try_recv().is_ok());
    }

    #[test]
    fn recording_after_the_stop_does_nothing() {
        let (recorder, records) = unwritten();
        drop(records);
        recorder.warning(&ConfigMap::default(), "Late", "Look", "no writer runs");
        assert_eq!(recorder.dropped.load(Ordering::Relaxed), 0, "none was dropped for want of room");
    }
}
