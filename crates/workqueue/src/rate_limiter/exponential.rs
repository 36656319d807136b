//! Exponential back-off per key: `base × 2ⁿ`, capped.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::RateLimiter;
use crate::map::Map;
use crate::sync::Mutex;

/// Delays the n-th failure of a key (counted from 0) by `min(base × 2ⁿ, max)`.
///
/// With the defaults of 5 ms and 1000 s: 5 ms, 10 ms, 20 ms … 655.36 s, then always 1000 s.
/// Stores one number per failing key until it is forgotten.
///
/// ```
/// # use std::time::Duration;
/// # use kube_workqueue::{ItemExponentialFailure, RateLimiter};
/// # use tokio::time::Instant;
/// let mut limiter = ItemExponentialFailure::try_new(Duration::from_millis(5), Duration::from_millis(12))?;
/// let now = Instant::now();
/// let delays = [(); 3].map(|()| limiter.when(&"default/web", now).as_millis());
/// assert_eq!(delays, [5, 10, 12]);
/// # Ok::<(), kube_workqueue::ExponentialError>(())
/// ```
#[doc(alias = "TypedItemExponentialFailureRateLimiter")]
pub struct ItemExponentialFailure<K> {
    limits: ExponentialLimits,
    failures: Map<K, u32>,
}

/// Handle of the first and the longest delay of an [`ItemExponentialFailure`], to change them while it is in use.
#[derive(Debug, Clone)]
pub struct ExponentialLimits(Arc<Mutex<Limits>>);

#[derive(Debug, Clone, Copy)]
struct Limits {
    base: Duration,
    max: Duration,
}

impl ExponentialLimits {
    /// Sets first and longest delay from the next failure on; failures counted so far stay counted.
    ///
    /// # Errors
    /// When `max` is less than `base`; then nothing has changed.
    pub fn set(&self, base: Duration, max: Duration) -> Result<(), ExponentialError> {
        if max < base {
            return Err(ExponentialError { base, max });
        }
        *self.0.lock() = Limits { base, max };
        Ok(())
    }
}

impl Limits {
    fn delay(self, failures: u32) -> Duration {
        // Beyond 2⁶⁴ ns, five centuries, differences do not matter: the shift stays in range and the product saturates.
        let nanos = self.base.as_nanos().saturating_mul(1 << failures.min(64));
        Duration::from_nanos_u128(nanos.min(self.max.as_nanos()))
    }
}

/// Reason why [`ItemExponentialFailure::try_new`] refused: the longest delay is below the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("exponential back-off: maximum {max:?} is less than the first delay {base:?}")]
pub struct ExponentialError {
    base: Duration,
    max: Duration,
}

impl<K> ItemExponentialFailure<K> {
    /// Makes a limiter that starts at `base` and doubles up to `max`.
    ///
    /// # Errors
    /// When `max` is less than `base`.
    pub fn try_new(base: Duration, max: Duration) -> Result<Self, ExponentialError> {
        if max < base { Err(ExponentialError { base, max }) } else { Ok(Self::between(base, max)) }
    }

    pub(super) fn between(base: Duration, max: Duration) -> Self {
        let limits = ExponentialLimits(Arc::new(Mutex::new(Limits { base, max })));
        Self { limits, failures: Map::new() }
    }

    /// A handle of the delays, to keep when the limiter is moved into a queue.
    #[must_use]
    pub fn limits(&self) -> ExponentialLimits {
        self.limits.clone()
    }
}

impl<K> Default for ItemExponentialFailure<K> {
    fn default() -> Self {
        Self::between(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

impl<K: Clone + Eq + Hash + Send> RateLimiter<K> for ItemExponentialFailure<K> {
    fn when(&mut self, key: &K, _now: Instant) -> Duration {
        let failures = self.failures.get_or_insert(key, |_| false, || 0);
        let earlier = *failures;
        *failures = earlier.saturating_add(1);
        self.limits.0.lock().delay(earlier)
    }

    fn forget(&mut self, key: &K, _now: Instant) {
        self.failures.remove(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or(0)
    }
}

impl<K> fmt::Debug for ItemExponentialFailure<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemExponentialFailure")
            .field("limits", &*self.limits.0.lock())
            .field("failing", &self.failures.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::delays;
    use super::*;

    #[test]
    fn default_delays_double_from_5_ms_to_1000_s() {
        let expected = [
            0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
            163.84, 327.68, 655.36, 1000.0, 1000.0, 1000.0,
        ];
        assert_eq!(delays(&mut ItemExponentialFailure::default(), &"a", Instant::now(), 21), expected);
    }

    #[test]
    fn a_forgotten_key_starts_again_and_others_are_untouched() {
        let (mut limiter, now) = (ItemExponentialFailure::default(), Instant::now());
        delays(&mut limiter, &"a", now, 4);
        delays(&mut limiter, &"b", now, 2);
        limiter.forget(&"a", now);
        assert_eq!((limiter.num_requeues(&"a"), limiter.num_requeues(&"b")), (0, 2));
        assert_eq!(delays(&mut limiter, &"a", now, 2), [0.005, 0.01]);
        assert_eq!(delays(&mut limiter, &"b", now, 1), [0.02]);
    }

    #[test]
    fn very_many_failures_stay_at_the_maximum() {
        let mut limiter = ItemExponentialFailure::try_new(Duration::from_nanos(1), Duration::MAX).unwrap();
        let all = (0..70).map(|_| limiter.when(&"a", Instant::now()).as_nanos()).collect::<Vec<_>>();
        assert!(all.is_sorted(), "{all:?}");
        assert_eq!(all[..65], std::array::from_fn::<u128, 65, _>(|n| 1 << n));

        *limiter.failures.get_or_insert(&"b", |_| false, || 0) = u32::MAX;
        assert_eq!(limiter.when(&"b", Instant::now()).as_nanos(), 1 << 64);
        assert_eq!(limiter.num_requeues(&"b"), u32::MAX, "the count saturates");
    }

    #[test]
    fn all_delays_may_be_equal() {
        let second = Duration::from_secs(1);
        let mut limiter = ItemExponentialFailure::try_new(second, second).unwrap();
        assert_eq!(delays(&mut limiter, &"a", Instant::now(), 3), [1.0, 1.0, 1.0]);
        assert_eq!(limiter.limits().set(2 * second, 2 * second), Ok(()));
        assert_eq!(delays(&mut limiter, &"a", Instant::now(), 2), [2.0, 2.0]);
    }

    #[test]
    fn a_base_of_zero_never_delays() {
        let mut limiter = ItemExponentialFailure::try_new(Duration::ZERO, Duration::from_secs(1)).unwrap();
        assert!(delays(&mut limiter, &"a", Instant::now(), 100).iter().all(|delay| *delay == 0.0));
    }

    #[test]
    fn limits_can_be_changed_while_running_and_failures_stay_counted() {
        let (mut limiter, now) = (ItemExponentialFailure::default(), Instant::now());
        let limits = limiter.limits();
        delays(&mut limiter, &"a", now, 2);
        limits.set(Duration::from_secs(1), Duration::from_secs(6)).unwrap();
        assert_eq!(delays(&mut limiter, &"a", now, 2), [4.0, 6.0]);
        assert!(limits.set(Duration::from_secs(2), Duration::from_secs(1)).is_err());
        assert_eq!(delays(&mut limiter, &"b", now, 1), [1.0]);
    }

    #[test]
    fn a_maximum_below_the_base_is_refused() {
        let refused = ItemExponentialFailure::<&str>::try_new(Duration::from_secs(2), Duration::from_secs(1))
            .unwrap_err();
        assert_eq!(refused.to_string(), "exponential back-off: maximum 1s is less than the first delay 2s");
    }
}
