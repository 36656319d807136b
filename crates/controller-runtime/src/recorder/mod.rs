//! Kubernetes Events: what a controller did and why, for `kubectl describe` and `kubectl events`.
//!
//! Recording never waits: events go through a bounded queue to a task of the manager, which writes them. When the API
//! server is slower than the events come, the newest are dropped and counted in the log, and no reconcile notices.

mod series;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{sync::mpsc, time::Instant};

use self::series::{Publish, Series};
use crate::{clock::Clock, object::Object};

/// How many events may wait to be written.
const CAPACITY: usize = 1000;

/// Records events in the name of a controller.
///
/// Cheap to clone; a reconciler finds one in its [`Context`](crate::Context).
///
/// The same event about the same object again within six minutes raises the count of the first one instead of making
/// another.
#[derive(Debug, Clone)]
#[doc(alias = "EventRecorder")]
pub struct Recorder {
    controller: Arc<str>,
    queue: mpsc::Sender<Record>,
    dropped: Arc<AtomicU64>,
}

/// An event to be written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub(crate) controller: Arc<str>,
    pub(crate) regarding: ObjectReference,
    pub(crate) kind: EventType,
    pub(crate) reason: String,
    pub(crate) action: String,
    pub(crate) note: String,
}

/// Whether an event is good news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventType {
    Normal,
    Warning,
}

impl Recorder {
    /// A recorder, and the task that writes what it and its clones record.
    pub(crate) fn new(
        client: kube::Client,
        instance: String,
        rng: fastrand::Rng,
        clock: Clock,
    ) -> (Self, Publisher) {
        let (queue, records) = mpsc::channel(CAPACITY);
        let recorder = Self {
            controller: Arc::from(""),
            queue,
            dropped: Arc::default(),
        };
        (
            recorder,
            Publisher {
                client,
                instance,
                records,
                rng,
                clock,
            },
        )
    }

    /// The same recorder in the name of a controller.
    pub(crate) fn named(&self, controller: &str) -> Self {
        Self {
            controller: Arc::from(controller),
            ..self.clone()
        }
    }

    /// Records that things go as they should. `reason` and `action` are single words in `CamelCase`, e.g. `Scaled`
    /// and `Scale`; `note` is a sentence for a person.
    pub fn normal<K: Object>(&self, object: &K, reason: &str, action: &str, note: impl Into<String>) {
        self.record(object, EventType::Normal, reason, action, note.into());
    }

    /// Records that something needs attention. `reason` and `action` are single words in `CamelCase`, e.g.
    /// `FailedCreate` and `Create`; `note` is a sentence for a person.
    pub fn warning<K: Object>(&self, object: &K, reason: &str, action: &str, note: impl Into<String>) {
        self.record(object, EventType::Warning, reason, action, note.into());
    }

    fn record<K: Object>(&self, object: &K, kind: EventType, reason: &str, action: &str, mut note: String) {
        /// The API server refuses longer notes.
        const LONGEST_NOTE: usize = 1024;
        note.truncate(note.floor_char_boundary(LONGEST_NOTE));
        let record = Record {
            controller: Arc::clone(&self.controller),
            regarding: object.object_ref(&()),
            kind,
            reason: reason.to_owned(),
            action: action.to_owned(),
            note,
        };
        if self.queue.try_send(record).is_err() {
            let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
            tracing::warn!(
                controller = &*self.controller,
                dropped,
                "event {reason} dropped: too many wait to be written"
            );
        }
    }
}

/// Writes what recorders recorded.
pub(crate) struct Publisher {
    client: kube::Client,
    instance: String,
    records: mpsc::Receiver<Record>,
    rng: fastrand::Rng,
    clock: Clock,
}

impl Publisher {
    /// Writes until every recorder is gone and the queue is empty.
    ///
    /// Dropping the future loses the events that wait.
    pub(crate) async fn run(mut self) {
        let mut series = Series::default();
        while let Some(record) = self.records.recv().await {
            let suffix = self.rng.u64(..);
            let now = self.clock.now();
            let result = match series.observe(&record, Instant::now(), suffix) {
                Publish::Create { name } => self.create(record, name, now).await,
                Publish::Repeat { name, count } => {
                    self.repeat(namespace_of(&record.regarding), &name, count, now)
                        .await
                }
            };
            if let Err(error) = result {
                tracing::warn!("event not written: {}", crate::client::describe(&error));
            }
        }
    }

    async fn create(&self, record: Record, name: String, now: Timestamp) -> Result<(), kube::Error> {
        let namespace = namespace_of(&record.regarding).to_owned();
        let mut event = Event::default();
        event.metadata.name = Some(name);
        event.metadata.namespace = Some(namespace.clone());
        event.event_time = Some(MicroTime(now));
        event.reporting_controller = Some(record.controller.to_string());
        event.reporting_instance = Some(self.instance.clone());
        event.type_ = Some(format!("{:?}", record.kind));
        event.reason = Some(record.reason);
        event.action = Some(record.action);
        event.note = Some(record.note);
        event.regarding = Some(record.regarding);
        self.events(&namespace)
            .create(&PostParams::default(), &event)
            .await
            .map(|_| ())
    }

    async fn repeat(
        &self,
        namespace: &str,
        name: &str,
        count: u32,
        now: Timestamp,
    ) -> Result<(), kube::Error> {
        let last = MicroTime(now);
        let patch = json!({ "series": { "count": count, "lastObservedTime": last } });
        let params = PatchParams::default();
        match self
            .events(namespace)
            .patch(name, &params, &Patch::Merge(patch))
            .await
        {
            // The first event outlived its time to live: the next repetition after the series ends makes a new one.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            result => result.map(|_| ()),
        }
    }

    fn events(&self, namespace: &str) -> Api<Event> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

/// Where events about the object are kept: with it, or in `default` for cluster-scoped ones.
fn namespace_of(regarding: &ObjectReference) -> &str {
    regarding.namespace.as_deref().unwrap_or("default")
}
