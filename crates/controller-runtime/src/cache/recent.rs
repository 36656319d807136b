//! Texts that are not worth the compressing: what is read whenever it has changed is likely to be read and to change again.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use super::shelf::Packable;

/// The latest of these texts, by the states that hold them. The oldest goes when there are too many bytes.
#[derive(Default)]
pub(super) struct Recent {
    states: VecDeque<(Weak<dyn Packable>, usize)>,
    bytes: usize,
}

impl Recent {
    /// How many bytes of text a kind keeps so.
    pub(super) const ENOUGH: usize = 4 << 20;

    /// What an entry takes besides its text, also when its state has been replaced.
    const ENTRY: usize = 512;

    /// Keeps the text of a state, of so many bytes.
    pub(super) fn keep(&mut self, state: Weak<dyn Packable>, length: usize) {
        self.states.push_back((state, length));
        self.bytes += length + Self::ENTRY;
    }

    /// A state whose text is to be compressed after all.
    pub(super) fn too_old(&mut self) -> Option<Arc<dyn Packable>> {
        while self.bytes > Self::ENOUGH {
            let (state, length) = self.states.pop_front()?;
            self.bytes -= length + Self::ENTRY;
            if let Some(state) = state.upgrade() {
                return Some(state);
            }
        }
        None
    }
}
