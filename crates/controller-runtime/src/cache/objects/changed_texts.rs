//! Texts of changed objects, which stay uncompressed in memory that is borrowed from the budget.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use super::{
    compression::CompressibleText, decoded_object::AnyDecodedObject, object_codec::DecodedBudget,
    uncompressed_queue::UncompressedQueue,
};

/// Queue of the uncompressed texts of changed objects. A changed object is likely to change again or to be read soon,
/// so this memory comes from the budget for reads. Objects that have never changed have a separate
/// [`UncompressedQueue`], so a long list borrows nothing.
#[derive(Default)]
pub(in crate::cache) struct ChangedTexts {
    /// States in the order of their arrival, with the number of bytes borrowed for each.
    states: VecDeque<(Weak<dyn CompressibleText>, usize)>,
    loan: Option<Loan>,
}

/// Bytes borrowed from a budget, returned when dropped.
struct Loan {
    budget: DecodedBudget,
    bytes: usize,
}

impl ChangedTexts {
    /// Adds a state with a text of this length. Returns `false` if the budget lends no more. Appends evicted objects to
    /// `evicted`, so that the caller drops them while no lock is held.
    pub(in crate::cache) fn push(
        &mut self,
        state: Weak<dyn CompressibleText>,
        length: usize,
        budget: &DecodedBudget,
        evicted: &mut Vec<Arc<dyn AnyDecodedObject>>,
    ) -> bool {
        let bytes = length + UncompressedQueue::ENTRY;
        let Some(objects) = budget.lock().lend(bytes) else { return false };
        evicted.extend(objects);
        self.loan.get_or_insert_with(|| Loan { budget: Arc::clone(budget), bytes: 0 }).bytes += bytes;
        self.states.push_back((state, bytes));
        true
    }

    /// Whether the lendable bytes are nearly used up, so that texts should be compressed while no events are pending.
    pub(in crate::cache) fn is_filling(&self) -> bool {
        !self.states.is_empty() && self.lendable() < UncompressedQueue::AT_ONCE / 2
    }

    /// Removes the oldest state, if the budget can lend less than another [`UncompressedQueue::AT_ONCE`] bytes. The caller
    /// compresses its text.
    pub(in crate::cache) fn pop_surplus(&mut self) -> Option<Arc<dyn CompressibleText>> {
        while self.lendable() < UncompressedQueue::AT_ONCE {
            let (state, bytes) = self.states.pop_front()?;
            // The text is compressed now or has been dropped: it needs no loan in either case.
            self.loan.as_mut()?.repay(bytes);
            // A state that was replaced has been dropped: there is nothing to compress.
            if let Some(state) = state.upgrade() {
                return Some(state);
            }
        }
        None
    }

    fn lendable(&self) -> usize {
        self.loan.as_ref().map_or(usize::MAX, |loan| loan.budget.lock().lendable())
    }
}

impl Loan {
    fn repay(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.budget.lock().take_back(bytes);
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.repay(self.bytes);
    }
}
