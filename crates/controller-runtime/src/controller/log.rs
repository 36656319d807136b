//! What a controller logs, under the names of Go's fields.

use std::sync::Arc;

use tracing::Span;

use super::config::GroupKind;
use crate::{
    object::{Object, ObjectKey},
    reconcile::{Context, Next, Outcome, Request},
};
use std::time::Duration;

pub(super) type MakeSpan<R> = dyn Fn(&R, &Context) -> Span + Send + Sync;

/// How a controller logs.
pub(crate) struct Log<R: Request> {
    controller: Arc<str>,
    kind: Option<GroupKind>,
    make_span: Box<MakeSpan<R>>,
}

impl<R: Request> Log<R> {
    /// Of a controller of requests of any type. At the level of errors, so that one names its request however little is
    /// logged.
    pub(crate) fn of_requests(controller: &str) -> Self {
        let name: Arc<str> = Arc::from(controller);
        let controller = Arc::clone(&name);
        let make_span = move |request: &R, cx: &Context| {
            tracing::error_span!(
                "reconcile",
                controller = &*name,
                request = ?request,
                reconcileID = %cx.id(),
                attempt = cx.attempt(),
            )
        };
        Self { controller, kind: None, make_span: Box::new(make_span) }
    }

    /// The same with another span.
    pub(super) fn in_span(self, make_span: Option<Box<MakeSpan<R>>>) -> Self {
        Self { make_span: make_span.unwrap_or(self.make_span), ..self }
    }

    pub(crate) fn kind(&self) -> Option<&GroupKind> {
        self.kind.as_ref()
    }

    pub(super) fn span(&self, request: &R, cx: &Context) -> Span {
        (self.make_span)(request, cx)
    }

    pub(super) fn starting_controller(&self) {
        let (group, kind) = self.group_and_kind();
        tracing::info!(
            controller = &*self.controller,
            controllerGroup = group,
            controllerKind = kind,
            "starting Controller"
        );
    }

    pub(super) fn starting_workers(&self, count: usize) {
        let (group, kind) = self.group_and_kind();
        tracing::info!(
            controller = &*self.controller,
            controllerGroup = group,
            controllerKind = kind,
            "worker count" = count,
            "starting workers"
        );
    }

    pub(super) fn waiting_for_workers(&self) {
        let (group, kind) = self.group_and_kind();
        tracing::info!(
            controller = &*self.controller,
            controllerGroup = group,
            controllerKind = kind,
            "shutdown signal received, waiting for all workers to finish"
        );
    }

    pub(super) fn workers_finished(&self) {
        let (group, kind) = self.group_and_kind();
        tracing::info!(
            controller = &*self.controller,
            controllerGroup = group,
            controllerKind = kind,
            "all workers finished"
        );
    }

    fn group_and_kind(&self) -> (Option<&str>, Option<&str>) {
        self.kind.as_ref().map_or((None, None), |kind| (Some(&*kind.group), Some(&*kind.kind)))
    }
}

impl<K: Object> Log<ObjectKey<K>> {
    /// Of a controller of a kind.
    pub(crate) fn of_kind(controller: &str, kind: GroupKind) -> Self {
        let name: Arc<str> = Arc::from(controller);
        let (controller, of) = (Arc::clone(&name), kind.clone());
        let make_span = move |key: &ObjectKey<K>, cx: &Context| {
            tracing::error_span!(
                "reconcile",
                controller = &*name,
                controllerGroup = of.group,
                controllerKind = of.kind,
                namespace = key.namespace(),
                name = key.name(),
                reconcileID = %cx.id(),
                attempt = cx.attempt(),
            )
        };
        Self { controller, kind: Some(kind), make_span: Box::new(make_span) }
    }
}

/// Says that a reconcile panicked and takes its controller with it, within its span.
pub(super) fn observed_panic(text: &str) {
    tracing::info!("Observed a panic in reconciler: {text}");
}

/// Says how a reconcile ended, within its span.
pub(super) fn outcome(outcome: &Outcome, retry: Duration) {
    match outcome {
        Outcome::Returned(Ok(action)) => match action.next {
            Next::Done => tracing::debug!("reconcile successful"),
            Next::Requeue => tracing::debug!("reconcile done, requeueing in {retry:?}"),
            Next::RequeueAfter(delay) => tracing::debug!("reconcile done, requeueing after {delay:?}"),
        },
        Outcome::Returned(Err(error)) if error.is_terminal() => {
            tracing::error!("reconciler error, not retried: {error:#}");
        }
        Outcome::Returned(Err(error)) => tracing::error!("reconciler error, retried in {retry:?}: {error:#}"),
        Outcome::Panicked(message) => tracing::error!("reconciler panicked, retried in {retry:?}: {message}"),
        Outcome::TimedOut => tracing::error!("reconcile stopped at its timeout, retried in {retry:?}"),
    }
}
