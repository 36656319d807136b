//! Combinations of predicates.

use super::{EventFilter, Predicate};
use crate::{
    cache::{Event, LabelSelector, MetaEvent},
    object::Object,
};

/// Passes events that both predicates pass.
#[derive(Debug, Clone, Copy)]
pub struct And<A, B>(pub A, pub B);

/// Passes events that at least one of the predicates passes.
#[derive(Debug, Clone, Copy)]
pub struct Or<A, B>(pub A, pub B);

/// Passes events that the predicate drops.
#[derive(Debug, Clone, Copy)]
pub struct Not<A>(pub A);

impl<K: Object, A: Predicate<K>, B: Predicate<K>> Predicate<K> for And<A, B> {
    fn test(&self, event: &Event<K>) -> bool {
        self.0.test(event) && self.1.test(event)
    }

    fn required_labels(&self) -> LabelSelector {
        self.0.required_labels().and(self.1.required_labels())
    }
}

impl<K: Object, A: Predicate<K>, B: Predicate<K>> Predicate<K> for Or<A, B> {
    fn test(&self, event: &Event<K>) -> bool {
        self.0.test(event) || self.1.test(event)
    }
}

impl<K: Object, A: Predicate<K>> Predicate<K> for Not<A> {
    fn test(&self, event: &Event<K>) -> bool {
        !self.0.test(event)
    }
}

impl<A: EventFilter, B: EventFilter> EventFilter for And<A, B> {
    fn passes(&self, event: &MetaEvent<'_>) -> bool {
        self.0.passes(event) && self.1.passes(event)
    }

    fn required_labels(&self) -> LabelSelector {
        self.0.required_labels().and(self.1.required_labels())
    }
}

impl<A: EventFilter, B: EventFilter> EventFilter for Or<A, B> {
    fn passes(&self, event: &MetaEvent<'_>) -> bool {
        self.0.passes(event) || self.1.passes(event)
    }
}

impl<A: EventFilter> EventFilter for Not<A> {
    fn passes(&self, event: &MetaEvent<'_>) -> bool {
        !self.0.passes(event)
    }
}
