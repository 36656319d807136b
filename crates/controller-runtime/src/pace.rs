//! Yields of long synchronous work, so that lease renewal and probes stay on time.
//!
//! On a runtime with one thread, a ready task waits until every other ready task has yielded. The goal is a wait of at most 1 ms. A
//! turn is a tenth of that, because several tasks may take one turn each before the waiting task is polled: the list of a kind, its
//! delivery to a controller, the workers of a controller.

use std::{
    future::{Future, pending, poll_fn},
    panic::resume_unwind,
    pin::pin,
};

use parking_lot::Mutex;
use tokio::{
    task::{spawn_blocking, yield_now},
    time::{Duration, Instant},
};

/// Measures how long a task has worked since its last yield or wait.
///
/// Bound: between two yields or waits a task works for [`Pace::LONGEST`] and one more step, or for [`Pace::STEPS`] steps. The number
/// of steps is the bound in paused time, where work takes no time.
#[derive(Debug)]
pub(crate) struct Pace {
    since: Instant,
    steps: u32,
    /// Whether the task has waited since the last step, so that other tasks had a turn.
    has_waited: bool,
}

impl Pace {
    /// Time after which a step is the last one of the turn.
    pub(crate) const LONGEST: Duration = Duration::from_micros(100);

    /// Largest number of steps between two yields.
    pub(crate) const STEPS: u32 = 256;

    /// Starts the measurement.
    pub(crate) fn begin() -> Self {
        Self { since: Instant::now(), steps: 0, has_waited: false }
    }

    /// Awaits `wait`. If `wait` is not ready at once, the next step starts a new turn. Otherwise the first step after each wait would
    /// yield, and the thread would look for other work after each single event.
    ///
    /// # Cancellation
    ///
    /// That of `wait`. If it was pending, the next step starts a new turn in this case too.
    pub(crate) async fn wait_for<F: Future>(&mut self, wait: F) -> F::Output {
        let mut wait = pin!(wait);
        poll_fn(|cx| {
            let polled = wait.as_mut().poll(cx);
            self.has_waited |= polled.is_pending();
            polled
        })
        .await
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
        if std::mem::take(&mut self.has_waited) {
            // The time of the wait is unknown, so the time of this step does not count.
            (self.since, self.steps) = (now, 0);
        }
        self.steps += steps;
        self.steps >= Self::STEPS || now.saturating_duration_since(self.since) >= Self::LONGEST
    }
}

/// Like a [`Pace`], but shared by several tasks, such as the workers of a controller. A step counts with its whole duration, waits
/// included; the time between steps, in which all tasks wait for the next one, does not count.
///
/// Bound: between two polls of another task, all sharing tasks together work for one turn of a `Pace`, and each of them for one more
/// step. A used-up turn ends when the first task that yielded for it is polled again; every other ready task has been polled by
/// then.
#[derive(Debug, Default)]
pub(crate) struct SharedPace {
    turn: Mutex<Turn>,
}

#[derive(Debug, Default)]
struct Turn {
    number: u64,
    worked: Duration,
    steps: u32,
}

impl SharedPace {
    /// Counts a step of the calling task, which began at `began`, and yields if the turn is used up.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses nothing: another task starts the next turn.
    pub(crate) async fn step(&self, began: Instant) {
        let Some(number) = self.used_up(began.elapsed()) else { return };
        yield_now().await;
        self.begin_after(number);
    }

    /// Counts a step. Returns the number of the turn if it is used up.
    fn used_up(&self, worked: Duration) -> Option<u64> {
        let mut turn = self.turn.lock();
        turn.worked += worked;
        turn.steps += 1;
        (turn.steps >= Pace::STEPS || turn.worked >= Pace::LONGEST).then_some(turn.number)
    }

    /// Starts the turn after this one, unless another task has started it.
    fn begin_after(&self, number: u64) {
        let mut turn = self.turn.lock();
        if turn.number == number {
            *turn = Turn { number: number + 1, ..Turn::default() };
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
    async fn a_wait_starts_the_turn_again_and_a_future_that_is_ready_does_not() {
        let mut pace = Pace::begin();
        let now = Instant::now();
        assert!(!pace.is_due(Pace::STEPS - 1, now));
        pace.wait_for(std::future::ready(())).await;
        assert!(pace.is_due(1, now));
        pace.wait_for(yield_now()).await;
        assert!(!pace.is_due(Pace::STEPS - 1, now + Pace::LONGEST));
        assert!(!pace.is_due(0, now + 2 * Pace::LONGEST - Duration::from_nanos(1)));
        assert!(pace.is_due(0, now + 2 * Pace::LONGEST));
    }

    #[test]
    fn the_time_in_which_no_task_works_is_not_part_of_a_shared_turn() {
        let shared = SharedPace::default();
        let step = Pace::LONGEST / 10;
        let used_up: Vec<_> = (0..10).map(|_| shared.used_up(step)).collect();
        assert_eq!(used_up[..9], [None; 9]);
        assert_eq!(used_up[9], Some(0));
        shared.begin_after(0);
        assert_eq!(shared.used_up(step), None);
    }

    #[test]
    fn tasks_of_a_shared_pace_take_one_turn_together_and_a_step_each() {
        let shared = SharedPace::default();
        let steps = Pace::STEPS as usize;
        let mut last = [None; 16];
        for round in 1..4 {
            // Each task works until its turn is used up, one after another, as on a runtime with one thread.
            let mut taken = 0;
            for number in &mut last {
                if let Some(number) = number.take() {
                    shared.begin_after(number);
                }
                *number = loop {
                    taken += 1;
                    if let Some(used_up) = shared.used_up(Duration::ZERO) {
                        break Some(used_up);
                    }
                };
            }
            assert!((steps..=steps + 15).contains(&taken), "round {round}: {taken} steps");
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
