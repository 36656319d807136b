//! Adds requests to the queue of their controller, and records their causes, past runs and failed events, from which requests are
//! explained.

mod enqueue;
mod explain;
mod failed_events;
mod history;
mod near;
mod overview;
mod summary;
mod tracker;

use std::{
    any::Any,
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use kube_clock::Clock;
use kube_workqueue::{AddOptions, Queue};

use self::{enqueue::Class, overview::FAILED_EVENTS};
pub use self::{
    enqueue::Enqueue,
    explain::{DelayReason, Explanation, RequestState},
    failed_events::FailedEvent,
    history::{Run, RunResult},
    overview::{Failing, Overview},
};
pub(crate) use self::{
    enqueue::EventFailure,
    failed_events::{FailedEvents, FailedEventsOfSource},
    overview::Explain,
    summary::{Cursor, Detail, RequestFilter, RequestPage, StateFilter, Summary},
    tracker::{Redelivery, Tracker},
};
use crate::{
    cache::{Event, LabelSelector},
    object::{Object, ObjectKey},
    pace::Pace,
    panics::panic_message,
    predicate::{EventFilter, required_labels},
    reconcile::{Cause, ChangeType, Request},
};

/// Order in which due requests are processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueOrder {
    /// In the order of arrival.
    Fifo,
    /// Requests caused by events before those of initial lists.
    ByPriority,
}

/// The queue of a controller, with causes, event filters and failed events.
pub(crate) struct RequestQueue<R: Request> {
    pub(crate) controller: Arc<str>,
    pub(crate) queue: Queue<R>,
    pub(crate) tracker: Arc<Tracker<R>>,
    /// Filters that every event of every source must pass.
    filters: Arc<[Box<dyn EventFilter>]>,
    order: QueueOrder,
    /// Whether the source that uses this handle delivers its events again.
    redelivery: Redelivery,
    /// The manager's clock.
    pub(crate) clock: Clock,
    pub(crate) failed_events: FailedEvents,
    /// Parses the text form of a request, if the type of the requests allows that without a search in the queue.
    parse: Option<fn(&str) -> Option<R>>,
}

impl<R: Request> RequestQueue<R> {
    pub(crate) fn new(
        controller: &str,
        queue: Queue<R>,
        filters: Vec<Box<dyn EventFilter>>,
        order: QueueOrder,
        clock: Clock,
    ) -> Self {
        let (controller, filters) = (Arc::from(controller), Arc::from(filters));
        Self {
            controller,
            queue,
            tracker: Arc::default(),
            filters,
            order,
            redelivery: Redelivery::Never,
            clock,
            failed_events: FailedEvents::default(),
            parse: None,
        }
    }

    pub(crate) fn with_failed_events(self, failed_events: FailedEvents) -> Self {
        Self { failed_events, ..self }
    }

    pub(crate) fn with_parser(self, parse: Option<fn(&str) -> Option<R>>) -> Self {
        Self { parse, ..self }
    }

    /// Returns a handle for one source.
    pub(crate) fn of_source(&self, redelivery: Redelivery) -> Self {
        Self { redelivery, ..self.clone() }
    }

    /// A queue without a controller, for tests.
    pub(crate) fn of(queue: Queue<R>) -> Self {
        Self::new("", queue, Vec::new(), QueueOrder::ByPriority, Clock::default())
    }

    /// Labels that an object must have for its events to lead to requests.
    pub(crate) fn required_labels(&self) -> LabelSelector {
        required_labels(&self.filters)
    }

    /// Calls `handle` to enqueue requests for an `event` from `source`, if the event passes the filters. Records the event as the
    /// cause of these requests.
    ///
    /// # Errors
    ///
    /// User code panicked or failed, or the object does not decode. Requests that were added before stay in the queue.
    pub(crate) fn receive<K: Object>(
        &self,
        source: &Arc<str>,
        event: &Event<K>,
        handle: impl FnOnce(&Enqueue<'_, R>),
    ) -> Result<(), EventFailure> {
        let passes = || self.filters.iter().all(|filter| filter.passes(&event.meta_event()));
        let failure = Cell::new(None);
        // Filters, predicates and handlers are user code: a panic fails the event, not its source.
        let received = panic::catch_unwind(AssertUnwindSafe(|| {
            if passes() {
                self.pass(source, event, &failure, handle);
            }
        }));
        match (received, failure.take()) {
            (Err(panic), _) => Err(EventFailure::Panicked(panic_message(&*panic).to_owned())),
            (Ok(()), Some(failure)) => Err(failure),
            (Ok(()), None) => Ok(()),
        }
    }

    /// Calls `handle` for an event that has passed the filters.
    fn pass<K: Object>(
        &self,
        source: &Arc<str>,
        event: &Event<K>,
        failure: &Cell<Option<EventFailure>>,
        handle: impl FnOnce(&Enqueue<'_, R>),
    ) {
        // Initial lists and resyncs report no change: they are no causes, and events of real changes go first.
        let Some(change) = change_type(event) else {
            return handle(&self.enqueue(Class::Low).reporting_to(failure));
        };
        let note = |request: &R| {
            let is_own = is_about(request, event);
            // The request of the object itself contains the object's name already.
            let object = (!is_own).then(|| Arc::from(event.meta().to_string()));
            self.record_cause(request, Cause { change, source: Arc::clone(source), object });
            is_own && is_urgent(event)
        };
        handle(&self.enqueue(Class::AsSet).noted_by(&note).reporting_to(failure));
    }

    /// Enqueues a request on behalf of `source`.
    pub(crate) fn add(&self, source: &Arc<str>, request: R, how: AddOptions) {
        let cause = Cause { change: ChangeType::Generic, source: Arc::clone(source), object: None };
        self.record_cause(&request, cause);
        self.enqueue(Class::AsSet).add_with(request, how);
    }

    /// Records an event as a cause of the next run.
    fn record_cause(&self, request: &R, cause: Cause) {
        self.tracker.record_cause(request, cause, self.redelivery);
    }

    /// Enqueues a request again on behalf of its last run.
    pub(crate) fn add_again(&self, request: &R, how: AddOptions) {
        self.enqueue(Class::AsSet).add_with(request.clone(), how);
    }

    /// Removes the requests of sources with [`delivers_again`](crate::Source::delivers_again), which add them again in their next
    /// run if they are still needed. No request may be processed meanwhile.
    pub(crate) async fn remove_repeatable(&self) {
        let mut pace = Pace::begin();
        for seen in self.queue.snapshot() {
            if self.tracker.forget_repeatable(&seen.key) {
                self.queue.cancel(&seen.key);
            }
            pace.step().await;
        }
    }

    /// Access to the queue. The class has an effect only if the queue has priorities.
    fn enqueue(&self, class: Class) -> Enqueue<'_, R> {
        Enqueue::to(&self.queue).in_class(match self.order {
            QueueOrder::ByPriority => class,
            QueueOrder::Fifo => Class::AllNormal,
        })
    }

    /// Explains the state of `request`.
    pub(crate) fn explain(&self, request: &R) -> Explanation {
        let mut explanation = self.tracker.explain(&self.controller, request, &self.queue, self.clock);
        explanation.failed_events = self.failed_events_of(&explanation.request);
        explanation
    }

    /// Failed events of objects with the name of a request, which is given by its `Debug` form.
    pub(crate) fn failed_events_of(&self, request: &str) -> Vec<FailedEvent> {
        let object = request.split_once(' ').map_or(request, |(_, name)| name);
        self.failed_events.first(FAILED_EVENTS, Some(object))
    }
}

impl<R: Request> Clone for RequestQueue<R> {
    fn clone(&self) -> Self {
        Self {
            controller: Arc::clone(&self.controller),
            queue: self.queue.clone(),
            tracker: Arc::clone(&self.tracker),
            filters: Arc::clone(&self.filters),
            order: self.order,
            redelivery: self.redelivery,
            clock: self.clock,
            failed_events: self.failed_events.clone(),
            parse: self.parse,
        }
    }
}

/// Type of the event; `None` for initial lists and resyncs, which report no change.
fn change_type<K: Object>(event: &Event<K>) -> Option<ChangeType> {
    match event {
        Event::Create { in_initial_list: true, .. } => None,
        // A resync repeats the state. As in Go, it is recognised by the unchanged version.
        Event::Update { old, new } if old.meta().resource_version() == new.meta().resource_version() => None,
        Event::Create { .. } => Some(ChangeType::Created),
        Event::Update { .. } => Some(ChangeType::Updated),
        Event::Delete { .. } => Some(ChangeType::Deleted),
        Event::Generic { .. } => Some(ChangeType::Generic),
    }
}

/// Returns whether the event may have removed the cause of earlier failures of the object's own request: the object is new, its
/// spec was changed, or it was deleted. Such a request does not wait for the end of its back-off.
///
/// Other changes are not urgent, because a failing reconcile may cause them itself: it writes a status, or a child.
fn is_urgent<K: Object>(event: &Event<K>) -> bool {
    match event {
        Event::Create { in_initial_list, .. } => !in_initial_list,
        Event::Update { old, new } => {
            let (old, new) = (old.meta(), new.meta());
            old.generation() != new.generation()
                || old.uid() != new.uid()
                || old.is_deleting() != new.is_deleting()
        }
        Event::Delete { .. } => true,
        Event::Generic { .. } => false,
    }
}

/// The `Debug` form of a request without the kind in front: for an object, its namespace and name.
pub(crate) fn name_of<R: Request>(request: &R) -> String {
    let whole = format!("{request:?}");
    match whole.split_once(' ') {
        Some((_, name)) => name.to_owned(),
        None => whole,
    }
}

/// Returns whether the request is the key of the event's own object.
fn is_about<K: Object, R: Request>(request: &R, event: &Event<K>) -> bool {
    (request as &dyn Any).downcast_ref::<ObjectKey<K>>().is_some_and(|key| *key == event.key())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube_workqueue::Priority;

    use super::*;
    use crate::cache::{Lazy, MetaEvent};

    fn map(version: &str) -> Lazy<ConfigMap> {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some("default".to_owned());
        map.metadata.name = Some("a".to_owned());
        map.metadata.resource_version = Some(version.to_owned());
        Lazy::of(map).expect("a name and a namespace")
    }

    fn priority_of(event: &Event<ConfigMap>) -> (Priority, String) {
        received(event, &RequestQueue::of(Queue::default()))
    }

    fn received(
        event: &Event<ConfigMap>,
        requests: &RequestQueue<ObjectKey<ConfigMap>>,
    ) -> (Priority, String) {
        let request = event.key();
        requests
            .receive(&Arc::from("configmaps"), event, |queue| queue.add(request.clone()))
            .expect("no panic");
        let priority = requests.queue.snapshot().next().expect("a request").priority;
        (priority, requests.tracker.begin(&request, 0).causes.to_string())
    }

    #[test]
    fn initial_objects_have_low_priority_and_no_cause() {
        let listed = Event::Create { object: map("1"), in_initial_list: true };
        let resynced = Event::Update { old: map("1"), new: map("1") };
        assert_eq!(priority_of(&listed), (Priority::Low, "initial list, resync or source".to_owned()));
        assert_eq!(priority_of(&resynced), (Priority::Low, "initial list, resync or source".to_owned()));
    }

    #[test]
    fn changes_have_normal_priority_and_a_cause() {
        let created = Event::Create { object: map("1"), in_initial_list: false };
        let updated = Event::Update { old: map("1"), new: map("2") };
        let deleted = Event::Delete { object: map("2"), state_unknown: false };
        assert_eq!(priority_of(&created), (Priority::Normal, "1 event: configmaps created".to_owned()));
        assert_eq!(priority_of(&updated), (Priority::Normal, "1 event: configmaps updated".to_owned()));
        assert_eq!(priority_of(&deleted), (Priority::Normal, "1 event: configmaps deleted".to_owned()));
    }

    #[test]
    fn without_priorities_all_requests_are_equal() {
        let requests =
            RequestQueue::new("test", Queue::default(), Vec::new(), QueueOrder::Fifo, Clock::default());
        let listed = Event::Create { object: map("1"), in_initial_list: true };
        assert_eq!(received(&listed, &requests).0, Priority::Normal);
        requests.add(&Arc::from("x"), listed.key(), AddOptions::default().priority(Priority::High));
        assert_eq!(requests.queue.snapshot().next().expect("a request").priority, Priority::Normal);
        requests.add_again(&listed.key(), AddOptions::default().priority(Priority::High));
        assert_eq!(requests.queue.snapshot().next().expect("a request").priority, Priority::Normal);
    }

    /// Go's raw sources bypass the event filters (its builder applies them to kinds only).
    #[test]
    fn event_filters_apply_to_every_source() {
        let created = |event: &MetaEvent<'_>| matches!(event, MetaEvent::Create { .. });
        let requests = RequestQueue::new(
            "test",
            Queue::default(),
            vec![Box::new(created)],
            QueueOrder::ByPriority,
            Clock::default(),
        );
        let receive = |event: &Event<ConfigMap>| {
            requests.receive(&Arc::from("x"), event, |queue| queue.add(event.key())).expect("no panic");
        };
        receive(&Event::Generic { object: map("1") });
        assert!(requests.queue.is_empty());
        receive(&Event::Create { object: map("1"), in_initial_list: false });
        assert_eq!(requests.queue.len(), 1);
    }

    #[test]
    fn a_panicking_handler_fails_only_its_event() {
        let requests = RequestQueue::of(Queue::default());
        let event = Event::Generic { object: map("1") };
        let failed = requests.receive(&Arc::from("x"), &event, |_| panic!("a bug"));
        assert!(matches!(failed, Err(EventFailure::Panicked(reason)) if reason.contains("a bug")));
        requests.receive(&Arc::from("x"), &event, |queue| queue.add(event.key())).expect("no panic");
        assert_eq!(requests.queue.len(), 1);
    }
}
