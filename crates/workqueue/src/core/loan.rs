//! Loans of keys to workers, without a copy: both the queue and the worker read the key.
//!
//! Counting two handles of one key costs less than cloning a key of two strings, and their allocation is reused, so a run
//! allocates nothing. A reference counter without weak handles (triomphe's) shows at no cost whether a handle is the last. Keys
//! are swapped instead of moved, which copies them directly from place to place, without a copy on the stack.

use std::mem::swap;

use triomphe::{Arc, UniqueArc};

use super::slab::Id;
use super::timestamp::Timestamp;
use crate::Priority;

/// One of the two handles of a key that is handed out. The queue keeps one; the worker's comes back with
/// [`Core::done`](super::Core::done).
pub(crate) struct Loan<K>(Arc<Shell<K>>);

/// Allocation that the two handles of a key share.
struct Shell<K> {
    /// `Some` as long as both handles exist.
    key: Option<K>,
    terms: Terms,
}

/// Facts about the hand-out of a key.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    /// Place of its entry.
    pub(crate) id: Id,
    /// Priority with which it was handed out.
    pub(crate) priority: Priority,
    /// Time of the hand-out, if metrics need it.
    pub(crate) since: Timestamp,
}

impl<K> Loan<K> {
    #[inline]
    pub(crate) fn key(&self) -> &K {
        self.0.key.as_ref().expect("the key stays in its shell until both handles have come back")
    }

    #[inline]
    pub(crate) fn terms(&self) -> Terms {
        self.0.terms
    }
}

/// Creates loans, and keeps the empty shells of returned ones for later loans.
pub(crate) struct Lender<K> {
    shells: Vec<UniqueArc<Shell<K>>>,
}

/// Largest number of shells kept: more than any useful number of workers, and little memory.
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

    /// Puts the key into `to`, which was `None`, once both its handles have come back.
    #[inline]
    pub(crate) fn take_back(&mut self, [one, other]: [Loan<K>; 2], to: &mut Option<K>) {
        // The other handle is then the only one, so its shell can be emptied and reused.
        drop(one);
        let mut shell =
            UniqueArc::try_from(other.0).ok().expect("a loan has two handles, and one was dropped");
        swap(&mut shell.key, to);
        if self.shells.len() < KEPT {
            self.shells.push(shell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_256_empty_shells_are_kept_and_used_again() {
        let mut lender = Lender::new();
        let terms = Terms { id: Id::NONE, priority: Priority::Normal, since: Timestamp::START };
        for _ in 0..2 {
            let loans: Vec<_> = (0..300).map(|key| lender.lend(&mut Some(key), terms)).collect();
            assert_eq!(lender.shells.len(), 0);
            for (key, loans) in (0..).zip(loans) {
                let mut back = None;
                lender.take_back(loans, &mut back);
                assert_eq!((back, lender.shells.len()), (Some(key), (key + 1).min(256)));
            }
        }
    }
}
