//! Texts that are not compressed yet, because they are likely to be read or replaced soon.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use super::compression::CompressibleText;

/// Queue of the latest uncompressed texts, by the states that store them. Above the limit the oldest ones are
/// compressed, several at a time: single ones would cost more, because the dictionary is not in the processor's caches
/// any more.
pub(in crate::cache) struct UncompressedQueue {
    /// States in the order of their arrival, with the lengths of their texts.
    states: VecDeque<(Weak<dyn CompressibleText>, usize)>,
    bytes: usize,
    limit: usize,
}

impl UncompressedQueue {
    /// Limit in bytes for new objects of a kind.
    pub(in crate::cache) const FRESH: usize = 512 << 10;

    /// Limit in bytes for objects of a kind that are read after each change.
    pub(in crate::cache) const READ: usize = 4 << 20;

    /// Bytes that are compressed at a time.
    pub(in crate::cache) const AT_ONCE: usize = 64 << 10;

    /// Size of an entry without its text. An entry counts until it is removed, even if its state has been replaced.
    pub(in crate::cache) const ENTRY: usize = 512;

    /// Creates a queue of at most `limit` bytes.
    pub(in crate::cache) fn new(limit: usize) -> Self {
        Self { states: VecDeque::new(), bytes: 0, limit }
    }

    /// Adds a state with a text of this length.
    pub(in crate::cache) fn push(&mut self, state: Weak<dyn CompressibleText>, length: usize) {
        self.states.push_back((state, length));
        self.bytes += length + Self::ENTRY;
    }

    /// Whether the limit is exceeded, so that the oldest texts must be compressed.
    pub(in crate::cache) fn is_full(&self) -> bool {
        self.bytes > self.limit
    }

    /// Whether the limit is close, so that texts should be compressed while no events are pending.
    pub(in crate::cache) fn is_filling(&self) -> bool {
        self.bytes > self.limit.saturating_sub(Self::AT_ONCE / 2)
    }

    /// Removes the oldest states as the limit requires, at most [`UncompressedQueue::AT_ONCE`] bytes and one state
    /// more. The caller compresses their texts.
    pub(in crate::cache) fn pop_surplus(&mut self) -> impl Iterator<Item = Arc<dyn CompressibleText>> {
        // Makes room for `AT_ONCE` bytes, so that not every further text causes a compression.
        let limit = self.limit.saturating_sub(Self::AT_ONCE);
        let mut excess = self.bytes.saturating_sub(limit).min(Self::AT_ONCE);
        std::iter::from_fn(move || {
            while excess > 0 {
                let (state, length) = self.states.pop_front()?;
                let bytes = length + Self::ENTRY;
                self.bytes -= bytes;
                excess = excess.saturating_sub(bytes);
                // A state that was replaced has been dropped: there is nothing to compress.
                if let Some(state) = state.upgrade() {
                    return Some(state);
                }
            }
            None
        })
    }
}
