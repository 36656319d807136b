//! Keys that fail repeatedly, with a real queue in paused time.

use std::time::Duration;

use kube_workqueue::{Options, Queue, RateLimiter};
use tokio::time::{Instant, timeout_at};

/// Times of the retries of one queue's failing keys.
#[derive(Debug)]
pub(crate) struct Retries {
    /// Since the first failure, in order.
    pub(crate) at: Vec<Duration>,
}

/// Lets `keys` keys fail at once, and again at each retry. Records the retries of the first `span`.
///
/// A run takes no time, as in the articles, so the figures show the limiter and the queue alone. The clock must be
/// paused.
pub(crate) async fn fail(limiter: impl RateLimiter<u32> + 'static, keys: u32, span: Duration) -> Retries {
    let queue = Queue::new(Options::default().rate_limiter(limiter));
    let start = Instant::now();
    for key in 0..keys {
        queue.add(key);
    }
    let mut attempts = Vec::new();
    while let Ok(Some(item)) = timeout_at(start + span, queue.get()).await
        && start.elapsed() < span
    {
        attempts.push(start.elapsed());
        queue.add_rate_limited(*item);
    }
    // The first attempt of each key is the initial failure, not a retry.
    Retries { at: attempts.split_off(keys as usize) }
}

impl Retries {
    /// Returns the number of retries in each of the first seconds.
    pub(crate) fn per_second(&self, seconds: usize) -> Vec<usize> {
        let mut counts = vec![0; seconds];
        for at in &self.at {
            if let Some(count) = usize::try_from(at.as_secs()).ok().and_then(|second| counts.get_mut(second))
            {
                *count += 1;
            }
        }
        counts
    }

    /// Returns the times between the attempts of a single key.
    pub(crate) fn delays(&self) -> Vec<Duration> {
        let earlier = std::iter::once(Duration::ZERO).chain(self.at.iter().copied());
        self.at.iter().zip(earlier).map(|(at, earlier)| *at - earlier).collect()
    }
}
