//! Shutting a queue down, at once and after it has drained.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};

use kube_workqueue::Queue;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout};

use super::{SECOND, Wakes, getter, is_pending};

#[tokio::test(start_paused = true)]
async fn shutdown_releases_every_waiting_getter() {
    let queue = Queue::default();
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        tasks.spawn(getter(&queue));
    }
    yield_now().await;
    assert!(queue.shut_down().is_empty());
    assert!(timeout(SECOND, tasks.join_all()).await.unwrap().iter().all(Option::is_none));
    assert!(queue.is_shut_down());
    queue.add("a");
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn shutdown_hands_out_ready_keys_and_returns_the_others() {
    let queue = Queue::default();
    queue.add("a");
    queue.add_after("late", 60 * SECOND);
    queue.add_after("later", 70 * SECOND);
    assert!(!queue.is_shut_down());
    assert_eq!(queue.shut_down(), ["late", "later"]);
    assert_eq!(*queue.get().await.unwrap(), "a");
    assert!(queue.get().await.is_none());
    assert!(queue.shut_down().is_empty(), "shutting down twice is harmless");
}

#[tokio::test(start_paused = true)]
async fn a_getter_waits_out_the_last_run_of_a_key_added_while_processing() {
    let queue = Queue::default();
    queue.add("a");
    let item = queue.get().await.unwrap();
    queue.add("a");
    queue.shut_down();
    let mut next = pin!(queue.get());
    assert!(is_pending(next.as_mut()).await, "the key is to run once more");
    drop(item);
    assert_eq!(*next.await.unwrap(), "a");
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_ready_keys_and_for_those_being_processed() {
    let (queue, start) = (Queue::default(), Instant::now());
    let mut workers = JoinSet::new();
    for key in ["a", "b", "c"] {
        queue.add(key);
    }
    queue.add_after("late", 60 * SECOND);
    let worked = queue.clone();
    workers.spawn(async move {
        while let Some(item) = worked.get().await {
            sleep(SECOND).await;
            drop(item);
        }
    });
    assert_eq!(queue.shut_down_with_drain().await, ["late"]);
    assert_eq!(start.elapsed(), 3 * SECOND);
    workers.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn drain_is_woken_by_the_last_key_only() {
    let queue = Queue::default();
    for key in ["a", "b"] {
        queue.add(key);
    }
    let (a, b) = (queue.get().await, queue.get().await);
    let mut drain = pin!(queue.shut_down_with_drain());
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    assert!(drain.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(a);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0, "b is still being processed");
    drop(b);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_the_waiting_of_drain() {
    let queue = Queue::default();
    queue.add("a");
    let _item = queue.get().await;
    let mut drain = pin!(queue.shut_down_with_drain());
    assert!(is_pending(drain.as_mut()).await);
    queue.shut_down();
    timeout(SECOND, drain).await.expect("the item is not done, and no caller waits for it");
}

#[tokio::test(start_paused = true)]
async fn dropping_drain_leaves_the_queue_shut_down() {
    let queue = Queue::default();
    queue.add("a");
    let item = queue.get().await;
    let _: Result<_, _> = timeout(SECOND, queue.shut_down_with_drain()).await;
    assert!(queue.is_shut_down());
    drop(item);
    assert!(queue.get().await.is_none());
    timeout(SECOND, queue.shut_down_with_drain()).await.expect("nothing is left to wait for");
}
