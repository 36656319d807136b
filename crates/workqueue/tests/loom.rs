//! The async shell under all interleavings of a few threads, up to a number of preemptions.
//!
//! `RUSTFLAGS="--cfg workqueue_loom" cargo test -p kube-workqueue --release --test loom`
//!
//! A hang shows as loom's "deadlock". Without the flag this file is empty.
#![cfg(workqueue_loom)]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kube_workqueue::{Options, Queue, default_item_based_rate_limiter, model};
use loom::future::block_on;
use loom::thread;

const SECOND: Duration = Duration::from_secs(1);

fn check(preemptions: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(move || {
        scenario();
        model::reset();
    });
}

fn queue() -> Queue<&'static str> {
    Queue::new(Options::default().rate_limiter(default_item_based_rate_limiter()))
}

/// State that a reconciler checks: the number of changes of the key, and whether it is being processed.
#[derive(Default)]
struct Watched {
    changes: AtomicUsize,
    seen: AtomicUsize,
    busy: AtomicBool,
}

impl Watched {
    fn change(&self, queue: &Queue<&'static str>) {
        self.changes.fetch_add(1, SeqCst);
        queue.add("a");
    }

    /// Processes keys until the queue has shut down.
    fn work(&self, queue: &Queue<&'static str>) {
        let mut next = block_on(queue.get());
        while let Some(item) = next {
            assert!(!self.busy.swap(true, SeqCst), "two runs of one key");
            let changes = self.changes.load(SeqCst);
            thread::yield_now();
            self.seen.fetch_max(changes, SeqCst);
            self.busy.store(false, SeqCst);
            next = block_on(queue.next(item));
        }
    }

    fn assert_nothing_lost(&self) {
        assert_eq!(self.seen.load(SeqCst), self.changes.load(SeqCst), "a change was not followed by a run");
    }
}

#[test]
fn every_change_is_followed_by_a_run_that_began_after_it() {
    check(2, || {
        let (queue, watched) = (queue(), Arc::new(Watched::default()));
        let workers = [(); 2].map(|()| {
            let (queue, watched) = (queue.clone(), watched.clone());
            thread::spawn(move || watched.work(&queue))
        });
        watched.change(&queue);
        watched.change(&queue);
        queue.shut_down();
        for worker in workers {
            worker.join().unwrap();
        }
        watched.assert_nothing_lost();
    });
}

#[test]
fn adds_from_two_threads_reach_one_worker() {
    check(4, || {
        let (queue, watched) = (queue(), Arc::new(Watched::default()));
        let worker = thread::spawn({
            let (queue, watched) = (queue.clone(), watched.clone());
            move || watched.work(&queue)
        });
        let other = thread::spawn({
            let (queue, watched) = (queue.clone(), watched.clone());
            move || watched.change(&queue)
        });
        watched.change(&queue);
        other.join().unwrap();
        queue.shut_down();
        worker.join().unwrap();
        watched.assert_nothing_lost();
    });
}

#[test]
fn drain_returns_when_all_is_done_and_not_before() {
    check(4, || {
        let (queue, watched) = (queue(), Arc::new(Watched::default()));
        let worker = thread::spawn({
            let (queue, watched) = (queue.clone(), watched.clone());
            move || watched.work(&queue)
        });
        watched.change(&queue);
        let drainer = thread::spawn({
            let (queue, watched) = (queue.clone(), watched.clone());
            move || {
                block_on(queue.shut_down_with_drain());
                assert!(!watched.busy.load(SeqCst), "a run is not done");
                watched.assert_nothing_lost();
            }
        });
        drainer.join().unwrap();
        worker.join().unwrap();
    });
}

#[test]
fn shutdown_during_drain_releases_all_waiters() {
    check(4, || {
        let queue = queue();
        queue.add("a");
        let item = block_on(queue.get());
        let drainer = thread::spawn({
            let queue = queue.clone();
            move || block_on(queue.shut_down_with_drain())
        });
        let getter = thread::spawn({
            let queue = queue.clone();
            move || assert!(block_on(queue.get()).is_none())
        });
        queue.shut_down();
        getter.join().unwrap();
        drop(item);
        drainer.join().unwrap();
    });
}

#[test]
fn a_get_that_is_dropped_passes_its_call_on() {
    check(4, || {
        let queue = queue();
        let patient = thread::spawn({
            let queue = queue.clone();
            move || block_on(queue.get()).is_some()
        });
        let hasty = thread::spawn({
            let queue = queue.clone();
            move || {
                let mut get = pin!(queue.get());
                let mut context = Context::from_waker(Waker::noop());
                matches!(get.as_mut().poll(&mut context), Poll::Ready(Some(_)))
            }
        });
        queue.add("a");
        queue.add("b");
        hasty.join().unwrap();
        assert!(patient.join().unwrap(), "there is a key for it in any case");
    });
}

#[test]
fn a_delayed_key_wakes_one_of_the_getters_also_when_the_one_with_the_alarm_leaves() {
    check(4, || {
        let queue = queue();
        let patient = thread::spawn({
            let queue = queue.clone();
            move || assert!(block_on(queue.get()).is_some())
        });
        let hasty = thread::spawn({
            let queue = queue.clone();
            move || {
                let mut get = pin!(queue.get());
                let mut context = Context::from_waker(Waker::noop());
                if let Poll::Ready(Some(item)) = get.as_mut().poll(&mut context) {
                    queue.add(*item);
                }
            }
        });
        queue.add_after("a", SECOND);
        model::pass(SECOND);
        hasty.join().unwrap();
        patient.join().unwrap();
    });
}

#[test]
fn an_earlier_delay_wakes_the_one_with_the_alarm() {
    check(4, || {
        let queue = queue();
        queue.add_after("late", 60 * SECOND);
        let getters = [(); 2].map(|()| {
            let queue = queue.clone();
            thread::spawn(move || block_on(queue.get()).map(|item| *item))
        });
        queue.add_after("early", SECOND);
        model::pass(SECOND);
        queue.add("now");
        let mut keys = getters.map(|getter| getter.join().unwrap());
        keys.sort_unstable();
        assert_eq!(keys, [Some("early"), Some("now")]);
    });
}
