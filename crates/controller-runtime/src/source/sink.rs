use std::{fmt, sync::Arc};

use kube_workqueue::{AddOptions, Queue};

use crate::{
    controller::{EventFailure, FailedEventsOfSource, Inbox},
    event::Event,
    handler::EventHandler,
    object::Object,
    reconcile::Request,
};

/// Where a source puts what it asks for: the queue of its controller.
///
/// A handle: clones are the same sink. It may be used as long as the source runs, and does nothing afterwards that would
/// matter.
pub struct Sink<R: Request> {
    inbox: Inbox<R>,
    source: Arc<str>,
    synced: Arc<dyn Fn() + Send + Sync>,
}

impl<R: Request> Sink<R> {
    /// Puts requests into `queue` as they are: for tests of a source.
    #[must_use]
    pub fn to(queue: &Queue<R>) -> Self {
        Self::new(Inbox::of(queue.clone()), Arc::from("test"), Arc::new(|| {}))
    }

    pub(crate) fn new(inbox: Inbox<R>, source: Arc<str>, synced: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self { inbox, source, synced }
    }

    /// Asks for `request` to be reconciled: at once, whatever limits its retries.
    pub fn add(&self, request: R) {
        self.add_with(request, AddOptions::default());
    }

    /// Asks for `request` to be reconciled as `how` says.
    pub fn add_with(&self, request: R, how: AddOptions) {
        self.inbox.add(&self.source, request, how);
    }

    /// Asks for what `handler` makes of `event`, if the controller's
    /// [event filters](crate::ControllerBuilder::with_event_filter) let it pass.
    ///
    /// A handler that panics costs this event, which is logged as an error and counted
    /// (`controller_runtime_events_dropped_total`). The sources of this crate deliver it again instead.
    pub fn receive<K: Object>(&self, event: &Event<K>, handler: &(impl EventHandler<K, R> + ?Sized)) {
        if let Err(failure) = self.try_receive(event, handler) {
            let (controller, source, object) = (&*self.inbox.controller, &*self.source, event.meta());
            tracing::error!(controller, source, %object, "an event is lost: {failure}");
            self.inbox.failed_events.count_lost(source, &failure);
        }
    }

    /// Like [`Sink::receive`], but returns why user code has not handled the event.
    pub(super) fn try_receive<K: Object>(
        &self,
        event: &Event<K>,
        handler: &(impl EventHandler<K, R> + ?Sized),
    ) -> Result<(), EventFailure> {
        self.inbox.receive(&self.source, event, |queue| handler.handle(event, queue))
    }

    /// Where this run of the source records events that are to be delivered again.
    pub(super) fn failed_events(&self) -> FailedEventsOfSource {
        self.inbox.failed_events.of_source(&self.inbox.controller, &self.source)
    }

    /// Says that the source has told what there is. See [`Source::signals_synced`](super::Source::signals_synced).
    pub fn set_synced(&self) {
        (self.synced)();
    }
}

impl<R: Request> Clone for Sink<R> {
    fn clone(&self) -> Self {
        let Self { inbox, source, synced } = self;
        Self { inbox: inbox.clone(), source: Arc::clone(source), synced: Arc::clone(synced) }
    }
}

impl<R: Request> fmt::Debug for Sink<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").field("source", &self.source).finish_non_exhaustive()
    }
}
