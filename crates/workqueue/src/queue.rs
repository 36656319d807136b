//! The handle of a queue.

use std::fmt;
use std::future::poll_fn;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::core::{Added, Adding};
use crate::item::Item;
use crate::metrics::Gauges;
use crate::options::{AddOptions, Options};
use crate::shared::{Registration, Shared};
use crate::snapshot::{KeySnapshot, Waiting};

/// A queue that contains each key at most once, and hands out a key only while no other run of it is in progress.
///
/// A handle: its clones refer to the same queue. The [crate docs](crate) describe its guarantees, and have an example.
///
/// A key is hashed and dropped without a lock. `Eq` and `Clone` of keys are called under the queue's lock, like the
/// [`RateLimiter`](crate::RateLimiter) and the [`Metrics`](crate::Metrics). They must neither block nor call the queue: a call from them
/// panics.
#[doc(alias = "TypedRateLimitingInterface")]
#[doc(alias = "PriorityQueue")]
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Queue<K> {
    /// Makes an empty queue.
    #[must_use]
    pub fn new(options: Options<K>) -> Self {
        Self { shared: Arc::new(Shared::new(options)) }
    }

    /// Number of keys that are ready and not yet handed out. Keys that wait or are being processed do not count.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.change(|inner, now| {
            inner.core.advance(now);
            inner.core.ready()
        })
    }

    /// Returns whether no key is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the current values of the queue's gauges. The cost is proportional to the number of keys being processed.
    ///
    /// The two durations need [`Options::metrics`]: without it, the clock is not read when a key is handed out, and they are
    /// zero.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        self.shared.change(|inner, now| inner.core.gauges(now))
    }

    /// Returns whether the queue was shut down.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.shared.inner.lock().core.is_shut_down()
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// Makes `key` ready. No effect if it is ready already; if it waits, the wait ends; if it is being
    /// processed, it becomes ready once more when the processing ends.
    ///
    /// Ignored after the queue was shut down, like every kind of add.
    #[doc(alias = "Add")]
    pub fn add(&self, key: K) {
        self.add_with(key, AddOptions::default());
    }

    /// Makes `key` ready `delay` from now. The earliest requested time applies; a key that is ready stays ready.
    ///
    /// If `key` is being processed, the delay runs meanwhile and takes effect when the processing ends.
    #[doc(alias = "AddAfter")]
    pub fn add_after(&self, key: K, delay: Duration) {
        self.add_with(key, AddOptions::default().after(delay));
    }

    /// Counts a failure of `key` and makes it ready after the delay that the rate limiter sets.
    ///
    /// If `key` is ready, it runs anyway: then nothing is counted and no delay applies.
    #[doc(alias = "AddRateLimited")]
    pub fn add_rate_limited(&self, key: K) {
        self.add_with(key, AddOptions::default().rate_limited());
    }

    /// Adds `key` with options: delay, rate limiting, priority and urgency.
    #[doc(alias = "AddWithOpts")]
    pub fn add_with(&self, key: K, how: AddOptions) {
        let hash = self.shared.hash(&key);
        let mut adding = Adding { key: Some(key), flow: None };
        let add =
            |adding: &mut Adding<K>| self.shared.change(|inner, now| inner.core.add(adding, hash, how, now));
        // `flow_of` is the user's code, so it runs between the two adds, without the lock.
        if add(&mut adding) == Added::NeedsFlow {
            adding.flow = adding.key.as_ref().and_then(|key| self.shared.flow_of(key));
            add(&mut adding);
        }
    }

    /// Cancels every requested run of `key`: it is neither ready nor waiting afterwards. A run in progress
    /// continues. Returns whether a run was cancelled.
    pub fn cancel(&self, key: &K) -> bool {
        let hash = self.shared.hash(key);
        // The key is dropped after the lock is released.
        let mut gone = None;
        self.shared.change(|inner, _| inner.core.cancel(key, hash, &mut gone))
    }

    /// Returns until when and why `key` waits; `None` if it does not wait. While a key is being processed, the result is about its
    /// next run.
    #[must_use]
    pub fn when(&self, key: &K) -> Option<Waiting> {
        let (hash, now) = (self.shared.hash(key), self.shared.now());
        let (until, why) = self.shared.inner.lock().core.when(key, hash, now)?;
        Some(Waiting { until: until.instant(self.shared.epoch), why })
    }

    /// Returns all keys of the queue with their states, in no particular order.
    ///
    /// The iterator takes the lock for at most 64 keys at a time, so a queue of a million keys remains usable meanwhile.
    /// Concurrent changes may or may not be visible. A key that leaves the queue and comes back may appear twice or not at
    /// all, and a key that waits may appear twice if many others leave meanwhile.
    pub fn snapshot(&self) -> impl Iterator<Item = KeySnapshot<K>> + use<K> {
        let shared = Arc::clone(&self.shared);
        let pages = shared.inner.lock().core.pages();
        (0..pages).rev().flat_map(move |page| shared.inner.lock().core.page(page, shared.now()))
    }

    /// Number of pages for [`snapshot_page`](Self::snapshot_page).
    #[must_use]
    pub fn snapshot_pages(&self) -> usize {
        self.shared.inner.lock().core.pages()
    }

    /// One page of [`snapshot`](Self::snapshot), of at most 64 keys; empty if there is no such page. Pages are numbered from zero.
    /// A reader that starts with the last page misses no key that stays in the queue.
    #[must_use]
    pub fn snapshot_page(&self, page: usize) -> Vec<KeySnapshot<K>> {
        let now = self.shared.now();
        self.shared.inner.lock().core.page(page, now)
    }

    /// State of one key; `None` if it is not in the queue.
    #[must_use]
    pub fn snapshot_of(&self, key: &K) -> Option<KeySnapshot<K>> {
        let (hash, now) = (self.shared.hash(key), self.shared.now());
        self.shared.inner.lock().core.snapshot_of(key, hash, now)
    }

    /// Returns the key that has been ready for the longest time. With more than 1024 flows, only the keys of 1024 of them are
    /// compared.
    ///
    /// Needs [`Options::metrics`]: without it, the queue mostly does not know since when a key is ready, and returns the first key of
    /// any flow.
    #[must_use]
    pub fn oldest_ready(&self) -> Option<KeySnapshot<K>> {
        let now = self.shared.now();
        self.shared.change(|inner, at| {
            inner.core.advance(at);
            inner.core.oldest_ready(now)
        })
    }

    /// Resets the failure count of `key`, which succeeded or will not be retried. Its state in the queue does not change.
    ///
    /// If the key is being processed, the call counts as a success, which may release keys that only a shared budget delays: see
    /// [recovery](crate#recovery).
    #[doc(alias = "Forget")]
    pub fn forget(&self, key: &K) {
        let hash = self.shared.hash(key);
        self.shared.change(|inner, now| inner.core.forget(key, hash, now));
    }

    /// Reports that the service refuses load although no key failed, for example with a 429 and a time to wait. This ends a
    /// [recovery](crate#recovery): keys that only a shared budget delays wait for it again, until a key that had failed succeeds.
    pub fn throttled(&self) {
        self.shared.change(|inner, _| inner.core.throttled());
    }

    /// Number of failures of `key` since its count was last reset.
    #[doc(alias = "NumRequeues")]
    #[must_use]
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.shared.inner.lock().core.num_requeues(key)
    }

    /// Takes the next ready key, in the order described in the [crate docs](crate#mental-model); waits until there is one.
    ///
    /// Returns `None` when the queue was shut down and nothing is left to hand out, and always from then on.
    ///
    /// # Cancellation
    /// Dropping the future at any point loses nothing: no key is taken before it returns, and an unused wake-up
    /// goes to another waiter.
    #[doc(alias = "Get")]
    pub async fn get(&self) -> Option<Item<'_, K>> {
        if let Some(loan) = self.shared.take() {
            return Some(Item::new(loan, &self.shared));
        }
        let mut registration = Registration::of_getter(&self.shared);
        poll_fn(|cx| registration.poll_item(cx)).await
    }

    /// Ends the processing of `done` and takes the next key, like dropping the item and calling [`get`](Self::get), but with
    /// one acquisition of the lock instead of two. The loop of a worker that does nothing else in between:
    ///
    /// ```
    /// # async fn example(queue: kube_workqueue::Queue<String>) {
    /// let mut item = queue.get().await;
    /// while let Some(work) = item {
    ///     println!("{}", work.key());
    ///     item = queue.next(work).await;
    /// }
    /// # }
    /// ```
    ///
    /// # Cancellation
    /// The processing ends when the future is first polled, or when it is dropped before. After that it behaves like
    /// [`get`](Self::get).
    pub async fn next<'q>(&'q self, done: Item<'q, K>) -> Option<Item<'q, K>> {
        match done.exchange(&self.shared) {
            Some(loan) => Some(Item::new(loan, &self.shared)),
            None => self.get().await,
        }
    }

    /// Stops accepting keys. Ready keys are still handed out, and a key that was added again while being processed
    /// still runs once more; then [`get`](Self::get) returns `None`.
    ///
    /// Keys that are not due yet are removed and returned, in the order of their times, so that the caller can handle them.
    /// A second call returns nothing, and ends the waiting of [`shut_down_with_drain`](Self::shut_down_with_drain).
    #[doc(alias = "ShutDown")]
    #[expect(
        clippy::must_use_candidate,
        reason = "after a final shutdown, keys that were not due are rarely needed"
    )]
    pub fn shut_down(&self) -> Vec<K> {
        self.shared.change(|inner, now| inner.core.shut_down(**now))
    }

    /// Shuts the queue down and waits until every ready key has been handed out and processed.
    ///
    /// Returns the keys that were not due. Workers must continue to call [`get`](Self::get);
    /// use a timeout if that is not certain.
    ///
    /// # Cancellation
    /// The queue is shut down when the future is first polled, and stays so. Dropping the future only ends the wait, and
    /// drops the keys that it would have returned.
    #[doc(alias = "ShutDownWithDrain")]
    pub async fn shut_down_with_drain(&self) -> Vec<K> {
        let given_up = self.shared.change(|inner, now| inner.core.drain(**now));
        let mut registration = Registration::of_drainer(&self.shared);
        poll_fn(|cx| registration.poll_drained(cx)).await;
        given_up
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Default for Queue<K> {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.shared.inner.lock();
        f.debug_struct("Queue")
            .field("ready", &inner.core.ready())
            .field("shut_down", &inner.core.is_shut_down())
            .finish_non_exhaustive()
    }
}
