//! Yields of long synchronous work, so that lease renewal and probes stay on time.
//!
//! On a runtime with one thread, a task waits until every other ready task has yielded. The goal is a wait of at most 1 ms. A turn
//! is a tenth of that, because several tasks may take one turn each before a waiting task: the list of a kind, its delivery to a
//! controller, the workers of a controller.

use std::{future::pending, panic::resume_unwind};

use parking_lot::Mutex;
use tokio::{
    task::{spawn_blocking, yield_now},
    time::{Duration, Instant},
};

/// Measures how long a task has worked since its last yield.
///
/// Bound: between two yields a task works for [`Pace::LONGEST`] and one more step, or for [`Pace::STEPS`] steps. The number of
/// steps is the bound in paused time, where work takes no time.
#[derive(Debug)]
pub(crate) struct Pace {
    since: Instant,
    steps: u32,
}

impl Pace {
    /// Time after which a step is the last one of the turn.
    pub(crate) const LONGEST: Duration = Duration::from_micros(100);

    /// Largest number of steps between two yields.
    pub(crate) const STEPS: u32 = 256;

    /// Starts the measurement.
    pub(crate) fn begin() -> Self {
        Self { since: Instant::now(), steps: 0 }
    }

    /// Counts a step, and yields if the turn is used up.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn step(&mut self) {
        self.steps(1).await;
    }

    /// Like [`Pace::step`], but counts several steps.
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

/// A [`Pace`] that several tasks share, such as the workers of a controller.
///
/// Bound: between two polls of another task, all sharing tasks together work for one turn of a `Pace`, and each of them for one more
/// step. A used-up turn ends when the first task that yielded for it is polled again; every other ready task has been polled by
/// then.
#[derive(Debug)]
pub(crate) struct SharedPace {
    turn: Mutex<Turn>,
}

#[derive(Debug)]
struct Turn {
    number: u64,
    pace: Pace,
}

impl SharedPace {
    /// Starts the measurement.
    pub(crate) fn begin() -> Self {
        Self { turn: Mutex::new(Turn { number: 0, pace: Pace::begin() }) }
    }

    /// Counts a step of the calling task, and yields if the turn is used up.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses nothing: another task starts the next turn.
    pub(crate) async fn step(&self) {
        let Some(number) = self.used_up(Instant::now()) else { return };
        yield_now().await;
        self.begin_after(number, Instant::now());
    }

    /// Counts a step. Returns the number of the turn if it is used up.
    fn used_up(&self, now: Instant) -> Option<u64> {
        let mut turn = self.turn.lock();
        turn.pace.is_due(1, now).then_some(turn.number)
    }

    /// Starts the turn after this one, unless another task has started it.
    fn begin_after(&self, number: u64, now: Instant) {
        let mut turn = self.turn.lock();
        if turn.number == number {
            *turn = Turn { number: number + 1, pace: Pace { since: now, steps: 0 } };
        }
    }
}

/// Runs `work`, which takes longer than a turn and cannot yield, on a thread for blocking work.
///
/// In paused time it runs on the caller's thread. On another thread, the progress of other tasks meanwhile would depend on real time,
/// and simulations could not be replayed.
///
/// # Cancellation
///
/// Dropping the future drops the result. Work that has started runs to its end, and the runtime waits for it when it shuts down.
pub(crate) async fn on_another_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    if kube_clock::is_paused() {
        return work();
    }
    match spawn_blocking(work).await.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => resume_unwind(panic),
        // The runtime is shutting down and will drop the caller as well.
        Err(Err(_)) => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_time_to_yield_after_a_tenth_of_a_millisecond_or_256_steps() {
        let mut pace = Pace::begin();
        let now = Instant::now();
        assert!(!pace.is_due(1, now) && !pace.is_due(1, now + Pace::LONGEST - Duration::from_nanos(1)));
        assert!(pace.is_due(1, now + Pace::LONGEST));
        let mut pace = Pace::begin();
        assert_eq!((1..=Pace::STEPS).find(|_| pace.is_due(1, now)), Some(Pace::STEPS));
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_of_a_shared_pace_take_one_turn_together_and_a_step_each() {
        let (shared, mut now) = (SharedPace::begin(), Instant::now());
        let steps = Pace::STEPS as usize;
        let mut last = [None; 16];
        for round in 1..4 {
            // Each task works until its turn is used up, one after another, as on a runtime with one thread.
            let mut taken = 0;
            for number in &mut last {
                if let Some(number) = number.take() {
                    shared.begin_after(number, now);
                }
                *number = loop {
                    taken += 1;
                    if let Some(used_up) = shared.used_up(now) {
                        break Some(used_up);
                    }
                };
            }
            assert!((steps..=steps + 15).contains(&taken), "round {round}: {taken} steps");
            now += Duration::from_secs(1);
        }
    }

    #[tokio::test]
    async fn long_work_leaves_the_thread_to_others_but_not_in_paused_time() {
        let here = thread::current().id();
        assert_ne!(on_another_thread(|| thread::current().id()).await, here);
        tokio::time::pause();
        assert_eq!(on_another_thread(|| thread::current().id()).await, here);
    }
}
