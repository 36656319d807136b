//! Label selector as a predicate.

use super::{EventFilter, Predicate};
use crate::{
    cache::{Event, LabelSelector, MetaEvent},
    object::Object,
};

/// Passes events of objects that match the selector before or after the change, so that a controller notices when an object
/// leaves the selection.
///
/// Go's `LabelSelectorPredicate` checks only the new state.
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
