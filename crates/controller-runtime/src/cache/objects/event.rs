//! Changes of objects, as a cache delivers them.

use crate::{
    cache::objects::lazy::Lazy,
    object::{Object, ObjectKey, meta::Meta},
};

/// A change of one object, with the old state where there is one.
///
/// States are shared with the cache: an event copies nothing, and an object is decoded only when it is accessed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event<K: Object> {
    /// The object was created.
    Create {
        /// The object.
        object: Lazy<K>,
        /// Whether the object is part of the initial list of the watch, so that it need not have changed just now.
        in_initial_list: bool,
    },
    /// The object changed.
    Update {
        /// State before the update.
        old: Lazy<K>,
        /// State after the update.
        new: Lazy<K>,
    },
    /// The object was deleted.
    Delete {
        /// Its last known state.
        object: Lazy<K>,
        /// Whether `object` may be older than its last state: the deletion was noticed only by the object's absence from a
        /// later list, or a reader of an event stream was so slow that another object of the name exists by now.
        state_unknown: bool,
    },
    /// Something outside the Kubernetes API happened that concerns the object. Caches never deliver it, sources of a
    /// user may.
    Generic {
        /// The object concerned.
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

    /// State before the event, for an update.
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

    /// The parts of the event that do not depend on the kind.
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

/// An event of an object of any kind, with metadata only. Made by [`Event::meta_event`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum MetaEvent<'e> {
    /// The object was created.
    Create {
        /// Metadata of the object.
        meta: &'e Meta,
        /// Whether the object is part of the initial list of the watch.
        in_initial_list: bool,
    },
    /// The object was updated.
    Update {
        /// Metadata before the update.
        old: &'e Meta,
        /// Metadata after the update.
        new: &'e Meta,
    },
    /// The object was deleted.
    Delete {
        /// Last known metadata.
        meta: &'e Meta,
        /// Whether the object may have had a later state, as in [`Event::Delete`].
        state_unknown: bool,
    },
    /// Something outside the API happened that concerns the object.
    Generic {
        /// Metadata of the object.
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

    /// Metadata before the event, for an update.
    #[must_use]
    pub fn old(&self) -> Option<&'e Meta> {
        match self {
            Self::Update { old, .. } => Some(old),
            _ => None,
        }
    }
}
