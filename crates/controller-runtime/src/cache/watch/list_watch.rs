//! Decides which request to send next, to keep a cache of all objects of a kind up to date: client-go's reflector as a
//! pure state machine.
//!
//! The machine receives the outcome of each request as a [`StepOutcome`] and returns the next one as a [`Step`]. It handles
//! neither objects nor connections, so each rule can be tested without a server.
//!
//! | phase | request | on success | on failure |
//! |---|---|---|---|
//! | `Streaming` | watch with initial events | `Watching` from the version of the initial list | `Listing` in pages; `Streaming` if the kind is not served or the list is too old |
//! | `Listing { paged: true }` | list in pages | `Watching` from the version of the list | initial phase; `Listing` in one piece if a page expired |
//! | `Listing { paged: false }` | list in one piece | `Watching` from the version of the list | initial phase |
//! | `Watching` | watch from the last version | `Watching` | `Watching` if a repetition may help, otherwise initial phase |
//!
//! The initial phase is `Streaming`, or `Listing { paged: true }` for a server that does not support streaming. Other
//! rules:
//!
//! - A watch that ends is reopened from the last version; if it ended at once, after a wait.
//! - A silent watch is probed. If it is dead, it is reopened at once from the last version ([`Heartbeat`]).
//! - A version that the server has compacted (410), or an event that only a new list can explain, restarts from the
//!   initial phase: at once if that did not happen within the last 10 s, otherwise after a wait.
//! - An initial list older than an observed version is rejected, until the server has returned such lists five times
//!   in a row.
//! - Overload and connection errors repeat the same request after a wait; any other refusal of a watch restarts from
//!   the initial phase after a wait.
//! - Waits grow with each failure and are at least as long as the server asks for.

use std::{cmp::Ordering, time::Duration};

use tokio::time::Instant;

use super::backoff::Backoff;
use crate::object::meta::ResourceVersion;

mod heartbeat;

pub(crate) use self::heartbeat::{Death, Heartbeat, InitialData, LivenessCheck, Probed, WatchStart};

/// Next action of the shell ([`Reflector`](crate::cache::watch::reflector)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Watch for at most this long, with initial events. [`ListWatch::listed`] receives the version of the initial
    /// list.
    Stream { timeout: Duration },
    /// List from the beginning, in pages or in one piece.
    List { paged: bool },
    /// List the next page.
    Page { continue_token: String },
    /// Watch from this version for at most this long.
    Watch { resource_version: ResourceVersion, timeout: Duration },
    /// Wait, then continue with [`StepOutcome::Waited`].
    Wait(Duration),
    /// Wait for this long, or until the definition of the kind is established, then continue with [`StepOutcome::Waited`].
    AwaitServed(Duration),
}

/// Outcome of the last step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StepOutcome {
    /// No step has been taken.
    Start,
    /// The wait is over.
    Waited,
    /// A page arrived.
    Page { resource_version: ResourceVersion, continue_token: Option<String> },
    /// The watch ended. `progressed`: it delivered something, or stayed open for a while.
    WatchEnded { progressed: bool },
    /// The request failed when it was sent, or later.
    Failed(RequestFailure),
}

/// Reason why a request failed, as far as it decides the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestFailure {
    /// The version or the continue token is too old.
    Expired,
    /// The server's state is older than an observed version.
    Behind,
    /// The watch delivered an object that is not in the store, at a version that it had passed. Only a new list shows
    /// whether the object exists.
    OutOfOrder,
    /// The server is overloaded or unreachable. The same request may succeed later, but not before `retry_after`.
    Transient { retry_after: Option<Duration> },
    /// An open watch does not deliver events any more. It was silent for a while, so reopening it at once cannot become
    /// a tight loop.
    Silent,
    /// The server does not support watches with initial events.
    Unsupported,
    /// The server does not serve the kind.
    NotServed,
    /// The server refuses the request or sends an invalid answer: the request will not succeed.
    Refused,
}

/// State of the list and watch of one kind.
#[derive(Debug)]
pub(crate) struct ListWatch {
    phase: ListWatchPhase,
    /// The server does not support watches with initial events: lists are used.
    lists_only: bool,
    /// The highest observed version. Older initial lists are rejected.
    floor: Option<ResourceVersion>,
    /// Number of older lists in a row.
    behind: u32,
    /// Time of the last immediate restart after an expired version or an event out of order.
    relisted: Option<Instant>,
    backoff: Backoff,
    rng: fastrand::Rng,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ListWatchPhase {
    Streaming,
    Listing { paged: bool },
    Watching { resource_version: ResourceVersion },
}

impl ListWatch {
    /// Shortest timeout of a watch; the longest is twice as long. Randomised so that watches do not end together, as in
    /// client-go.
    const WATCH_AT_LEAST: Duration = Duration::from_secs(300);

    /// Shortest time between two immediate restarts after an expired version or an event out of order.
    const RELIST_AT_ONCE_EVERY: Duration = Duration::from_secs(10);

    /// Number of older lists in a row after which the server's state is accepted: it was probably restored from a
    /// backup.
    const BEHIND_AT_MOST: u32 = 5;

    /// Upper limit of a wait that the server asks for.
    const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

    /// Creates a machine that rejects initial lists older than `floor`.
    pub(crate) fn new(floor: Option<ResourceVersion>, rng: fastrand::Rng) -> Self {
        let backoff = Backoff::default();
        Self {
            phase: ListWatchPhase::Streaming,
            lists_only: false,
            floor,
            behind: 0,
            relisted: None,
            backoff,
            rng,
        }
    }

    /// Records the version of a watch event or bookmark, from which a later watch can continue.
    ///
    /// An older version than the last one belongs to a repeated event and is ignored.
    pub(crate) fn saw(&mut self, seen: &ResourceVersion) {
        if let ListWatchPhase::Watching { resource_version } = &mut self.phase
            && seen.partial_cmp(resource_version) != Some(Ordering::Less)
        {
            resource_version.clone_from(seen);
            // A list that a later failure causes must not be older than this event.
            self.floor = Some(seen.clone());
        }
    }

    /// Records the version of a complete initial list. Returns `false` if it is too old and must be rejected.
    #[must_use]
    pub(crate) fn listed(&mut self, resource_version: &ResourceVersion) -> bool {
        if self.floor.as_ref().is_some_and(|floor| resource_version < floor) {
            return false;
        }
        self.behind = 0;
        self.floor = Some(resource_version.clone());
        self.phase = ListWatchPhase::Watching { resource_version: resource_version.clone() };
        true
    }

    /// Returns the version from which a watch that is open now would be reopened.
    pub(crate) fn watched_version(&self) -> Option<ResourceVersion> {
        match &self.phase {
            ListWatchPhase::Watching { resource_version } => Some(resource_version.clone()),
            ListWatchPhase::Streaming | ListWatchPhase::Listing { .. } => None,
        }
    }

    /// Returns the liveness of a watch that opens at `now`.
    pub(crate) fn opened(&mut self, now: Instant, start: WatchStart) -> Heartbeat {
        Heartbeat::opened(now, start, &mut self.rng)
    }

    /// Returns to the initial phase, but keeps the version below which lists are rejected.
    pub(crate) fn restart(&mut self) {
        self.phase = self.beginning();
    }

    /// Returns the next step.
    pub(crate) fn step(&mut self, input: StepOutcome, now: Instant) -> Step {
        match input {
            StepOutcome::Start | StepOutcome::Waited => self.resume(),
            StepOutcome::WatchEnded { progressed } => match self.phase {
                ListWatchPhase::Watching { .. } if progressed => self.resume(),
                // The watch ended at once, or the initial events did not arrive completely.
                _ => self.failed(RequestFailure::Transient { retry_after: None }, now),
            },
            StepOutcome::Page { continue_token: Some(continue_token), .. } => Step::Page { continue_token },
            StepOutcome::Page { resource_version, continue_token: None } => {
                if self.listed(&resource_version) {
                    self.resume()
                } else {
                    self.failed(RequestFailure::Behind, now)
                }
            }
            StepOutcome::Failed(failure) => self.failed(failure, now),
        }
    }

    fn failed(&mut self, failure: RequestFailure, now: Instant) -> Step {
        // A failure leads back to the initial list, unless a case below restores the phase because its
        // version is still good.
        let beginning = self.beginning();
        let before = std::mem::replace(&mut self.phase, beginning);
        // A server that cannot stream may still list, and its answer to a list names the reason better.
        if before == ListWatchPhase::Streaming
            && !matches!(failure, RequestFailure::Behind | RequestFailure::NotServed)
        {
            self.phase = ListWatchPhase::Listing { paged: true };
        }
        match (failure, before) {
            (RequestFailure::Unsupported, ListWatchPhase::Streaming) => {
                // This machine does not try to stream an initial list again.
                self.lists_only = true;
                self.resume()
            }
            (RequestFailure::Refused, ListWatchPhase::Streaming) => self.resume(),
            (RequestFailure::Expired | RequestFailure::OutOfOrder, before) => {
                // The continue token expired between two pages. Like client-go's pager, ask for the list in
                // one piece.
                if before == (ListWatchPhase::Listing { paged: true }) {
                    self.phase = ListWatchPhase::Listing { paged: false };
                }
                // Do not loop tightly if the server finds every version too old.
                if self.relisted.is_some_and(|at| now.duration_since(at) < Self::RELIST_AT_ONCE_EVERY) {
                    return self.wait(now, None);
                }
                self.relisted = Some(now);
                self.resume()
            }
            (RequestFailure::Behind, _) => {
                // The fifth older list in a row drops the floor, so the next list is accepted. It is
                // requested after a wait as well.
                self.behind += 1;
                if self.behind >= Self::BEHIND_AT_MOST {
                    (self.floor, self.behind) = (None, 0);
                }
                self.wait(now, None)
            }
            (RequestFailure::Transient { retry_after }, before) => {
                // Only a watch has a version to continue from.
                if matches!(before, ListWatchPhase::Watching { .. }) {
                    self.phase = before;
                }
                self.wait(now, retry_after)
            }
            (RequestFailure::Silent, before @ ListWatchPhase::Watching { .. }) => {
                self.phase = before;
                self.resume()
            }
            (RequestFailure::Silent, _) => self.wait(now, None),
            // No plain wait: this step ends early when the definition is established.
            (RequestFailure::NotServed, _) => Step::AwaitServed(self.backoff.failed(now, &mut self.rng)),
            (RequestFailure::Refused | RequestFailure::Unsupported, _) => self.wait(now, None),
        }
    }

    /// Returns the phase in which the initial list is requested.
    fn beginning(&self) -> ListWatchPhase {
        if self.lists_only { ListWatchPhase::Listing { paged: true } } else { ListWatchPhase::Streaming }
    }

    fn resume(&mut self) -> Step {
        let timeout = Self::WATCH_AT_LEAST.mul_f64(1.0 + self.rng.f64());
        match &self.phase {
            ListWatchPhase::Streaming => Step::Stream { timeout },
            ListWatchPhase::Listing { paged } => Step::List { paged: *paged },
            ListWatchPhase::Watching { resource_version } => {
                Step::Watch { resource_version: resource_version.clone(), timeout }
            }
        }
    }

    fn wait(&mut self, now: Instant, at_least: Option<Duration>) -> Step {
        let at_least = at_least.unwrap_or_default().min(Self::LONGEST_RETRY_AFTER);
        Step::Wait(self.backoff.failed(now, &mut self.rng).max(at_least))
    }
}

#[cfg(test)]
mod tests;
