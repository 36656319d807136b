//! A controller, as explanations see it, whatever the type of its requests.

use std::sync::Arc;

use super::sources::Sources;
use crate::{
    findings::Finding,
    reconcile::Request,
    request_queue::{Explain, Explanation, Overview, RequestQueue},
};

/// Queue and sources of a controller. May outlive it.
pub(crate) struct ExplainedController<R: Request> {
    pub(super) requests: RequestQueue<R>,
    pub(super) sources: Arc<Sources<R>>,
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

    fn findings(&self) -> Vec<Finding> {
        self.requests.long_back_offs()
    }
}
