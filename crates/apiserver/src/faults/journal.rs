//! Journal of injected faults, in order.

use std::collections::VecDeque;
use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::{Action, GroupResource, RequestInfo, RuleId};

/// Maximum number of entries. Older ones are dropped and counted.
const MAX_ENTRIES: usize = 10_000;

/// Injected faults, oldest first: the last 10,000 entries.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    entries: VecDeque<Entry>,
    dropped: u64,
}

impl Journal {
    /// Returns the kept entries, oldest first.
    #[must_use]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> + ExactSizeIterator {
        self.entries.iter()
    }

    /// Returns the number of kept entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no fault was injected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of older entries that were dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn push(&mut self, at: Timestamp, what: Injected) {
        if self.entries.len() >= MAX_ENTRIES {
            self.entries.pop_front();
            self.dropped += 1;
        }
        self.entries.push_back(Entry { at, what });
    }
}

/// Formats one [`Entry`] per line, preceded by the number of dropped entries, if any.
impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dropped > 0 {
            writeln!(f, "({} dropped)", self.dropped)?;
        }
        self.entries.iter().try_for_each(|entry| writeln!(f, "{entry}"))
    }
}

/// One fault that was injected.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// Time by the server's clock. For a request it is the time at which a rule picked it, before any delay.
    pub at: Timestamp,
    /// The fault.
    pub what: Injected,
}

/// Formats as `rule 1: create configmaps default/: carried out, response lost`. The time is omitted, because it differs between runs.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            Injected::Rule { rule, request, action } => write!(f, "{rule}: {request}: {action}"),
            Injected::Compacted { revision } => write!(f, "compacted at revision {revision}"),
            Injected::HistoryEvicted { resource } => write!(f, "history of {resource} evicted"),
            Injected::Frozen { resource, rule } => write!(f, "{resource} frozen by {rule}"),
            Injected::Bookmarked { resource } => write!(f, "bookmarks sent to watches of {resource}"),
            Injected::Held { resource } => write!(f, "watches of {resource} held"),
            Injected::Released { resource } => write!(f, "watches of {resource} released"),
            Injected::Closed { resource } => write!(f, "watches of {resource} closed"),
            Injected::Stalled { resource } => write!(f, "watches of {resource} stalled"),
            Injected::ClockStopped => f.write_str("clock stopped"),
            Injected::ClockResumed => f.write_str("clock resumed"),
            Injected::ClockAdvanced { by } => {
                let way = if by.is_negative() { "back" } else { "forward" };
                write!(f, "clock set {way} by {:#}", by.abs())
            }
        }
    }
}

/// An injected fault.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Injected {
    /// A rule picked a request.
    Rule {
        /// The rule.
        rule: RuleId,
        /// The request.
        request: Box<RequestInfo>,
        /// Effect on the request.
        action: Action,
    },
    /// [`Faults::compact`](super::Faults::compact)
    Compacted {
        /// Oldest revision that did not expire.
        revision: u64,
    },
    /// [`Faults::evict_history`](super::Faults::evict_history)
    HistoryEvicted {
        /// The resource.
        resource: GroupResource,
    },
    /// [`Faults::bookmark_now`](super::Faults::bookmark_now)
    Bookmarked {
        /// The resource.
        resource: GroupResource,
    },
    /// [`Faults::hold_watches`](super::Faults::hold_watches)
    Held {
        /// The resource.
        resource: GroupResource,
    },
    /// [`Faults::release_watches`](super::Faults::release_watches)
    Released {
        /// The resource.
        resource: GroupResource,
    },
    /// [`Faults::close_watches`](super::Faults::close_watches)
    Closed {
        /// The resource.
        resource: GroupResource,
    },
    /// [`Faults::stall_watches`](super::Faults::stall_watches)
    Stalled {
        /// The resource.
        resource: GroupResource,
    },
    /// [`Faults::freeze`](super::Faults::freeze)
    Frozen {
        /// The resource.
        resource: GroupResource,
        /// The rule that refuses requests.
        rule: RuleId,
    },
    /// [`Faults::stop_clock`](super::Faults::stop_clock)
    ClockStopped,
    /// [`Faults::resume_clock`](super::Faults::resume_clock)
    ClockResumed,
    /// [`Faults::advance_clock`](super::Faults::advance_clock)
    ClockAdvanced {
        /// Offset; negative if the clock was set back.
        by: SignedDuration,
    },
}
