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

    /// As much of the event as is the same for all kinds.
    #[must_use]
    pub fn meta_event(&self) -> MetaEvent<'_> {
        match self {
            Self::Create { object, in_initial_list } => {
                MetaEvent::Create { meta: object.meta(), in_initial_list: *in_initial_list }
            }
            Self::Update { old, new } => MetaEvent::Update { old: old.meta(), new: new.meta() },
            Self::Delete { object, state_unknown } => {
                MetaEvent::Delete { meta: object.meta(), state_unknown: *state_unknown }
            }
            Self::Generic { object } => MetaEvent::Generic { meta: object.meta() },
        }
    }
}

/// An event of an object of any kind, as far as its metadata tell of it. Made by [`Event::meta_event`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum MetaEvent<'e> {
    /// The object appeared.
    Create {
        /// Its metadata.
        meta: &'e Meta,
        /// It was there already when the watch began.
        in_initial_list: bool,
    },
    /// The object changed.
    Update {
        /// Its metadata before.
        old: &'e Meta,
        /// Its metadata now.
        new: &'e Meta,
    },
    /// The object is gone.
    Delete {
        /// Its last known metadata.
        meta: &'e Meta,
        /// The deletion was noticed by its absence from a later list.
        state_unknown: bool,
    },
    /// Something outside the API happened that concerns the object.
    Generic {
        /// Its metadata.
        meta: &'e Meta,
    },
}

impl<'e> MetaEvent<'e> {
    /// The newest known metadata.
    #[must_use]
    pub fn latest(&self) -> &'e Meta {
        match self {
            Self::Create { meta, .. } | Self::Delete { meta, .. } | Self::Generic { meta } => meta,
            Self::Update { new, .. } => new,
        }
    }

    /// The metadata before, for an update.
    #[must_use]
    pub fn old(&self) -> Option<&'e Meta> {
        match self {
            Self::Update { old, .. } => Some(old),
            _ => None,
        }
    }
}
