//! View of a controller for explanations, independent of the type of its requests.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::time::Instant;

use super::{sources::Sources, worker_pool::WantedWorkers};
use crate::{
    findings::{Finding, stuck_objects::LastFailure},
    metrics::ControllerMetrics,
    reconcile::Request,
    request_queue::{
        Detail, Explain, Explanation, Overview, RequestFilter, RequestPage, RequestQueue, Summary,
    },
};

/// Queue, sources and number of workers of a controller. May outlive the controller.
pub(crate) struct ExplainedController<R: Request> {
    pub(super) requests: RequestQueue<R>,
    pub(super) sources: Arc<Sources<R>>,
    pub(super) wanted_workers: Arc<WantedWorkers>,
    pub(super) kind: Option<String>,
    pub(super) needs_leader_election: bool,
    pub(super) metrics: ControllerMetrics,
}

impl<R: Request> Explain for ExplainedController<R> {
    fn overview(&self) -> Overview {
        self.requests.overview()
    }

    fn last_due(&self, limit: Instant) -> Option<Instant> {
        self.requests.last_due(limit)
    }

    fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    fn needs_leader_election(&self) -> bool {
        self.needs_leader_election
    }

    fn summary(&self) -> Summary {
        let (runs, failures) = self.metrics.runs();
        let workers = *self.wanted_workers.borrow();
        Summary { kind: self.kind.clone(), workers, runs, failures, ..self.requests.summary() }
    }

    fn detail(&self) -> Detail {
        Detail {
            summary: self.summary(),
            sources: self.sources(),
            by_rule: self.requests.by_rule(),
            by_source: self.metrics.runs_by_cause(),
            errors: self.requests.errors(),
            failed_events: self.requests.first_failed_events(),
        }
    }

    fn requests<'s>(&'s self, filter: &'s RequestFilter) -> BoxFuture<'s, RequestPage> {
        Box::pin(self.requests.list(filter))
    }

    fn explain_text<'s>(&'s self, text: &'s str) -> BoxFuture<'s, Result<Explanation, Vec<String>>> {
        Box::pin(self.requests.explain_text(text))
    }

    fn retry<'s>(&'s self, text: &'s str) -> BoxFuture<'s, Result<Explanation, Vec<String>>> {
        Box::pin(self.requests.retry(text))
    }

    fn explain_named(&self, text: &str) -> Result<Explanation, Vec<String>> {
        self.requests.explain_named(text)
    }

    fn sources(&self) -> Vec<String> {
        self.sources.names()
    }

    fn findings(&self) -> BoxFuture<'_, Vec<Finding>> {
        Box::pin(async {
            let workers = *self.wanted_workers.borrow();
            let mut findings = self.requests.self_triggers();
            findings.extend(self.requests.starved(workers).await);
            findings.append(&mut self.requests.long_back_offs());
            findings
        })
    }

    fn last_failure_of(&self, object: &str) -> Option<LastFailure> {
        self.requests.last_failure_of(object)
    }
}
