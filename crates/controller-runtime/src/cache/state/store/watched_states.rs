//! Watched states: lists and watch events, and the events that follow from them.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use super::{
    Store,
    deleted_uids::DeletedUids,
    delta::{Delta, Origin},
    is_older, number,
    watched_snapshot::{WatchedSnapshot, watched_after},
};
use crate::{
    cache::{
        objects::{event::Event, lazy::Lazy},
        query::WatchScope,
        watch::subscriber::OutOfOrder,
    },
    object::{Object, ObjectKey},
};

/// A complete list of a scope that is being added to the store in pieces. See [`Store::replace_some`].
pub(crate) struct ListInTransit<K: Object> {
    /// Objects that the store has not processed.
    pub(crate) objects: BTreeMap<ObjectKey<K>, Lazy<K>>,
    /// The last key that the store has processed. `None` before the first piece.
    reached: Option<ObjectKey<K>>,
}

impl<K: Object> ListInTransit<K> {
    pub(crate) fn new(objects: BTreeMap<ObjectKey<K>, Lazy<K>>) -> Self {
        Self { objects, reached: None }
    }
}

impl<K: Object> Store<K> {
    /// Returns a copy of all objects in their watched states.
    pub(crate) fn watched_snapshot(&self) -> WatchedSnapshot<K> {
        WatchedSnapshot { visible: self.visible.clone(), watched: self.watched.clone() }
    }

    /// Returns at most `limit` objects after `key` in their watched states, in key order.
    pub(crate) fn watched_after(&self, key: Option<&ObjectKey<K>>, limit: usize) -> Vec<Lazy<K>> {
        watched_after(&self.visible, &self.watched, key, limit)
    }

    /// Returns the watched state of one object.
    pub(super) fn watched_state(&self, key: &ObjectKey<K>) -> Option<&Lazy<K>> {
        self.watched.get(key).map_or_else(|| self.visible.get(key), Option::as_ref)
    }

    /// Processes a piece of a complete list of a scope: about `limit` objects. Returns the differences, and whether
    /// this was the last piece.
    ///
    /// Merges list and store in key order, like a merge of two sorted sequences. Unchanged objects keep the state in
    /// the store. An object that the list lacks was deleted while no watch was open. An object with the same name and
    /// another uid gives a delete and a create. Between the pieces readers see objects from before and after the list,
    /// but no object goes back to an older state.
    pub(crate) fn replace_some(
        &mut self,
        scope: &WatchScope,
        list: &mut ListInTransit<K>,
        version: Option<u64>,
        limit: usize,
    ) -> (bool, Delta<K>) {
        let mut delta = Delta::default();
        let position = self.scopes.get(scope).copied();
        let origin = if position.is_none() { Origin::InitialList } else { Origin::Change };
        if list.reached.is_none() && version < position.flatten() {
            // The server was restored from a backup and has lost these writes and deletions.
            self.forget_writes(scope, &mut delta);
            // These events precede those of the list.
            delta.events.append(&mut delta.missed);
            self.deleted_uids = DeletedUids::default();
        }
        let (mut vanished, held_to) = self.held_after(scope, list.reached.as_ref(), limit);
        let mut arrived = Vec::new();
        while arrived.len() < limit
            && let Some(next) = list.objects.first_entry()
            && held_to.as_ref().is_none_or(|end| next.key() <= end)
        {
            arrived.push(next.remove_entry());
        }
        // The piece ends at the smaller of both last keys, so that both sides have been compared up to it. Without an
        // end both sides are exhausted.
        let end = match arrived.last() {
            Some((last, _)) if arrived.len() == limit && !list.objects.is_empty() => Some(last.clone()),
            _ => held_to,
        };
        for (key, object) in arrived {
            vanished.remove(&key);
            let old = self.watched_state(&key);
            // Keep the state in the store, which other caches may share and which may be decoded already.
            if old.is_some_and(|old| old.meta().same_version(object.meta())) {
                delta.retired.push(object);
                continue;
            }
            delta.add_entered(old.cloned(), &object, origin);
            self.set_watched(&key, Some(object), &mut delta);
        }
        for key in vanished.into_iter().take_while(|key| end.as_ref().is_none_or(|end| key <= end)) {
            self.vanish(&key, &mut delta);
        }
        list.reached = end;
        if list.reached.is_some() {
            return (false, delta);
        }
        // Only after the last piece: from now on the scope counts as complete.
        self.scopes.insert(scope.clone(), version);
        self.settle(scope, &mut delta);
        (true, delta)
    }

    /// Adds or updates one object that the watch delivered. No event if the store has the same or a newer version.
    ///
    /// A version newer than the one in the store is accepted even if the watch has passed it: only a server that does
    /// not send changes in the order of their versions sends such an event, and the object's own version is then
    /// decisive.
    ///
    /// # Errors
    ///
    /// The object is not in the store, and the watch has passed its version. The store is unchanged.
    pub(crate) fn upsert(&mut self, scope: &WatchScope, object: Lazy<K>) -> Result<Delta<K>, OutOfOrder> {
        let (key, version) = (object.key(), number(object.meta()));
        let old = self.watched_state(&key).cloned();
        // The watch has passed this version, so the object may have been deleted since. Adding it could
        // revive it.
        if old.is_none() && version.is_some() && version < self.scopes.get(scope).copied().flatten() {
            return Err(OutOfOrder);
        }
        // A repeated or older event changes nothing but the version of the scope.
        let is_known = old
            .as_ref()
            .is_some_and(|old| old.meta().same_version(object.meta()) || is_older(object.meta(), old.meta()));
        let mut delta = Delta::default();
        if !is_known {
            delta.add_entered(old, &object, Origin::Change);
            self.set_watched(&key, Some(object), &mut delta);
        }
        self.pass(scope, version, &mut delta);
        Ok(delta)
    }

    /// Removes an object that was deleted or is not selected any more. `last` is its last state. No event if the store
    /// has no such object or a newer one.
    pub(crate) fn remove(&mut self, scope: &WatchScope, last: Lazy<K>) -> Delta<K> {
        let (key, version) = (last.key(), number(last.meta()));
        let mut delta = Delta::default();
        if let Some(held) = self.watched_state(&key).cloned()
            && !is_older(last.meta(), held.meta())
        {
            self.set_watched(&key, None, &mut delta);
            // If another object has had the name in the meantime, the store's object was deleted as well, with an
            // unknown last state.
            delta.events.push(match held.meta().uid() == last.meta().uid() {
                true => Event::Delete { object: last, state_unknown: false },
                false => Event::Delete { object: held, state_unknown: true },
            });
        }
        self.pass(scope, version, &mut delta);
        delta
    }

    /// Records that the watch of a scope has delivered all changes up to `version`.
    pub(crate) fn advance(&mut self, scope: &WatchScope, version: Option<u64>) -> Delta<K> {
        let mut delta = Delta::default();
        self.pass(scope, version, &mut delta);
        delta
    }

    /// Advances the version of a scope, never backwards, and removes own writes that the watch has passed.
    fn pass(&mut self, scope: &WatchScope, version: Option<u64>, delta: &mut Delta<K>) {
        if let Some(position) = self.scopes.get_mut(scope) {
            // A version that is not a number is `None`, which compares lower than any other.
            *position = version.max(*position);
            self.settle(scope, delta);
        }
    }

    /// Removes a piece of a scope that is not watched any more: processes about `limit` objects after the key
    /// `reached`, which is `None` at first. Returns the differences, and whether this was the last piece.
    pub(crate) fn withdraw_some(
        &mut self,
        scope: &WatchScope,
        reached: &mut Option<ObjectKey<K>>,
        limit: usize,
    ) -> (bool, Delta<K>) {
        let mut delta = Delta::default();
        if reached.is_none() {
            self.forget_writes(scope, &mut delta);
        }
        let (keys, end) = self.held_after(scope, reached.as_ref(), limit);
        for key in &keys {
            self.vanish(key, &mut delta);
        }
        *reached = end;
        if reached.is_some() {
            return (false, delta);
        }
        // Own writes may have been recorded between the pieces.
        self.forget_writes(scope, &mut delta);
        self.scopes.remove(scope);
        (true, delta)
    }

    /// Removes an object although the watch did not deliver its deletion.
    fn vanish(&mut self, key: &ObjectKey<K>, delta: &mut Delta<K>) {
        if let Some(object) = self.watched_state(key).cloned() {
            self.set_watched(key, None, delta);
            delta.events.push(Event::Delete { object, state_unknown: true });
        }
    }

    /// Looks at about `limit` objects after `key` in the range of `scope`. Returns the keys of those that the watch of
    /// `scope` delivered, and the last key looked at, or `None` if the range ends here.
    fn held_after(
        &self,
        scope: &WatchScope,
        key: Option<&ObjectKey<K>>,
        limit: usize,
    ) -> (BTreeSet<ObjectKey<K>>, Option<ObjectKey<K>>) {
        // The empty name sorts before all others, so this is the first possible key of the namespace.
        let first = scope.as_ref().and_then(|name| ObjectKey::from_parts(Some(name), ""));
        let from = match key {
            Some(key) => Bound::Excluded(key),
            None => first.as_ref().map_or(Bound::Unbounded, Bound::Included),
        };
        // A namespace is one range of keys; the scope `None` may have separate namespaces in between.
        let is_beyond = |key: &ObjectKey<K>| scope.is_some() && !self.is_in(key, scope);
        let visible = self.visible.range::<_, ObjectKey<K>>((from, Bound::Unbounded)).map(|(key, _)| key);
        let seen: Vec<_> = visible.take_while(|key| !is_beyond(key)).take(limit).collect();
        let end = if seen.len() == limit { seen.last().copied() } else { None };
        let to = end.map_or(Bound::Unbounded, Bound::Included);
        // `visible` lacks the objects that own writes have deleted; `watched` has their watched states.
        let written = self.watched.range::<ObjectKey<K>, _>((from, to)).filter(|(_, state)| state.is_some());
        let written = written.map(|(key, _)| key);
        let untouched = seen.iter().copied().filter(|key| !self.watched.contains_key(*key));
        (written.chain(untouched).filter(|key| self.is_in(key, scope)).cloned().collect(), end.cloned())
    }

    /// Sets the watched state of an object, and the visible state that follows from it.
    fn set_watched(&mut self, key: &ObjectKey<K>, object: Option<Lazy<K>>, delta: &mut Delta<K>) {
        // Comes first, because it may record a write that hides the object.
        self.hide_deleted_uid(key, object.as_ref(), delta);
        match self.writes.get_mut(key) {
            None => self.show(key, object, delta),
            Some(write) => {
                write.is_watched |= write.effect.is_of(object.as_ref());
                let visible = write.over(object.as_ref());
                delta.retired.extend(self.watched.insert(key.clone(), object).flatten());
                self.show(key, visible, delta);
            }
        }
    }
}

#[cfg(test)]
impl<K: Object> Store<K> {
    /// Returns all objects in their watched states, in key order.
    pub(crate) fn watched_objects(&self) -> impl Iterator<Item = Lazy<K>> {
        self.watched_snapshot().after(None, usize::MAX).into_iter()
    }

    /// Replaces the objects of a scope by a complete list of `version`, and returns the differences.
    pub(crate) fn replace(
        &mut self,
        scope: &WatchScope,
        list: impl IntoIterator<Item = Lazy<K>>,
        version: Option<u64>,
    ) -> Delta<K> {
        let mut list = ListInTransit::new(list.into_iter().map(|object| (object.key(), object)).collect());
        in_pieces(|| self.replace_some(scope, &mut list, version, 2))
    }

    /// Removes a scope that is not watched any more.
    pub(crate) fn withdraw(&mut self, scope: &WatchScope) -> Delta<K> {
        let mut reached = None;
        in_pieces(|| self.withdraw_some(scope, &mut reached, 2))
    }
}

/// Calls `piece` until it returns `true`, and joins the results.
#[cfg(test)]
fn in_pieces<K: Object>(mut piece: impl FnMut() -> (bool, Delta<K>)) -> Delta<K> {
    let mut all = Delta::default();
    loop {
        let (is_last, delta) = piece();
        all.events.extend(delta.events);
        all.missed.extend(delta.missed);
        all.changes.extend(delta.changes);
        all.retired.extend(delta.retired);
        if is_last {
            return all;
        }
    }
}
