//! A few quick attempts, then slow ones.

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use super::RateLimiter;
use crate::map::Map;

/// Delays the first failures of a key by `fast` and all later ones by `slow`.
///
/// For work that either succeeds almost at once or not for a long time, such as waiting for a volume.
#[doc(alias = "TypedItemFastSlowRateLimiter")]
pub struct ItemFastSlow<K> {
    fast: Duration,
    slow: Duration,
    fast_attempts: u32,
    failures: Map<K, u32>,
}

impl<K> ItemFastSlow<K> {
    /// Makes a limiter that delays the first `fast_attempts` failures of a key by `fast`, and later ones by `slow`.
    #[must_use]
    pub fn new(fast: Duration, slow: Duration, fast_attempts: u32) -> Self {
        Self { fast, slow, fast_attempts, failures: Map::new() }
    }
}

impl<K: Clone + Eq + Hash + Send> RateLimiter<K> for ItemFastSlow<K> {
    fn when(&mut self, key: &K, _now: Instant) -> Duration {
        let failures = self.failures.get_or_insert(key, |_| false, || 0);
        *failures = failures.saturating_add(1);
        if *failures <= self.fast_attempts { self.fast } else { self.slow }
    }

    fn forget(&mut self, key: &K, _now: Instant) {
        self.failures.remove(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or(0)
    }
}

impl<K> fmt::Debug for ItemFastSlow<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemFastSlow")
            .field("fast", &self.fast)
            .field("slow", &self.slow)
            .field("fast_attempts", &self.fast_attempts)
            .field("failing", &self.failures.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::delays;
    use super::*;

    #[test]
    fn three_fast_attempts_then_slow_ones_until_forgotten() {
        let (mut limiter, now) =
            (ItemFastSlow::new(Duration::from_millis(5), Duration::from_secs(10), 3), Instant::now());
        assert_eq!(delays(&mut limiter, &"a", now, 5), [0.005, 0.005, 0.005, 10.0, 10.0]);
        assert_eq!(limiter.num_requeues(&"a"), 5);
        limiter.forget(&"a", now);
        assert_eq!(delays(&mut limiter, &"a", now, 1), [0.005]);
    }

    #[test]
    fn without_fast_attempts_the_first_one_is_slow() {
        let mut limiter = ItemFastSlow::new(Duration::from_millis(5), Duration::from_secs(10), 0);
        assert_eq!(delays(&mut limiter, &"a", Instant::now(), 1), [10.0]);
    }
}
