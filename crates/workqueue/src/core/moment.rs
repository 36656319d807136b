//! Points in time as the core sees them.

use std::time::Duration;

use tokio::time::Instant;

/// Nanoseconds since the queue was made: half the size of an `Instant`, and never out of range.
///
/// The latest moment, 584 years on, stands for "never".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Moment(u64);

impl Moment {
    /// `instant`, for a queue made at `epoch`; what was before counts as the epoch.
    pub(crate) fn since(epoch: Instant, instant: Instant) -> Self {
        Self(nanos(instant.saturating_duration_since(epoch)))
    }

    pub(crate) fn instant(self, epoch: Instant) -> Instant {
        let elapsed = Duration::from_nanos(self.0);
        // A platform whose instants end before ours gets its day after tomorrow instead: waiting simply starts again.
        epoch
            .checked_add(elapsed)
            .unwrap_or_else(|| epoch + Duration::from_secs(2 * 24 * 60 * 60))
    }

    pub(crate) fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(nanos(delay)))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
