//! Kubernetes Events: what a controller did and why, for `kubectl describe` and `kubectl events`.
//!
//! Recording never waits: events go through a bounded queue to a task of the manager, which writes them. When the API
//! server is slower than the events come, the newest are dropped and counted in the log, and no reconcile notices. One that
//! could not be written is tried again for two minutes, unless the API server refuses it.

mod limits;
mod publisher;
mod report;
mod retries;
mod series;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube_clock::Clock;
use tokio::sync::mpsc::{self, error::TrySendError};

pub(crate) use self::publisher::Publisher;
pub use self::report::Report;
use crate::referent::Referent;

/// How many events may wait to be written.
const CAPACITY: usize = 1000;

/// Records events in the name of a controller.
///
/// Cheap to clone; a reconciler finds one in its [`Context`](crate::Context).
///
/// The same event about the same object again within six minutes raises the count of the first one instead of making
/// another. The first ten repetitions are written at once, later ones whenever the count has doubled; and the last count six
/// minutes after it, or after half an hour while the event goes on.
#[derive(Debug, Clone)]
#[doc(alias = "EventRecorder")]
pub struct Recorder {
    controller: Arc<str>,
    queue: mpsc::Sender<Record>,
    dropped: Arc<AtomicU64>,
}

/// An event to be written.
#[derive(Debug, Clone, PartialEq)]
struct Record {
    controller: Arc<str>,
    regarding: ObjectReference,
    report: Report,
}

impl Recorder {
    /// A recorder, and the task that writes what it and its clones record.
    pub(crate) fn new(client: kube::Client, rng: fastrand::Rng, clock: Clock) -> (Self, Publisher) {
        let (queue, records) = mpsc::channel(CAPACITY);
        let recorder = Self { controller: Arc::from(""), queue, dropped: Arc::default() };
        (recorder, Publisher::new(client, records, rng, clock))
    }

    /// The same recorder in the name of a controller.
    pub(crate) fn named(&self, controller: &str) -> Self {
        Self { controller: Arc::from(controller), ..self.clone() }
    }

    /// Records that things go as they should: [`Recorder::record`] of a [`Report::normal`].
    pub fn normal(&self, object: &impl Referent, reason: &str, action: &str, note: impl Into<String>) {
        self.record(object, Report::normal(reason, action, note));
    }

    /// Records that something needs attention: [`Recorder::record`] of a [`Report::warning`].
    pub fn warning(&self, object: &impl Referent, reason: &str, action: &str, note: impl Into<String>) {
        self.record(object, Report::warning(reason, action, note));
    }

    /// Records what happened to an object. Events about one of a kind that is known at run time name that kind:
    ///
    /// ```
    /// use controller_runtime::{Recorder, Report, client::DynamicKind};
    /// use kube::core::DynamicObject;
    ///
    /// fn tell(events: &Recorder, kind: &DynamicKind, widget: &DynamicObject) {
    ///     events.record(&kind.object(widget), Report::normal("Scaled", "Scale", "three pieces"));
    /// }
    /// ```
    #[doc(alias = "Eventf")]
    pub fn record(&self, object: &impl Referent, report: Report) {
        let controller = Arc::clone(&self.controller);
        match self.queue.try_send(Record { controller, regarding: object.reference(), report }) {
            Ok(()) => {}
            Err(TrySendError::Full(lost)) => {
                let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
                let (controller, reason) = (&*self.controller, lost.report.reason);
                tracing::warn!(controller, dropped, "event {reason} dropped: too many wait to be written");
            }
            Err(TrySendError::Closed(lost)) => {
                let (controller, reason) = (&*self.controller, lost.report.reason);
                tracing::debug!(controller, "event {reason} dropped: the manager has stopped");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    /// A recorder of which nobody writes what it records.
    fn unwritten() -> (Recorder, mpsc::Receiver<Record>) {
        let (queue, records) = mpsc::channel(CAPACITY);
        (Recorder { controller: Arc::from("test"), queue, dropped: Arc::default() }, records)
    }

    #[test]
    fn of_more_events_than_may_wait_the_newest_are_dropped_and_counted() {
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
    fn what_is_recorded_after_the_stop_is_no_trouble() {
        let (recorder, records) = unwritten();
        drop(records);
        recorder.warning(&ConfigMap::default(), "Late", "Look", "nobody listens");
        assert_eq!(recorder.dropped.load(Ordering::Relaxed), 0, "none was dropped for want of room");
    }
}
