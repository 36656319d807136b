//! Wall time for API objects: the one place of this crate that reads the system clock.
//!
//! The clock is read once, when the server starts. From then on it advances with [`tokio::time`], so that a paused
//! runtime controls timestamps too, and a server given an epoch repeats the same timestamps in every run.

use jiff::Timestamp;
use tokio::time::Instant;

/// A wall clock that advances with tokio's time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    epoch: Timestamp,
    started: Instant,
}

impl Clock {
    /// A clock that shows `epoch` now, or the system's time if there is none.
    pub(crate) fn start(epoch: Option<Timestamp>) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one reading of the system clock, documented above"
        )]
        let epoch = epoch.unwrap_or_else(Timestamp::now);
        Self { epoch, started: Instant::now() }
    }

    /// The present.
    pub(crate) fn now(&self) -> Timestamp {
        self.epoch.saturating_add(self.started.elapsed()).unwrap_or(Timestamp::MAX)
    }

    /// The present as `metadata.creationTimestamp` has it: whole seconds, UTC.
    pub(crate) fn now_seconds(&self) -> String {
        format_seconds(self.now())
    }
}

/// RFC 3339 in whole seconds, as Go's `metav1.Time` is written.
pub(crate) fn format_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
