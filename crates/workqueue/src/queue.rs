//! The handle to a queue.

use std::fmt;
use std::future::poll_fn;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::item::Item;
use crate::metrics::Gauges;
use crate::options::{AddOptions, Options};
use crate::shared::{Seat, Shared};
use crate::snapshot::{KeySnapshot, Waiting};

/// A queue of keys to work on, each once at a time.
///
/// A handle: clones are the same queue. See the [crate docs](crate) for what it promises.
#[doc(alias = "TypedRateLimitingInterface")]
#[doc(alias = "PriorityQueue")]
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Queue<K> {
    /// An empty queue.
    #[must_use]
    pub fn new(options: Options<K>) -> Self {
        Self { shared: Arc::new(Shared::new(options)) }
    }

    /// How many keys are ready and not yet handed out. Keys that wait or are being processed do not count.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.change(|inner, now| {
            inner.core.advance(now);
            inner.core.ready()
        })
    }

    /// Whether no key is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The state of the queue now, for gauges; the cost is that of the number of keys being processed.
    ///
    /// The two times need [`Options::metrics`]: without, nobody looks at a clock when a key is handed out, and they are
    /// zero.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        self.shared.change(|inner, now| inner.core.gauges(now))
    }

    /// Whether the queue was shut down.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.shared.inner.lock().core.is_shut_down()
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// Makes `key` ready. Nothing happens if it is ready already; if it waits, it waits no longer; if it is being
    /// processed, it will be ready once more when that is done.
    ///
    /// Ignored after the queue was shut down, like every kind of add.
    #[doc(alias = "Add")]
    pub fn add(&self, key: K) {
        self.add_with(key, AddOptions::default());
    }

    /// Makes `key` ready `delay` from now. The earliest time asked for wins; a key that is ready stays ready.
    ///
    /// While `key` is being processed the time runs on, and takes effect when that is done.
    #[doc(alias = "AddAfter")]
    pub fn add_after(&self, key: K, delay: Duration) {
        self.add_with(key, AddOptions::default().after(delay));
    }

    /// Counts a failure of `key` and makes it ready after the delay that the rate limiter sets.
    ///
    /// A key that is ready runs anyway: then nothing is counted.
    #[doc(alias = "AddRateLimited")]
    pub fn add_rate_limited(&self, key: K) {
        self.add_with(key, AddOptions::default().rate_limited());
    }

    /// Adds `key` as `how` says: the three other adds in one, and a class.
    #[doc(alias = "AddWithOpts")]
    pub fn add_with(&self, key: K, how: AddOptions) {
        let hash = self.shared.hash(&key);
        let mut adding = Some(key);
        self.shared.change(|inner, now| inner.core.add(&mut adding, hash, how, now));
    }

    /// Takes back every run of `key` that was asked for: it is neither ready nor does it wait any more. A run that is
    /// under way goes on. Returns whether there was anything to take back.
    pub fn cancel(&self, key: &K) -> bool {
        let hash = self.shared.hash(key);
        self.shared.change(|inner, _| inner.core.cancel(key, hash))
    }

    /// Until when and why `key` waits; `None` when it does not.
    ///
    /// For a key being processed this is about its next run.
    #[must_use]
    pub fn when(&self, key: &K) -> Option<Waiting> {
        let (hash, now) = (self.shared.hash(key), self.shared.now());
        let (until, why) = self.shared.inner.lock().core.when(key, hash, now)?;
        Some(Waiting { until: until.instant(self.shared.epoch), why })
    }

    /// All keys of the queue, in no particular order.
    ///
    /// The iterator takes the lock for 64 keys at a time at most, so a queue of a million keys goes on working while
    /// somebody looks at it. What changes meanwhile may be seen as it was or as it is, and a key that leaves the queue and
    /// comes back may be seen twice or not at all.
    pub fn snapshot(&self) -> impl Iterator<Item = KeySnapshot<K>> + use<K> {
        let shared = Arc::clone(&self.shared);
        (0..).map_while(move |page| shared.inner.lock().core.page(page, shared.now())).flatten()
    }

    /// Forgets the failures of `key`: it succeeded, or will not be tried again. Where it is in the queue does not change.
    ///
    /// While the key is being processed this is a success, which may release keys that only a shared budget holds back: see
    /// [recovery](crate#recovery).
    #[doc(alias = "Forget")]
    pub fn forget(&self, key: &K) {
        let hash = self.shared.hash(key);
        self.shared.change(|inner, now| inner.core.forget(key, hash, now));
    }

    /// Tells the queue that the service refuses load, although no key failed: a 429 that came with a time to wait, say. Keys
    /// that only a shared budget holds back keep to it until a key that had failed succeeds: see
    /// [recovery](crate#recovery).
    pub fn throttled(&self) {
        self.shared.change(|inner, _| inner.core.throttled());
    }

    /// How many failures of `key` were counted since it was last forgotten.
    #[doc(alias = "NumRequeues")]
    #[must_use]
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.shared.inner.lock().core.num_requeues(key)
    }

    /// The next ready key, in the order in which keys became ready; waits until there is one.
    ///
    /// `None` when the queue was shut down and nothing is left to hand out, and from then on always.
    ///
    /// # Cancellation
    /// Dropping the future at any point loses nothing: no key is taken before it returns, and a wake-up it did not use
    /// goes to another waiter.
    #[doc(alias = "Get")]
    pub async fn get(&self) -> Option<Item<'_, K>> {
        if let Some(loan) = self.shared.take() {
            return Some(Item::new(loan, &self.shared));
        }
        let mut seat = Seat::of_getter(&self.shared);
        poll_fn(|cx| seat.poll_item(cx)).await
    }

    /// Says that the work on `done` is done and gets the next key: what dropping the item and [`get`](Self::get) do, with
    /// the lock taken once instead of twice. The loop of a worker that has nothing else to do in between:
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
    /// The item is done when the future is first polled, or when it is dropped before. From then on as in
    /// [`get`](Self::get).
    pub async fn next<'q>(&'q self, done: Item<'q, K>) -> Option<Item<'q, K>> {
        match done.exchange(&self.shared) {
            Some(loan) => Some(Item::new(loan, &self.shared)),
            None => self.get().await,
        }
    }

    /// Accepts no more keys. What is ready is still handed out, and a key that was added again while being processed
    /// still runs once more; then [`get`](Self::get) returns `None`.
    ///
    /// Keys that are not due yet are given up and returned, the one due first first, so that nothing is lost unseen.
    /// A second call returns nothing, and ends the waiting of [`shut_down_with_drain`](Self::shut_down_with_drain).
    #[doc(alias = "ShutDown")]
    #[expect(
        clippy::must_use_candidate,
        reason = "who shuts down for good seldom cares for what was to come later"
    )]
    pub fn shut_down(&self) -> Vec<K> {
        self.close(false)
    }

    /// Shuts the queue down and waits until every key that was ready has been handed out and is done.
    ///
    /// Returns the keys that were given up because they were not due. Somebody has to go on calling [`get`](Self::get):
    /// give the wait a limit where that is not certain.
    ///
    /// # Cancellation
    /// The queue is shut down when the future is first polled and stays so. Dropping the future only ends the wait, and
    /// the keys it would have returned go with it.
    #[doc(alias = "ShutDownWithDrain")]
    pub async fn shut_down_with_drain(&self) -> Vec<K> {
        let given_up = self.close(true);
        let mut seat = Seat::of_drainer(&self.shared);
        poll_fn(|cx| seat.poll_drained(cx)).await;
        given_up
    }

    fn close(&self, drain: bool) -> Vec<K> {
        self.shared.change(|inner, now| inner.core.shut_down(drain, **now))
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
