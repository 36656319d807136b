//! Delays between failing lists and watches. Pure: time and random numbers are arguments.

use std::time::Duration;

use tokio::time::Instant;

/// Delays that double from 0.8 s to 30 s, each increased by up to 100 % at random, and start again after two minutes
/// without a failure. The values are those of client-go's reflector.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    last_failure: Option<Instant>,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(800);
    const LONGEST: Duration = Duration::from_secs(30);
    const RESET_AFTER: Duration = Duration::from_secs(120);

    /// Returns the delay after a failure at `now`.
    pub(crate) fn failed(&mut self, now: Instant, rng: &mut fastrand::Rng) -> Duration {
        if self.last_failure.is_some_and(|last| now.duration_since(last) > Self::RESET_AFTER) {
            self.failures = 0;
        }
        // 16 doublings exceed the longest delay by far, and keep the shift in range.
        let doubled = Self::FIRST.saturating_mul(1 << self.failures.min(16)).min(Self::LONGEST);
        self.failures = self.failures.saturating_add(1);
        self.last_failure = Some(now);
        doubled.mul_f64(1.0 + rng.f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_with_up_to_as_much_jitter() {
        let (mut backoff, mut rng, now) = (Backoff::default(), fastrand::Rng::with_seed(1), Instant::now());
        for base in [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0] {
            let delay = backoff.failed(now, &mut rng).as_secs_f64();
            assert!((base..base * 2.0).contains(&delay), "{delay} is not in [{base}, {})", base * 2.0);
        }
    }

    #[test]
    fn two_minutes_without_a_failure_reset_the_backoff() {
        let (mut backoff, mut rng, now) = (Backoff::default(), fastrand::Rng::with_seed(1), Instant::now());
        for _ in 0..10 {
            backoff.failed(now, &mut rng);
        }
        let later = now + Duration::from_secs(121);
        assert!(backoff.failed(later, &mut rng) < Duration::from_millis(1600));
    }
}
