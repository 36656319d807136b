//! Texts that are not compressed yet, because they are likely to be read or replaced soon.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use super::inlet::Packable;

/// The latest texts, by the states that hold them. The oldest go when there are too many bytes, some at a time: to compress
/// one after another costs less than one now and then, for which the processor's caches have forgotten the dictionary.
pub(super) struct Recent {
    states: VecDeque<(Weak<dyn Packable>, usize)>,
    bytes: usize,
    most: usize,
}

impl Recent {
    /// How many bytes a kind keeps of what has just come.
    pub(super) const FRESH: usize = 512 << 10;

    /// How many bytes a kind keeps of what is read whenever it has changed.
    pub(super) const READ: usize = 4 << 20;

    /// How many bytes go at a time.
    pub(super) const AT_ONCE: usize = 64 << 10;

    /// What an entry takes besides its text, also when its state has been replaced.
    pub(super) const ENTRY: usize = 512;

    /// Of at most so many bytes.
    pub(super) fn of(most: usize) -> Self {
        Self { states: VecDeque::new(), bytes: 0, most }
    }

    /// Keeps the text of a state, of so many bytes.
    pub(super) fn keep(&mut self, state: Weak<dyn Packable>, length: usize) {
        self.states.push_back((state, length));
        self.bytes += length + Self::ENTRY;
    }

    /// Whether it is time to let some go.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > self.most
    }

    /// Whether it will be before long, so that some had better go while there is nothing else to do.
    pub(super) fn is_filling(&self) -> bool {
        self.bytes > self.most - Self::AT_ONCE / 2
    }

    /// The oldest, if it is to go: its text is to be compressed after all.
    pub(super) fn surplus(&mut self) -> Option<Arc<dyn Packable>> {
        while self.bytes > self.most - Self::AT_ONCE {
            let (state, length) = self.states.pop_front()?;
            self.bytes -= length + Self::ENTRY;
            if let Some(state) = state.upgrade() {
                return Some(state);
            }
        }
        None
    }
}
