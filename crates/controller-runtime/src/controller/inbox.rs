//! Where the sources of a controller put what they see.

use std::{any::Any, sync::Arc};

use kube_workqueue::{Priority, Queue};

use super::{Explanation, Tracker};
use crate::{
    clock::Clock,
    enqueue::Enqueue,
    event::Event,
    object::{Object, ObjectKey},
    reconcile::{Cause, Change, Request},
};

/// The queue of a controller, and what it remembers of the requests in it.
pub(crate) struct Inbox<R: Request> {
    pub(crate) controller: Arc<str>,
    pub(crate) queue: Queue<R>,
    pub(crate) tracker: Arc<Tracker<R>>,
    /// For what people read: it goes on from one run of the manager to the next.
    pub(super) clock: Clock,
}

impl<R: Request> Inbox<R> {
    pub(super) fn new(controller: &str, queue: Queue<R>) -> Self {
        Self { controller: Arc::from(controller), queue, tracker: Arc::default(), clock: Clock::start() }
    }

    /// Lets `handle` put requests into the queue because of `event`, which came from `source`.
    pub(crate) fn receive<K: Object>(
        &self,
        source: &Arc<str>,
        event: &Event<K>,
        handle: impl FnOnce(&Enqueue<'_, R>),
    ) {
        let Some(change) = change(event) else {
            return handle(&Enqueue::to(&self.queue).in_class(Some(Priority::Low)));
        };
        let note = |request: &R| {
            let object = (!is_about(request, event)).then(|| Arc::from(event.meta().to_string()));
            self.tracker.expect(request, Cause { change, source: Arc::clone(source), object });
        };
        handle(&Enqueue::to(&self.queue).noted_by(&note));
    }

    /// Why `request` is where it is.
    pub(crate) fn explain(&self, request: &R) -> Explanation {
        self.tracker.explain(&self.controller, request, &self.queue, self.clock)
    }
}

impl<R: Request> Clone for Inbox<R> {
    fn clone(&self) -> Self {
        Self {
            controller: Arc::clone(&self.controller),
            queue: self.queue.clone(),
            tracker: Arc::clone(&self.tracker),
            clock: self.clock,
        }
    }
}

/// What happened; nothing, where the event only tells what is there.
fn change<K: Object>(event: &Event<K>) -> Option<Change> {
    match event {
        Event::Create { in_initial_list: true, .. } => None,
        Event::Update { old, new } if old.meta().resource_version() == new.meta().resource_version() => None,
        Event::Create { .. } => Some(Change::Created),
        Event::Update { .. } => Some(Change::Updated),
        Event::Delete { .. } => Some(Change::Deleted),
        Event::Generic { .. } => Some(Change::Generic),
    }
}

/// Whether the request is the key of the event's own object.
fn is_about<K: Object, R: Request>(request: &R, event: &Event<K>) -> bool {
    (request as &dyn Any).downcast_ref::<ObjectKey<K>>().is_some_and(|key| *key == event.key())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::cache::Lazy;

    fn map(version: &str) -> Lazy<ConfigMap> {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some("default".to_owned());
        map.metadata.name = Some("a".to_owned());
        map.metadata.resource_version = Some(version.to_owned());
        Lazy::of(map).expect("a name and a namespace")
    }

    fn priority_of(event: &Event<ConfigMap>) -> (Priority, String) {
        let inbox = Inbox::new("test", Queue::default());
        let request = event.key();
        inbox.receive(&Arc::from("configmaps"), event, |queue| queue.add(request.clone()));
        let priority = inbox.queue.snapshot().next().expect("a request").priority;
        (priority, inbox.tracker.begin(&request).0.to_string())
    }

    #[test]
    fn what_was_there_already_is_of_low_class_and_no_cause() {
        let listed = Event::Create { object: map("1"), in_initial_list: true };
        let resynced = Event::Update { old: map("1"), new: map("1") };
        assert_eq!(priority_of(&listed), (Priority::Low, "no event".to_owned()));
        assert_eq!(priority_of(&resynced), (Priority::Low, "no event".to_owned()));
    }

    #[test]
    fn what_happens_is_of_normal_class_and_a_cause() {
        let created = Event::Create { object: map("1"), in_initial_list: false };
        let updated = Event::Update { old: map("1"), new: map("2") };
        let deleted = Event::Delete { object: map("2"), state_unknown: false };
        assert_eq!(priority_of(&created), (Priority::Normal, "1 event: configmaps created".to_owned()));
        assert_eq!(priority_of(&updated), (Priority::Normal, "1 event: configmaps updated".to_owned()));
        assert_eq!(priority_of(&deleted), (Priority::Normal, "1 event: configmaps deleted".to_owned()));
    }
}
