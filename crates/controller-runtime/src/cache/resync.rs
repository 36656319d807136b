use std::time::Duration;

use tokio::time::Instant;

/// Whether handlers are told again of what is there, although nothing happened to it.
///
/// A resync repeats what the cache knows and asks the API server for nothing. A controller that misses nothing needs none:
/// it helps against what happens outside of the cluster, where asking to be
/// [requeued](crate::Action::requeue_after) costs less, and against bugs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[doc(alias = "SyncPeriod")]
pub enum Resync {
    /// They are not.
    #[default]
    Never,
    /// So often, give or take a tenth at random, as updates from an object to itself, which queue behind what happened. A
    /// second at least.
    Every(Duration),
}

/// When the objects of one informer are told again. Pure.
#[derive(Debug)]
pub(super) struct Schedule {
    resync: Resync,
    due: Option<Instant>,
}

impl Schedule {
    const AT_LEAST: Duration = Duration::from_secs(1);

    pub(super) fn new(resync: Resync) -> Self {
        Self { resync, due: None }
    }

    /// When they are due; a time that is not later than `now` is still to be followed by [`Schedule::done`].
    pub(super) fn due(&mut self, now: Instant, rng: &mut fastrand::Rng) -> Option<Instant> {
        if self.due.is_none() {
            self.done(now, rng);
        }
        self.due
    }

    /// They have been told.
    pub(super) fn done(&mut self, now: Instant, rng: &mut fastrand::Rng) {
        self.due = match self.resync {
            Resync::Never => None,
            // As in controller-runtime, so that not all kinds are told at the same time.
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
    async fn a_resync_is_due_after_its_period_give_or_take_a_tenth() {
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
    async fn a_period_of_nothing_is_a_second() {
        let (now, mut rng) = (Instant::now(), fastrand::Rng::with_seed(1));
        let due = Schedule::new(Resync::Every(Duration::ZERO)).due(now, &mut rng);
        assert!(due.is_some_and(|due| due - now >= Duration::from_millis(900)));
    }
}
