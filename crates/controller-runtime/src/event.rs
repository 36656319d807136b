//! What happened to an object, as a cache saw it.

use crate::{
    cache::{Lazy, Meta},
    object::{Object, ObjectKey},
};

/// A change of one object, with both states where there are two.
///
/// States are shared with the cache: an event costs no copy, and nothing is decoded unless somebody asks.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event<K: Object> {
    /// The object appeared.
    Create {
        /// The object.
        object: Lazy<K>,
        /// It was there already when the watch began, so nothing need have happened to it just now.
        in_initial_list: bool,
    },
    /// The object changed.
    Update {
        /// Its state before.
        old: Lazy<K>,
        /// Its state now.
        new: Lazy<K>,
    },
    /// The object is gone.
    Delete {
        /// Its last known state.
        object: Lazy<K>,
        /// The deletion was noticed by its absence from a later list, so `object` may be older than its last state.
        state_unknown: bool,
    },
    /// Something outside the API happened that concerns the object.
    Generic {
        /// The object.
        object: Lazy<K>,
    },
}

impl<K: Object> Event<K> {
    /// The newest known state.
    #[must_use]
    pub fn latest(&self) -> &Lazy<K> {
        match self {
            Self::Create { object, .. } | Self::Delete { object, .. } | Self::Generic { object } => object,
            Self::Update { new, .. } => new,
        }
    }

    /// The state before, for an update.
    #[must_use]
    pub fn old(&self) -> Option<&Lazy<K>> {
        match self {
            Self::Update { old, .. } => Some(old),
            _ => None,
        }
    }

    /// The newest known metadata.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        self.latest().meta()
    }

    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> ObjectKey<K> {
        self.latest().key()
    }
}
