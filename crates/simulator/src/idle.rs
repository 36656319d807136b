//! Waits until no task of the runtime can run, and lets virtual time pass.
//!
//! Tokio calls the hook [`Builder::on_thread_park`](tokio::runtime::Builder::on_thread_park) when no task is runnable. The hook
//! wakes the driver, the future of `block_on`; tokio then does not park, so no time passes. To let time pass, the driver asks the
//! hook to stay silent until the clock has moved: paused time jumps towards the next timer while the thread parks. A far timer is
//! reached in several jumps, at the boundaries of tokio's timer wheel.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::{Poll, Waker},
};

use parking_lot::Mutex;
use tokio::time::{Duration, Instant, sleep};

/// Longest jump of [`Idle::time_passed`]. Without a timer, paused time would stand still and the thread would park forever.
const LONGEST_JUMP: Duration = Duration::from_secs(3600);

/// Reports to the driver that no task can run. Clones share the state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Idle(Arc<Mutex<IdleState>>);

#[derive(Debug, Default)]
struct IdleState {
    wait: Wait,
    /// Wakes the driver.
    waker: Option<Waker>,
    /// Whether a wait was ended from outside.
    was_kicked: bool,
}

/// Event that the driver waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Wait {
    /// The driver does not wait: time passes as in any paused runtime.
    #[default]
    Nothing,
    /// No task can run.
    Idle,
    /// No task can run, at a later time than this.
    IdleAfter(Instant),
    /// The wait is over, and the driver has not noticed yet.
    Over,
}

impl Idle {
    /// Returns the function to pass to `on_thread_park`.
    pub(crate) fn hook(&self) -> impl Fn() + Send + Sync + 'static {
        let idle = self.clone();
        move || {
            let waker = {
                let mut state = idle.0.lock();
                let is_over = match state.wait {
                    Wait::Nothing | Wait::Over => false,
                    Wait::Idle => true,
                    // At the same time the hook stays silent, so that tokio parks and the clock jumps.
                    Wait::IdleAfter(then) => Instant::now() > then,
                };
                if !is_over {
                    return;
                }
                state.wait = Wait::Over;
                state.waker.take()
            };
            // Without the lock: a waker may run other code, such as the destructor of a task.
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Waits until no task can run, without letting time pass. Only the future of `block_on` may wait.
    ///
    /// # Cancellation
    ///
    /// After a drop time passes as in any paused runtime, until the next wait.
    pub(crate) async fn reached(&self) {
        self.wait(Wait::Idle).await;
    }

    /// Lets time jump to the next timer or a part of the way, at most `limit` and an hour, and waits until no task can run. Only the
    /// future of `block_on` may wait.
    ///
    /// # Cancellation
    ///
    /// Like [`reached`](Self::reached).
    pub(crate) async fn time_passed(&self, limit: Duration) {
        let mut limit = pin!(sleep(limit.min(LONGEST_JUMP)));
        let mut waits = pin!(self.wait(Wait::IdleAfter(Instant::now())));
        poll_fn(|context| {
            // Registers the timer; the wait ends by the hook, after the timer's tasks have run.
            let _ = limit.as_mut().poll(context);
            waits.as_mut().poll(context)
        })
        .await;
    }

    /// Ends the driver's current wait although tasks can run; if the driver does not wait, its next wait. May be called by another thread.
    pub(crate) fn kick(&self) {
        let waker = {
            let mut state = self.0.lock();
            state.wait = Wait::Over;
            state.was_kicked = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether a wait was ended by [`kick`](Self::kick).
    pub(crate) fn was_kicked(&self) -> bool {
        self.0.lock().was_kicked
    }

    async fn wait(&self, wait: Wait) {
        // Also after a drop the hook must not wake a driver that no longer waits.
        let _reset = Reset(self);
        {
            let mut state = self.0.lock();
            // A kick may come between two waits, from the thread of the watchdog.
            state.wait = if state.was_kicked { Wait::Over } else { wait };
        }
        poll_fn(|context| {
            let mut state = self.0.lock();
            if state.wait == Wait::Over {
                return Poll::Ready(());
            }
            // Stored under the lock under which the state was read, so that a kick in between cannot miss the
            // waker.
            state.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Ends a wait when dropped.
struct Reset<'i>(&'i Idle);

impl Drop for Reset<'_> {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        (state.wait, state.waker) = (Wait::Nothing, None);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::{
        runtime::Builder,
        task::{JoinSet, yield_now},
        time::sleep_until,
    };

    use super::*;

    /// Runs `main` as the future of `block_on` on a runtime with the hook.
    fn run<F: Future>(main: impl FnOnce(Idle) -> F) -> F::Output {
        let idle = Idle::default();
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).on_thread_park(idle.hook()).build().unwrap();
        runtime.block_on(main(idle))
    }

    #[test]
    fn no_time_passes_while_the_driver_waits_for_idle() {
        run(async |idle| {
            let (start, mut tasks) = (Instant::now(), JoinSet::new());
            tasks.spawn(async { sleep(Duration::from_millis(1)).await });
            for _ in 0..1000 {
                idle.reached().await;
            }
            assert_eq!(Instant::now(), start);
            assert!(tasks.try_join_next().is_none());
        });
    }

    #[test]
    fn idle_is_reported_after_every_task_that_can_run() {
        run(async |idle| {
            let (count, mut tasks) = (Arc::new(AtomicU32::new(0)), JoinSet::new());
            for task in 0..50 {
                let count = Arc::clone(&count);
                tasks.spawn(async move {
                    for _ in 0..task {
                        yield_now().await;
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                });
            }
            idle.reached().await;
            assert_eq!(count.load(Ordering::Relaxed), 50);
        });
    }

    #[test]
    fn time_never_jumps_over_a_timer_and_its_tasks_run_before_the_driver() {
        run(async |idle| {
            let (start, mut tasks, ran) = (Instant::now(), JoinSet::new(), Arc::new(AtomicU32::new(0)));
            for seconds in [3, 1, 2, 1] {
                let ran = Arc::clone(&ran);
                tasks.spawn(async move {
                    sleep_until(start + Duration::from_secs(seconds)).await;
                    yield_now().await;
                    ran.fetch_add(1, Ordering::Relaxed);
                });
            }
            idle.reached().await;
            let mut times = Vec::new();
            while start.elapsed() < Duration::from_secs(3) {
                idle.time_passed(LONGEST_JUMP).await;
                let elapsed = start.elapsed();
                let due = [1, 1, 2, 3].iter().filter(|seconds| Duration::from_secs(**seconds) <= elapsed);
                assert_eq!(ran.load(Ordering::Relaxed), due.count() as u32, "{elapsed:?}");
                idle.reached().await;
                assert_eq!(start.elapsed(), elapsed);
                times.push(elapsed);
            }
            assert!(
                [1, 2, 3].iter().all(|seconds| times.contains(&Duration::from_secs(*seconds))),
                "{times:?}"
            );
        });
    }

    #[test]
    fn without_a_timer_time_passes_as_well() {
        run(async |idle| {
            let start = Instant::now();
            idle.reached().await;
            idle.time_passed(LONGEST_JUMP).await;
            let elapsed = start.elapsed();
            assert!(elapsed > Duration::ZERO && elapsed <= LONGEST_JUMP, "{elapsed:?}");
        });
    }

    #[test]
    fn a_jump_ends_at_its_limit() {
        run(async |idle| {
            let start = Instant::now();
            idle.reached().await;
            let end = Duration::from_secs(2);
            while start.elapsed() < end {
                idle.time_passed(end - start.elapsed()).await;
                assert!(start.elapsed() <= end, "{:?}", start.elapsed());
            }
        });
    }

    #[test]
    fn a_kick_ends_the_wait_for_a_task_that_is_always_ready() {
        run(async |idle| {
            let mut tasks = JoinSet::new();
            tasks.spawn(async {
                loop {
                    yield_now().await;
                }
            });
            let other = idle.clone();
            let kicker = std::thread::spawn(move || other.kick());
            idle.reached().await;
            kicker.join().unwrap();
            assert!(idle.was_kicked());
        });
    }

    #[test]
    fn without_a_wait_time_passes_as_usual() {
        run(async |idle| {
            let start = Instant::now();
            idle.reached().await;
            sleep(Duration::from_secs(5)).await;
            assert_eq!(Instant::now() - start, Duration::from_secs(5));
        });
    }

    #[test]
    fn a_day_of_jumps_takes_the_same_steps_in_each_run() {
        let times = || {
            run(async |idle| {
                let (start, mut tasks) = (Instant::now(), JoinSet::new());
                for period in [7, 60, 600, 61] {
                    tasks.spawn(async move {
                        loop {
                            sleep(Duration::from_secs(period)).await;
                        }
                    });
                }
                idle.reached().await;
                let mut times = Vec::new();
                while start.elapsed() < Duration::from_secs(86_400) {
                    idle.time_passed(LONGEST_JUMP).await;
                    times.push(start.elapsed());
                }
                times
            })
        };
        let first = times();
        assert!(first.len() > 10_000, "{}", first.len());
        assert_eq!(first, times());
    }
}
