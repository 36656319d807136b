//! What to ask the API server next in order to know all objects of a kind: client-go's reflector as a state machine.
//!
//! The machine knows neither objects nor requests. It is told how the last request went and says what the next one
//! is, so each rule below can be tested without a server:
//!
//! - first a watch that begins with the present ([`Step::Stream`]); if that fails, a list in pages, then a watch from the
//!   list's version; a server that does not know how to stream is asked for lists from then on;
//! - a watch that ends is taken up again from the last version seen; one that ends at once waits first;
//! - a watch that is silent is probed, and reopened at once from the last version seen if it turns out to be dead ([`Heartbeat`]);
//! - a version the server no longer knows (410), at the start of a watch or within, leads back to the beginning: at once
//!   if that did not happen in the last ten seconds, otherwise after a wait; so does an event that only the present can tell
//!   the meaning of;
//! - pages that expire before the last one is there are given up for a list in one piece;
//! - a present older than what was seen before is refused, until the server says five times that there is no newer one;
//! - any other refusal of a watch that is not a matter of load leads back to the beginning, after a wait;
//! - whatever fails at the beginning starts over, after a wait that grows, and that is as long as the server asks for.

use std::{cmp::Ordering, time::Duration};

use tokio::time::Instant;

use super::{ResourceVersion, backoff::Backoff};

mod heartbeat;

pub(crate) use self::heartbeat::{Check, Death, Heartbeat, Probed};

/// What the shell is to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Watch for at most this long, beginning with the present: [`ListWatch::listed`] takes its version.
    Stream { timeout: Duration },
    /// List from the beginning, in pages or in one piece.
    List { paged: bool },
    /// List the next page.
    Page { continue_token: String },
    /// Watch from this version for at most this long.
    Watch { resource_version: ResourceVersion, timeout: Duration },
    /// Wait, then ask again with [`Input::Waited`].
    Wait(Duration),
    /// Wait for this long, or until the definition of the kind is established, then ask again with [`Input::Waited`].
    AwaitServed(Duration),
}

/// What the shell tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// Nothing has been done yet.
    Start,
    /// The wait is over.
    Waited,
    /// A page arrived.
    Page { resource_version: ResourceVersion, continue_token: Option<String> },
    /// The watch ended: it had `progressed` if it delivered anything or stayed open for a while.
    WatchEnded { progressed: bool },
    /// The request failed, at its start or within.
    Failed(Failure),
}

/// Why a request failed, as far as it changes what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The version or the continue token is too old.
    Expired,
    /// What the server knows is older than what was seen before.
    Behind,
    /// An event told of an object that is not known, in a version that was passed: only the present can tell whether it is there.
    OutOfOrder,
    /// The server is overloaded or unreachable: the same request may succeed later, but not before it says so.
    Transient { retry_after: Option<Duration> },
    /// An open watch does not deliver any more. It was silent for a while, so that reopening it at once is no tight circle.
    Silent,
    /// The server does not know how to begin a watch with the present.
    Unsupported,
    /// The server does not serve the kind.
    NotServed,
    /// The server refuses, or its answer makes no sense: this request will not succeed.
    Refused,
}

/// The list-watch state of one kind.
#[derive(Debug)]
pub(crate) struct ListWatch {
    phase: Phase,
    /// The server does not stream the present: lists are asked for.
    lists_only: bool,
    /// The greatest version seen, which the present must reach.
    floor: Option<ResourceVersion>,
    /// How often in a row the server did not reach it.
    behind: u32,
    /// When an expired version, or an event out of order, was last answered with a request at once.
    relisted: Option<Instant>,
    backoff: Backoff,
    rng: fastrand::Rng,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Streaming,
    Listing { paged: bool },
    Watching { resource_version: ResourceVersion },
}

impl ListWatch {
    /// The shortest time for which a watch is asked to stay open; the longest is twice that.
    const WATCH_AT_LEAST: Duration = Duration::from_secs(300);

    /// How often an expired version, or an event out of order, may lead to a new beginning without a wait.
    const RELIST_AT_ONCE_EVERY: Duration = Duration::from_secs(10);

    /// A server that is behind this often in a row has forgotten for good, as one restored from a backup has.
    const BEHIND_AT_MOST: u32 = 5;

    /// The longest wait that a server may ask for.
    const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

    /// A machine that accepts no present older than `floor`.
    pub(crate) fn new(floor: Option<ResourceVersion>, rng: fastrand::Rng) -> Self {
        let backoff = Backoff::default();
        Self { phase: Phase::Streaming, lists_only: false, floor, behind: 0, relisted: None, backoff, rng }
    }

    /// Remembers the version of a watch event or bookmark, from which a later watch can go on.
    ///
    /// An older version than the last one is an old event told again.
    pub(crate) fn saw(&mut self, seen: &ResourceVersion) {
        if let Phase::Watching { resource_version } = &mut self.phase
            && seen.partial_cmp(resource_version) != Some(Ordering::Less)
        {
            resource_version.clone_from(seen);
            self.floor = Some(seen.clone());
        }
    }

    /// Takes the version of a present that has arrived whole; `false` if it is too old to be taken over.
    #[must_use]
    pub(crate) fn listed(&mut self, resource_version: &ResourceVersion) -> bool {
        if self.floor.as_ref().is_some_and(|floor| resource_version < floor) {
            return false;
        }
        self.behind = 0;
        self.floor = Some(resource_version.clone());
        self.phase = Phase::Watching { resource_version: resource_version.clone() };
        true
    }

    /// Returns the version from which a watch that is open now would be reopened.
    pub(crate) fn watched_version(&self) -> Option<ResourceVersion> {
        match &self.phase {
            Phase::Watching { resource_version } => Some(resource_version.clone()),
            Phase::Streaming | Phase::Listing { .. } => None,
        }
    }

    /// Returns the liveness of a watch that opens at `now`, with its initial events first or without them.
    pub(crate) fn opened(&mut self, now: Instant, initial_events: bool) -> Heartbeat {
        Heartbeat::opened(now, initial_events, &mut self.rng)
    }

    /// Forgets where it was, but not what must not go back.
    pub(crate) fn restart(&mut self) {
        self.phase = self.beginning();
    }

    pub(crate) fn step(&mut self, input: Input, now: Instant) -> Step {
        match input {
            Input::Start | Input::Waited => self.resume(),
            Input::WatchEnded { progressed } => match self.phase {
                Phase::Watching { .. } if progressed => self.resume(),
                Phase::Watching { .. } => self.wait(now, None),
                // The present did not arrive whole.
                _ => self.failed(Failure::Transient { retry_after: None }, now),
            },
            Input::Page { continue_token: Some(continue_token), .. } => Step::Page { continue_token },
            Input::Page { resource_version, continue_token: None } => {
                if self.listed(&resource_version) {
                    self.resume()
                } else {
                    self.failed(Failure::Behind, now)
                }
            }
            Input::Failed(failure) => self.failed(failure, now),
        }
    }

    fn failed(&mut self, failure: Failure, now: Instant) -> Step {
        let beginning = self.beginning();
        let before = std::mem::replace(&mut self.phase, beginning);
        // A present that cannot be streamed may still be listed, and what the server says to that tells more.
        if before == Phase::Streaming && !matches!(failure, Failure::Behind | Failure::NotServed) {
            self.phase = Phase::Listing { paged: true };
        }
        match (failure, before) {
            (Failure::Unsupported, Phase::Streaming) => {
                self.lists_only = true;
                self.resume()
            }
            (Failure::Refused, Phase::Streaming) => self.resume(),
            (Failure::Expired | Failure::OutOfOrder, before) => {
                if before == (Phase::Listing { paged: true }) {
                    self.phase = Phase::Listing { paged: false };
                }
                // A server that finds every version too old must not be asked in a tight circle.
                if self.relisted.is_some_and(|at| now.duration_since(at) < Self::RELIST_AT_ONCE_EVERY) {
                    return self.wait(now, None);
                }
                self.relisted = Some(now);
                self.resume()
            }
            (Failure::Behind, _) => {
                self.behind += 1;
                if self.behind >= Self::BEHIND_AT_MOST {
                    (self.floor, self.behind) = (None, 0);
                }
                self.wait(now, None)
            }
            (Failure::Transient { retry_after }, before) => {
                if matches!(before, Phase::Watching { .. }) {
                    self.phase = before;
                }
                self.wait(now, retry_after)
            }
            (Failure::Silent, before @ Phase::Watching { .. }) => {
                self.phase = before;
                self.resume()
            }
            (Failure::Silent, _) => self.wait(now, None),
            (Failure::NotServed, _) => Step::AwaitServed(self.backoff.failed(now, &mut self.rng)),
            (Failure::Refused | Failure::Unsupported, _) => self.wait(now, None),
        }
    }

    /// How to ask for the present.
    fn beginning(&self) -> Phase {
        if self.lists_only { Phase::Listing { paged: true } } else { Phase::Streaming }
    }

    fn resume(&mut self) -> Step {
        let timeout = Self::WATCH_AT_LEAST.mul_f64(1.0 + self.rng.f64());
        match &self.phase {
            Phase::Streaming => Step::Stream { timeout },
            Phase::Listing { paged } => Step::List { paged: *paged },
            Phase::Watching { resource_version } => {
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
