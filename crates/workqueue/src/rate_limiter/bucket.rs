//! One budget of retries for many keys.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::RateLimiter;
use crate::sync::Mutex;

/// A token bucket: `burst` retries at once, then `rate` a second, whichever keys they are for.
///
/// It starts full. Each retry takes one token; when none is left the retry reserves the next one that will drip in and
/// is delayed until then, so reservations queue up behind each other. The arithmetic is that of
/// `golang.org/x/time/rate`, in floating-point tokens, so delays equal Go's to the nanosecond.
///
/// A clone draws from the same bucket: give one to each of several queues to bound the sum of their retries.
///
/// ```
/// # use kube_workqueue::{Bucket, RateLimiter};
/// # use tokio::time::Instant;
/// let mut pods = Bucket::try_new(10.0, 1)?;
/// let mut nodes = pods.clone();
/// let now = Instant::now();
/// assert_eq!(pods.when(&"default/web", now).as_millis(), 0);
/// assert_eq!(nodes.when(&"node-1", now).as_millis(), 100);
/// # Ok::<(), kube_workqueue::InvalidBucket>(())
/// ```
#[doc(alias = "TypedBucketRateLimiter")]
pub struct Bucket<K> {
    tokens: Arc<Mutex<Tokens>>,
    keys: PhantomData<fn(&K)>,
}

/// Why [`Bucket::try_new`] refused.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidBucket {
    /// The rate is zero, negative or not a number.
    #[error("token bucket: rate {0} is not a positive number of tokens per second")]
    Rate(f64),
    /// A bucket that holds nothing never lets a retry through.
    #[error("token bucket: burst is zero")]
    Burst,
}

impl<K> Bucket<K> {
    /// A bucket that holds `burst` tokens and gains `rate` a second. `f64::INFINITY` never delays.
    ///
    /// # Errors
    /// When `rate` is not positive or `burst` is zero.
    pub fn try_new(rate: f64, burst: u32) -> Result<Self, InvalidBucket> {
        if rate.is_nan() || rate <= 0.0 {
            return Err(InvalidBucket::Rate(rate));
        }
        if burst == 0 {
            return Err(InvalidBucket::Burst);
        }
        Ok(Self::holding(rate, burst))
    }

    /// The same bucket, for a queue with another type of key.
    #[must_use]
    pub fn share<J>(&self) -> Bucket<J> {
        Bucket {
            tokens: self.tokens.clone(),
            keys: PhantomData,
        }
    }

    fn holding(rate: f64, burst: u32) -> Self {
        let tokens = Tokens {
            rate,
            burst: f64::from(burst),
            level: f64::from(burst),
            at: None,
        };
        Self {
            tokens: Arc::new(Mutex::new(tokens)),
            keys: PhantomData,
        }
    }
}

/// Ten a second after a burst of a hundred: client-go's default.
impl<K> Default for Bucket<K> {
    fn default() -> Self {
        Self::holding(10.0, 100)
    }
}

impl<K> Clone for Bucket<K> {
    fn clone(&self) -> Self {
        self.share()
    }
}

impl<K> fmt::Debug for Bucket<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens = self.tokens.lock();
        f.debug_struct("Bucket")
            .field("rate", &tokens.rate)
            .field("burst", &tokens.burst)
            .finish_non_exhaustive()
    }
}

impl<K> RateLimiter<K> for Bucket<K> {
    fn when(&mut self, _key: &K, now: Instant) -> Duration {
        self.tokens.lock().reserve(now)
    }

    fn forget(&mut self, _key: &K, _now: Instant) {}

    fn num_requeues(&self, _key: &K) -> u32 {
        0
    }
}

struct Tokens {
    /// Tokens gained per second.
    rate: f64,
    burst: f64,
    /// Tokens at hand; negative when reservations reach into the future.
    level: f64,
    /// When `level` was right; `None` before the first reservation, when the bucket is full at any time.
    at: Option<Instant>,
}

impl Tokens {
    fn reserve(&mut self, now: Instant) -> Duration {
        if self.rate.is_infinite() {
            return Duration::ZERO;
        }
        // Time that goes backwards adds nothing, but the later arithmetic counts from there: so does Go.
        let elapsed = self
            .at
            .map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.level = (self.level + elapsed.as_secs_f64() * self.rate).min(self.burst) - 1.0;
        self.at = Some(now);
        if self.level < 0.0 {
            nanoseconds(-self.level / self.rate)
        } else {
            Duration::ZERO
        }
    }
}

/// Seconds as a duration: whole nanoseconds, the rest cut off as Go does, saturating.
fn nanoseconds(seconds: f64) -> Duration {
    let nanos = seconds * 1e9;
    if nanos >= u64::MAX as f64 {
        Duration::MAX
    } else {
        Duration::from_nanos(nanos as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::delays;
    use super::*;

    #[test]
    fn burst_is_free_and_then_each_retry_queues_behind_the_last() {
        let mut bucket = Bucket::default();
        let now = Instant::now();
        let first: Vec<f64> = delays(&mut bucket, &"a", now, 10_000);
        assert_eq!(first[..100], [0.0; 100]);
        assert_eq!(first[100..103], [0.1, 0.2, 0.3]);
        assert_eq!(first[9_999], 990.0);
    }

    #[test]
    fn tokens_drip_in_with_time_and_never_beyond_the_burst() {
        let (mut bucket, start) = (Bucket::try_new(10.0, 2).unwrap(), Instant::now());
        assert_eq!(delays(&mut bucket, &"a", start, 3), [0.0, 0.0, 0.1]);
        assert_eq!(
            delays(&mut bucket, &"a", start + Duration::from_millis(150), 1),
            [0.05]
        );
        let long_after = start + Duration::from_secs(3600);
        assert_eq!(delays(&mut bucket, &"a", long_after, 3), [0.0, 0.0, 0.1]);
    }

    #[test]
    fn time_going_backwards_adds_nothing() {
        let (mut bucket, start) = (
            Bucket::try_new(1.0, 1).unwrap(),
            Instant::now() + Duration::from_secs(10),
        );
        assert_eq!(delays(&mut bucket, &"a", start, 1), [0.0]);
        assert_eq!(
            delays(&mut bucket, &"a", start - Duration::from_secs(5), 1),
            [1.0]
        );
    }

    #[test]
    fn clones_and_shares_draw_from_one_bucket() {
        let (mut pods, now) = (Bucket::try_new(10.0, 1).unwrap(), Instant::now());
        let (mut others, mut nodes) = (pods.clone(), pods.share());
        assert_eq!(pods.when(&"a", now).as_millis(), 0);
        assert_eq!(others.when(&"a", now).as_millis(), 100);
        assert_eq!(nodes.when(&7, now).as_millis(), 200);
    }

    #[test]
    fn an_infinite_rate_never_delays() {
        let mut bucket = Bucket::try_new(f64::INFINITY, 1).unwrap();
        assert_eq!(delays(&mut bucket, &"a", Instant::now(), 3), [0.0; 3]);
    }

    #[test]
    fn a_tiny_rate_saturates() {
        let mut bucket = Bucket::try_new(f64::MIN_POSITIVE, 1).unwrap();
        bucket.when(&"a", Instant::now());
        assert_eq!(bucket.when(&"a", Instant::now()), Duration::MAX);
    }

    #[test]
    fn what_cannot_be_a_bucket_is_refused() {
        for rate in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            assert!(
                matches!(Bucket::<&str>::try_new(rate, 1), Err(InvalidBucket::Rate(_))),
                "{rate}"
            );
        }
        assert_eq!(Bucket::<&str>::try_new(1.0, 0).unwrap_err(), InvalidBucket::Burst);
    }
}
