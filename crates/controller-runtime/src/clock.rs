//! Wall time for what is written into API objects: the one place of this crate that reads the system clock.
//!
//! Decisions never depend on it. It is read once and then advances with [`tokio::time`], so that a paused runtime
//! controls these timestamps too.

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// A wall clock that advances with tokio's time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    epoch: Timestamp,
    started: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one reading of the system clock, documented above"
        )]
        let epoch = Timestamp::now();
        Self { epoch, started: Instant::now() }
    }

    /// The wall time at `instant`.
    pub(crate) fn at(&self, instant: Instant) -> Timestamp {
        match instant.checked_duration_since(self.started) {
            Some(later) => self.epoch.saturating_add(later).unwrap_or(Timestamp::MAX),
            None => self.epoch.saturating_sub(self.started.duration_since(instant)).unwrap_or(Timestamp::MIN),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }
}
