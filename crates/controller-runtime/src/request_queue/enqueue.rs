//! Queue access for event handlers.

use std::{cell::Cell, fmt, time::Duration};

use kube_workqueue::{AddOptions, Priority, Queue};

use crate::{
    cache::DecodeError,
    error::{BoxError, text_with_causes},
    reconcile::Request,
};

/// Adds requests of an event handler to the queue of its controller, and records the event as their cause.
///
/// Requests from the initial list and from resyncs get priority [`Low`](Priority::Low), behind those from real changes, unless
/// the handler sets a priority.
#[derive(Clone, Copy)]
#[doc(alias = "TypedRateLimitingInterface")]
#[doc(alias = "WithLowPriorityWhenUnchanged")]
pub struct Enqueue<'a, R: Request> {
    queue: &'a Queue<R>,
    class: Class,
    /// Records the cause of a request before the request is added. Returns whether the event is urgent for it.
    note: Option<&'a dyn Fn(&R) -> bool>,
    /// Receives the error of a handler that could not handle the event.
    failure: Option<&'a Cell<Option<EventFailure>>>,
}

/// Cause of an event's failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EventFailure {
    /// A predicate or handler panicked.
    Panicked(String),
    /// A handler reported an error.
    Failed(String),
    /// The object does not decode, which no retry can fix.
    Undecodable(String),
}

impl EventFailure {
    /// Value of the label `reason` in metrics.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Panicked(_) => "panic",
            Self::Failed(_) => "error",
            Self::Undecodable(_) => "undecodable",
        }
    }

    /// Returns whether the event is delivered again although its object has not changed.
    pub(crate) fn is_worth_a_retry(&self) -> bool {
        matches!(self, Self::Panicked(_) | Self::Failed(_))
    }
}

impl fmt::Display for EventFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(panic) => write!(f, "a predicate or handler panicked: {panic}"),
            Self::Failed(error) | Self::Undecodable(error) => f.write_str(error),
        }
    }
}

/// Priority of added requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Priority set by the handler, or else the default of the queue.
    AsSet,
    /// Priority set by the handler, or else the lowest.
    Low,
    /// Normal priority for all requests, whatever the handler sets.
    AllNormal,
}

impl<'a, R: Request> Enqueue<'a, R> {
    /// Adds requests to `queue` unchanged: for tests of a handler.
    #[must_use]
    pub fn to(queue: &'a Queue<R>) -> Self {
        Self { queue, class: Class::AsSet, note: None, failure: None }
    }

    /// Sets the priority.
    pub(crate) fn in_class(self, class: Class) -> Self {
        Self { class, ..self }
    }

    /// Calls `note` with each request before it is added; the event is urgent for requests for which it returns true.
    pub(crate) fn noted_by(self, note: &'a dyn Fn(&R) -> bool) -> Self {
        Self { note: Some(note), ..self }
    }

    /// Sets the cell that receives the handler's error.
    pub(crate) fn reporting_to(self, failure: &'a Cell<Option<EventFailure>>) -> Self {
        Self { failure: Some(failure), ..self }
    }

    /// Reports that the newest state of the object does not decode, so that the event is delivered again when the object
    /// changes.
    pub(crate) fn report_undecodable(&self, error: &DecodeError) {
        self.report(EventFailure::Undecodable(error.to_string()));
    }

    /// Reports that the handler could not handle the event. Like an event on which a handler panics, it is delivered again after
    /// 1 s doubling to 5 minutes, until it is handled or a newer event of the object replaces it. Requests added by the handler
    /// stay in the queue.
    ///
    /// ```
    /// use controller_runtime::{Cached, Enqueue, Event, Kind, ObjectKey};
    /// use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    ///
    /// /// Enqueues all ConfigMaps of a namespace that changes.
    /// fn source(maps: Cached<ConfigMap>) -> Kind<Namespace, ObjectKey<ConfigMap>> {
    ///     Kind::new(move |event: &Event<Namespace>, queue: &Enqueue<'_, ObjectKey<ConfigMap>>| {
    ///         match maps.select().namespace(event.meta().name()).list_lazy() {
    ///             Ok(maps) => maps.iter().for_each(|map| queue.add(map.key())),
    ///             Err(error) => queue.fail(error),
    ///         }
    ///     })
    /// }
    /// ```
    pub fn fail(&self, error: impl Into<BoxError>) {
        let error: BoxError = error.into();
        self.report(EventFailure::Failed(text_with_causes(&*error)));
    }

    fn report(&self, reported: EventFailure) {
        if let Some(failure) = self.failure {
            failure.set(Some(reported));
        }
    }

    /// Enqueues `request`, without a rate limit.
    pub fn add(&self, request: R) {
        self.add_with(request, AddOptions::default());
    }

    /// Enqueues `request` for processing after `delay`, or earlier if something else enqueues it.
    pub fn add_after(&self, request: R, delay: Duration) {
        self.add_with(request, AddOptions::default().after(delay));
    }

    /// Enqueues `request` with options.
    pub fn add_with(&self, request: R, mut how: AddOptions) {
        how.priority = match self.class {
            Class::AsSet => how.priority,
            Class::Low => how.priority.or(Some(Priority::Low)),
            Class::AllNormal => Some(Priority::Normal),
        };
        // Before the add, because a worker may take the request at once.
        if let Some(note) = self.note {
            how.urgent |= note(&request);
        }
        self.queue.add_with(request, how);
    }
}

impl<R: Request> fmt::Debug for Enqueue<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enqueue").field("class", &self.class).finish_non_exhaustive()
    }
}
