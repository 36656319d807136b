//! Summaries and explanations of a controller's requests, independent of their type.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use kube_workqueue::{AddOptions, KeyState, Reason};
use serde::Serialize;
use tokio::time::Instant;

use super::{
    Detail, RequestFilter, RequestPage, RequestQueue, Summary, explain::Explanation,
    failed_events::FailedEvent, name_of, near::near,
};
use crate::{
    findings::{
        Finding,
        back_off::{self, BackOff},
        self_triggers::Loop,
        starvation::{self, Flows},
        stuck_objects::LastFailure,
    },
    pace::Pace,
    reconcile::Request,
};

/// Summary of a controller's requests.
///
/// `Display` prints text for people, `Serialize` the same content for programs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// Name of the controller.
    pub controller: String,
    /// Number of requests queued for a worker.
    pub queued: usize,
    /// Number of requests that wait for a time.
    pub waiting: usize,
    /// Number of requests being reconciled.
    pub running: usize,
    /// Failing requests among the 1024 that ran last, ordered by the time of their last run, oldest first.
    pub failing: Vec<Failing>,
    /// Events that a predicate or handler failed to handle: the first 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_events: Vec<FailedEvent>,
}

/// Largest number of failed events in an overview.
pub(crate) const FAILED_EVENTS: usize = 100;

/// Name of the source of runs that a user requests.
const RETRY: &str = "retry by a user";

/// Largest number of requests of a controller with findings of their own.
const NAMED: usize = 16;

/// A request with a failed last run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub struct Failing {
    /// The request in its `Debug` form, e.g. `Deployment default/web`.
    pub request: String,
    /// Error of the last run.
    pub error: String,
}

/// Explanations of a controller, independent of the type of its requests.
pub(crate) trait Explain: Send + Sync {
    /// Summary of all requests.
    fn overview(&self) -> Overview;

    /// Latest time up to `limit` at which a waiting request is due. Visits the whole queue.
    fn last_due(&self, limit: Instant) -> Option<Instant>;

    /// The kind that it reconciles, e.g. `Deployment.apps`; `None` if its requests are not keys of objects.
    fn kind(&self) -> Option<&str>;

    /// Whether the controller reconciles only while its process leads.
    fn needs_leader_election(&self) -> bool;

    /// Numbers of the controller. Their cost does not depend on the length of the queue.
    fn summary(&self) -> Summary;

    /// More about the controller, at a cost that does not depend on the length of the queue either.
    fn detail(&self) -> Detail;

    /// Lists requests, in no particular order. Yields in between.
    fn requests<'s>(&'s self, filter: &'s RequestFilter) -> BoxFuture<'s, RequestPage>;

    /// Explains the request named by the text. If there is no such request in the queue or among those that ran last, and no
    /// failed event of an object of that name, returns some with similar names. Visits the queue only if the requests are of a type
    /// that cannot be made from a text, and yields in between.
    fn explain_text<'s>(&'s self, text: &'s str) -> BoxFuture<'s, Result<Explanation, Vec<String>>>;

    /// Like [`explain_text`](Self::explain_text), but does not yield.
    fn explain_named(&self, text: &str) -> Result<Explanation, Vec<String>>;

    /// Lets the request named by the text run now, even if it waits for a delay, and explains it. If there is no such request in the
    /// queue or among those that ran last, returns some with similar names.
    fn retry<'s>(&'s self, text: &'s str) -> BoxFuture<'s, Result<Explanation, Vec<String>>>;

    /// Names of the controller's sources: those of kinds have the name of the resource.
    fn sources(&self) -> Vec<String>;

    /// Findings about the controller's requests. Visits all of them if one has been queued for long, and yields in between.
    fn findings(&self) -> BoxFuture<'_, Vec<Finding>>;

    /// The last run of the request whose namespace and name are `object`, if that run failed.
    fn last_failure_of(&self, object: &str) -> Option<LastFailure>;
}

impl<R: Request> RequestQueue<R> {
    pub(crate) fn overview(&self) -> Overview {
        let gauges = self.queue.gauges();
        let (queued, waiting) = (gauges.depth.iter().sum(), gauges.waiting.iter().sum());
        let failing = |request: &R| Failing {
            request: format!("{request:?}"),
            error: self.tracker.last_error(request).unwrap_or_default(),
        };
        let failing = self.tracker.failing().iter().map(failing).collect();
        let failed_events = self.failed_events.first(FAILED_EVENTS, None);
        let (controller, running) = (self.controller.to_string(), gauges.processing);
        Overview { controller, queued, waiting, running, failing, failed_events }
    }

    /// See [`Explain::last_due`].
    pub(crate) fn last_due(&self, limit: Instant) -> Option<Instant> {
        let due = |state| match state {
            KeyState::Waiting(waiting) => Some(waiting.until),
            _ => None,
        };
        self.queue.snapshot().filter_map(|seen| due(seen.state)).filter(|due| *due <= limit).max()
    }

    /// Explains the request named by the text, like [`Explain::explain_text`], but without pauses.
    pub(crate) fn explain_named(&self, text: &str) -> Result<Explanation, Vec<String>> {
        let known = match self.parse {
            Some(parse) => parse(text).filter(|request| self.is_known(request, text)),
            None => {
                let queued = self.queue.snapshot().map(|seen| seen.key);
                queued.chain(self.tracker.ran()).find(|request| is_named(request, text))
            }
        };
        self.explain_known(known, text)
    }

    /// See [`Explain::explain_text`].
    pub(crate) async fn explain_text(&self, text: &str) -> Result<Explanation, Vec<String>> {
        let known = self.find(text).await;
        self.explain_known(known, text)
    }

    /// See [`Explain::retry`].
    pub(crate) async fn retry(&self, text: &str) -> Result<Explanation, Vec<String>> {
        let known = self.find(text).await;
        if let Some(request) = &known {
            self.add(&Arc::from(RETRY), request.clone(), AddOptions::default().urgent());
        }
        self.explain_known(known, text)
    }

    /// The request named by the text, in the queue or among those that ran last.
    async fn find(&self, text: &str) -> Option<R> {
        if let Some(parse) = self.parse {
            return parse(text).filter(|request| self.is_known(request, text));
        }
        let mut pace = Pace::begin();
        for request in self.queue.snapshot().map(|seen| seen.key).chain(self.tracker.ran()) {
            if is_named(&request, text) {
                return Some(request);
            }
            pace.step().await;
        }
        None
    }

    fn is_known(&self, request: &R, text: &str) -> bool {
        let is_there = self.queue.snapshot_of(request).is_some() || self.tracker.has_run(request);
        is_there && is_named(request, text)
    }

    fn explain_known(&self, known: Option<R>, text: &str) -> Result<Explanation, Vec<String>> {
        if let Some(request) = known {
            return Ok(self.explain(&request));
        }
        // Its only events may have failed, so that no handler has enqueued it.
        let failed_events = self.failed_events_of(text);
        if !failed_events.is_empty() {
            return Ok(Explanation::of_failed_events(&self.controller, text, failed_events));
        }
        let ran = self.tracker.ran().into_iter();
        let known = ran.chain(self.queue.snapshot().map(|seen| seen.key));
        Err(near(text, known.map(|request| format!("{request:?}"))))
    }

    /// Requests that run again and again because of their own writes.
    pub(crate) fn self_triggers(&self) -> Vec<Finding> {
        let now = Instant::now();
        let loops = self.tracker.in_chains(|chain| chain.as_loop(now));
        let finding = |(request, found): &(R, Loop)| {
            found.finding(&format!("{request:?}"), &self.controller, self.clock)
        };
        loops.iter().take(NAMED).map(finding).collect()
    }

    /// A finding if nearly all `workers` are busy with requests of one flow, and a request of another flow has been queued for long.
    pub(crate) async fn starved(&self, workers: usize) -> Option<Finding> {
        let now = Instant::now();
        let Some(KeyState::Ready { since: Some(oldest) }) = self.queue.oldest_ready().map(|seen| seen.state)
        else {
            return None;
        };
        // Checked before the keys are counted, because that visits all of them.
        if now.saturating_duration_since(oldest) < starvation::LONG {
            return None;
        }
        let (mut flows, mut pace) = (Flows::default(), Pace::begin());
        for seen in self.queue.snapshot() {
            let flow = || match &seen.flow {
                Some(flow) => flow.to_string(),
                // A queue without flows is examined by namespace.
                None => name_of(&seen.key)
                    .split_once('/')
                    .map(|(namespace, _)| namespace.to_owned())
                    .unwrap_or_default(),
            };
            match seen.state {
                KeyState::Processing { .. } => flows.add_running(&flow()),
                KeyState::Ready { since: Some(since) } => {
                    flows.add_queued(&flow(), || format!("{:?}", seen.key), since);
                }
                _ => {}
            }
            pace.step().await;
        }
        flows.finding(&self.controller, workers, now, self.clock)
    }

    /// See [`Explain::last_failure_of`].
    pub(crate) fn last_failure_of(&self, object: &str) -> Option<LastFailure> {
        let failing = self.tracker.failing();
        let request = failing.iter().find(|request| name_of(*request) == object)?;
        let (ended, error) = self.tracker.last_failure(request)?;
        Some(LastFailure { controller: self.controller.to_string(), ended, error })
    }

    /// Findings about requests that wait for long: the first [`NAMED`], and one for the rest.
    pub(crate) fn long_back_offs(&self) -> Vec<Finding> {
        let (now, clock) = (self.clock.now(), self.clock);
        let waits = |request: &R| {
            let waiting = self.queue.when(request).filter(|waiting| waiting.why == Reason::RateLimited)?;
            let (last, error) = self.tracker.last_failure(request)?;
            let back_off = BackOff {
                controller: &self.controller,
                request: format!("{request:?}"),
                failures: self.queue.num_requeues(request),
                error,
                last,
                until: clock.at(waiting.until),
            };
            back_off.finding(now)
        };
        let mut findings: Vec<Finding> = self.tracker.failing().iter().filter_map(waits).collect();
        let more = findings.len().saturating_sub(NAMED);
        findings.truncate(NAMED);
        // The first finding is that of the oldest failure.
        let rest = (more > 0).then(|| back_off::more(&self.controller, more, findings[0].since));
        findings.into_iter().chain(rest).collect()
    }
}

/// Returns whether `text` names the request: by its `Debug` form, with or without the kind in front.
fn is_named<R: Request>(request: &R, text: &str) -> bool {
    let whole = format!("{request:?}");
    whole == text || whole.split_once(' ').is_some_and(|(_, name)| name == text)
}

/// A line for the controller, and one for each failing request.
impl fmt::Display for Overview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { controller, queued, waiting, running, failing, failed_events } = self;
        writeln!(
            f,
            "controller {controller}: {running} running, {queued} queued, {waiting} waiting, {} failing",
            failing.len()
        )?;
        failing.iter().try_for_each(|Failing { request, error }| writeln!(f, "  {request}: {error}"))?;
        failed_events.iter().try_for_each(|event| writeln!(f, "  {event}"))
    }
}
