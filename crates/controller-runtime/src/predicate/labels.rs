//! A label selector as a predicate.

use super::{EventFilter, Predicate};
use crate::{
    cache::LabelSelector,
    event::{Event, MetaEvent},
    object::Object,
};

/// Passes events of objects that are selected, or were before the event: so a controller learns that an object has left
/// the selection, wherever it is made.
///
/// Go's `LabelSelectorPredicate` looks at the new state alone.
impl EventFilter for LabelSelector {
    fn passes(&self, event: &MetaEvent<'_>) -> bool {
        let selected = |meta: &crate::cache::Meta| self.selects(meta.labels());
        selected(event.latest()) || event.old().is_some_and(selected)
    }

    fn required_labels(&self) -> LabelSelector {
        self.clone()
    }
}

impl<K: Object> Predicate<K> for LabelSelector {
    fn test(&self, event: &Event<K>) -> bool {
        self.passes(&event.meta_event())
    }

    fn required_labels(&self) -> LabelSelector {
        self.clone()
    }
}
