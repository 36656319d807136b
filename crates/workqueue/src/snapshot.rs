//! State of a queue's keys, for observers.

use tokio::time::Instant;

use crate::Priority;
use crate::core::{Flow, Reason};

/// Until when and why a key waits: see [`Queue::when`](crate::Queue::when).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// Time at which it becomes ready.
    pub until: Instant,
    /// Rule that set the time.
    pub why: Reason,
}

/// State of one key: see [`Queue::snapshot`](crate::Queue::snapshot).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeySnapshot<K> {
    /// The key.
    pub key: K,
    /// Its state.
    pub state: KeyState,
    /// Its priority.
    pub priority: Priority,
    /// Its flow, if the queue has flows.
    pub flow: Option<Flow>,
    /// Number of failures since its count was last reset.
    pub failures: u32,
}

/// State of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyState {
    /// Waits until it is due.
    Waiting(Waiting),
    /// Ready to be handed out.
    Ready {
        /// Time since which it is ready, if known. The time is unknown for a key that became ready at once, unless the queue
        /// has [metrics](crate::Options::metrics), because the clock was not read.
        since: Option<Instant>,
    },
    /// Being processed: its [`Item`](crate::Item) exists.
    Processing {
        /// Whether it was added meanwhile.
        again: bool,
    },
}
