//! A controller, as explanations see it, whatever the type of its requests.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::{sources::Sources, worker_pool::WantedWorkers};
use crate::{
    findings::{Finding, objects::LastFailure},
    reconcile::Request,
    request_queue::{Explain, Explanation, Overview, RequestQueue},
};

/// Queue, sources and workers of a controller. May outlive it.
pub(crate) struct ExplainedController<R: Request> {
    pub(super) requests: RequestQueue<R>,
    pub(super) sources: Arc<Sources<R>>,
    pub(super) wanted_workers: Arc<WantedWorkers>,
}

impl<R: Request> Explain for ExplainedController<R> {
    fn overview(&self) -> Overview {
        self.requests.overview()
    }

    fn explain_text(&self, text: &str) -> Result<Explanation, Vec<String>> {
        self.requests.explain_text(text)
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
