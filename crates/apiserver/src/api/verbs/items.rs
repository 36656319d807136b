//! Iterates over the objects of a list.
//!
//! A list is generated while its client reads it. To hold little memory, only the first objects are kept, so that their selectors are
//! evaluated once; most lists have no more. The remaining objects are looked up again in the snapshot, from the key at which the list
//! stopped.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::api::selection::Selection;
use crate::kind::registry::ServedKind;
use crate::store::{Key, Snapshot, Stored};

/// Maximum number of objects that are held. Clients usually request pages of 500.
pub(super) const MAX_HELD: usize = 1000;

/// Remaining objects of a list.
#[derive(Clone)]
pub(crate) struct Items {
    held: Arc<[(Key, Arc<Stored>)]>,
    /// Number of held objects that were already listed.
    listed: usize,
    rest: Option<Walk>,
}

/// Position in a snapshot.
#[derive(Clone)]
pub(super) struct Walk {
    pub(super) served: Arc<ServedKind>,
    pub(super) selection: Arc<Selection>,
    pub(super) snapshot: Snapshot,
    /// Namespace; empty for all.
    pub(super) namespace: String,
    /// Key at which to continue.
    pub(super) next: Key,
    /// Maximum number of remaining objects.
    pub(super) left: usize,
}

impl Items {
    pub(super) fn new(held: Vec<(Key, Arc<Stored>)>, rest: Option<Walk>) -> Self {
        Self { held: held.into(), listed: 0, rest }
    }

    /// Returns the size of the held objects in bytes, with `around` bytes in addition for each.
    pub(super) fn held_bytes(&self, around: usize) -> usize {
        self.held.iter().map(|(_, stored)| stored.document.len() + around).sum()
    }

    /// Sorts the objects. Those with equal keys keep their order.
    pub(super) fn sorted_by_key(mut self, order: impl Fn(&Stored) -> i64) -> Self {
        let mut sorted = Vec::new();
        self.each(|key, stored| {
            sorted.push((order(stored), (key.clone(), Arc::clone(stored))));
            ControlFlow::Continue(())
        });
        sorted.sort_by_key(|(order, _)| *order);
        Self::new(sorted.into_iter().map(|(_, item)| item).collect(), None)
    }

    /// Passes objects to `list` until it breaks. Returns whether all objects were listed.
    pub(super) fn each(&mut self, mut list: impl FnMut(&Key, &Arc<Stored>) -> ControlFlow<()>) -> bool {
        while let Some((key, stored)) = self.held.get(self.listed) {
            self.listed += 1;
            if list(key, stored).is_break() {
                return self.listed == self.held.len() && self.rest.is_none();
            }
        }
        let is_over = self.rest.as_mut().is_none_or(|walk| walk.each(list));
        if is_over {
            // All objects are listed, so the snapshot is released.
            self.rest = None;
        }
        is_over
    }
}

impl Walk {
    fn each(&mut self, mut list: impl FnMut(&Key, &Arc<Stored>) -> ControlFlow<()>) -> bool {
        let mut broken = false;
        for (key, stored) in self.snapshot.range(&self.namespace, Some(&self.next)) {
            if self.left == 0 {
                return true;
            }
            if !self.selection.matches(&self.served, key, stored) {
                continue;
            }
            if broken {
                self.next = key.clone();
                return false;
            }
            self.left -= 1;
            broken = list(key, stored).is_break();
        }
        true
    }
}
