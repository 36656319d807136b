//! The objects of one kind in key order, and the events of their changes. Pure: no lock, no clock.
//!
//! The store has two states of each object: the watched state, which the watch delivered last, and the visible state,
//! which includes own writes since then. Readers see the visible state. Events are differences between watched states.
//! So a write is visible immediately, and its event is delivered once.
//!
//! - A write overlays the watched state until the watch has passed its version. The API server sends the changes of a
//!   kind in the order of their versions, so by then the watch has delivered the write or something newer.
//! - A write that is recorded after the watch has passed its version is ignored, so that it cannot bring back a deleted
//!   object.
//! - An object that this process wrote can be deleted while no watch is open. The next list does not show that it ever
//!   existed, so no difference between watched states triggers a reconcile. When a write ends like this, the store adds the
//!   missing events: the object was created, and it was deleted. The same holds for any written state that readers lose
//!   before the watch has delivered it.
//! - A deleted object stays hidden by its uid until the watch delivers the deletion. Uids are never reused. This also
//!   hides an object whose creation the watch has yet to deliver, and objects that had the name before.
//! - If the watch delivers an object that is not in the store, at a version that it has already passed, the result is
//!   [`OutOfOrder`]: the event is a repetition after the deletion, or it is late. Only a list can decide this. Adding
//!   the object could bring back a deleted one, ignoring it could lose one.
//! - At most [`Store::WRITES`] writes are stored. The one with the lowest version is dropped first, and its object then
//!   shows the watched state.
//!
//! Transitions of an entry in `writes`, see [`WriteEffect`]:
//!
//! | from | on | to |
//! |---|---|---|
//! | none | answer to a write of a selected object | `Written` |
//! | none | answer to a write of an object that is not selected any more | `Deselected` |
//! | none | successful deletion | `Deleted` |
//! | none | deletion of many objects | `PresumedDeleted` |
//! | any | newer write of the same key | as from none, but answers about a `Deleted` uid are ignored |
//! | `Written`, `Deselected` | watch passed its version | none |
//! | `Deleted`, `PresumedDeleted` | watch passed its version, and delivered the deletion or a newer state that the entry does not hide | none |
//! | any | list of an older version (restored backup), or scope not watched any more | none |
//!
//! [`OrdMap`] shares its nodes between copies, so a snapshot of all objects is cheap and does not block writers.

mod deleted_uids;
mod delta;
mod overlay;
mod watched_snapshot;
mod watched_states;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use imbl::OrdMap;

use self::{deleted_uids::DeletedUids, overlay::OwnWrite};
pub(crate) use self::{
    delta::{Delta, StateChange},
    overlay::OwnDeletion,
    watched_snapshot::WatchedSnapshot,
    watched_states::ListInTransit,
};
use crate::{
    cache::{
        objects::{lazy::Lazy, object_codec::StoredVersion},
        query::WatchScope,
    },
    object::{
        Object, ObjectKey,
        meta::{Meta, ResourceVersion, Uid},
    },
};

/// The objects of one kind: watched states and own writes.
pub(crate) struct Store<K: Object> {
    /// Visible states.
    visible: OrdMap<ObjectKey<K>, Lazy<K>>,
    /// Watched states of the objects in `writes`, `None` if the watch knows no such object. For all other objects the
    /// watched state is the visible one.
    watched: BTreeMap<ObjectKey<K>, Option<Lazy<K>>>,
    /// Own writes that overlay the watched state.
    writes: BTreeMap<ObjectKey<K>, OwnWrite<K>>,
    /// Keys of `writes` by version, then by order of arrival.
    order: BTreeMap<(u64, u64), ObjectKey<K>>,
    next: u64,
    /// Uids of deleted objects with an unknown final version.
    deleted_uids: DeletedUids,
    /// Scopes with a complete initial list, and the version up to which the watch has delivered all changes.
    scopes: BTreeMap<WatchScope, Option<u64>>,
    /// Namespaces that are watched separately; the scope `None` does not contain them.
    separate: Arc<BTreeSet<Arc<str>>>,
}

impl<K: Object> Default for Store<K> {
    fn default() -> Self {
        Self {
            visible: OrdMap::new(),
            watched: BTreeMap::new(),
            writes: BTreeMap::new(),
            order: BTreeMap::new(),
            next: 0,
            deleted_uids: DeletedUids::default(),
            scopes: BTreeMap::new(),
            separate: Arc::default(),
        }
    }
}

impl<K: Object> Store<K> {
    /// Creates a store for all namespaces, some of which are watched separately.
    pub(crate) fn with_separate_namespaces(separate: BTreeSet<Arc<str>>) -> Self {
        Self { separate: Arc::new(separate), ..Self::default() }
    }
}

/// Visible states.
impl<K: Object> Store<K> {
    pub(crate) fn get(&self, key: &ObjectKey<K>) -> Option<&Lazy<K>> {
        self.visible.get(key)
    }

    /// Returns all objects. The copy is cheap and does not change.
    pub(crate) fn snapshot(&self) -> OrdMap<ObjectKey<K>, Lazy<K>> {
        self.visible.clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.visible.len()
    }

    /// Compares metadata with the object in the store, to find out whether the store has the same version.
    pub(crate) fn stored_version(&self, meta: &Meta) -> StoredVersion<K> {
        let Some(key) = ObjectKey::of_meta(meta) else { return StoredVersion::None };
        let visible = self.visible.get(&key);
        let watched = self.watched.get(&key).and_then(Option::as_ref);
        match [visible, watched].into_iter().flatten().find(|state| state.meta().same_version(meta)) {
            Some(same) => StoredVersion::Same(same.clone()),
            None => {
                visible.map_or(StoredVersion::None, |other| StoredVersion::Other { reads: other.reads() })
            }
        }
    }

    /// Sets the visible state of an object.
    fn show(&mut self, key: &ObjectKey<K>, new: Option<Lazy<K>>, delta: &mut Delta<K>) {
        let old = match &new {
            Some(object) => self.visible.insert(key.clone(), object.clone()),
            None => self.visible.remove(key),
        };
        if old.is_some() || new.is_some() {
            delta.changes.push(StateChange { key: key.clone(), old, new });
        }
    }
}

/// Scopes and the versions up to which they are complete.
impl<K: Object> Store<K> {
    /// Returns the scopes with a complete initial list.
    pub(crate) fn scopes(&self) -> impl Iterator<Item = &WatchScope> {
        self.scopes.keys()
    }

    /// Whether the initial list of a scope is complete.
    pub(crate) fn knows(&self, scope: &WatchScope) -> bool {
        self.scopes.contains_key(scope)
    }

    /// Returns the version up to which all known scopes have received all changes.
    pub(crate) fn version(&self) -> Option<u64> {
        self.scopes.values().min().copied().flatten()
    }

    /// Returns the version up to which each known scope has received all changes.
    pub(crate) fn versions(&self) -> impl Iterator<Item = (&WatchScope, u64)> {
        self.scopes.iter().filter_map(|(scope, version)| Some((scope, (*version)?)))
    }

    /// Whether the watch has delivered all changes up to `version` in the namespace of the object.
    fn has_passed(&self, key: &ObjectKey<K>, version: u64) -> bool {
        self.position_at(key).is_some_and(|position| position >= version)
    }

    /// Version up to which the watch has delivered all changes in the namespace of the object.
    fn position_at(&self, key: &ObjectKey<K>) -> Option<u64> {
        let everywhere = self.scopes.get(&None).copied().flatten().filter(|_| self.is_in(key, &None));
        let here = || self.scopes.get(&Some(Arc::from(key.namespace()?))).copied().flatten();
        everywhere.or_else(here)
    }

    /// Whether a scope contains the object.
    fn is_in(&self, key: &ObjectKey<K>, scope: &WatchScope) -> bool {
        match scope {
            None => !key.namespace().is_some_and(|namespace| self.separate.contains(namespace)),
            Some(scope) => key.namespace() == Some(&**scope),
        }
    }
}

fn has_uid<K: Object>(object: &Lazy<K>, uid: &Uid) -> bool {
    object.meta().uid() == Some(uid)
}

/// Returns the version as a number, if it is one.
fn number(meta: &Meta) -> Option<u64> {
    meta.resource_version().and_then(ResourceVersion::number)
}

/// Whether `a` has a lower version than `b`; `false` if one of them is not a number.
fn is_older(a: &Meta, b: &Meta) -> bool {
    matches!((number(a), number(b)), (Some(a), Some(b)) if a < b)
}

#[cfg(test)]
mod tests;
