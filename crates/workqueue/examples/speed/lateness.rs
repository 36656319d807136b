//! How late a queue hands out what is due.

use std::time::Duration;

use kube_workqueue::Queue;
use tokio::time::Instant;

use super::keys::Key;

/// How long after they were due keys are handed out to a getter that waits for them, sorted: delays between 0.1 s and
/// 1.1 s. The name of each key is its place.
pub(crate) async fn lateness(keys: Vec<Key>) -> Vec<Duration> {
    let queue = Queue::default();
    let mut random = fastrand::Rng::with_seed(1);
    let mut due = Vec::new();
    for key in keys {
        let delay = Duration::from_micros(random.u64(100_000..1_100_000));
        due.push(Instant::now() + delay);
        queue.add_after(key, delay);
    }
    let mut late = Vec::new();
    while late.len() < due.len()
        && let Some(item) = queue.get().await
    {
        late.extend(item.1.parse().ok().and_then(|place: usize| due.get(place)).map(Instant::elapsed));
    }
    late.sort();
    late
}
