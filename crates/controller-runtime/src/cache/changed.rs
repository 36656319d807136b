//! Texts of objects that have changed, which are not compressed for as long as the budget lends the bytes.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use super::{hot::AnyHot, inlet::Packable, recent::Recent, shelf::HotBudget};

/// What has changed is likely to change again soon, or to be read; which is why this comes out of what is there for reads.
/// What has never changed waits in a [`Recent`] of its own: a long list leaves nothing here.
#[derive(Default)]
pub(super) struct Changed {
    states: VecDeque<(Weak<dyn Packable>, usize)>,
    loan: Option<Loan>,
}

/// Bytes that a budget has lent. Dropping this gives them back.
struct Loan {
    budget: HotBudget,
    bytes: usize,
}

impl Changed {
    /// Keeps the text of a state, of so many bytes, unless too much is lent already. Appends objects that have to go for it to
    /// `gone`, to be dropped when no lock is held.
    pub(super) fn keep(
        &mut self,
        state: Weak<dyn Packable>,
        length: usize,
        budget: &HotBudget,
        gone: &mut Vec<Arc<dyn AnyHot>>,
    ) -> bool {
        let bytes = length + Recent::ENTRY;
        let Some(objects) = budget.lock().lend(bytes) else { return false };
        gone.extend(objects);
        self.loan.get_or_insert_with(|| Loan { budget: Arc::clone(budget), bytes: 0 }).bytes += bytes;
        self.states.push_back((state, bytes));
        true
    }

    /// Whether before long no more will be lent, so that some had better go while there is nothing else to do.
    pub(super) fn is_filling(&self) -> bool {
        !self.states.is_empty() && self.lendable() < Recent::AT_ONCE / 2
    }

    /// The oldest, if it is to go: its text is to be compressed after all.
    pub(super) fn surplus(&mut self) -> Option<Arc<dyn Packable>> {
        while self.lendable() < Recent::AT_ONCE {
            let (state, bytes) = self.states.pop_front()?;
            self.loan.as_mut()?.repay(bytes);
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
