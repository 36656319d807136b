//! Long synchronous work in pieces, so that lease renewal and probes stay on time.

use tokio::{
    task::yield_now,
    time::{Duration, Instant},
};

/// Measures how long a task has worked since it last yielded.
///
/// Bound: between two yields a task works for [`Pace::LONGEST`] and one step more, or for [`Pace::STEPS`] steps. The number of
/// steps is the bound in paused time, where work takes no time.
#[derive(Debug)]
pub(crate) struct Pace {
    since: Instant,
    steps: u32,
}

impl Pace {
    /// Half of the millisecond that a task may take, because one more step follows.
    pub(crate) const LONGEST: Duration = Duration::from_micros(500);

    /// Most steps between two yields.
    pub(crate) const STEPS: u32 = 256;

    /// Begins to measure.
    pub(crate) fn begin() -> Self {
        Self { since: Instant::now(), steps: 0 }
    }

    /// Counts a step and yields if it is time to.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn step(&mut self) {
        self.steps(1).await;
    }

    /// Like [`Pace::step`], but counts several.
    pub(crate) async fn steps(&mut self, steps: u32) {
        if self.is_due(steps, Instant::now()) {
            yield_now().await;
            *self = Self::begin();
        }
    }

    fn is_due(&mut self, steps: u32, now: Instant) -> bool {
        self.steps += steps;
        self.steps >= Self::STEPS || now.saturating_duration_since(self.since) >= Self::LONGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_time_to_yield_after_half_a_millisecond_or_256_steps() {
        let mut pace = Pace::begin();
        let now = Instant::now();
        assert!(!pace.is_due(1, now) && !pace.is_due(1, now + Pace::LONGEST - Duration::from_nanos(1)));
        assert!(pace.is_due(1, now + Pace::LONGEST));
        let mut pace = Pace::begin();
        assert_eq!((1..=Pace::STEPS).find(|_| pace.is_due(1, now)), Some(Pace::STEPS));
    }
}
