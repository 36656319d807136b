//! Cache of converted objects, for later reads in the same version.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::store::Stored;

/// Identifies a converted object by the [id](crate::kind::registry::ServedKind::id) of the version in which it is read, and the revision of
/// its commit. Neither is ever reused, so a kept object never becomes stale.
pub(super) type Id = (u64, u64);

/// Maximum total size of the kept objects, in bytes.
const BYTES: usize = 32 << 20;
/// Estimated size of an entry without its object, in bytes.
const ENTRY: usize = 256;

/// Converted objects. When the cache is full, the oldest are dropped.
#[derive(Debug, Default)]
pub(super) struct Cache {
    objects: BTreeMap<Id, Arc<Stored>>,
    /// Keys in the order in which the objects were added.
    order: VecDeque<Id>,
    bytes: usize,
}

impl Cache {
    pub(super) fn get(&self, id: Id) -> Option<Arc<Stored>> {
        self.objects.get(&id).cloned()
    }

    pub(super) fn insert(&mut self, id: Id, object: &Arc<Stored>) {
        // Two reads may convert an object at the same time. The entry of the first one stays, so that `order`
        // has each key once.
        let Entry::Vacant(vacant) = self.objects.entry(id) else { return };
        vacant.insert(Arc::clone(object));
        self.bytes += size(object);
        self.order.push_back(id);
        while self.bytes > BYTES
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.objects.remove(&oldest).map_or(0, |object| size(&object));
        }
    }
}

fn size(object: &Stored) -> usize {
    object.document.len() + ENTRY
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::Document;

    #[test]
    fn the_oldest_objects_are_dropped_first() {
        let mut cache = Cache::default();
        let text = "x".repeat(1 << 20);
        let object = |revision| {
            let document = Document::new(&json!({"metadata": {"name": "a"}, "text": text}), 0, 0);
            Arc::new(Stored::new(revision, document))
        };
        for revision in 0..100 {
            cache.insert((1, revision), &object(revision));
            cache.insert((1, revision), &object(revision));
        }
        assert!(cache.bytes <= BYTES && cache.order.len() == cache.objects.len());
        assert_eq!((cache.objects.len(), cache.get((1, 0)).is_some()), (31, false));
        assert_eq!(cache.get((1, 99)).unwrap().revision, 99);
        assert!(cache.get((2, 99)).is_none(), "another version");
    }
}
