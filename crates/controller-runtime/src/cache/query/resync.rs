//! Resyncs: repeated delivery of unchanged objects.

use std::time::Duration;

use tokio::time::Instant;

/// Interval at which handlers receive unchanged objects again.
///
/// A resync repeats the contents of the cache and sends no request to the API server. A controller that misses no event
/// needs none: resyncs help only against bugs, and against changes outside of the cluster, for which
/// [`Action::requeue_after`](crate::Action::requeue_after) costs less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[doc(alias = "SyncPeriod")]
pub enum Resync {
    /// No resyncs.
    #[default]
    Never,
    /// Delivers every object at this interval, ±10 % at random, as an update from the object to itself, queued behind
    /// other events. At least 1 s.
    Every(Duration),
}

/// Times of the resyncs of one informer. Pure.
#[derive(Debug)]
pub(in crate::cache) struct Schedule {
    resync: Resync,
    due: Option<Instant>,
}

impl Schedule {
    const AT_LEAST: Duration = Duration::from_secs(1);

    pub(in crate::cache) fn new(resync: Resync) -> Self {
        Self { resync, due: None }
    }

    /// Returns when the next resync is due. If it is due at `now`, the caller performs it and calls [`Schedule::done`].
    pub(in crate::cache) fn due(&mut self, now: Instant, rng: &mut fastrand::Rng) -> Option<Instant> {
        // The first resync comes one period after the first call.
        if self.due.is_none() {
            self.done(now, rng);
        }
        self.due
    }

    /// Records that the resync was performed.
    pub(in crate::cache) fn done(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        self.due = match self.resync {
            Resync::Never => None,
            // The same spread as in controller-runtime, so that kinds are not resynced at the same time.
            Resync::Every(period) => {
                now.checked_add(period.max(Self::AT_LEAST).mul_f64(0.9 + 0.2 * rng.f64()))
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_resync_is_due_after_its_period_plus_or_minus_a_tenth() {
        let (now, mut rng) = (Instant::now(), fastrand::Rng::with_seed(1));
        assert_eq!(Schedule::new(Resync::Never).due(now, &mut rng), None);
        let mut schedule = Schedule::new(Resync::Every(Duration::from_secs(100)));
        for _ in 0..100 {
            let due = schedule.due(now, &mut rng).expect("it is due some time");
            assert!((90..110).contains(&(due - now).as_secs()), "{:?}", due - now);
            assert_eq!(schedule.due(due, &mut rng), Some(due), "it stays due until it is done");
            schedule.done(now, &mut rng);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_resync_period_of_zero_counts_as_a_second() {
        let (now, mut rng) = (Instant::now(), fastrand::Rng::with_seed(1));
        let due = Schedule::new(Resync::Every(Duration::ZERO)).due(now, &mut rng);
        assert!(due.is_some_and(|due| due - now >= Duration::from_millis(900)));
    }
}
