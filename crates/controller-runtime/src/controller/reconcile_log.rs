//! Log lines of a controller, with Go's messages and field names to the letter, so that log filters written for an operator in
//! Go keep working. Additional information is in fields of its own.
//!
//! One level differs from Go's: a failure that a retry usually fixes is logged at `DEBUG` until it persists.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use tracing::Span;

use super::{SourceError, config::GroupKind};
use crate::{
    brief::Brief,
    cache::ReadError,
    client::{self, ErrorKind},
    finalizer::FinalizeError,
    object::{Object, ObjectKey},
    reconcile::{Context, NextRun, Outcome, ReconcileError, Request, Retry},
};

/// Logs with the fields that all lines of a controller have.
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

/// Log of a controller.
pub(crate) struct Log<R: Request> {
    controller: Arc<str>,
    kind: Option<GroupKind>,
    make_span: Box<MakeSpan<R>>,
}

impl<R: Request> Log<R> {
    /// Log of a controller of requests of any type. Its span has level `ERROR`, so that log lines name their request at every
    /// log level.
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

    /// Replaces the function that makes the span of a reconcile, if there is another.
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

    pub(super) fn going_on_without(&self, source: &str, error: &SourceError) {
        say!(
            error,
            self,
            source,
            %error,
            "a source failed or is late, the controller continues without it"
        );
    }

    fn group_and_kind(&self) -> (Option<&str>, Option<&str>) {
        self.kind.as_ref().map_or((None, None), |kind| (Some(&*kind.group), Some(&*kind.kind)))
    }
}

impl<K: Object> Log<ObjectKey<K>> {
    /// Log of a controller of a kind.
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

/// Logs a panic that stops the controller. Called within the reconcile's span.
pub(super) fn observed_panic(text: &str) {
    tracing::info!("Observed a panic in reconciler: {text}");
}

/// Number of successive attempts with a [passing](is_passing) failure before it is logged as an error. With the default
/// back-off they take 1.3 s.
const PASSING: u32 = 8;

/// Logs the outcome of attempt number `attempt` of a reconcile. Called within its span.
pub(super) fn outcome(outcome: &Outcome, attempt: u32, retry: Duration) {
    match outcome {
        Outcome::Returned(Ok(action)) => match action.next {
            NextRun::Done => tracing::debug!("Reconcile successful"),
            NextRun::Requeue => tracing::debug!(retryAfter = %Brief(retry), "Reconcile done, requeueing"),
            NextRun::RequeueAfter(delay) => {
                tracing::debug!("Reconcile done, requeueing after {}", Brief(delay));
            }
        },
        // Before the passing failures, because no retry follows that could fix a terminal one.
        Outcome::Returned(Err(error)) if error.is_terminal() => {
            tracing::error!(error = format_args!("terminal error: {error:#}"), "Reconciler error");
        }
        Outcome::Returned(Err(error)) if attempt < PASSING && is_passing(error) => {
            tracing::debug!(error = format_args!("{error:#}"), retryAfter = %Brief(retry), "Reconciler error");
        }
        Outcome::Returned(Err(error)) => failed(format_args!("{error:#}"), retry),
        Outcome::Panicked(message) => failed(format_args!("panic: {message} [recovered]"), retry),
        Outcome::TimedOut => {
            failed(format_args!("the reconcile exceeded its timeout and was dropped"), retry);
        }
    }
}

/// Returns whether the failure usually passes:
///
/// - a conflict, until the cache has received the other writer's change;
/// - a write that was refused or interrupted after the lease was lost, until the controller has stopped;
/// - a read of a cache that is not synced yet.
///
/// Failures with a delay of their own are never passing: they do not count as attempts, so they could persist unnoticed.
fn is_passing(error: &ReconcileError) -> bool {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error.get_ref());
    let causes = std::iter::from_fn(|| {
        let error = cause?;
        cause = error.source();
        Some(error)
    });
    error.retry() == Retry::WithBackOff && { causes }.any(is_passing_cause)
}

fn is_passing_cause(error: &(dyn StdError + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<ReadError>() {
        return error.is_not_synced();
    }
    // A reconciler may send requests with `kube` directly.
    if let Some(kube::Error::Api(status)) = error.downcast_ref() {
        return status.reason == "Conflict";
    }
    // `FinalizeError::Client` is transparent: the chain of causes skips the error inside of it.
    let ours = error.downcast_ref::<client::ClientError>().or(match error.downcast_ref() {
        Some(FinalizeError::Client(error)) => Some(error),
        _ => None,
    });
    ours.is_some_and(|error| {
        matches!(
            error.kind(),
            ErrorKind::Conflict(_) | ErrorKind::NotPermitted(_) | ErrorKind::Interrupted(_)
        )
    })
}

fn failed(error: fmt::Arguments<'_>, retry: Duration) {
    tracing::error!(error, retryAfter = %Brief(retry), "Reconciler error");
}
