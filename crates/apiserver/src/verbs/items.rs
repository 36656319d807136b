//! The objects of a list, one after the other.
//!
//! A list is answered while its client takes it, so what is still to come is not held: it is found again in the snapshot,
//! from the key on where the list stopped. Only the first few objects, all of most lists, are held, so that nobody is asked
//! twice whether they are meant.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::registry::Served;
use crate::selection::Selection;
use crate::store::{Key, Snapshot, Stored};

/// Objects that are held. Clients ask for pages of 500.
pub(super) const HELD: usize = 1000;

/// Objects of one resource that are still to be listed.
#[derive(Clone)]
pub(crate) struct Items {
    held: Arc<[(Key, Arc<Stored>)]>,
    /// How many of those were listed.
    listed: usize,
    rest: Option<Walk>,
}

/// The way through a snapshot.
#[derive(Clone)]
pub(super) struct Walk {
    pub(super) served: Arc<Served>,
    pub(super) selection: Arc<Selection>,
    pub(super) snapshot: Snapshot,
    /// Empty for all.
    pub(super) namespace: String,
    /// Where to go on.
    pub(super) next: Key,
    /// How many objects there are to be at most.
    pub(super) left: usize,
}

impl Items {
    pub(super) fn new(held: Vec<(Key, Arc<Stored>)>, rest: Option<Walk>) -> Self {
        Self { held: held.into(), listed: 0, rest }
    }

    /// Bytes of those that are held, with what is `around` each.
    pub(super) fn held_bytes(&self, around: usize) -> usize {
        self.held.iter().map(|(_, stored)| stored.document.len() + around).sum()
    }

    /// Lists objects until `list` breaks off; whether there are no more.
    pub(super) fn each(&mut self, mut list: impl FnMut(&Key, &Arc<Stored>) -> ControlFlow<()>) -> bool {
        while let Some((key, stored)) = self.held.get(self.listed) {
            self.listed += 1;
            if list(key, stored).is_break() {
                return self.listed == self.held.len() && self.rest.is_none();
            }
        }
        let is_over = self.rest.as_mut().is_none_or(|walk| walk.each(list));
        if is_over {
            // The snapshot is let go.
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
