//! Wall time for API objects, which faults can stop and set. Deadlines and other waits do not use it.

use jiff::{SignedDuration, Timestamp};
use kube_apimachinery::go;
use kube_clock::Epoch;
use parking_lot::Mutex;

/// A [`kube_clock::Clock`] that faults can stop and set.
#[derive(Debug)]
pub(crate) struct Clock {
    undisturbed: kube_clock::Clock,
    faults: Mutex<ClockFaults>,
}

/// Changes that faults made to the clock.
#[derive(Debug, Clone, Copy, Default)]
struct ClockFaults {
    /// Offset from the undisturbed clock.
    offset: SignedDuration,
    /// Time at which the clock was stopped, if it was.
    stopped: Option<Timestamp>,
}

impl ClockFaults {
    fn apply(self, undisturbed: Timestamp) -> Timestamp {
        self.stopped.unwrap_or_else(|| saturating_add(undisturbed, self.offset))
    }
}

impl Clock {
    /// Creates a clock that advances from `epoch`. Without an epoch it shows the system's time and follows
    /// paused time.
    pub(crate) fn new(epoch: Option<Epoch>) -> Self {
        Self { undisturbed: kube_clock::Clock::new(epoch), faults: Mutex::default() }
    }

    /// Epoch that the clock was created with.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        self.undisturbed.epoch()
    }

    /// Current time.
    pub(crate) fn now(&self) -> Timestamp {
        let faults = *self.faults.lock();
        faults.apply(self.undisturbed.now())
    }

    /// Current time in the format of `metadata.creationTimestamp`: whole seconds, UTC.
    pub(crate) fn now_seconds(&self) -> String {
        go::format_seconds(self.now())
    }

    /// Stops the clock at its current time.
    pub(crate) fn stop(&self) {
        let mut faults = self.faults.lock();
        faults.stopped = Some(faults.apply(self.undisturbed.now()));
    }

    /// Lets a stopped clock advance from the time at which it was stopped.
    pub(crate) fn resume(&self) {
        let mut faults = self.faults.lock();
        if let Some(stopped) = faults.stopped.take() {
            faults.offset = stopped.duration_since(self.undisturbed.now());
        }
    }

    /// Sets the clock forward, or back by a negative time.
    pub(crate) fn advance(&self, by: SignedDuration) {
        let mut faults = self.faults.lock();
        match &mut faults.stopped {
            Some(stopped) => *stopped = saturating_add(*stopped, by),
            None => faults.offset = faults.offset.saturating_add(by),
        }
    }
}

fn saturating_add(time: Timestamp, by: SignedDuration) -> Timestamp {
    let bound = if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
    time.saturating_add(by).unwrap_or(bound)
}
