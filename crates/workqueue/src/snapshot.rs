//! What a queue shows of its keys.

use tokio::time::Instant;

use crate::Priority;
use crate::core::{Flow, Reason};

/// Until when and why a key waits: see [`Queue::when`](crate::Queue::when).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// When it will be ready.
    pub until: Instant,
    /// What set that time.
    pub why: Reason,
}

/// What a queue knows of one key: see [`Queue::snapshot`](crate::Queue::snapshot).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeySnapshot<K> {
    /// The key.
    pub key: K,
    /// Where it is.
    pub state: KeyState,
    /// Its class.
    pub priority: Priority,
    /// Its flow, where the queue has flows.
    pub flow: Option<Flow>,
    /// How many failures were counted since it was last forgotten.
    pub failures: u32,
}

/// Where a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyState {
    /// It is not due.
    Waiting(Waiting),
    /// It is in line.
    Ready {
        /// Since when, as far as that is known: a key that is ready at once has no such time unless the queue has
        /// [metrics](crate::Options::metrics), because nobody looked at a clock.
        since: Option<Instant>,
    },
    /// Somebody has its [`Item`](crate::Item).
    Processing {
        /// Whether it was added meanwhile.
        again: bool,
    },
}
