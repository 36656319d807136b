//! What happened to an object, as a cache saw it.

use std::sync::Arc;

use crate::object::Object;

/// A change of one object, with both states where there are two.
///
/// Objects are shared with the cache: an event costs no copy.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event<K: Object> {
    /// The object appeared.
    Create {
        /// The object.
        object: Arc<K>,
        /// It was there already when the watch began, so nothing need have happened to it just now.
        in_initial_list: bool,
    },
    /// The object changed.
    Update {
        /// Its state before.
        old: Arc<K>,
        /// Its state now.
        new: Arc<K>,
    },
    /// The object is gone.
    Delete {
        /// Its last known state.
        object: Arc<K>,
        /// The deletion was noticed by its absence from a later list, so `object` may be older than its last state.
        state_unknown: bool,
    },
    /// Something outside the API happened that concerns the object.
    Generic {
        /// The object.
        object: Arc<K>,
    },
}

impl<K: Object> Event<K> {
    /// The newest known state.
    #[must_use]
    pub fn object(&self) -> &K {
        match self {
            Self::Create { object, .. } | Self::Delete { object, .. } | Self::Generic { object } => object,
            Self::Update { new, .. } => new,
        }
    }

    /// The state before, for an update.
    #[must_use]
    pub fn old(&self) -> Option<&K> {
        match self {
            Self::Update { old, .. } => Some(old),
            _ => None,
        }
    }
}
