//! Keys that are handed out, without a copy: the queue has to recognise the key, the worker to read it.
//!
//! Counting two handles of one key costs less than cloning a key of two strings, and what holds it is used again and again,
//! so nothing is allocated for a run. A counter without weak handles (triomphe's) says for nothing whether it is the last.
//! Keys are swapped and not moved: that is a copy from place to place, with no stop on the stack.

use std::mem::swap;

use triomphe::{Arc, UniqueArc};

use super::moment::Moment;
use super::slab::Id;
use crate::Priority;

/// One of the two handles of a key that is handed out: the queue has one, and the worker's comes back with
/// [`Core::done`](super::Core::done).
pub(crate) struct Loan<K>(Arc<Shell<K>>);

struct Shell<K> {
    /// There as long as both handles are.
    key: Option<K>,
    terms: Terms,
}

/// What is agreed on when a key is lent.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    /// The place of its entry.
    pub(crate) id: Id,
    /// The class in which it was handed out.
    pub(crate) priority: Priority,
    /// Since when, if anybody wants to know.
    pub(crate) since: Moment,
}

impl<K> Loan<K> {
    #[inline]
    pub(crate) fn key(&self) -> &K {
        self.0.key.as_ref().expect("a key stays where it is until both handles have come back")
    }

    #[inline]
    pub(crate) fn terms(&self) -> Terms {
        self.0.terms
    }
}

/// Makes handles, and keeps the empty shells of those that came back.
pub(crate) struct Lender<K> {
    shells: Vec<UniqueArc<Shell<K>>>,
}

/// As many shells are kept: more than workers that are worth while, less than memory worth mentioning.
const KEPT: usize = 256;

impl<K> Lender<K> {
    pub(crate) fn new() -> Self {
        Self { shells: Vec::new() }
    }

    /// Lends the key in `from`, which becomes `None`.
    #[inline]
    pub(crate) fn lend(&mut self, from: &mut Option<K>, terms: Terms) -> [Loan<K>; 2] {
        let mut shell = self.shells.pop().unwrap_or_else(|| UniqueArc::new(Shell { key: None, terms }));
        swap(&mut shell.key, from);
        shell.terms = terms;
        let loan = shell.shareable();
        [Loan(Arc::clone(&loan)), Loan(loan)]
    }

    /// Puts the key into `to`, which was `None`, when both its handles have come back.
    #[inline]
    pub(crate) fn take_back(&mut self, [one, other]: [Loan<K>; 2], to: &mut Option<K>) {
        drop(one);
        let mut shell = UniqueArc::try_from(other.0).ok().expect("a key has two handles, and one is gone");
        swap(&mut shell.key, to);
        if self.shells.len() < KEPT {
            self.shells.push(shell);
        }
    }
}
