//! Predicates and handler of a source.

use crate::{
    cache::{Event, LabelSelector},
    handler::EventHandler,
    object::Object,
    predicate::Predicate,
    reconcile::Request,
    request_queue::Enqueue,
};

/// The handler of a source, and the predicates that an event must pass to reach it.
pub(super) struct Rules<K: Object, R: Request> {
    handler: Box<dyn EventHandler<K, R>>,
    predicates: Vec<Box<dyn Predicate<K>>>,
}

impl<K: Object, R: Request> Rules<K, R> {
    pub(super) fn new(handler: impl EventHandler<K, R>) -> Self {
        Self { handler: Box::new(handler), predicates: Vec::new() }
    }

    pub(super) fn add(&mut self, predicate: Box<dyn Predicate<K>>) {
        self.predicates.push(predicate);
    }

    /// Labels that an object must have for its events to reach the handler.
    pub(super) fn required_labels(&self) -> LabelSelector {
        let required = self.predicates.iter().map(|predicate| predicate.required_labels());
        required.fold(LabelSelector::default(), LabelSelector::and)
    }
}

impl<K: Object, R: Request> EventHandler<K, R> for Rules<K, R> {
    fn handle(&self, event: &Event<K>, queue: &Enqueue<'_, R>) {
        if self.predicates.iter().all(|predicate| predicate.test(event)) {
            self.handler.handle(event, queue);
        }
    }
}
