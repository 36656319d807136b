//! Times in the core.

use std::cell::LazyCell;
use std::time::Duration;

use tokio::time::Instant;

/// The time of an operation, read on first use: most operations need none, and reading the clock costs
/// more than all the rest of them.
pub(crate) type Now<F> = LazyCell<Timestamp, F>;

/// Nanoseconds since the queue was made: half the size of an `Instant`, and never out of range.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Timestamp(u64);

impl Timestamp {
    /// Time at which the queue was made.
    pub(crate) const START: Self = Self(0);
    /// 584 years later.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// Converts `instant`, for a queue made at `epoch`; earlier instants become the epoch.
    #[inline]
    pub(crate) fn since(epoch: Instant, instant: Instant) -> Self {
        Self(nanos(instant.saturating_duration_since(epoch)))
    }

    pub(crate) fn instant(self, epoch: Instant) -> Instant {
        let elapsed = Duration::from_nanos(self.0);
        // If the platform's instants end before this one, use the day after tomorrow: the waiting task then waits again.
        epoch.checked_add(elapsed).unwrap_or_else(|| epoch + Duration::from_hours(48))
    }

    #[inline]
    pub(crate) fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(nanos(delay)))
    }

    /// The time since `earlier`; zero if that is later.
    #[inline]
    pub(crate) fn elapsed_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[inline]
fn nanos(duration: Duration) -> u64 {
    // Saturates beyond 570 years, so that the product cannot overflow and the common case stays in 64 bits.
    match duration.as_secs() {
        0..18_000_000_000 => duration.as_secs() * 1_000_000_000 + u64::from(duration.subsec_nanos()),
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_beyond_the_instants_of_the_platform_is_the_day_after_tomorrow() {
        let mut last = Instant::now();
        for shift in (0..64).rev() {
            while let Some(later) = last.checked_add(Duration::from_secs(1 << shift)) {
                last = later;
            }
        }
        let epoch = last - Duration::from_hours(72);
        let [within, beyond] = [71, 73].map(|hours| Timestamp::START.after(Duration::from_hours(hours)));
        assert_eq!(within.instant(epoch) - epoch, Duration::from_hours(71));
        assert_eq!(beyond.instant(epoch) - epoch, Duration::from_hours(48));
    }
}
