//! Memory that a queue allocates per key. The strings of the keys are shared with the caller and not counted.

use std::time::Duration;

use kube_workqueue::Queue;

use super::keys::Key;

/// Returns the bytes per key that is ready. `used` returns the number of allocated bytes.
pub(crate) fn ready(keys: &[Key], used: impl Fn() -> usize) -> f64 {
    per_key(keys, used, Queue::add)
}

/// Returns the bytes per key that is delayed.
pub(crate) fn delayed(keys: &[Key], used: impl Fn() -> usize) -> f64 {
    per_key(keys, used, |queue, key| queue.add_after(key, Duration::from_hours(1)))
}

fn per_key(keys: &[Key], used: impl Fn() -> usize, add: impl Fn(&Queue<Key>, Key)) -> f64 {
    let queue = Queue::default();
    let before = used();
    for key in keys {
        add(&queue, key.clone());
    }
    (used() - before) as f64 / keys.len() as f64
}
