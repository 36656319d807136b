//! Task that writes recorded events to the API server.

use std::future::{Future, pending};

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
use kube_clock::Clock;
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{Duration, Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    EventRecord, limits,
    series::{Occurrences, Publish, Series, UnwrittenCount},
    write_retries::{EventWrite, WriteAttempt, WriteRetries},
};
use crate::{client::describe, host::hostname};

/// Writes recorded events.
pub(crate) struct Publisher {
    client: kube::Client,
    host: String,
    records: mpsc::Receiver<EventRecord>,
    series: Series,
    retries: WriteRetries,
    rng: fastrand::Rng,
    clock: Clock,
}

impl Publisher {
    pub(super) fn new(
        client: kube::Client,
        records: mpsc::Receiver<EventRecord>,
        rng: fastrand::Rng,
        clock: Clock,
    ) -> Self {
        let (series, retries) = (Series::default(), WriteRetries::default());
        Self { client, host: hostname(), records, series, retries, rng, clock }
    }

    /// Writes events until `last` is cancelled, then those recorded before. Events that wait for a retry are then
    /// tried for the last time. Counts of unfinished series stay as last written, as with client-go.
    ///
    /// Dropping the future loses the waiting events.
    pub(crate) async fn run(mut self, last: CancellationToken) {
        loop {
            let (due, unwritten) = (self.retries.due(), self.series.due());
            tokio::select! {
                biased;
                // Closing keeps the records that are queued; `recv` returns `None` after them.
                () = last.cancelled(), if !self.records.is_closed() => self.records.close(),
                // Retries and counts that are due first, which roughly keeps the order in which events were recorded.
                () = at(due) => if let Some(attempt) = self.retries.pop() {
                    self.attempt(attempt).await;
                },
                () = at(unwritten) => if let Some(unwritten) = self.series.unwritten(Instant::now()) {
                    self.write_count(unwritten).await;
                },
                record = self.records.recv() => match record {
                    Some(record) => self.publish(record).await,
                    None => break,
                },
            }
        }
        // One last attempt each, without more pauses.
        while let Some(attempt) = self.retries.pop() {
            if let Err(error) = self.write(&attempt).await {
                self.give_up(&attempt, &error);
            }
        }
    }

    /// Writes a recorded event, unless a later write includes it.
    async fn publish(&mut self, record: EventRecord) {
        let (suffix, last) = (self.rng.u64(..), Instant::now());
        let (name, count, write) = match self.series.observe(&record, last, suffix) {
            Publish::Create { name } => (name, 1, EventWrite::Create),
            // The waiting write will include the count.
            Publish::Repeat { name, .. } if self.retries.contains(&name) => return,
            Publish::Repeat { name, count } => (name, count, EventWrite::Update),
            Publish::Later => return,
        };
        self.attempt(WriteAttempt { name, record, write, seen: Occurrences { count, last }, failures: 0 })
            .await;
    }

    /// Writes a count that was not written when the event was repeated.
    async fn write_count(&mut self, unwritten: UnwrittenCount) {
        let UnwrittenCount { name, record, seen } = unwritten;
        // The waiting attempt is replaced by this one, which has the final count.
        let write = self.retries.take(&name).map_or(EventWrite::Update, |waiting| waiting.write);
        self.attempt(WriteAttempt { name, record, write, seen, failures: 0 }).await;
    }

    /// Writes an event. After a failure it is stored for a retry, if that may succeed.
    async fn attempt(&mut self, attempt: WriteAttempt) {
        let Err(error) = self.write(&attempt).await else { return };
        if is_final(&error) {
            return self.give_up(&attempt, &error);
        }
        let chance = self.rng.f64();
        if let Some(attempt) = self.retries.put(attempt, Instant::now(), chance) {
            self.give_up(&attempt, &error);
        }
    }

    /// Gives up an event that could not be written.
    fn give_up(&mut self, attempt: &WriteAttempt, error: &kube::Error) {
        let (event, failures) = (&attempt.name, attempt.failures);
        tracing::warn!(event, failures, "Kubernetes Event not written: {}", describe(error));
        // Otherwise the next repetition would patch an event that does not exist.
        self.series.forget(&attempt.record, &attempt.name);
    }

    async fn write(&self, attempt: &WriteAttempt) -> Result<(), kube::Error> {
        let WriteAttempt { name, record, .. } = attempt;
        // The current count, because more repetitions may have been recorded since the attempt was made.
        let seen = self.series.seen(record, name).unwrap_or(attempt.seen);
        let written = match attempt.write {
            EventWrite::Create => self.create(record, name, seen).await,
            EventWrite::Update => self.update_count(record, name, seen).await,
        };
        match written {
            // Events expire after about an hour, and the series may have outlived its event.
            Err(kube::Error::Api(status)) if status.code == 404 && attempt.write == EventWrite::Update => {
                self.create(record, name, seen).await
            }
            // An earlier attempt has succeeded, but its response was lost.
            Err(kube::Error::Api(status))
                if status.is_already_exists() && attempt.write == EventWrite::Create =>
            {
                Ok(())
            }
            written => written,
        }
    }

    async fn create(&self, record: &EventRecord, name: &str, seen: Occurrences) -> Result<(), kube::Error> {
        let namespace = namespace_of(&record.regarding);
        let mut event = Event::default();
        event.metadata.name = Some(name.to_owned());
        event.metadata.namespace = Some(namespace.to_owned());
        event.event_time = Some(MicroTime(self.clock.now()));
        event.reporting_controller = Some(limits::controller(&record.controller));
        event.reporting_instance = Some(limits::instance(&record.controller, &self.host));
        let report = &record.report;
        event.type_ = Some(format!("{:?}", report.kind));
        event.reason = Some(report.reason.clone());
        event.action = Some(report.action.clone());
        event.note = Some(report.note.clone());
        event.regarding = Some(record.regarding.clone());
        event.related = report.related.clone();
        event.metadata.annotations = (!report.annotations.is_empty()).then(|| report.annotations.clone());
        event.series = (seen.count > 1).then(|| EventSeries {
            count: seen.count.try_into().unwrap_or(i32::MAX),
            last_observed_time: self.last_observed(seen),
        });
        let (events, params) = (self.events(namespace), PostParams::default());
        within(events.create(&params, &event)).await
    }

    async fn update_count(
        &self,
        record: &EventRecord,
        name: &str,
        seen: Occurrences,
    ) -> Result<(), kube::Error> {
        let last = self.last_observed(seen);
        let patch = Patch::Merge(json!({ "series": { "count": seen.count, "lastObservedTime": last } }));
        let (events, params) = (self.events(namespace_of(&record.regarding)), PatchParams::default());
        within(events.patch(name, &params, &patch)).await
    }

    fn last_observed(&self, seen: Occurrences) -> MicroTime {
        MicroTime(self.clock.at(seen.last))
    }

    fn events(&self, namespace: &str) -> Api<Event> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

/// Returns whether another attempt would fail in the same way. Failures that client-go's client retries, of a busy or failing
/// server, are not final.
fn is_final(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code < 500 && status.code != 429,
        kube::Error::Service(_) | kube::Error::HyperError(_) => false,
        _ => true,
    }
}

/// Completes at this time; never without one.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// Namespace of events about the object: the object's own, or `default` for cluster-scoped objects.
fn namespace_of(regarding: &ObjectReference) -> &str {
    regarding.namespace.as_deref().unwrap_or("default")
}

/// Limits the time of a write, so that one event does not delay the others for long.
async fn within(write: impl Future<Output = Result<Event, kube::Error>>) -> Result<(), kube::Error> {
    const LIMIT: Duration = Duration::from_secs(10);
    match timeout(LIMIT, write).await {
        Ok(written) => written.map(|_| ()),
        Err(elapsed) => Err(kube::Error::Service(elapsed.into())),
    }
}
