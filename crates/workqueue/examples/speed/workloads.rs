//! Workloads, shared by the runner and the benches.
//!
//! Each receives existing keys and returns the time from its first operation to its last. Creating the keys and
//! dropping the queue are not measured.

#![expect(clippy::disallowed_methods, reason = "it is real time that is measured")]

use std::time::{Duration, Instant};

use kube_workqueue::{Queue, RateLimiter, default_controller_rate_limiter};
use tokio::task::JoinSet;

use super::keys::Key;

/// Add, get and done, one key after another.
pub(crate) async fn one_at_a_time(keys: Vec<Key>) -> Duration {
    let queue = Queue::default();
    let start = Instant::now();
    let mut item = None;
    for key in keys {
        queue.add(key);
        item = match item {
            Some(done) => queue.next(done).await,
            None => queue.get().await,
        };
    }
    drop(item);
    start.elapsed()
}

/// All keys are added, then all are handed out.
pub(crate) async fn fill_then_drain(keys: Vec<Key>) -> Duration {
    let (queue, count) = (Queue::default(), keys.len());
    let start = Instant::now();
    keys.into_iter().for_each(|key| queue.add(key));
    let mut item = queue.get().await;
    for _ in 1..count {
        if let Some(done) = item {
            item = queue.next(done).await;
        }
    }
    drop(item);
    start.elapsed()
}

/// Adds of keys that are queued already; `keys` contains each of them many times.
pub(crate) async fn duplicates(keys: Vec<Key>) -> Duration {
    let queue = Queue::default();
    keys.iter().take(1000).for_each(|key| queue.add(key.clone()));
    let start = Instant::now();
    keys.into_iter().for_each(|key| queue.add(key));
    start.elapsed()
}

/// Eight tasks that add keys, and eight that get and finish them, until every key has been handed out.
pub(crate) async fn eight_by_eight(keys: Vec<Key>) -> Duration {
    let queue = Queue::default();
    let mut shares: [Vec<Key>; 8] = Default::default();
    for (place, key) in keys.into_iter().enumerate() {
        shares[place % 8].push(key);
    }
    let (mut producers, mut consumers) = (JoinSet::new(), JoinSet::new());
    let start = Instant::now();
    for share in shares {
        let (producer, consumer) = (queue.clone(), queue.clone());
        consumers.spawn(async move {
            let mut item = consumer.get().await;
            while let Some(done) = item {
                item = consumer.next(done).await;
            }
        });
        producers.spawn(async move { share.into_iter().for_each(|key| producer.add(key)) });
    }
    producers.join_all().await;
    queue.shut_down();
    consumers.join_all().await;
    start.elapsed()
}

/// Delays between one and two hours, in random order.
pub(crate) async fn add_after(keys: Vec<Key>) -> Duration {
    let queue = Queue::default();
    let mut random = fastrand::Rng::with_seed(1);
    let start = Instant::now();
    for key in keys {
        queue.add_after(key, Duration::from_nanos(random.u64(HOUR..2 * HOUR)));
    }
    start.elapsed()
}

/// Delays that the default limiter returns for failures.
pub(crate) fn limiter_when(keys: &[Key]) -> Duration {
    let mut limiter = default_controller_rate_limiter();
    let start = Instant::now();
    for key in keys {
        limiter.when(key, tokio::time::Instant::now());
    }
    start.elapsed()
}

const HOUR: u64 = 3_600_000_000_000;
