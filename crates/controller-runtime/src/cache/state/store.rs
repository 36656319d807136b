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
//! Transitions of an entry in `writes`, see [`Wrote`]:
//!
//! | from | on | to |
//! |---|---|---|
//! | none | answer to a write of a selected object | `Stands` |
//! | none | answer to a write of an object that is not selected any more | `Left` |
//! | none | successful deletion | `Gone` |
//! | none | deletion of many objects | `Presumed` |
//! | any | newer write of the same key | as from none, but answers about a `Gone` uid are ignored |
//! | `Stands`, `Left` | watch passed its version | none |
//! | `Gone`, `Presumed` | watch passed its version, and delivered the deletion or a newer state that the entry does not hide | none |
//! | any | list of an older version (restored backup), or namespace not watched any more | none |
//!
//! [`OrdMap`] shares its nodes between copies, so a snapshot of all objects is cheap and does not block writers.

mod ended;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use imbl::OrdMap;
use tokio::time::Instant;

use self::ended::Ended;
use crate::{
    cache::{
        objects::{event::Event, lazy::Lazy, shelf::Known},
        query::Part,
        watch::feed::OutOfOrder,
    },
    object::{
        Object, ObjectKey,
        meta::{Meta, ResourceVersion, Uid},
    },
};

/// The objects of one kind: watched states and own writes.
#[derive(Clone)]
pub(crate) struct Store<K: Object> {
    /// Visible states.
    visible: OrdMap<ObjectKey<K>, Lazy<K>>,
    /// Watched states of the objects in `writes`, `None` if the watch knows no such object. For all other objects the
    /// watched state is the visible one.
    told: BTreeMap<ObjectKey<K>, Option<Lazy<K>>>,
    /// Own writes that overlay the watched state.
    writes: BTreeMap<ObjectKey<K>, Write<K>>,
    /// Keys of `writes` by version, then by order of arrival.
    order: BTreeMap<(u64, u64), ObjectKey<K>>,
    next: u64,
    /// Uids of deleted objects with an unknown final version.
    ended: Ended,
    /// Parts with a complete initial list, and the version up to which the watch has delivered all changes.
    parts: BTreeMap<Part, Option<u64>>,
    /// Namespaces that are watched separately; the part `None` does not contain them.
    apart: Arc<BTreeSet<Arc<str>>>,
    /// Changes of visible states since [`Store::take_changes`].
    changes: Vec<Change<K>>,
    /// Events of written states that the watch never delivered, since [`Store::take_missed`].
    missed: Vec<Event<K>>,
    /// States that were replaced since [`Store::take_retired`]. Dropping the last handle of a state drops the user's
    /// object, which runs user code. So the caller, which locks the store, drops them after releasing the lock.
    retired: Vec<Lazy<K>>,
}

/// A complete list of a part that is being added to the store in pieces. See [`Store::replace_some`].
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

/// Change of the visible state of an object.
#[derive(Debug, Clone)]
pub(crate) struct Change<K: Object> {
    pub(crate) key: ObjectKey<K>,
    pub(crate) old: Option<Lazy<K>>,
    pub(crate) new: Option<Lazy<K>>,
}

/// Result of a deletion by this process.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(crate) uid: Uid,
    /// Version of the object's last state or of its deletion, if known.
    pub(crate) version: Option<u64>,
    /// A version that the API server had reached before the deletion was requested.
    pub(crate) after: Option<u64>,
}

#[derive(Clone)]
struct Write<K: Object> {
    what: Wrote<K>,
    /// Position in `order`: the version, zero if unknown, and a sequence number.
    place: (u64, u64),
    /// Whether the watch has delivered an object with its uid.
    is_watched: bool,
    at: Instant,
}

/// Effect of an own write on the visible state.
#[derive(Clone)]
enum Wrote<K: Object> {
    /// The object has this state.
    Stands(Lazy<K>),
    /// The object with this uid is not selected any more.
    Left(Uid),
    /// The object with this uid is deleted.
    Gone(Uid),
    /// The object with this uid was part of a bulk deletion, whose answer does not report single objects. If it had a
    /// finalizer it still exists, and a newer version will show that.
    Presumed(Uid),
}

impl<K: Object> Write<K> {
    /// Returns the visible state, given the watched state. Older watched states, such as an object that had the name
    /// before, are hidden.
    fn over(&self, told: Option<&Lazy<K>>) -> Option<Lazy<K>> {
        let newer = told.filter(|told| number(told.meta()).is_none_or(|version| version > self.place.0));
        match &self.what {
            Wrote::Stands(object) => Some(object.clone()),
            Wrote::Left(uid) | Wrote::Gone(uid) => newer.filter(|told| !has_uid(told, uid)).cloned(),
            Wrote::Presumed(_) => newer.cloned(),
        }
    }
}

impl<K: Object> Wrote<K> {
    fn into_object(self) -> Option<Lazy<K>> {
        match self {
            Self::Stands(object) => Some(object),
            Self::Left(_) | Self::Gone(_) | Self::Presumed(_) => None,
        }
    }

    fn uid(&self) -> Option<&Uid> {
        match self {
            Self::Stands(object) => object.meta().uid(),
            Self::Left(uid) | Self::Gone(uid) | Self::Presumed(uid) => Some(uid),
        }
    }

    /// Whether the write concerns this object.
    fn is_of(&self, object: Option<&Lazy<K>>) -> bool {
        object.zip(self.uid()).is_some_and(|(object, uid)| has_uid(object, uid))
    }
}

impl<K: Object> Default for Store<K> {
    fn default() -> Self {
        Self {
            visible: OrdMap::new(),
            told: BTreeMap::new(),
            writes: BTreeMap::new(),
            order: BTreeMap::new(),
            next: 0,
            ended: Ended::default(),
            parts: BTreeMap::new(),
            apart: Arc::default(),
            changes: Vec::new(),
            missed: Vec::new(),
            retired: Vec::new(),
        }
    }
}

/// The objects of a store in their watched states. A cheap copy that does not change.
pub(crate) struct Watched<K: Object> {
    visible: OrdMap<ObjectKey<K>, Lazy<K>>,
    /// Watched states of objects with own writes, at most [`Store::WRITES`].
    told: BTreeMap<ObjectKey<K>, Option<Lazy<K>>>,
}

impl<K: Object> Watched<K> {
    /// Returns at most `limit` objects after `key`, in key order.
    pub(crate) fn after(&self, key: Option<&ObjectKey<K>>, limit: usize) -> Vec<Lazy<K>> {
        watched_after(&self.visible, &self.told, key, limit)
    }

    /// Replaces an object of the copy, or removes it. Returns `false` if there is none.
    pub(crate) fn set(&mut self, key: &ObjectKey<K>, object: Option<Lazy<K>>) -> bool {
        let was_there = match self.told.remove(key) {
            Some(told) => told.is_some(),
            None => self.visible.contains_key(key),
        };
        match object.filter(|_| was_there) {
            Some(object) => drop(self.visible.insert(key.clone(), object)),
            None => drop(self.visible.remove(key)),
        }
        was_there
    }
}

fn watched_after<K: Object>(
    visible: &OrdMap<ObjectKey<K>, Lazy<K>>,
    told: &BTreeMap<ObjectKey<K>, Option<Lazy<K>>>,
    key: Option<&ObjectKey<K>>,
    limit: usize,
) -> Vec<Lazy<K>> {
    let after = (key.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
    let untouched = visible.range::<_, ObjectKey<K>>(after).filter(|(key, _)| !told.contains_key(key));
    if told.is_empty() {
        return untouched.take(limit).map(|(_, object)| object.clone()).collect();
    }
    let told = told.range::<ObjectKey<K>, _>(after).filter_map(|(key, told)| Some((key, told.as_ref()?)));
    let all: BTreeMap<_, _> = told.take(limit).chain(untouched.take(limit)).collect();
    all.into_values().take(limit).cloned().collect()
}

impl<K: Object> Store<K> {
    /// Creates a store for all namespaces, some of which are watched separately.
    pub(crate) fn with_apart(apart: BTreeSet<Arc<str>>) -> Self {
        Self { apart: Arc::new(apart), ..Self::default() }
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

    /// Returns the version up to which all known parts have received all changes.
    pub(crate) fn version(&self) -> Option<u64> {
        self.parts.values().min().copied().flatten()
    }

    /// Returns the version up to which each known part has received all changes.
    pub(crate) fn versions(&self) -> impl Iterator<Item = (&Part, u64)> {
        self.parts.iter().filter_map(|(part, version)| Some((part, (*version)?)))
    }

    /// Compares metadata with the object in the store, to find out whether the store has the same version.
    pub(crate) fn known(&self, meta: &Meta) -> Known<K> {
        let Some(key) = ObjectKey::of_meta(meta) else { return Known::Nothing };
        let seen = self.visible.get(&key);
        let told = self.told.get(&key).and_then(Option::as_ref);
        match [seen, told].into_iter().flatten().find(|state| state.meta().same_version(meta)) {
            Some(same) => Known::Same(same.clone()),
            None => seen.map_or(Known::Nothing, |other| Known::Other { reads: other.reads() }),
        }
    }

    /// Takes the changes of visible states since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<Change<K>> {
        std::mem::take(&mut self.changes)
    }

    /// Takes the events of written states that the watch never delivered. They follow the events of the change that led to
    /// them.
    pub(crate) fn take_missed(&mut self) -> Vec<Event<K>> {
        std::mem::take(&mut self.missed)
    }

    /// Takes the replaced states, so that the caller drops them while no lock is held.
    pub(crate) fn take_retired(&mut self) -> Vec<Lazy<K>> {
        std::mem::take(&mut self.retired)
    }

    fn show(&mut self, key: &ObjectKey<K>, new: Option<Lazy<K>>) {
        let old = match &new {
            Some(object) => self.visible.insert(key.clone(), object.clone()),
            None => self.visible.remove(key),
        };
        if old.is_some() || new.is_some() {
            self.changes.push(Change { key: key.clone(), old, new });
        }
    }
}

/// Events of the watch.
impl<K: Object> Store<K> {
    /// Returns all objects in their watched states, in key order.
    #[cfg(test)]
    pub(crate) fn told(&self) -> impl Iterator<Item = Lazy<K>> {
        self.watched().after(None, usize::MAX).into_iter()
    }

    /// Returns a copy of all objects in their watched states.
    pub(crate) fn watched(&self) -> Watched<K> {
        Watched { visible: self.visible.clone(), told: self.told.clone() }
    }

    /// Returns at most `limit` objects after `key` in their watched states, in key order.
    pub(crate) fn told_after(&self, key: Option<&ObjectKey<K>>, limit: usize) -> Vec<Lazy<K>> {
        watched_after(&self.visible, &self.told, key, limit)
    }

    /// Returns the watched state of one object.
    fn told_of(&self, key: &ObjectKey<K>) -> Option<&Lazy<K>> {
        self.told.get(key).map_or_else(|| self.visible.get(key), Option::as_ref)
    }

    /// Replaces the objects of a part by a complete list of `version`, and returns the differences.
    #[cfg(test)]
    pub(crate) fn replace(
        &mut self,
        part: &Part,
        list: impl IntoIterator<Item = Lazy<K>>,
        version: Option<u64>,
    ) -> Vec<Event<K>> {
        let mut list = ListInTransit::new(list.into_iter().map(|object| (object.key(), object)).collect());
        let mut events = Vec::new();
        while !self.replace_some(part, &mut list, version, 2, &mut events) {}
        events
    }

    /// Processes a piece of a complete list of a part: about `limit` objects. Appends the differences to `events`, and
    /// returns whether this was the last piece.
    ///
    /// Unchanged objects keep the state in the store. An object that the list lacks was deleted while no watch was
    /// open. An object with the same name and another uid gives a delete and a create. Between the pieces readers see
    /// objects from before and after the list, but no object goes back to an older state.
    pub(crate) fn replace_some(
        &mut self,
        part: &Part,
        list: &mut ListInTransit<K>,
        version: Option<u64>,
        limit: usize,
        events: &mut Vec<Event<K>>,
    ) -> bool {
        let position = self.parts.get(part).copied();
        let in_initial_list = position.is_none();
        if list.reached.is_none() && version < position.flatten() {
            // The server was restored from a backup and has lost these writes and deletions.
            self.forget_writes(part);
            events.append(&mut self.missed);
            self.ended = Ended::default();
        }
        let (mut vanished, held_to) = self.held_after(part, list.reached.as_ref(), limit);
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
            let old = self.told_of(&key);
            // Keep the state in the store, which other caches may share and which may be decoded already.
            if old.is_some_and(|old| old.meta().same_version(object.meta())) {
                self.retired.push(object);
                continue;
            }
            entered(events, old.cloned(), &object, in_initial_list);
            self.tell(&key, Some(object));
        }
        for key in vanished.into_iter().take_while(|key| end.as_ref().is_none_or(|end| key <= end)) {
            events.extend(self.vanish(&key));
        }
        list.reached = end;
        if list.reached.is_some() {
            return false;
        }
        self.parts.insert(part.clone(), version);
        self.settle(part);
        true
    }

    /// Adds or updates one object that the watch delivered. No event if the store has the same or a newer version.
    ///
    /// A version newer than the one in the store is accepted even if the watch has passed it: only a server that does not send
    /// changes in the order of their versions sends such an event, and the object's own version is then decisive.
    ///
    /// # Errors
    ///
    /// The object is not in the store, and the watch has passed its version. The store is unchanged.
    pub(crate) fn upsert(&mut self, part: &Part, object: Lazy<K>) -> Result<Vec<Event<K>>, OutOfOrder> {
        let (key, version) = (object.key(), number(object.meta()));
        let old = self.told_of(&key).cloned();
        if old.is_none() && version.is_some() && version < self.parts.get(part).copied().flatten() {
            return Err(OutOfOrder);
        }
        let known = old
            .as_ref()
            .is_some_and(|old| old.meta().same_version(object.meta()) || is_older(object.meta(), old.meta()));
        let mut events = Vec::new();
        if !known {
            entered(&mut events, old, &object, false);
            self.tell(&key, Some(object));
        }
        self.passed(part, version);
        Ok(events)
    }

    /// Removes an object that was deleted or is not selected any more. `last` is its last state. No event if the store
    /// has no such object or a newer one.
    pub(crate) fn remove(&mut self, part: &Part, last: Lazy<K>) -> Vec<Event<K>> {
        let (key, version) = (last.key(), number(last.meta()));
        let events = match self.told_of(&key).cloned() {
            Some(held) if !is_older(last.meta(), held.meta()) => {
                self.tell(&key, None);
                // If another object has had the name in the meantime, the store's object was deleted as well, with an
                // unknown last state.
                let event = match held.meta().uid() == last.meta().uid() {
                    true => Event::Delete { object: last, state_unknown: false },
                    false => Event::Delete { object: held, state_unknown: true },
                };
                vec![event]
            }
            _ => Vec::new(),
        };
        self.passed(part, version);
        events
    }

    /// Returns the parts with a complete initial list.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.keys()
    }

    /// Whether the initial list of a part is complete.
    pub(crate) fn knows(&self, part: &Part) -> bool {
        self.parts.contains_key(part)
    }

    /// Records that the watch of a part has delivered all changes up to `version`.
    pub(crate) fn passed(&mut self, part: &Part, version: Option<u64>) {
        if let Some(position) = self.parts.get_mut(part) {
            *position = version.max(*position);
            self.settle(part);
        }
    }

    /// Removes a part that is not watched any more.
    #[cfg(test)]
    pub(crate) fn withdraw(&mut self, part: &Part) -> Vec<Event<K>> {
        let (mut events, mut reached) = (Vec::new(), None);
        while !self.withdraw_some(part, &mut reached, 2, &mut events) {}
        events
    }

    /// Removes a piece of a part that is not watched any more: processes about `limit` objects after the key `reached`,
    /// which is `None` at first. Appends the differences to `events`, and returns whether this was the last piece.
    pub(crate) fn withdraw_some(
        &mut self,
        part: &Part,
        reached: &mut Option<ObjectKey<K>>,
        limit: usize,
        events: &mut Vec<Event<K>>,
    ) -> bool {
        if reached.is_none() {
            self.forget_writes(part);
        }
        let (keys, end) = self.held_after(part, reached.as_ref(), limit);
        events.extend(keys.iter().filter_map(|key| self.vanish(key)));
        *reached = end;
        if reached.is_some() {
            return false;
        }
        // Own writes may have been recorded between the pieces.
        self.forget_writes(part);
        self.parts.remove(part);
        true
    }

    fn vanish(&mut self, key: &ObjectKey<K>) -> Option<Event<K>> {
        let object = self.told_of(key)?.clone();
        self.tell(key, None);
        Some(Event::Delete { object, state_unknown: true })
    }

    /// Processes about `limit` objects after `key`: returns the keys of those that the watch of `part` delivered, and
    /// the last processed key, or `None` if there are no more.
    fn held_after(
        &self,
        part: &Part,
        key: Option<&ObjectKey<K>>,
        limit: usize,
    ) -> (BTreeSet<ObjectKey<K>>, Option<ObjectKey<K>>) {
        // The empty name sorts before all others, so this is the first possible key of the namespace.
        let first = part.as_ref().and_then(|name| ObjectKey::from_parts(Some(name), ""));
        let from = match key {
            Some(key) => Bound::Excluded(key),
            None => first.as_ref().map_or(Bound::Unbounded, Bound::Included),
        };
        // A namespace is one range of keys; the part `None` may have separate namespaces in between.
        let is_beyond = |key: &ObjectKey<K>| part.is_some() && !self.is_in(key, part);
        let visible = self.visible.range::<_, ObjectKey<K>>((from, Bound::Unbounded)).map(|(key, _)| key);
        let seen: Vec<_> = visible.take_while(|key| !is_beyond(key)).take(limit).collect();
        let end = if seen.len() == limit { seen.last().copied() } else { None };
        let to = end.map_or(Bound::Unbounded, Bound::Included);
        // `visible` lacks the objects that own writes have deleted; `told` has their watched states.
        let told = self.told.range::<ObjectKey<K>, _>((from, to)).filter(|(_, told)| told.is_some());
        let told = told.map(|(key, _)| key);
        let untouched = seen.iter().copied().filter(|key| !self.told.contains_key(*key));
        (told.chain(untouched).filter(|key| self.is_in(key, part)).cloned().collect(), end.cloned())
    }

    /// Sets the watched state of an object, and the visible state that follows from it.
    fn tell(&mut self, key: &ObjectKey<K>, object: Option<Lazy<K>>) {
        self.tell_ended(key, object.as_ref());
        match self.writes.get_mut(key) {
            None => self.show(key, object),
            Some(write) => {
                write.is_watched |= write.what.is_of(object.as_ref());
                let seen = write.over(object.as_ref());
                self.retired.extend(self.told.insert(key.clone(), object).flatten());
                self.show(key, seen);
            }
        }
    }
}

/// Own writes.
impl<K: Object> Store<K> {
    /// Maximum number of stored writes, more than a process usually has pending while a watch lags behind.
    pub(crate) const WRITES: usize = 4096;

    /// Records the answer to a write. `selected` says whether the cache selects the object, `None` if that cannot be
    /// decided. In this case a visible object shows the new state until the watch decides, and an object that is not
    /// visible stays so.
    pub(crate) fn wrote(&mut self, object: Lazy<K>, selected: Option<bool>, now: Instant) {
        let key = object.key();
        let (Some(version), Some(uid)) = (number(object.meta()), object.meta().uid().cloned()) else {
            return; // without a number it is unknown when the watch has passed it
        };
        // The watch has delivered the write or something newer, or this process has deleted the object.
        if self.ended.since(&uid).is_some()
            || self.told_of(&key).is_some_and(|told| number(told.meta()) >= Some(version))
        {
            return;
        }
        match self.writes.get(&key) {
            // Answers may arrive out of order: an older write must not replace a newer one or a deletion.
            Some(write) if write.place.0 >= version => return,
            Some(Write { what: Wrote::Gone(gone), .. }) if *gone == uid => return,
            _ => {}
        }
        if self.has_passed(&key, version) {
            // The object is deleted by now. If that happened while no watch was open, no event has shown it.
            if selected == Some(true) && self.told_of(&key).is_none() {
                self.miss(object, None);
            }
            return;
        }
        let seen = self.get(&key);
        if selected.unwrap_or_else(|| seen.is_some_and(|seen| has_uid(seen, &uid))) {
            self.write(&key, Wrote::Stands(object), version, now);
        } else if seen.or_else(|| self.told_of(&key)).is_some() {
            // There is something to hide: the visible state, or a watched state below another write.
            self.write(&key, Wrote::Left(uid), version, now);
        }
    }

    /// Hides an object that was deleted, and objects that had its name before.
    pub(crate) fn deleted(&mut self, key: &ObjectKey<K>, end: End, now: Instant) {
        let End { uid, version, after } = end;
        // Any object that had the name at this version is the deleted one or its predecessor.
        let by = version.max(after).unwrap_or_default();
        let told = self.told_of(key).map(|told| (has_uid(told, &uid), number(told.meta())));
        // Version up to which states of the name are hidden. `None` if nothing is to be hidden.
        let hidden_by = match (self.writes.get(key), told) {
            (Some(write), _) if write.what.uid() == Some(&uid) => Some(write.place.0.max(by)),
            // Another object has taken the name since.
            (Some(write), _) if write.place.0 > by => None,
            (_, Some((true, told))) => Some(told.unwrap_or_default().max(by)),
            (_, Some((false, told))) => told.filter(|told| *told <= by).map(|_| by),
            (Some(_), None) => Some(by),
            // The name is unknown: the watch has delivered the deletion, or has yet to deliver the creation.
            (None, None) => version.filter(|version| !self.has_passed(key, *version)),
        };
        if version.is_none() {
            // The watch may deliver the object later at any version, also while another write of the name is recorded.
            self.ended.add(uid.clone(), now, Self::WRITES);
        }
        if let Some(version) = hidden_by {
            self.write(key, Wrote::Gone(uid), version, now);
        }
    }

    /// Before the watched state changes: hides the new object if it is known to be deleted, and forgets the uid of the
    /// old one if this is its end.
    fn tell_ended(&mut self, key: &ObjectKey<K>, object: Option<&Lazy<K>>) {
        if self.ended.is_empty() {
            return;
        }
        let new = object.and_then(|object| object.meta().uid());
        let old = self.told_of(key).and_then(|told| told.meta().uid()).cloned();
        if let Some(old) = old.filter(|old| new != Some(old)) {
            self.ended.remove(&old);
        }
        let Some((object, uid)) = object.zip(new) else { return };
        let version = number(object.meta()).unwrap_or_default();
        if let Some(since) = self.ended.since(uid)
            && self.writes.get(key).is_none_or(|write| write.place.0 < version)
        {
            self.write(key, Wrote::Gone(uid.clone()), version, since);
        }
    }

    /// Returns a version that the API server has reached, according to the watch or own writes of the object.
    pub(crate) fn reached(&self, key: &ObjectKey<K>) -> Option<u64> {
        self.position_at(key).max(self.writes.get(key).map(|write| write.place.0))
    }

    /// Hides an object that was most likely deleted by a bulk deletion, unless a newer state of it is known.
    pub(crate) fn presumed_deleted(&mut self, key: &ObjectKey<K>, uid: Uid, version: u64, now: Instant) {
        let outdated = match self.writes.get(key) {
            Some(Write { what: Wrote::Gone(gone), .. }) if *gone == uid => true,
            Some(write) => write.place.0 > version,
            None => false,
        };
        let newer_told = match self.told_of(key) {
            Some(told) => number(told.meta()) > Some(version),
            None => self.has_passed(key, version), // the watch has delivered the deletion
        };
        if !outdated && !newer_told {
            self.write(key, Wrote::Presumed(uid), version, now);
        }
    }

    /// Returns since when the oldest write waits for the watch of a part. Hidden objects that the watch has not
    /// delivered do not count, because it may never deliver their deletion.
    pub(crate) fn waiting_since(&self, part: &Part) -> Option<Instant> {
        let mut waiting = self.order.values().filter(|key| self.is_in(key, part));
        waiting.find_map(|key| {
            let write = self.writes.get(key)?;
            (matches!(write.what, Wrote::Stands(_)) || self.told_of(key).is_some()).then_some(write.at)
        })
    }

    fn write(&mut self, key: &ObjectKey<K>, what: Wrote<K>, version: u64, now: Instant) {
        let told = self.told_of(key).cloned();
        let place = (version, self.next);
        self.next += 1;
        self.order.insert(place, key.clone());
        let before = self.writes.get(key).filter(|before| before.what.uid() == what.uid());
        let is_watched = before.is_some_and(|before| before.is_watched) || what.is_of(told.as_ref());
        let write = Write { what, place, is_watched, at: now };
        let seen = write.over(told.as_ref());
        // One entry per key: the newer write replaces the older one.
        if let Some(before) = self.writes.insert(key.clone(), write) {
            self.order.remove(&before.place);
            self.retired.extend(before.what.into_object());
        }
        self.retired.extend(self.told.insert(key.clone(), told).flatten());
        self.show(key, seen);
        if self.writes.len() > Self::WRITES
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.forget(&oldest);
        }
    }

    /// Whether the watch has delivered all changes up to `version` in the namespace of the object.
    fn has_passed(&self, key: &ObjectKey<K>, version: u64) -> bool {
        self.position_at(key).is_some_and(|position| position >= version)
    }

    /// Version up to which the watch has delivered all changes in the namespace of the object.
    fn position_at(&self, key: &ObjectKey<K>) -> Option<u64> {
        let everywhere = self.parts.get(&None).copied().flatten().filter(|_| self.is_in(key, &None));
        let here = || self.parts.get(&Some(Arc::from(key.namespace()?))).copied().flatten();
        everywhere.or_else(here)
    }

    fn is_in(&self, key: &ObjectKey<K>, part: &Part) -> bool {
        match part {
            None => !key.namespace().is_some_and(|namespace| self.apart.contains(namespace)),
            Some(part) => key.namespace() == Some(&**part),
        }
    }

    /// Removes the writes that the watch of a part has passed.
    fn settle(&mut self, part: &Part) {
        if self.order.is_empty() {
            return;
        }
        let position = self.parts.get(part).copied().flatten().unwrap_or_default();
        let passed = self.order.range(..=(position, u64::MAX)).filter(|(_, key)| self.is_in(key, part));
        let keys: Vec<_> = passed.map(|(_, key)| key.clone()).collect();
        for key in keys {
            self.settle_key(&key);
        }
    }

    fn settle_key(&mut self, key: &ObjectKey<K>) {
        let Some(write) = self.writes.get(key) else { return };
        let told = || self.told.get(key).and_then(Option::as_ref);
        let settled = self.has_passed(key, write.place.0)
            && match &write.what {
                Wrote::Stands(_) | Wrote::Left(_) => true,
                // The deletion may have a higher version than the last state. Keep hiding until the watch delivers it,
                // or an object that is not hidden.
                Wrote::Gone(_) | Wrote::Presumed(_) => write.over(told()).is_some() || told().is_none(),
            };
        if settled {
            self.order.remove(&write.place);
            self.forget(key);
        }
    }

    /// Removes a write whose entry in `order` was removed. The watched state becomes visible.
    fn forget(&mut self, key: &ObjectKey<K>) {
        let write = self.writes.remove(key);
        let told = self.told.remove(key).flatten();
        if let Some(Write { what: Wrote::Stands(written), is_watched, .. }) = write {
            // The events of a watched object include its deletion.
            match told.is_none() && is_watched {
                true => self.retired.push(written),
                false => self.miss(written, told.clone()),
            }
        }
        let same = match (&told, self.visible.get(key)) {
            (Some(told), Some(seen)) => told.ptr_eq(seen),
            (None, None) => true,
            _ => false,
        };
        // The same state was visible already: no change to publish.
        if same {
            self.retired.extend(told);
        } else {
            self.show(key, told);
        }
    }

    /// Adds the events of a written state that the watch never delivered and that gives way to the watched state. If the
    /// watch has delivered it or something newer, there are none.
    fn miss(&mut self, written: Lazy<K>, told: Option<Lazy<K>>) {
        match told {
            Some(told) if is_older(told.meta(), written.meta()) => {
                entered(&mut self.missed, Some(told.clone()), &written, false);
                entered(&mut self.missed, Some(written), &told, false);
            }
            Some(_) => self.retired.push(written),
            None => {
                entered(&mut self.missed, None, &written, false);
                self.missed.push(Event::Delete { object: written, state_unknown: true });
            }
        }
    }

    fn forget_writes(&mut self, part: &Part) {
        let keys: Vec<_> = self.writes.keys().filter(|key| self.is_in(key, part)).cloned().collect();
        for key in keys {
            if let Some(write) = self.writes.get(&key) {
                self.order.remove(&write.place);
            }
            self.forget(&key);
        }
    }
}

/// Appends the events of the change from `old` to `new`.
fn entered<K: Object>(
    events: &mut Vec<Event<K>>,
    old: Option<Lazy<K>>,
    new: &Lazy<K>,
    in_initial_list: bool,
) {
    match old {
        Some(old) if old.meta().uid() == new.meta().uid() => {
            events.push(Event::Update { old, new: new.clone() });
        }
        replaced => {
            events.extend(replaced.map(|object| Event::Delete { object, state_unknown: true }));
            events.push(Event::Create { object: new.clone(), in_initial_list });
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

fn is_older(a: &Meta, b: &Meta) -> bool {
    matches!((number(a), number(b)), (Some(a), Some(b)) if a < b)
}

#[cfg(test)]
mod tests;
