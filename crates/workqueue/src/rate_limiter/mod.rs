//! How long a key that has to be tried again must wait.
//!
//! A limiter is asked once per failure and answers with a delay; it never waits itself. Limiters that look at one key
//! ([`ItemExponentialFailure`], [`ItemFastSlow`]) and limiters that look at all of them ([`Bucket`]) are put together with
//! [`MaxOf`]; [`WithMaxWait`] puts a ceiling on an answer and [`WithFullJitter`] spreads it.

mod bucket;
mod exponential;
mod fast_slow;
mod jitter;
mod max_of;
mod max_wait;
mod tokens;

use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

pub use bucket::{Bucket, InvalidBucket};
pub use exponential::{ExponentialLimits, InvalidExponential, ItemExponentialFailure};
pub use fast_slow::ItemFastSlow;
pub use jitter::WithFullJitter;
pub use max_of::MaxOf;
pub use max_wait::WithMaxWait;

/// Decides how long a key waits before its next attempt.
///
/// The queue calls a limiter under its lock, so an implementation must neither block nor call the queue.
/// Time is an argument: a limiter gives the same answers for the same calls at the same instants.
#[doc(alias = "TypedRateLimiter")]
pub trait RateLimiter<K>: Send {
    /// Counts one more failure of `key` and returns how long, from `now` on, it has to wait.
    ///
    /// `Duration::MAX` means for ever.
    fn when(&mut self, key: &K, now: Instant) -> Duration;

    /// Clears what is remembered of `key`: it succeeded, or nobody will try it again.
    fn forget(&mut self, key: &K, now: Instant);

    /// How many failures of `key` were counted since it was last forgotten; 0 for a limiter that does not look at keys.
    fn num_requeues(&self, key: &K) -> u32;
}

impl<K, L: RateLimiter<K> + ?Sized> RateLimiter<K> for Box<L> {
    fn when(&mut self, key: &K, now: Instant) -> Duration {
        (**self).when(key, now)
    }

    fn forget(&mut self, key: &K, now: Instant) {
        (**self).forget(key, now);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        (**self).num_requeues(key)
    }
}

/// What a queue uses unless told otherwise: per key 5 ms, doubled at each failure up to 1000 s, and over all keys a
/// bucket of 100 retries that fills at 10 a second. A key waits for the longer of the two.
///
/// The values are those of client-go's `DefaultTypedControllerRateLimiter`.
#[doc(alias = "DefaultTypedControllerRateLimiter")]
#[must_use]
pub fn default_controller_rate_limiter<K>() -> MaxOf<K>
where
    K: Clone + Eq + Hash + Send + 'static,
{
    MaxOf::new([
        Box::new(ItemExponentialFailure::default()) as Box<dyn RateLimiter<K>>,
        Box::new(Bucket::default()),
    ])
}

/// Per key 1 ms, doubled at each failure up to 1000 s; nothing over all keys.
///
/// The values are those of client-go's `DefaultTypedItemBasedRateLimiter`.
#[doc(alias = "DefaultTypedItemBasedRateLimiter")]
#[must_use]
pub fn default_item_based_rate_limiter<K>() -> ItemExponentialFailure<K> {
    ItemExponentialFailure::between(Duration::from_millis(1), Duration::from_secs(1000))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The delays of `count` failures of one key, all at `now`, in seconds.
    pub(crate) fn delays<K>(
        limiter: &mut dyn RateLimiter<K>,
        key: &K,
        now: Instant,
        count: usize,
    ) -> Vec<f64> {
        (0..count).map(|_| limiter.when(key, now).as_secs_f64()).collect()
    }

    #[test]
    fn controller_default_is_the_longer_of_exponential_and_bucket() {
        let (mut limiter, now) = (default_controller_rate_limiter(), Instant::now());
        let first: Vec<f64> = (0..10_000).map(|key| limiter.when(&key, now).as_secs_f64()).collect();
        assert_eq!(first[..100], [0.005; 100], "the burst pays only the per-key delay");
        assert_eq!(first[100..103], [0.1, 0.2, 0.3], "then ten a second");
        assert_eq!(first[9_999], 990.0);
    }

    #[test]
    fn exponential_wins_over_a_shorter_bucket_delay() {
        let (mut limiter, now) = (default_controller_rate_limiter(), Instant::now());
        delays(&mut limiter, &"a", now, 5);
        for other in 0..95 {
            limiter.when(&["b", "c"][other % 2], now);
        }
        assert_eq!(limiter.when(&"a", now), Duration::from_millis(160), "the bucket alone asks for 100 ms");
    }

    #[test]
    fn item_based_default_starts_at_one_millisecond() {
        let mut limiter = default_item_based_rate_limiter();
        assert_eq!(delays(&mut limiter, &"a", Instant::now(), 3), [0.001, 0.002, 0.004]);
    }
}
