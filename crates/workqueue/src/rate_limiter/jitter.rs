//! Random delays, to spread keys that failed together.

use std::time::Duration;

use tokio::time::Instant;

use super::{Delay, RateLimiter};

/// Returns a random delay between zero and that of `inner`: "full jitter".
///
/// Keys that failed together are retried together, at each doubling; this spreads them over the whole delay. Wrap the
/// per-key limiter in it, beside a [`Bucket`](super::Bucket), but not the bucket: its guarantees hold for the
/// unchanged delays. Delays come from a seed, so a run can be repeated.
#[derive(Debug)]
pub struct WithFullJitter<L> {
    inner: L,
    random: fastrand::Rng,
}

impl<L> WithFullJitter<L> {
    /// Wraps `inner`, with delays drawn from the random numbers that follow `seed`.
    #[must_use]
    pub fn new(inner: L, seed: u64) -> Self {
        Self { inner, random: fastrand::Rng::with_seed(seed) }
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for WithFullJitter<L> {
    fn when(&mut self, key: &K, now: Instant) -> Duration {
        self.charge(key, now).total()
    }

    /// Draws the total delay; the part of the shared budget is the rest after the key's own time.
    fn charge(&mut self, key: &K, now: Instant) -> Delay {
        let delay = self.inner.charge(key, now);
        let nanos = u64::try_from(delay.total().as_nanos()).unwrap_or(u64::MAX);
        let drawn = Delay { own: delay.own, shared: delay.total() };
        drawn.at_most(Duration::from_nanos(self.random.u64(..=nanos)))
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
    fn a_wave_is_spread_over_its_delay() {
        let (mut limiter, now) = (WithFullJitter::new(ItemExponentialFailure::default(), 1), Instant::now());
        let mut slots = [0; 64];
        for key in 0..10_000 {
            // The eighth delay is 640 ms: 64 slots of 10 ms, a hundred and fifty keys in each.
            let delay = (0..8).map(|_| limiter.when(&key, now)).last().unwrap();
            slots[usize::try_from(delay.as_millis() / 10).unwrap().min(63)] += 1;
        }
        assert!(slots.iter().all(|keys| (50..500).contains(keys)), "{slots:?}");
    }

    #[test]
    fn one_seed_gives_one_sequence() {
        let draw = |seed| {
            let mut limiter = WithFullJitter::new(ItemExponentialFailure::default(), seed);
            [(); 10].map(|()| limiter.when(&"a", Instant::now()))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
