use std::future::Future;

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
    sync::mpsc,
    time::{Duration, Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Record, limits,
    series::{Publish, Series},
};
use crate::{client::describe, clock::Clock};

/// Writes what recorders recorded.
pub(crate) struct Publisher {
    client: kube::Client,
    instance: String,
    records: mpsc::Receiver<Record>,
    rng: fastrand::Rng,
    clock: Clock,
}

impl Publisher {
    pub(super) fn new(
        client: kube::Client,
        instance: String,
        records: mpsc::Receiver<Record>,
        rng: fastrand::Rng,
        clock: Clock,
    ) -> Self {
        Self { client, instance, records, rng, clock }
    }

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
        event.reporting_controller = Some(limits::controller(&record.controller));
        event.reporting_instance = Some(self.instance.clone());
        let report = &record.report;
        event.type_ = Some(format!("{:?}", report.kind));
        event.reason = Some(report.reason.clone());
        event.action = Some(report.action.clone());
        event.note = Some(report.note.clone());
        event.regarding = Some(record.regarding.clone());
        event.related = report.related.clone();
        event.metadata.annotations = (!report.annotations.is_empty()).then(|| report.annotations.clone());
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
