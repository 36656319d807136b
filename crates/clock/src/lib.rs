//! Wall time for timestamps in Kubernetes objects.
//!
//! ```
//! use kube_clock::{Clock, Epoch};
//! use tokio::time::{Duration, sleep};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let epoch = Epoch::starting_now("2026-01-01T00:00:00Z".parse().unwrap());
//! let (server, operator) = (Clock::new(Some(epoch)), Clock::new(Some(epoch)));
//! sleep(Duration::from_secs(86_400)).await;
//! assert_eq!(server.now(), "2026-01-02T00:00:00Z".parse().unwrap());
//! assert_eq!(operator.now(), server.now());
//! # }
//! ```
//!
//! # Time sources
//!
//! A [`Clock`] reads one of three sources:
//!
//! 1. With an [`Epoch`], it advances from there with [`tokio::time`]. A test that gives one epoch to its API server and to
//!    every manager gets timestamps that are equal in each run.
//! 2. Without an epoch and in paused time, it advances with [`tokio::time`] from one reading of the system clock that all
//!    clocks of the process share. Clocks then agree to the nanosecond, however much virtual time lies between their
//!    construction.
//! 3. Otherwise it reads the system clock, each time: a step by NTP or a resume after a suspend is visible at the next read.
//!
//! Whether time is paused is decided at each read, so a test may pause it at any point.
//!
//! # Why a crate, and why a static
//!
//! An API server and an operator in one process must write equal timestamps at one virtual instant, and neither may depend on
//! the other. Two readings of the system clock, one in each, differ by milliseconds and so, after truncation to seconds, now and
//! then by a second. They therefore share the reading, which is a static of this crate. It is a constant, set once and the same
//! for every caller, and not a registry: it carries no information from one component to another.
//!
//! # Limitations
//!
//! Waits and timeouts belong to [`tokio::time`]; wall time may jump in either direction outside of paused time. A thread
//! without a tokio runtime reads the system clock, also while a test pauses the time of its runtime.

use std::{hint::spin_loop, sync::OnceLock};

use jiff::Timestamp;
use tokio::time::Instant;

/// A wall clock.
///
/// Values are small and are copied. Two clocks with equal epochs, or both without one, show equal times in paused time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    epoch: Option<Epoch>,
    system: fn() -> Timestamp,
}

impl Clock {
    /// A clock that advances from `epoch`, or without one shows the system's time and follows paused time.
    #[must_use]
    pub fn new(epoch: Option<Epoch>) -> Self {
        Self { epoch, system: system_time }
    }

    /// The epoch that the clock advances from, if it was given one.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }

    /// Wall time at present.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match self.anchor() {
            Ok(epoch) => epoch.now(),
            Err(_) => (self.system)(),
        }
    }

    /// Wall time at `instant`, which may lie in the past or in the future.
    ///
    /// Outside of paused time this is the system's time plus the distance to `instant`: if the system clock was set between
    /// the two, the result is what the clock would have shown had it been right all along.
    #[must_use]
    pub fn at(&self, instant: Instant) -> Timestamp {
        match self.anchor() {
            Ok(epoch) => epoch.at(instant),
            Err(now) => Epoch { instant: now, timestamp: (self.system)() }.at(instant),
        }
    }

    /// The pair of readings that wall time is computed from, or tokio's present if the system clock is to be read.
    fn anchor(&self) -> Result<Epoch, Instant> {
        match (self.epoch, paused()) {
            (Some(epoch), _) => Ok(epoch),
            (None, Paused::Yes) => Ok(*REFERENCE.get_or_init(Epoch::of_system)),
            (None, Paused::No(now)) => Err(now),
        }
    }
}

impl Default for Clock {
    /// A clock without an epoch.
    fn default() -> Self {
        Self::new(None)
    }
}

/// A wall time at an instant, from which a [`Clock`] advances with tokio's time.
///
/// One value for everything in a test or simulation, rather than a timestamp, makes all its clocks agree: a manager that is
/// started later with the same epoch continues the time instead of starting over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch {
    instant: Instant,
    timestamp: Timestamp,
}

impl Epoch {
    /// The epoch at which wall time is `timestamp` now.
    #[must_use]
    pub fn starting_now(timestamp: Timestamp) -> Self {
        Self { instant: Instant::now(), timestamp }
    }

    /// Wall time at present.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }

    /// Wall time at `instant`, which may lie before the epoch. Times beyond the range of [`Timestamp`] are its bounds.
    #[must_use]
    pub fn at(&self, instant: Instant) -> Timestamp {
        match instant.checked_duration_since(self.instant) {
            Some(later) => self.timestamp.saturating_add(later).unwrap_or(Timestamp::MAX),
            None => {
                let earlier = self.instant.duration_since(instant);
                self.timestamp.saturating_sub(earlier).unwrap_or(Timestamp::MIN)
            }
        }
    }

    /// One reading of the system's two clocks. Paused time cannot influence it.
    fn of_system() -> Self {
        Self { instant: Instant::from_std(monotonic_time()), timestamp: system_time() }
    }
}

/// The reading of the system's clocks that all clocks without an epoch share in paused time.
///
/// A paused runtime begins at the instant at which it was paused, so its wall time begins with the system's at that instant.
static REFERENCE: OnceLock<Epoch> = OnceLock::new();

/// How often [`paused`] reads the monotonic clock, at most. Clocks advance every 1 to 100 ns, and a reading takes 20 to 100 ns.
const READINGS: u32 = 1_000_000;

/// Whether tokio's time is paused.
enum Paused {
    Yes,
    /// Time runs, and this is the present.
    No(Instant),
}

/// Tells paused from running time, since tokio does not say which it is: two readings of tokio's clock that are equal although
/// the system's monotonic clock has advanced between them are those of paused time.
///
/// Paused time advances only when its runtime is idle, so that it stands still for code that this runtime runs. In running time
/// the first two readings differ, where the system's clock counts in nanoseconds: [`Clock::now`] then reads three clocks, not one.
fn paused() -> Paused {
    let first = Instant::now();
    let second = Instant::now();
    if second != first {
        return Paused::No(second);
    }
    let before = monotonic_time();
    let advanced = (0..READINGS).any(|_| {
        spin_loop();
        monotonic_time() > before
    });
    match Instant::now() {
        // Without a clock that advances nothing is known, and the system's time is the safe answer.
        third if third == first && advanced => Paused::Yes,
        third => Paused::No(third),
    }
}

#[expect(clippy::disallowed_methods, reason = "the one reading of the system's wall clock")]
fn system_time() -> Timestamp {
    Timestamp::now()
}

#[expect(clippy::disallowed_methods, reason = "shows whether tokio's time is paused; nothing waits for it")]
fn monotonic_time() -> std::time::Instant {
    std::time::Instant::now()
}

#[cfg(test)]
mod tests;
