//! Copy of the watched states of a store.

use std::{collections::BTreeMap, iter, ops::Bound};

use imbl::OrdMap;

use crate::{
    cache::objects::lazy::Lazy,
    object::{Object, ObjectKey},
};

/// The objects of a store in their watched states. A cheap copy that does not change.
pub(crate) struct WatchedSnapshot<K: Object> {
    pub(super) visible: OrdMap<ObjectKey<K>, Lazy<K>>,
    /// Watched states of objects with own writes, at most [`Store::WRITES`](super::Store::WRITES).
    pub(super) watched: BTreeMap<ObjectKey<K>, Option<Lazy<K>>>,
}

impl<K: Object> WatchedSnapshot<K> {
    /// Returns at most `limit` objects after `key`, in key order.
    pub(crate) fn after(&self, key: Option<&ObjectKey<K>>, limit: usize) -> Vec<Lazy<K>> {
        watched_after(&self.visible, &self.watched, key, limit)
    }

    /// Replaces an object of the copy, or removes it. Returns `false` if there is none.
    pub(crate) fn set(&mut self, key: &ObjectKey<K>, object: Option<Lazy<K>>) -> bool {
        let was_there = match self.watched.remove(key) {
            Some(watched) => watched.is_some(),
            None => self.visible.contains_key(key),
        };
        // Without its entry in `watched` the object shows the state in `visible`, which may be an own write: replace it too.
        match object.filter(|_| was_there) {
            Some(object) => drop(self.visible.insert(key.clone(), object)),
            None => drop(self.visible.remove(key)),
        }
        was_there
    }
}

/// Returns at most `limit` watched states after `key`, in key order: those in `watched`, and the visible states of all other
/// objects.
pub(super) fn watched_after<K: Object>(
    visible: &OrdMap<ObjectKey<K>, Lazy<K>>,
    watched: &BTreeMap<ObjectKey<K>, Option<Lazy<K>>>,
    key: Option<&ObjectKey<K>>,
    limit: usize,
) -> Vec<Lazy<K>> {
    let after = (key.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
    let untouched = visible.range::<_, ObjectKey<K>>(after).filter(|(key, _)| !watched.contains_key(key));
    if watched.is_empty() {
        return untouched.take(limit).map(|(_, object)| object.clone()).collect();
    }
    let written = watched.range::<ObjectKey<K>, _>(after);
    let written = written.filter_map(|(key, watched)| Some((key, watched.as_ref()?)));
    // Both are in the order of their keys, and have no key in common.
    let (mut written, mut untouched) = (written.peekable(), untouched.peekable());
    let merged = iter::from_fn(|| match (written.peek(), untouched.peek()) {
        (Some((one, _)), Some((other, _))) if other < one => untouched.next(),
        (Some(_), _) => written.next(),
        (None, _) => untouched.next(),
    });
    merged.take(limit).map(|(_, object)| object.clone()).collect()
}
