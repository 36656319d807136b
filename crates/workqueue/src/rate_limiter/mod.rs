//! Rate limiters: the delay of a key before its next attempt.
//!
//! A limiter is asked once per failure and returns a delay; it never waits itself. Limiters of single keys
//! ([`ItemExponentialFailure`], [`ItemFastSlow`]) and of all keys together ([`Bucket`]) are combined by
//! [`MaxOf`]; [`WithMaxWait`] caps a delay and [`WithFullJitter`] randomises it.

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

pub use bucket::{Bucket, BucketError};
pub use exponential::{ExponentialError, ExponentialLimits, ItemExponentialFailure};
pub use fast_slow::ItemFastSlow;
pub use jitter::WithFullJitter;
pub use max_of::MaxOf;
pub use max_wait::WithMaxWait;

/// The parts of the delay after a failure: see [`RateLimiter::charge`]. The key waits for the longer of the two.
///
/// ```
/// # use std::time::Duration;
/// # use kube_workqueue::Delay;
/// let delay = Delay::own(Duration::from_millis(5)).max(Delay::shared(Duration::from_secs(1)));
/// assert_eq!(delay.total(), Duration::from_secs(1));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Delay {
    /// Delay because of the key's own failures.
    pub own: Duration,
    /// Delay because of a budget that the key shares with others.
    pub shared: Duration,
}

impl Delay {
    /// A delay that does not depend on other keys.
    #[must_use]
    pub fn own(delay: Duration) -> Self {
        Self { own: delay, shared: Duration::ZERO }
    }

    /// A delay that depends only on other keys.
    #[must_use]
    pub fn shared(delay: Duration) -> Self {
        Self { own: Duration::ZERO, shared: delay }
    }

    /// The longer of the two parts.
    #[must_use]
    pub fn total(self) -> Duration {
        self.own.max(self.shared)
    }

    /// The maximum of each part of this delay and the `other`.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { own: self.own.max(other.own), shared: self.shared.max(other.shared) }
    }

    /// Caps each part at `limit`.
    #[must_use]
    pub fn at_most(self, limit: Duration) -> Self {
        Self { own: self.own.min(limit), shared: self.shared.min(limit) }
    }
}

/// Decides how long a key waits before its next attempt.
///
/// [`when`](Self::when), [`forget`](Self::forget) and [`num_requeues`](Self::num_requeues) make a limiter, as in Go. The
/// other methods have defaults that fit a limiter without a shared budget.
///
/// The queue calls a limiter under its lock, because the delay of a failure depends on the state of the key, and the state must not change
/// before the delay is applied. So an implementation must not call the queue: the call would panic. It must not block either, since every
/// task that uses the queue would wait for it. Long computations and I/O belong elsewhere. A panic of `when` or `charge` leaves the queue
/// as it was.
///
/// Time is an argument: a limiter returns the same results for the same calls at the same instants.
#[doc(alias = "TypedRateLimiter")]
pub trait RateLimiter<K>: Send {
    /// Counts one more failure of `key` and returns its delay from `now` on.
    ///
    /// `Duration::MAX` means forever.
    fn when(&mut self, key: &K, now: Instant) -> Duration;

    /// Like `when`, but separates the key's own delay from that of a shared budget. The
    /// queue calls this method. A key that only the budget delays may run earlier when keys that had failed succeed.
    ///
    /// Default: the delay of `when` is the key's own.
    fn charge(&mut self, key: &K, now: Instant) -> Delay {
        Delay::own(self.when(key, now))
    }

    /// Moves the reservation of `key` in a shared budget to an earlier one that has become free, if there is one. Returns how
    /// long the budget still delays the key.
    ///
    /// The queue calls it for the key with the earliest slot among those that only the budget delays.
    ///
    /// Default: zero, because without a shared budget no key is delayed by it.
    fn move_up(&mut self, _key: &K, _now: Instant) -> Duration {
        Duration::ZERO
    }

    /// Drops the state of `key`, which succeeded or will not be retried.
    fn forget(&mut self, key: &K, now: Instant);

    /// Number of failures of `key` since it was last forgotten; 0 for a limiter without state per key.
    fn num_requeues(&self, key: &K) -> u32;
}

impl<K, L: RateLimiter<K> + ?Sized> RateLimiter<K> for Box<L> {
    fn when(&mut self, key: &K, now: Instant) -> Duration {
        (**self).when(key, now)
    }

    fn charge(&mut self, key: &K, now: Instant) -> Delay {
        (**self).charge(key, now)
    }

    fn move_up(&mut self, key: &K, now: Instant) -> Duration {
        (**self).move_up(key, now)
    }

    fn forget(&mut self, key: &K, now: Instant) {
        (**self).forget(key, now);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        (**self).num_requeues(key)
    }
}

/// The default limiter of a queue: per key 5 ms, doubled at each failure up to 1000 s, and over all keys a
/// bucket of 100 retries that fills at 10 a second. A key waits for the longer of the two. When keys that had failed
/// succeed, those that only the bucket delays run earlier; see [the crate](crate#recovery).
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

/// A limiter of single keys: 1 ms, doubled at each failure up to 1000 s.
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

    /// Limiter whose methods all answer differently.
    struct Distinct {
        failures: u32,
    }

    impl RateLimiter<&str> for Distinct {
        fn when(&mut self, _key: &&str, _now: Instant) -> Duration {
            Duration::from_secs(1)
        }

        fn charge(&mut self, _key: &&str, _now: Instant) -> Delay {
            Delay::own(Duration::from_secs(2)).max(Delay::shared(Duration::from_secs(3)))
        }

        fn move_up(&mut self, _key: &&str, _now: Instant) -> Duration {
            Duration::from_secs(4)
        }

        fn forget(&mut self, _key: &&str, _now: Instant) {
            self.failures = 0;
        }

        fn num_requeues(&self, _key: &&str) -> u32 {
            self.failures
        }
    }

    #[test]
    fn wrappers_pass_every_call_to_the_inner_limiter() {
        fn check(mut limiter: impl RateLimiter<&'static str>) {
            assert_eq!(limiter.move_up(&"a", Instant::now()), Duration::from_secs(4));
            assert_eq!(limiter.num_requeues(&"a"), 7);
            limiter.forget(&"a", Instant::now());
            assert_eq!(limiter.num_requeues(&"a"), 0);
        }
        let distinct = || Distinct { failures: 7 };
        check(Box::new(distinct()));
        check(WithMaxWait::new(distinct(), Duration::from_millis(2500)));
        check(WithFullJitter::new(distinct(), 1));

        let seconds = |delay: Delay| (delay.own.as_secs_f64(), delay.shared.as_secs_f64());
        let mut boxed = Box::new(distinct());
        assert_eq!(RateLimiter::when(&mut boxed, &"a", Instant::now()), Duration::from_secs(1));
        assert_eq!(seconds(RateLimiter::charge(&mut boxed, &"a", Instant::now())), (2.0, 3.0));
        let mut capped = WithMaxWait::new(distinct(), Duration::from_millis(2500));
        assert_eq!(seconds(capped.charge(&"a", Instant::now())), (2.0, 2.5), "both parts are capped");
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
