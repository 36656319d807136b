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
//! 1. With an [`Epoch`], of its own or [of the thread](Epoch::for_this_thread), it advances from there with [`tokio::time`]. A
//!    test that passes one epoch to its API server and to every manager gets the same timestamps in each run.
//! 2. Without an epoch and in paused time, it advances with [`tokio::time`] from one reading of the system clock that all
//!    clocks of the process share. Clocks therefore agree to the nanosecond, even if they were created a virtual day apart.
//! 3. Otherwise it reads the system clock at each call, so that a step by NTP or a resume after a suspend is visible at once.
//!
//! Each read determines whether time is paused, so a test can pause it at any point.
//!
//! # Why a crate, and why a static
//!
//! An API server and an operator in one process must write equal timestamps at the same virtual instant, and neither can
//! depend on the other. If each read the system clock itself, the readings would differ by milliseconds, and after truncation
//! to seconds sometimes by a second. They therefore share one reading, which is a static of this crate. The static is a
//! constant, set once and the same for every caller; it carries no information between components.
//!
//! # Limitations
//!
//! Waits and timeouts use [`tokio::time`]. Outside of paused time, wall time can jump in either direction. A thread
//! without a tokio runtime reads the system clock, even while a test pauses the time of its runtime.

use std::{cell::Cell, fmt, hint::spin_loop, marker::PhantomData, sync::OnceLock};

use jiff::Timestamp;
use tokio::time::Instant;

/// A wall clock.
///
/// Clocks are small and `Copy`. Two clocks with equal epochs, or both without one, show equal times in paused time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    epoch: Option<Epoch>,
    system: fn() -> Timestamp,
}

impl Clock {
    /// Creates a clock that advances from `epoch`; without one it shows the system time, or follows paused time.
    #[must_use]
    pub fn new(epoch: Option<Epoch>) -> Self {
        Self { epoch, system: system_time }
    }

    /// Epoch that the clock advances from, if any.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }

    /// Current wall time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match self.anchor() {
            Ok(epoch) => epoch.now(),
            Err(_) => (self.system)(),
        }
    }

    /// Wall time at `instant`, in the past or in the future.
    ///
    /// Outside of paused time this is the current system time plus the distance to `instant`, so a step of the system clock
    /// between the two shifts the result.
    #[must_use]
    pub fn at(&self, instant: Instant) -> Timestamp {
        match self.anchor() {
            Ok(epoch) => epoch.at(instant),
            Err(now) => Epoch { instant: now, timestamp: (self.system)() }.at(instant),
        }
    }

    /// Returns the readings from which wall time is computed, or the current instant if the system clock is to be read.
    fn anchor(&self) -> Result<Epoch, Instant> {
        if let Some(epoch) = self.epoch.or_else(|| OF_THREAD.get()) {
            return Ok(epoch);
        }
        match paused() {
            Paused::Yes => Ok(*REFERENCE.get_or_init(Epoch::of_system)),
            Paused::No(now) => Err(now),
        }
    }
}

impl Default for Clock {
    /// A clock without an epoch.
    fn default() -> Self {
        Self::new(None)
    }
}

/// A pair of an instant and the wall time at it, from which a [`Clock`] advances with tokio's time.
///
/// Share one epoch, rather than a timestamp, in a test or simulation: a manager that is started later with the same epoch
/// continues the time instead of starting over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch {
    instant: Instant,
    timestamp: Timestamp,
}

impl Epoch {
    /// Creates an epoch at which the current wall time is `timestamp`.
    #[must_use]
    pub fn starting_now(timestamp: Timestamp) -> Self {
        Self { instant: Instant::now(), timestamp }
    }

    /// Current wall time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }

    /// Wall time at `instant`, which can precede the epoch. Saturates at the bounds of [`Timestamp`].
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

    /// Makes this epoch the one of all clocks without an epoch of their own, on this thread and until the guard is dropped.
    ///
    /// A simulation that runs on one thread sets it once, instead of passing an epoch to each component.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use kube_clock::{Clock, Epoch};
    ///
    /// let new_year = "2026-01-01T00:00:00Z".parse().unwrap();
    /// let _epoch = Epoch::starting_now(new_year).for_this_thread();
    /// assert_eq!(Clock::default().now(), new_year);
    /// # }
    /// ```
    #[must_use = "the epoch lasts as long as the guard"]
    pub fn for_this_thread(self) -> ThreadEpoch {
        ThreadEpoch { before: OF_THREAD.replace(Some(self)), _not_send: PhantomData }
    }

    /// Reads the system's monotonic clock and wall clock. Paused time does not affect the result.
    fn of_system() -> Self {
        Self { instant: Instant::from_std(monotonic_time()), timestamp: system_time() }
    }
}

thread_local! {
    /// Epoch of the thread's clocks that have none of their own.
    static OF_THREAD: Cell<Option<Epoch>> = const { Cell::new(None) };
}

/// Guard of an [epoch of the thread](Epoch::for_this_thread). Dropping it restores the previous epoch.
pub struct ThreadEpoch {
    before: Option<Epoch>,
    /// Restores the cell of the thread that created it, so it must stay there.
    _not_send: PhantomData<*const ()>,
}

impl Drop for ThreadEpoch {
    fn drop(&mut self) {
        OF_THREAD.set(self.before);
    }
}

impl fmt::Debug for ThreadEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadEpoch").field("before", &self.before).finish_non_exhaustive()
    }
}

/// Returns whether tokio's time is paused, as in tests and simulations.
///
/// Code can then avoid other threads, because the order of their results would differ from run to run. If time is running, the function reads
/// tokio's clock twice; in paused time it waits until the system's monotonic clock has advanced.
#[must_use]
pub fn is_paused() -> bool {
    matches!(paused(), Paused::Yes)
}

/// One reading of the system's clocks, shared by all clocks without an epoch in paused time.
///
/// A paused runtime starts at the instant at which it was paused, so its wall time starts at the system time of that instant.
static REFERENCE: OnceLock<Epoch> = OnceLock::new();

/// Limit of readings of the monotonic clock in [`paused`]. Clocks advance every 1 to 100 ns, and a reading takes 20 to 100 ns.
const READINGS: u32 = 1_000_000;

/// State of tokio's time.
enum Paused {
    Yes,
    /// Time is running; the field is the current instant.
    No(Instant),
}

/// Detects paused time, which tokio does not expose: if two readings of tokio's clock are equal although the system's monotonic
/// clock has advanced between them, time is paused.
///
/// Paused time advances only while its runtime is idle, so it stands still while this function runs. In running time the
/// first two readings differ if the system's clock has nanosecond resolution; [`Clock::now`] then reads three clocks instead
/// of one.
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
        // If the monotonic clock has not advanced, the readings prove nothing. Then the system time is the safe answer.
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
