//! Sink of a source's requests.

use std::{fmt, sync::Arc};

use kube_workqueue::{AddOptions, Queue};

use crate::{
    cache::Event,
    handler::EventHandler,
    object::Object,
    reconcile::Request,
    request_queue::{EventFailure, FailedEventsOfSource, RequestQueue},
};

/// Puts requests of a source into the queue of its controller.
///
/// A handle: its clones refer to the same sink. Use it only while the source runs; a later [`set_synced`](Self::set_synced) is ignored.
pub struct Sink<R: Request> {
    requests: RequestQueue<R>,
    source: Arc<str>,
    synced: Arc<dyn Fn() + Send + Sync>,
}

impl<R: Request> Sink<R> {
    /// Creates a sink that adds requests to `queue` unchanged, for tests of a source.
    #[must_use]
    pub fn to(queue: &Queue<R>) -> Self {
        Self::new(RequestQueue::of(queue.clone()), Arc::from("test"), Arc::new(|| {}))
    }

    pub(crate) fn new(
        requests: RequestQueue<R>,
        source: Arc<str>,
        synced: Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self { requests, source, synced }
    }

    /// Enqueues `request`, without a rate limit.
    pub fn add(&self, request: R) {
        self.add_with(request, AddOptions::default());
    }

    /// Enqueues `request` with options.
    pub fn add_with(&self, request: R, how: AddOptions) {
        self.requests.add(&self.source, request, how);
    }

    /// Passes `event` to `handler`, which enqueues requests, if the controller's
    /// [event filters](crate::ControllerBuilder::with_event_filter) pass it.
    ///
    /// If the handler panics, the event is lost, which is logged as an error and counted
    /// (`controller_runtime_events_dropped_total`). The sources of this crate deliver it again instead.
    pub fn receive<K: Object>(&self, event: &Event<K>, handler: &(impl EventHandler<K, R> + ?Sized)) {
        if let Err(failure) = self.try_receive(event, handler) {
            let (controller, source, object) = (&*self.requests.controller, &*self.source, event.meta());
            tracing::error!(controller, source, %object, "an event was dropped because it could not be handled: {failure}");
            self.requests.failed_events.count_lost(source, &failure);
        }
    }

    /// Like [`Sink::receive`], but returns the failure of user code.
    pub(super) fn try_receive<K: Object>(
        &self,
        event: &Event<K>,
        handler: &(impl EventHandler<K, R> + ?Sized),
    ) -> Result<(), EventFailure> {
        self.requests.receive(&self.source, event, |queue| handler.handle(event, queue))
    }

    /// Returns the recorder of this source's failed events, for metrics and explanations.
    pub(super) fn failed_events(&self) -> FailedEventsOfSource {
        self.requests.failed_events.of_source(&self.requests.controller, &self.source)
    }

    /// Reports that the source has delivered its initial state. See [`Source::signals_synced`](super::Source::signals_synced).
    pub fn set_synced(&self) {
        (self.synced)();
    }
}

impl<R: Request> Clone for Sink<R> {
    fn clone(&self) -> Self {
        let Self { requests, source, synced } = self;
        Self { requests: requests.clone(), source: Arc::clone(source), synced: Arc::clone(synced) }
    }
}

impl<R: Request> fmt::Debug for Sink<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").field("source", &self.source).finish_non_exhaustive()
    }
}
