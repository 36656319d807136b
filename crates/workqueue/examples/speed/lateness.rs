//! Delay with which a queue hands out keys that are due.

use std::time::Duration;

use kube_workqueue::Queue;
use tokio::time::Instant;

use super::keys::Key;

/// Returns the sorted times between the due time of keys and their delivery to a waiting getter, for delays between 0.1
/// s and 1.1 s. The name of each key is its index.
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
