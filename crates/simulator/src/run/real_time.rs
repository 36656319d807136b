//! Real time for which the thread of a run is blocked: an operator that sleeps or waits in real time.
//!
//! Linux counts the time that a thread ran, and the time that it was ready to run. For the rest of the elapsed time it was blocked. On
//! other systems nothing is measured. A reading of these times costs two system calls, so there is one only after a while, and after a
//! wait that took long enough to be recorded.

use tokio::time::Duration;

use crate::watchdog::ThreadTimes;

/// Shortest blocked time between two actions that is recorded.
pub(super) const BLOCKED: Duration = Duration::from_millis(20);

/// Longest age of the reading with which a wait is compared. The thread may have been blocked for that long before the wait.
const AGE: Duration = Duration::from_millis(2);

/// Looks for blocked time in the waits of a run.
#[derive(Debug)]
pub(super) struct RealTime {
    /// The last reading.
    last: Option<Reading>,
}

/// Elapsed time and active time of the thread.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: std::time::Instant,
    active: Duration,
}

impl Reading {
    fn now() -> Option<Self> {
        let times = ThreadTimes::now()?;
        Some(Self { at: real_time(), active: times.ran + times.waited })
    }
}

impl RealTime {
    pub(super) fn new() -> Self {
        Self { last: None }
    }

    /// Begins a wait, and returns its start.
    pub(super) fn begin(&mut self) -> std::time::Instant {
        let now = real_time();
        if self.last.is_none_or(|last| now.duration_since(last.at) > AGE) {
            self.last = Reading::now();
        }
        now
    }

    /// Returns the time that the thread was blocked in a wait that began at `start`; zero if that was less than [`BLOCKED`].
    pub(super) fn blocked_since(&mut self, start: std::time::Instant) -> Duration {
        let took = real_time().duration_since(start);
        // Most waits are short, and then need no reading, which costs two system calls.
        if took < BLOCKED {
            return Duration::ZERO;
        }
        let before = self.last;
        self.last = Reading::now();
        let (Some(before), Some(now)) = (before, self.last) else { return Duration::ZERO };
        let active = now.active.saturating_sub(before.active);
        // The reading may be older than the wait, so blocked time before the wait is cut off.
        now.at.duration_since(before.at).saturating_sub(active).min(took)
    }
}

#[expect(clippy::disallowed_methods, reason = "it looks for operators that wait in real time")]
fn real_time() -> std::time::Instant {
    std::time::Instant::now()
}
