//! Rate limit of a client's requests.

use std::{fmt, time::Duration};

use kube_workqueue::{Bucket, BucketError, RateLimiter};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

/// Token bucket of the requests that a client sends.
pub(in crate::client) struct Limiter {
    state: Mutex<LimiterState>,
}

struct LimiterState {
    bucket: Bucket<u64>,
    /// ID of the next request. The bucket returns tokens by ID.
    next: u64,
}

impl Limiter {
    pub(in crate::client) fn try_new(rate: f64, burst: u32) -> Result<Self, BucketError> {
        let bucket = Bucket::try_new(rate, burst)?;
        Ok(Self { state: Mutex::new(LimiterState { bucket, next: 0 }) })
    }

    /// Waits until one request may be sent; returns the time waited.
    ///
    /// Dropping the future returns its token.
    pub(in crate::client) async fn wait(&self) -> Duration {
        // The reservation lives until after the sleep: dropped earlier, it returns the token.
        let (delay, _place) = self.reserve();
        if !delay.is_zero() {
            sleep(delay).await;
        }
        delay
    }

    fn reserve(&self) -> (Duration, Reservation<'_>) {
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        let delay = state.bucket.when(&id, Instant::now());
        (delay, Reservation { limiter: self, id })
    }
}

/// Reservation of a token. Dropped before its time, it returns the token; afterwards dropping it has no effect.
struct Reservation<'l> {
    limiter: &'l Limiter,
    id: u64,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.limiter.state.lock().bucket.forget(&self.id, Instant::now());
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").finish_non_exhaustive()
    }
}
