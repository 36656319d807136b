//! What a controller logs: Go's messages to the letter, under the names of Go's fields, so that what filters the log of an
//! operator in Go does so here. What Go does not say is in fields of its own.

use std::{fmt, sync::Arc, time::Duration};

use tracing::Span;

use super::config::GroupKind;
use crate::{
    manager::BoxError,
    object::{Object, ObjectKey},
    reconcile::{Context, Next, Outcome, Request},
};

/// Logs under the fields that all lines of a controller have.
macro_rules! say {
    ($level:ident, $log:expr, $($rest:tt)+) => {{
        let (group, kind) = $log.group_and_kind();
        tracing::$level!(
            controller = &*$log.controller,
            controllerGroup = group,
            controllerKind = kind,
            $($rest)+
        );
    }};
}

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
        say!(info, self, "Starting Controller");
    }

    pub(super) fn starting_workers(&self, count: usize) {
        say!(info, self, "worker count" = count, "Starting workers");
    }

    pub(super) fn waiting_for_workers(&self) {
        say!(info, self, "Shutdown signal received, waiting for all workers to finish");
    }

    pub(super) fn workers_finished(&self) {
        say!(info, self, "All workers finished");
    }

    pub(super) fn starting_source(&self, source: &str) {
        say!(info, self, source, "Starting EventSource");
    }

    pub(super) fn source_ended(&self, source: &str) {
        say!(info, self, source, "EventSource ended");
    }

    pub(super) fn going_on_without(&self, source: &str, error: &BoxError) {
        say!(
            error,
            self,
            source,
            %error,
            "the controller goes on without an EventSource"
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
            Next::Done => tracing::debug!("Reconcile successful"),
            Next::Requeue => tracing::debug!(retryAfter = ?retry, "Reconcile done, requeueing"),
            Next::RequeueAfter(delay) => tracing::debug!("Reconcile done, requeueing after {delay:?}"),
        },
        Outcome::Returned(Err(error)) if error.is_terminal() => {
            tracing::error!(error = format_args!("terminal error: {error:#}"), "Reconciler error");
        }
        Outcome::Returned(Err(error)) => failed(format_args!("{error:#}"), retry),
        Outcome::Panicked(message) => failed(format_args!("panic: {message} [recovered]"), retry),
        Outcome::TimedOut => failed(format_args!("stopped at its timeout"), retry),
    }
}

fn failed(error: fmt::Arguments<'_>, retry: Duration) {
    tracing::error!(error, retryAfter = ?retry, "Reconciler error");
}
