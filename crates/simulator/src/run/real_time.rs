//! Real time for which the thread of a run is blocked: an operator that sleeps or waits in real time.
//!
//! Linux counts the time that a thread ran, and the time that it was ready to run. For the rest of the elapsed time it was blocked. On
//! other systems nothing is measured.

use tokio::time::Duration;

use crate::watchdog::ThreadTimes;

/// Elapsed time and times of the thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct RealTime {
    elapsed: std::time::Instant,
    active: Duration,
}

impl RealTime {
    pub(super) fn now() -> Option<Self> {
        let times = ThreadTimes::now()?;
        Some(Self { elapsed: real_time(), active: times.ran + times.waited })
    }

    /// Returns the time that the thread was blocked since.
    pub(super) fn blocked(self) -> Duration {
        let Some(now) = Self::now() else { return Duration::ZERO };
        let elapsed = now.elapsed.duration_since(self.elapsed);
        elapsed.saturating_sub(now.active.saturating_sub(self.active))
    }
}

#[expect(clippy::disallowed_methods, reason = "it looks for operators that wait in real time")]
fn real_time() -> std::time::Instant {
    std::time::Instant::now()
}
