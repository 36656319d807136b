//! Kubernetes Events: what a controller did and why, for `kubectl describe` and `kubectl events`.
//!
//! Recording never waits: events go through a bounded queue to a task of the manager, which writes them. When the API
//! server is slower than the events come, the newest are dropped and counted in the log, and no reconcile notices.

mod series;

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use k8s_openapi::{
    api::{
        core::v1::ObjectReference,
        events::v1::{Event, EventSeries},
    },
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::{Duration, Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use self::series::{Publish, Series};
use crate::{client::describe, clock::Clock, object::StaticObject};

/// How many events may wait to be written.
const CAPACITY: usize = 1000;

/// Records events in the name of a controller.
///
/// Cheap to clone; a reconciler finds one in its [`Context`](crate::Context).
///
/// The same event about the same object again within six minutes raises the count of the first one instead of making
/// another. The first ten repetitions are written at once, later ones whenever the count has doubled.
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
        let recorder = Self { controller: Arc::from(""), queue, dropped: Arc::default() };
        (recorder, Publisher { client, instance, records, rng, clock })
    }

    /// The same recorder in the name of a controller.
    pub(crate) fn named(&self, controller: &str) -> Self {
        Self { controller: Arc::from(controller), ..self.clone() }
    }

    /// Records that things go as they should. `reason` and `action` are single words in `CamelCase`, e.g. `Scaled`
    /// and `Scale`; `note` is a sentence for a person.
    pub fn normal<K: StaticObject>(&self, object: &K, reason: &str, action: &str, note: impl Into<String>) {
        self.record(object, EventType::Normal, reason, action, note.into());
    }

    /// Records that something needs attention. `reason` and `action` are single words in `CamelCase`, e.g.
    /// `FailedCreate` and `Create`; `note` is a sentence for a person.
    pub fn warning<K: StaticObject>(&self, object: &K, reason: &str, action: &str, note: impl Into<String>) {
        self.record(object, EventType::Warning, reason, action, note.into());
    }

    fn record<K: StaticObject>(
        &self,
        object: &K,
        kind: EventType,
        reason: &str,
        action: &str,
        mut note: String,
    ) {
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
        match self.queue.try_send(record) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
                let controller = &*self.controller;
                tracing::warn!(controller, dropped, "event {reason} dropped: too many wait to be written");
            }
            Err(TrySendError::Closed(_)) => {
                tracing::debug!(
                    controller = &*self.controller,
                    "event {reason} dropped: the manager has stopped"
                );
            }
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
    /// Writes until it is told which events are the last: those recorded before `last` is cancelled.
    ///
    /// Dropping the future loses the events that wait.
    pub(crate) async fn run(mut self, last: CancellationToken) {
        let mut series = Series::default();
        loop {
            let record = tokio::select! {
                biased;
                () = last.cancelled(), if !self.records.is_closed() => {
                    self.records.close();
                    continue;
                }
                record = self.records.recv() => record,
            };
            let Some(record) = record else { return };
            self.publish(&mut series, &record).await;
        }
    }

    async fn publish(&mut self, series: &mut Series, record: &Record) {
        let suffix = self.rng.u64(..);
        let written = match series.observe(record, Instant::now(), suffix) {
            Publish::Create { name } => self.create(record, &name, 1).await,
            Publish::Repeat { name, count } => match self.repeat(record, &name, count).await {
                // Events live for an hour or so: the series outlived the one it began with.
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    self.create(record, &name, count).await
                }
                result => result,
            },
            Publish::Later => return,
        };
        if let Err(error) = written {
            tracing::warn!("event not written: {}", describe(&error));
            series.forget(record);
        }
    }

    async fn create(&self, record: &Record, name: &str, count: u32) -> Result<(), kube::Error> {
        let now = MicroTime(self.clock.now());
        let namespace = namespace_of(&record.regarding);
        let mut event = Event::default();
        event.metadata.name = Some(name.to_owned());
        event.metadata.namespace = Some(namespace.to_owned());
        event.event_time = Some(now.clone());
        event.reporting_controller = Some(record.controller.to_string());
        event.reporting_instance = Some(self.instance.clone());
        event.type_ = Some(format!("{:?}", record.kind));
        event.reason = Some(record.reason.clone());
        event.action = Some(record.action.clone());
        event.note = Some(record.note.clone());
        event.regarding = Some(record.regarding.clone());
        event.series = (count > 1)
            .then(|| EventSeries { count: count.try_into().unwrap_or(i32::MAX), last_observed_time: now });
        let (events, params) = (self.events(namespace), PostParams::default());
        within(events.create(&params, &event)).await
    }

    async fn repeat(&self, record: &Record, name: &str, count: u32) -> Result<(), kube::Error> {
        let last = MicroTime(self.clock.now());
        let patch = Patch::Merge(json!({ "series": { "count": count, "lastObservedTime": last } }));
        let (events, params) = (self.events(namespace_of(&record.regarding)), PatchParams::default());
        within(events.patch(name, &params, &patch)).await
    }

    fn events(&self, namespace: &str) -> Api<Event> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

/// Where events about the object are kept: with it, or in `default` for cluster-scoped ones.
fn namespace_of(regarding: &ObjectReference) -> &str {
    regarding.namespace.as_deref().unwrap_or("default")
}

/// One event must not keep the others waiting for long.
async fn within(write: impl Future<Output = Result<Event, kube::Error>>) -> Result<(), kube::Error> {
    const LIMIT: Duration = Duration::from_secs(10);
    match timeout(LIMIT, write).await {
        Ok(written) => written.map(|_| ()),
        Err(elapsed) => Err(kube::Error::Service(elapsed.into())),
    }
}
