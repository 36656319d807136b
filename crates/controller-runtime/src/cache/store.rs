//! The objects of one kind, in key order, and what changes when they do. Pure: no lock, no clock.
//!
//! There are two states of each object: what the watch last told, and what our own writes made of it since. Readers see the
//! second, events are differences of the first, so that a write is read at once and told once.
//!
//! - A write lies over the cache until the watch has passed its version: the API server tells the changes of a kind in
//!   the order of their versions, so by then the watch has told the write or something newer.
//! - A write that comes in later than the watch has told it is forgotten, so nothing deleted comes back.
//! - An object that is gone stays hidden by its uid, which no other object ever gets, until the watch tells its end: also
//!   one that the watch has yet to tell of, and what had the name before.
//! - What the watch tells of an object that is not there, in a version that it has passed, is [`OutOfOrder`]: told again after the
//!   object went, or told late. Only a list can tell which; to take it over could bring back what was deleted, to leave it
//!   out could lose it.
//! - At most [`Store::WRITES`] writes are held; the oldest go first, and what they said is then read from the watch.
//!
//! [`OrdMap`] shares its nodes between copies: a reader takes a copy of the whole in no time and looks at it at leisure.

mod ended;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use imbl::OrdMap;
use tokio::time::Instant;

use self::ended::Ended;
use super::{Uid, lazy::Lazy, meta::Meta, shelf::Known};
use crate::{
    event::Event,
    object::{Object, ObjectKey},
};

/// What one list and watch is about: a namespace, or all of them that are not watched by themselves.
pub(crate) type Part = Option<Arc<str>>;

/// The objects of one kind as last told and written.
#[derive(Clone)]
pub(crate) struct Store<K: Object> {
    /// What readers see.
    visible: OrdMap<ObjectKey<K>, Lazy<K>>,
    /// What the watch told of the objects in `writes`; for all others that is what readers see.
    told: BTreeMap<ObjectKey<K>, Option<Lazy<K>>>,
    /// What we did since.
    writes: BTreeMap<ObjectKey<K>, Write<K>>,
    /// The keys of `writes` by version, then in the order in which they came.
    order: BTreeMap<(u64, u64), ObjectKey<K>>,
    next: u64,
    /// What is gone that no write is about.
    ended: Ended,
    /// The parts that have been told whole, and the version up to which each has been told.
    parts: BTreeMap<Part, Option<u64>>,
    /// The namespaces that are parts of their own beside that of all the others.
    apart: Arc<BTreeSet<Arc<str>>>,
    /// What readers see otherwise since [`Store::take_changes`].
    changes: Vec<Change<K>>,
    /// States that were replaced since [`Store::take_retired`]. The last handle of a state drops the user's object, which runs
    /// user code: whoever locks the store drops these after the lock is released.
    retired: Vec<Lazy<K>>,
}

/// A complete list of a part on its way into the store. See [`Store::replace_some`].
pub(crate) struct ListInTransit<K: Object> {
    /// Objects that the store has not looked at.
    pub(crate) objects: BTreeMap<ObjectKey<K>, Lazy<K>>,
    /// The last key that the store has looked at.
    reached: Option<ObjectKey<K>>,
}

impl<K: Object> ListInTransit<K> {
    pub(crate) fn new(objects: BTreeMap<ObjectKey<K>, Lazy<K>>) -> Self {
        Self { objects, reached: None }
    }
}

/// The watch told of an object that is not there, in a version that it has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfOrder;

/// What readers saw of an object, and what they see now.
#[derive(Debug, Clone)]
pub(crate) struct Change<K: Object> {
    pub(crate) key: ObjectKey<K>,
    pub(crate) old: Option<Lazy<K>>,
    pub(crate) new: Option<Lazy<K>>,
}

/// How an object went that we deleted.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(crate) uid: Uid,
    /// That of its last state, or of its end, if that is known.
    pub(crate) version: Option<u64>,
    /// One that the API server had reached before it was told to delete the object.
    pub(crate) after: Option<u64>,
}

#[derive(Clone)]
struct Write<K: Object> {
    what: Wrote<K>,
    /// Place in `order`: the version, zero if that is not known, and a number of its own.
    place: (u64, u64),
    at: Instant,
}

#[derive(Clone)]
enum Wrote<K: Object> {
    /// The object is like this.
    Stands(Lazy<K>),
    /// The object of this uid is not selected any more.
    Left(Uid),
    /// The object of this uid is no more.
    Gone(Uid),
    /// The object of this uid went with others. That it had a finalizer by then, and so is still there, only a newer version
    /// of it can tell.
    Presumed(Uid),
}

impl<K: Object> Write<K> {
    /// What readers see when the watch told `told`: nothing that had the name before.
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
            retired: Vec::new(),
        }
    }
}

/// The objects of a store as the watch last reported them, without own writes. A cheap copy that does not change.
pub(crate) struct Watched<K: Object> {
    visible: OrdMap<ObjectKey<K>, Lazy<K>>,
    /// Objects that own writes lie over, at most [`Store::WRITES`].
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
    /// One of all namespaces, some of which are watched by themselves.
    pub(crate) fn with_apart(apart: BTreeSet<Arc<str>>) -> Self {
        Self { apart: Arc::new(apart), ..Self::default() }
    }
}

/// What readers see.
impl<K: Object> Store<K> {
    pub(crate) fn get(&self, key: &ObjectKey<K>) -> Option<&Lazy<K>> {
        self.visible.get(key)
    }

    /// All objects as of now. Costs nothing, and stays as it is.
    pub(crate) fn snapshot(&self) -> OrdMap<ObjectKey<K>, Lazy<K>> {
        self.visible.clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.visible.len()
    }

    /// The version up to which all parts have been told that are known.
    pub(crate) fn version(&self) -> Option<u64> {
        self.parts.values().min().copied().flatten()
    }

    /// The version up to which each part has been told that is known.
    pub(crate) fn versions(&self) -> impl Iterator<Item = (&Part, u64)> {
        self.parts.iter().filter_map(|(part, version)| Some((part, (*version)?)))
    }

    /// What was told or written of the object with these metadata.
    pub(crate) fn known(&self, meta: &Meta) -> Known<K> {
        let Some(key) = ObjectKey::of_meta(meta) else { return Known::Nothing };
        let seen = self.visible.get(&key);
        let told = self.told.get(&key).and_then(Option::as_ref);
        match [seen, told].into_iter().flatten().find(|state| state.meta().same_version(meta)) {
            Some(same) => Known::Same(same.clone()),
            None => seen.map_or(Known::Nothing, |other| Known::Other { reads: other.reads() }),
        }
    }

    /// What readers see otherwise since this was last asked.
    pub(crate) fn take_changes(&mut self) -> Vec<Change<K>> {
        std::mem::take(&mut self.changes)
    }

    /// Takes the states that were replaced, to be dropped while no lock is held.
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

/// What the watch tells.
impl<K: Object> Store<K> {
    /// All objects as the watch told them, in key order.
    #[cfg(test)]
    pub(crate) fn told(&self) -> impl Iterator<Item = Lazy<K>> {
        self.watched().after(None, usize::MAX).into_iter()
    }

    /// The objects as the watch reported them, at this moment.
    pub(crate) fn watched(&self) -> Watched<K> {
        Watched { visible: self.visible.clone(), told: self.told.clone() }
    }

    /// At most so many objects as the watch told them, in key order, those after `key`.
    pub(crate) fn told_after(&self, key: Option<&ObjectKey<K>>, limit: usize) -> Vec<Lazy<K>> {
        watched_after(&self.visible, &self.told, key, limit)
    }

    /// What the watch told of one object.
    fn told_of(&self, key: &ObjectKey<K>) -> Option<&Lazy<K>> {
        self.told.get(key).map_or_else(|| self.visible.get(key), Option::as_ref)
    }

    /// Takes over a complete list of a part as of `version`, and says what is different now.
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

    /// Takes over a piece of a complete list of a part as of `version`: looks at about `limit` objects, and appends what is
    /// different now to `events`. Returns whether that was the last piece.
    ///
    /// Objects that did not change stay the ones held. An object that the list lacks was deleted while no watch was open.
    /// An object under the same name with another uid is a delete and a create. Between the pieces readers see objects
    /// from before and after the list, each of them never older than before.
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
            self.forget_writes(part); // the server has lost what they did
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
        // The piece ends where the shorter of both ends. Without an end nothing is left of either.
        let end = match arrived.last() {
            Some((last, _)) if arrived.len() == limit && !list.objects.is_empty() => Some(last.clone()),
            _ => held_to,
        };
        for (key, object) in arrived {
            vanished.remove(&key);
            let old = self.told_of(&key);
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

    /// Takes over one object from the watch; no event if it is the version already held, or an older one.
    ///
    /// A newer version than the one held is taken over whatever the watch has passed: an API server that tells changes in the
    /// order of their versions would have told it before, one that does not means what it says.
    ///
    /// # Errors
    ///
    /// The object is not held and the watch has passed its version. Nothing has changed.
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

    /// Removes an object that is deleted or not selected any more, whose last state is `last`; no event if it was not
    /// held, or a newer one is.
    pub(crate) fn remove(&mut self, part: &Part, last: Lazy<K>) -> Vec<Event<K>> {
        let (key, version) = (last.key(), number(last.meta()));
        let events = match self.told_of(&key).cloned() {
            Some(held) if !is_older(last.meta(), held.meta()) => {
                self.tell(&key, None);
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

    /// The parts that have been told whole.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.keys()
    }

    /// Whether a part has been told whole.
    pub(crate) fn knows(&self, part: &Part) -> bool {
        self.parts.contains_key(part)
    }

    /// The watch of a part has told everything up to `version`.
    pub(crate) fn passed(&mut self, part: &Part, version: Option<u64>) {
        if let Some(position) = self.parts.get_mut(part) {
            *position = version.max(*position);
            self.settle(part);
        }
    }

    /// Forgets a part that is not watched any more.
    #[cfg(test)]
    pub(crate) fn withdraw(&mut self, part: &Part) -> Vec<Event<K>> {
        let (mut events, mut reached) = (Vec::new(), None);
        while !self.withdraw_some(part, &mut reached, 2, &mut events) {}
        events
    }

    /// Forgets a piece of a part that is not watched any more: looks at about `limit` objects after the key that was `reached`,
    /// which is `None` at first, and appends what is different now to `events`. Returns whether that was the last piece.
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
        // Writes may have been laid over it between the pieces.
        self.forget_writes(part);
        self.parts.remove(part);
        true
    }

    fn vanish(&mut self, key: &ObjectKey<K>) -> Option<Event<K>> {
        let object = self.told_of(key)?.clone();
        self.tell(key, None);
        Some(Event::Delete { object, state_unknown: true })
    }

    /// Looks at about `limit` objects after `key`: the keys of those that the watch of `part` reported, and the last key that
    /// was looked at, unless there are no more.
    fn held_after(
        &self,
        part: &Part,
        key: Option<&ObjectKey<K>>,
        limit: usize,
    ) -> (BTreeSet<ObjectKey<K>>, Option<ObjectKey<K>>) {
        // The empty name comes before all others.
        let first = part.as_ref().and_then(|name| ObjectKey::from_parts(Some(name), ""));
        let from = match key {
            Some(key) => Bound::Excluded(key),
            None => first.as_ref().map_or(Bound::Unbounded, Bound::Included),
        };
        let is_beyond = |key: &ObjectKey<K>| part.is_some() && !self.is_in(key, part);
        let visible = self.visible.range::<_, ObjectKey<K>>((from, Bound::Unbounded)).map(|(key, _)| key);
        let seen: Vec<_> = visible.take_while(|key| !is_beyond(key)).take(limit).collect();
        let end = if seen.len() == limit { seen.last().copied() } else { None };
        let to = end.map_or(Bound::Unbounded, Bound::Included);
        let told = self.told.range::<ObjectKey<K>, _>((from, to)).filter(|(_, told)| told.is_some());
        let told = told.map(|(key, _)| key);
        let untouched = seen.iter().copied().filter(|key| !self.told.contains_key(*key));
        (told.chain(untouched).filter(|key| self.is_in(key, part)).cloned().collect(), end.cloned())
    }

    fn tell(&mut self, key: &ObjectKey<K>, object: Option<Lazy<K>>) {
        self.tell_ended(key, object.as_ref());
        match self.writes.get(key) {
            None => self.show(key, object),
            Some(write) => {
                let seen = write.over(object.as_ref());
                self.retired.extend(self.told.insert(key.clone(), object).flatten());
                self.show(key, seen);
            }
        }
    }
}

/// What we write.
impl<K: Object> Store<K> {
    /// The most writes that are held: more than anybody has under way while a watch lags behind.
    pub(crate) const WRITES: usize = 4096;

    /// Lays the answer to a write over the cache; `selected` says whether the cache is about such an object, if that can be
    /// told. If not, one that readers see stays, changed, until the watch tells what became of it, and one that they do not see
    /// is left to the watch.
    pub(crate) fn wrote(&mut self, object: Lazy<K>, selected: Option<bool>, now: Instant) {
        let key = object.key();
        let (Some(version), Some(uid)) = (number(object.meta()), object.meta().uid().cloned()) else {
            return; // nobody could say when the watch has passed it
        };
        if self.has_passed(&key, version)
            || self.ended.since(&uid).is_some()
            || self.told_of(&key).is_some_and(|told| number(told.meta()) >= Some(version))
        {
            return;
        }
        match self.writes.get(&key) {
            Some(write) if write.place.0 >= version => return,
            Some(Write { what: Wrote::Gone(gone), .. }) if *gone == uid => return,
            _ => {}
        }
        let seen = self.get(&key);
        if selected.unwrap_or_else(|| seen.is_some_and(|seen| has_uid(seen, &uid))) {
            self.write(&key, Wrote::Stands(object), version, now);
        } else if seen.or_else(|| self.told_of(&key)).is_some() {
            self.write(&key, Wrote::Left(uid), version, now);
        }
    }

    /// Hides an object that is gone for good, and what had its name before.
    pub(crate) fn deleted(&mut self, key: &ObjectKey<K>, end: End, now: Instant) {
        let End { uid, version, after } = end;
        // What had the name at this version was the object, or one that went before it.
        let by = version.max(after).unwrap_or_default();
        let told = self.told_of(key).map(|told| (has_uid(told, &uid), number(told.meta())));
        let hidden_by = match (self.writes.get(key), told) {
            (Some(write), _) if write.what.uid() == Some(&uid) => Some(write.place.0.max(by)),
            (Some(write), _) if write.place.0 > by => None, // another object has had the name since
            (_, Some((true, told))) => Some(told.unwrap_or_default().max(by)),
            (_, Some((false, told))) => told.filter(|told| *told <= by).map(|_| by),
            (Some(_), None) => Some(by),
            // The watch has told its end, or has yet to tell of it.
            (None, None) => version.filter(|version| !self.has_passed(key, *version)),
        };
        if version.is_none() {
            // The watch may tell of it whatever else is written under its name.
            self.ended.add(uid.clone(), now, Self::WRITES);
        }
        if let Some(version) = hidden_by {
            self.write(key, Wrote::Gone(uid), version, now);
        }
    }

    /// Hides an object that the watch is about to tell, if it is gone, and forgets the end of the one that was told before.
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

    /// A version that the API server has reached, as far as the watch told or our own writes of the object did.
    pub(crate) fn reached(&self, key: &ObjectKey<K>) -> Option<u64> {
        self.position_at(key).max(self.writes.get(key).map(|write| write.place.0))
    }

    /// Hides an object that most likely went when it was deleted with others, unless something newer of it is known.
    pub(crate) fn presumed_deleted(&mut self, key: &ObjectKey<K>, uid: Uid, version: u64, now: Instant) {
        let outdated = match self.writes.get(key) {
            Some(Write { what: Wrote::Gone(gone), .. }) if *gone == uid => true,
            Some(write) => write.place.0 > version,
            None => false,
        };
        let newer_told = match self.told_of(key) {
            Some(told) => number(told.meta()) > Some(version),
            None => self.has_passed(key, version), // the watch has told its end
        };
        if !outdated && !newer_told {
            self.write(key, Wrote::Presumed(uid), version, now);
        }
    }

    /// Since when the oldest write waits for the watch of a part to tell it: one that makes a difference, because the end of
    /// what the watch has not told of may never be told either.
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
        let write = Write { what, place, at: now };
        let seen = write.over(told.as_ref());
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

    /// Whether the watch has told everything up to `version` of where the object is.
    fn has_passed(&self, key: &ObjectKey<K>, version: u64) -> bool {
        self.position_at(key).is_some_and(|position| position >= version)
    }

    /// The version up to which the watch has told everything of where the object is.
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

    /// Takes away the writes that the watch of a part has passed.
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
                Wrote::Gone(_) | Wrote::Presumed(_) => write.over(told()).is_some() || told().is_none(),
            };
        if settled {
            self.order.remove(&write.place);
            self.forget(key);
        }
    }

    /// Takes a write away that is not in `order` any more.
    fn forget(&mut self, key: &ObjectKey<K>) {
        self.retired.extend(self.writes.remove(key).and_then(|write| write.what.into_object()));
        let told = self.told.remove(key).flatten();
        let same = match (&told, self.visible.get(key)) {
            (Some(told), Some(seen)) => told.ptr_eq(seen),
            (None, None) => true,
            _ => false,
        };
        if same {
            self.retired.extend(told);
        } else {
            self.show(key, told);
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

/// Notes how `new` came to stand where `old` stood.
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

/// The version as a number, if it has an order.
fn number(meta: &Meta) -> Option<u64> {
    meta.resource_version().and_then(super::ResourceVersion::number)
}

fn is_older(a: &Meta, b: &Meta) -> bool {
    matches!((number(a), number(b)), (Some(a), Some(b)) if a < b)
}

#[cfg(test)]
mod tests;
