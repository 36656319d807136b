//! What a controller tells whoever knows its requests by their text alone.

use std::fmt;

use kube_workqueue::KeyState;
use serde::Serialize;

use super::{Explanation, FailedEvent, Inbox, near::near};
use crate::reconcile::Request;

/// How it stands with a controller's requests.
///
/// Its `Display` form is a story for a person, its `Serialize` form the same for a program.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// The controller.
    pub controller: String,
    /// How many requests are in line for a worker.
    pub queued: usize,
    /// How many will be in line later.
    pub waiting: usize,
    /// How many are being reconciled.
    pub running: usize,
    /// The requests whose last run failed, the one that failed longest ago first: of the 1024 that ran last.
    pub failing: Vec<Failing>,
    /// Events that a predicate or handler has failed to handle: the first 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_events: Vec<FailedEvent>,
}

/// How many failed events an overview has at most.
pub(super) const FAILED_EVENTS: usize = 100;

/// A request whose last run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub struct Failing {
    /// The request as its `Debug` form names it, e.g. `Deployment default/web`.
    pub request: String,
    /// What went wrong.
    pub error: String,
}

/// A controller of any type of requests.
pub(crate) trait Explain: Send + Sync {
    /// How it stands with all requests.
    fn overview(&self) -> Overview;

    /// Explains the request of that text. If there is no such request in the queue or among those that ran last, returns
    /// some that are spelt like it.
    fn explain_text(&self, text: &str) -> Result<Explanation, Vec<String>>;
}

impl<R: Request> Explain for Inbox<R> {
    fn overview(&self) -> Overview {
        let (mut queued, mut waiting, mut running) = (0, 0, 0);
        for seen in self.queue.snapshot() {
            match seen.state {
                KeyState::Ready { .. } => queued += 1,
                KeyState::Waiting(_) => waiting += 1,
                KeyState::Processing { .. } => running += 1,
                _ => {}
            }
        }
        let failing = |request: &R| Failing {
            request: format!("{request:?}"),
            error: self.tracker.last_error(request).unwrap_or_default(),
        };
        let failing = self.tracker.failing().iter().map(failing).collect();
        let failed_events = self.failed_events.first(FAILED_EVENTS, None);
        Overview { controller: self.controller.to_string(), queued, waiting, running, failing, failed_events }
    }

    fn explain_text(&self, text: &str) -> Result<Explanation, Vec<String>> {
        let queued = self.queue.snapshot().map(|seen| seen.key).find(|request| is_named(request, text));
        match queued.or_else(|| self.tracker.find(|request| is_named(request, text))) {
            Some(request) => Ok(self.explain(&request)),
            None => {
                let ran = self.tracker.ran().into_iter();
                let known = ran.chain(self.queue.snapshot().map(|seen| seen.key));
                Err(near(text, known.map(|request| format!("{request:?}"))))
            }
        }
    }
}

/// Whether `text` is how a person names the request: its `Debug` form, without the kind in front if there is one.
fn is_named<R: Request>(request: &R, text: &str) -> bool {
    let whole = format!("{request:?}");
    whole == text || whole.split_once(' ').is_some_and(|(_, name)| name == text)
}

/// The story, a line for each failing request.
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
