//! Wall time for API objects: the one place of this crate that reads the system clock.
//!
//! The clock is read once, when the server starts. From then on it advances with [`tokio::time`], so that a paused
//! runtime controls timestamps too, and a server given an epoch repeats the same timestamps in every run. Faults can stop it
//! and set it; deadlines and other waits do not look at it.

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::Instant;

/// A wall clock that advances with tokio's time, unless a fault stops or sets it.
#[derive(Debug)]
pub(crate) struct Clock(Mutex<Hands>);

#[derive(Debug, Clone, Copy)]
struct Hands {
    /// What the clock showed when it was last started, stopped or set.
    shown: Timestamp,
    /// Since when it runs; `None` while it stands still.
    running: Option<Instant>,
}

impl Hands {
    fn now(self) -> Timestamp {
        let elapsed = self.running.map(|since| since.elapsed()).unwrap_or_default();
        self.shown.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
    }
}

impl Clock {
    /// A clock that shows `epoch` now, or the system's time if there is none.
    pub(crate) fn start(epoch: Option<Timestamp>) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one reading of the system clock, documented above"
        )]
        let shown = epoch.unwrap_or_else(Timestamp::now);
        Self(Mutex::new(Hands { shown, running: Some(Instant::now()) }))
    }

    /// The present.
    pub(crate) fn now(&self) -> Timestamp {
        self.0.lock().now()
    }

    /// The present as `metadata.creationTimestamp` has it: whole seconds, UTC.
    pub(crate) fn now_seconds(&self) -> String {
        format_seconds(self.now())
    }

    /// Stops the clock at what it shows.
    pub(crate) fn stop(&self) {
        let mut hands = self.0.lock();
        *hands = Hands { shown: hands.now(), running: None };
    }

    /// Lets a stopped clock go on from what it shows.
    pub(crate) fn resume(&self) {
        let mut hands = self.0.lock();
        *hands = Hands { shown: hands.now(), running: Some(Instant::now()) };
    }

    /// Sets the clock forward, or back by a negative time.
    pub(crate) fn advance(&self, by: SignedDuration) {
        let mut hands = self.0.lock();
        let bound = if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
        hands.shown = hands.shown.saturating_add(by).unwrap_or(bound);
    }
}

/// RFC 3339 in whole seconds, as Go's `metav1.Time` is written.
pub(crate) fn format_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
