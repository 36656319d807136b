//! Own writes, which overlay watched states until the watch has passed them.

use tokio::time::Instant;

use super::{Store, delta::Delta, has_uid, is_older, number};
use crate::{
    cache::{objects::lazy::Lazy, query::WatchScope},
    object::{Object, ObjectKey, meta::Uid},
};

/// A deletion by this process.
#[derive(Debug, Clone)]
pub(crate) struct OwnDeletion {
    pub(crate) uid: Uid,
    /// Version of the object's last state or of its deletion, if known.
    pub(crate) version: Option<u64>,
    /// A version that the API server had reached before the deletion was requested.
    pub(crate) after: Option<u64>,
}

/// A write of this process that the watch has not passed.
pub(super) struct OwnWrite<K: Object> {
    pub(super) effect: WriteEffect<K>,
    /// Key in [`Store::order`]: the version, zero if unknown, and a sequence number.
    order: (u64, u64),
    /// Whether the watch has delivered an object with its uid.
    pub(super) is_watched: bool,
    /// Time of the write.
    at: Instant,
}

/// Effect of an own write on the visible state.
pub(super) enum WriteEffect<K: Object> {
    /// The object has this state.
    Written(Lazy<K>),
    /// The object with this uid is not selected any more.
    Deselected(Uid),
    /// The object with this uid is deleted.
    Deleted(Uid),
    /// The object with this uid was part of a bulk deletion. The answer does not report single objects. If it had a
    /// finalizer it still exists, and a newer version will show that.
    PresumedDeleted(Uid),
}

impl<K: Object> OwnWrite<K> {
    /// Returns the visible state, given the watched state. Older watched states, such as an object that had the name
    /// before, are hidden.
    pub(super) fn over(&self, watched: Option<&Lazy<K>>) -> Option<Lazy<K>> {
        // A version that is not a number counts as newer.
        let is_newer = |state: &&Lazy<K>| number(state.meta()).is_none_or(|version| version > self.version());
        let newer = watched.filter(is_newer);
        match &self.effect {
            // A write that the watch has passed is removed, so this one is still the latest state.
            WriteEffect::Written(object) => Some(object.clone()),
            WriteEffect::Deselected(uid) | WriteEffect::Deleted(uid) => {
                newer.filter(|state| !has_uid(state, uid)).cloned()
            }
            WriteEffect::PresumedDeleted(_) => newer.cloned(),
        }
    }

    /// Version of the write; zero if unknown.
    fn version(&self) -> u64 {
        self.order.0
    }
}

impl<K: Object> WriteEffect<K> {
    fn uid(&self) -> Option<&Uid> {
        match self {
            Self::Written(object) => object.meta().uid(),
            Self::Deselected(uid) | Self::Deleted(uid) | Self::PresumedDeleted(uid) => Some(uid),
        }
    }

    /// Whether the write concerns this object.
    pub(super) fn is_of(&self, object: Option<&Lazy<K>>) -> bool {
        object.zip(self.uid()).is_some_and(|(object, uid)| has_uid(object, uid))
    }
}

impl<K: Object> Store<K> {
    /// Maximum number of stored writes, more than a process usually has pending while a watch lags behind.
    pub(crate) const WRITES: usize = 4096;

    /// Records the answer to a write. `selected` says whether the cache selects the object, `None` if that cannot be
    /// decided. In this case a visible object shows the new state until the watch decides, and an object that is not
    /// visible stays so.
    pub(crate) fn record_write(&mut self, object: Lazy<K>, selected: Option<bool>, now: Instant) -> Delta<K> {
        let mut delta = Delta::default();
        let key = object.key();
        let (Some(version), Some(uid)) = (number(object.meta()), object.meta().uid().cloned()) else {
            return delta; // without a number it is unknown when the watch has passed it
        };
        // The watch has delivered the write or something newer, or this process has deleted the object.
        if self.deleted_uids.since(&uid).is_some()
            || self.watched_state(&key).is_some_and(|watched| number(watched.meta()) >= Some(version))
        {
            return delta;
        }
        match self.writes.get(&key) {
            // Answers may arrive out of order: an older write must not replace a newer one or a deletion.
            Some(write) if write.version() >= version => return delta,
            Some(OwnWrite { effect: WriteEffect::Deleted(deleted), .. }) if *deleted == uid => return delta,
            _ => {}
        }
        if self.has_passed(&key, version) {
            // The object is deleted by now. If that happened while no watch was open, no event has shown it.
            if selected == Some(true) && self.watched_state(&key).is_none() {
                delta.add_missed(object, None);
            }
            return delta;
        }
        let visible = self.get(&key);
        if selected.unwrap_or_else(|| visible.is_some_and(|visible| has_uid(visible, &uid))) {
            self.write(&key, WriteEffect::Written(object), version, now, &mut delta);
        } else if visible.or_else(|| self.watched_state(&key)).is_some() {
            // A state has to be hidden: the visible one, or a watched one that another write overlays.
            self.write(&key, WriteEffect::Deselected(uid), version, now, &mut delta);
        }
        delta
    }

    /// Hides an object that this process deleted, and objects that had its name before.
    pub(crate) fn record_deletion(
        &mut self,
        key: &ObjectKey<K>,
        deletion: OwnDeletion,
        now: Instant,
    ) -> Delta<K> {
        let mut delta = Delta::default();
        let OwnDeletion { uid, version, after } = deletion;
        // Any object that had the name at this version is the deleted one or its predecessor.
        let by = version.max(after).unwrap_or_default();
        let watched = self.watched_state(key).map(|state| (has_uid(state, &uid), number(state.meta())));
        // Version up to which states of the name are hidden. `None` if no state is to be hidden.
        let hidden_by = match (self.writes.get(key), watched) {
            (Some(write), _) if write.effect.uid() == Some(&uid) => Some(write.version().max(by)),
            // Another object has taken the name since.
            (Some(write), _) if write.version() > by => None,
            (_, Some((true, watched))) => Some(watched.unwrap_or_default().max(by)),
            (_, Some((false, watched))) => watched.filter(|watched| *watched <= by).map(|_| by),
            (Some(_), None) => Some(by),
            // The name is unknown: the watch has delivered the deletion, or has yet to deliver the creation.
            (None, None) => version.filter(|version| !self.has_passed(key, *version)),
        };
        if version.is_none() {
            // The watch may deliver the object later at any version, also while another write of the name is recorded.
            self.deleted_uids.add(uid.clone(), now, Self::WRITES);
        }
        if let Some(version) = hidden_by {
            self.write(key, WriteEffect::Deleted(uid), version, now, &mut delta);
        }
        delta
    }

    /// Hides an object that was most likely deleted by a bulk deletion, unless a newer state of it is known.
    pub(crate) fn record_presumed_deletion(
        &mut self,
        key: &ObjectKey<K>,
        uid: Uid,
        version: u64,
        now: Instant,
    ) -> Delta<K> {
        let mut delta = Delta::default();
        let is_outdated = match self.writes.get(key) {
            Some(OwnWrite { effect: WriteEffect::Deleted(deleted), .. }) if *deleted == uid => true,
            Some(write) => write.version() > version,
            None => false,
        };
        let is_watched_newer = match self.watched_state(key) {
            Some(watched) => number(watched.meta()) > Some(version),
            None => self.has_passed(key, version), // the watch has delivered the deletion
        };
        if !is_outdated && !is_watched_newer {
            self.write(key, WriteEffect::PresumedDeleted(uid), version, now, &mut delta);
        }
        delta
    }

    /// Returns a version that the API server has reached, according to the watch or own writes of the object.
    pub(crate) fn reached(&self, key: &ObjectKey<K>) -> Option<u64> {
        self.position_at(key).max(self.writes.get(key).map(OwnWrite::version))
    }

    /// Returns since when the oldest write waits for the watch of a scope. Hidden objects that the watch has not
    /// delivered do not count, because it may never deliver their deletion.
    pub(crate) fn waiting_since(&self, scope: &WatchScope) -> Option<Instant> {
        let mut waiting = self.order.values().filter(|key| self.is_in(key, scope));
        waiting.find_map(|key| {
            let write = self.writes.get(key)?;
            let counts = matches!(write.effect, WriteEffect::Written(_)) || self.watched_state(key).is_some();
            counts.then_some(write.at)
        })
    }

    /// Hides the new object if it is known to be deleted, and forgets the UID of the old object if the new state ends
    /// it. Called before the watched state changes.
    pub(super) fn hide_deleted_uid(
        &mut self,
        key: &ObjectKey<K>,
        object: Option<&Lazy<K>>,
        delta: &mut Delta<K>,
    ) {
        if self.deleted_uids.is_empty() {
            return;
        }
        let new = object.and_then(|object| object.meta().uid());
        let old = self.watched_state(key).and_then(|state| state.meta().uid()).cloned();
        if let Some(old) = old.filter(|old| new != Some(old)) {
            self.deleted_uids.remove(&old);
        }
        let Some((object, uid)) = object.zip(new) else { return };
        let version = number(object.meta()).unwrap_or_default();
        if let Some(since) = self.deleted_uids.since(uid)
            && self.writes.get(key).is_none_or(|write| write.version() < version)
        {
            self.write(key, WriteEffect::Deleted(uid.clone()), version, since, delta);
        }
    }

    /// Records an own write in place of an earlier one of the key, and shows its effect. Above [`Store::WRITES`] the
    /// write with the lowest version is dropped.
    fn write(
        &mut self,
        key: &ObjectKey<K>,
        effect: WriteEffect<K>,
        version: u64,
        now: Instant,
        delta: &mut Delta<K>,
    ) {
        let watched = self.watched_state(key).cloned();
        let order = (version, self.next);
        self.next += 1;
        self.order.insert(order, key.clone());
        let before = self.writes.get(key).filter(|before| before.effect.uid() == effect.uid());
        let is_watched = before.is_some_and(|before| before.is_watched) || effect.is_of(watched.as_ref());
        let write = OwnWrite { effect, order, is_watched, at: now };
        let visible = write.over(watched.as_ref());
        // One entry per key: the newer write replaces the older one. A state that was written is visible, so its last
        // handle goes into `changes` below.
        if let Some(before) = self.writes.insert(key.clone(), write) {
            self.order.remove(&before.order);
        }
        // From now on the watched state is stored separately, because the visible one may differ.
        delta.retired.extend(self.watched.insert(key.clone(), watched).flatten());
        self.show(key, visible, delta);
        if self.writes.len() > Self::WRITES
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.forget(&oldest, delta);
        }
    }

    /// Removes the writes that the watch of a scope has passed.
    pub(super) fn settle(&mut self, scope: &WatchScope, delta: &mut Delta<K>) {
        if self.order.is_empty() {
            return;
        }
        let position = self.scopes.get(scope).copied().flatten().unwrap_or_default();
        let passed = self.order.range(..=(position, u64::MAX)).filter(|(_, key)| self.is_in(key, scope));
        let keys: Vec<_> = passed.map(|(_, key)| key.clone()).collect();
        for key in keys {
            self.settle_key(&key, delta);
        }
    }

    fn settle_key(&mut self, key: &ObjectKey<K>, delta: &mut Delta<K>) {
        let Some(write) = self.writes.get(key) else { return };
        let watched = || self.watched.get(key).and_then(Option::as_ref);
        let is_settled = self.has_passed(key, write.version())
            && match &write.effect {
                WriteEffect::Written(_) | WriteEffect::Deselected(_) => true,
                // The deletion may have a higher version than the last state. Keep hiding until the watch delivers it,
                // or an object that is not hidden.
                WriteEffect::Deleted(_) | WriteEffect::PresumedDeleted(_) => {
                    write.over(watched()).is_some() || watched().is_none()
                }
            };
        if is_settled {
            self.order.remove(&write.order);
            self.forget(key, delta);
        }
    }

    /// Removes a write after its entry in `order`. The watched state becomes visible.
    fn forget(&mut self, key: &ObjectKey<K>, delta: &mut Delta<K>) {
        let write = self.writes.remove(key);
        let watched = self.watched.remove(key).flatten();
        if let Some(OwnWrite { effect: WriteEffect::Written(written), is_watched, .. }) = write {
            let has_events = match &watched {
                // The watch has delivered the write or something newer.
                Some(watched) => is_older(watched.meta(), written.meta()),
                // The events of a watched object include its deletion.
                None => !is_watched,
            };
            if has_events {
                delta.add_missed(written, watched.clone());
            } else {
                delta.retired.push(written);
            }
        }
        let visible = self.visible.get(key);
        // The watched state was visible already: no change to publish.
        if watched.as_ref().zip(visible).is_some_and(|(watched, visible)| watched.ptr_eq(visible)) {
            delta.retired.extend(watched);
        } else {
            self.show(key, watched, delta);
        }
    }

    /// Removes the writes of a scope.
    pub(super) fn forget_writes(&mut self, scope: &WatchScope, delta: &mut Delta<K>) {
        let keys: Vec<_> = self.writes.keys().filter(|key| self.is_in(key, scope)).cloned().collect();
        for key in keys {
            if let Some(write) = self.writes.get(&key) {
                self.order.remove(&write.order);
            }
            self.forget(&key, delta);
        }
    }
}
