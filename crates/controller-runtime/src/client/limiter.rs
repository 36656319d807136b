use std::{fmt, time::Duration};

use kube_workqueue::{Bucket, InvalidBucket, RateLimiter};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

/// A bound on the requests that a client sends, in addition to what the API server allows it.
pub(super) struct Limiter {
    state: Mutex<State>,
}

struct State {
    bucket: Bucket<u64>,
    /// Names the next request to the bucket, which gives places back by name.
    next: u64,
}

impl Limiter {
    pub(super) fn try_new(rate: f64, burst: u32) -> Result<Self, InvalidBucket> {
        let bucket = Bucket::try_new(rate, burst)?;
        Ok(Self { state: Mutex::new(State { bucket, next: 0 }) })
    }

    /// Waits for the turn of one request; how long that took.
    ///
    /// Dropping the future gives the place back.
    pub(super) async fn wait(&self) -> Duration {
        let (delay, _place) = self.reserve();
        if !delay.is_zero() {
            sleep(delay).await;
        }
        delay
    }

    fn reserve(&self) -> (Duration, Place<'_>) {
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        let delay = state.bucket.when(&id, Instant::now());
        (delay, Place { limiter: self, id })
    }
}

/// A place in the line. Given up before its time, it is the next one's; after it, there is nothing to give back.
struct Place<'l> {
    limiter: &'l Limiter,
    id: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.limiter.state.lock().bucket.forget(&self.id, Instant::now());
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").finish_non_exhaustive()
    }
}
