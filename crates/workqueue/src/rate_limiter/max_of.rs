//! Several limiters at once, of which the longest delay applies.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::{Delay, RateLimiter};

/// Asks every limiter and returns the longest delay.
///
/// Every limiter counts the failure, even if its delay is not used. Without a limiter there is no delay.
#[doc(alias = "TypedMaxOfRateLimiter")]
pub struct MaxOf<K> {
    limiters: Vec<Box<dyn RateLimiter<K>>>,
}

impl<K> MaxOf<K> {
    /// Combines `limiters`.
    #[must_use]
    pub fn new(limiters: impl IntoIterator<Item = Box<dyn RateLimiter<K>>>) -> Self {
        Self { limiters: limiters.into_iter().collect() }
    }
}

impl<K> RateLimiter<K> for MaxOf<K> {
    fn when(&mut self, key: &K, now: Instant) -> Duration {
        self.charge(key, now).total()
    }

    fn charge(&mut self, key: &K, now: Instant) -> Delay {
        self.limiters.iter_mut().map(|limiter| limiter.charge(key, now)).fold(Delay::default(), Delay::max)
    }

    fn move_up(&mut self, key: &K, now: Instant) -> Duration {
        self.limiters.iter_mut().map(|limiter| limiter.move_up(key, now)).max().unwrap_or_default()
    }

    fn forget(&mut self, key: &K, now: Instant) {
        for limiter in &mut self.limiters {
            limiter.forget(key, now);
        }
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.limiters.iter().map(|limiter| limiter.num_requeues(key)).max().unwrap_or_default()
    }
}

impl<K> fmt::Debug for MaxOf<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaxOf").field("limiters", &self.limiters.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ItemExponentialFailure, ItemFastSlow};
    use super::*;

    #[test]
    fn every_limiter_is_charged_and_the_longest_delay_wins() {
        let now = Instant::now();
        let mut limiter = MaxOf::new([
            Box::new(ItemExponentialFailure::default()) as Box<dyn RateLimiter<&str>>,
            Box::new(ItemFastSlow::new(Duration::ZERO, Duration::from_millis(30), 1)),
        ]);
        let delays = [(); 4].map(|()| limiter.when(&"a", now).as_millis());
        assert_eq!(delays, [5, 30, 30, 40]);
        assert_eq!(limiter.num_requeues(&"a"), 4);
        limiter.forget(&"a", now);
        assert_eq!((limiter.num_requeues(&"a"), limiter.when(&"a", now).as_millis()), (0, 5));
    }

    #[test]
    fn max_of_no_limiters_is_no_delay() {
        assert_eq!(MaxOf::new([]).when(&"a", Instant::now()), Duration::ZERO);
    }
}
