//! Upper bound on another limiter's delay.

use std::time::Duration;

use tokio::time::Instant;

use super::{Delay, RateLimiter};

/// Returns the delay of `inner`, but at most `max`.
///
/// The inner limiter counts the full delay. Around a [`Bucket`](super::Bucket) this exceeds the bucket's rate as soon as
/// its reservations reach further than `max`: cap the exponential part instead if that matters.
#[doc(alias = "TypedWithMaxWaitRateLimiter")]
#[derive(Debug)]
pub struct WithMaxWait<L> {
    inner: L,
    max: Duration,
}

impl<L> WithMaxWait<L> {
    /// Caps the delays of `inner` at `max`.
    #[must_use]
    pub fn new(inner: L, max: Duration) -> Self {
        Self { inner, max }
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for WithMaxWait<L> {
    fn when(&mut self, key: &K, now: Instant) -> Duration {
        self.inner.when(key, now).min(self.max)
    }

    fn charge(&mut self, key: &K, now: Instant) -> Delay {
        self.inner.charge(key, now).at_most(self.max)
    }

    fn move_up(&mut self, key: &K, now: Instant) -> Duration {
        self.inner.move_up(key, now)
    }

    fn forget(&mut self, key: &K, now: Instant) {
        self.inner.forget(key, now);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.inner.num_requeues(key)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ItemExponentialFailure;
    use super::*;

    #[test]
    fn answers_are_capped_and_the_inner_limiter_is_charged_in_full() {
        let (exponential, now) = (ItemExponentialFailure::default(), Instant::now());
        let mut limiter = WithMaxWait::new(exponential, Duration::from_millis(12));
        assert_eq!([(); 4].map(|()| limiter.when(&"a", now).as_millis()), [5, 10, 12, 12]);
        assert_eq!(limiter.num_requeues(&"a"), 4);
        limiter.forget(&"a", now);
        assert_eq!(limiter.when(&"a", now).as_millis(), 5);
    }
}
