//! A ceiling on another limiter's answer.

use std::time::Duration;

use tokio::time::Instant;

use super::{Delay, RateLimiter};

/// Returns what `inner` says, but at most `max`.
///
/// The inner limiter is charged in full. Around a [`Bucket`](super::Bucket) this gives up the bucket's rate as soon as
/// its queue is longer than `max`: cap the exponential part instead where that matters.
#[doc(alias = "TypedWithMaxWaitRateLimiter")]
#[derive(Debug)]
pub struct WithMaxWait<L> {
    inner: L,
    max: Duration,
}

impl<L> WithMaxWait<L> {
    /// `inner`, never longer than `max`.
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
