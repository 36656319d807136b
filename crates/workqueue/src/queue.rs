//! The queue as tasks see it: one lock around the core, and wakers for those who wait.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use crate::core::{Core, Id, Moment, Reason, Soon, Taken};
use crate::rate_limiter::{RateLimiter, default_controller_rate_limiter};
use crate::sync::{self, Mutex};
use crate::waiters::{Ticket, Waiters};

/// A queue of keys to work on, each once at a time.
///
/// A handle: clones are the same queue. See the [crate docs](crate) for what it promises.
#[doc(alias = "TypedRateLimitingInterface")]
#[doc(alias = "PriorityQueue")]
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

/// How a [`Queue`] is to behave.
pub struct Options<K> {
    rate_limiter: Box<dyn RateLimiter<K>>,
}

/// A key to work on; while it lives, nobody else is handed the same key.
///
/// Dropping it says that the work is done, whether it succeeded or not: by returning, by a panic, or because the future
/// that held it was dropped. What the key needs next (a retry, a later run) is asked of the queue before that.
#[must_use = "dropping the item says that its work is done"]
pub struct Item<K> {
    key: K,
    id: Id,
    shared: Arc<Shared<K>>,
}

/// Until when and why a key waits: see [`Queue::when`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// When it will be ready.
    pub until: Instant,
    /// What set that time.
    pub why: Reason,
}

struct Shared<K> {
    epoch: Instant,
    inner: Mutex<Inner<K>>,
}

/// What the lock protects. Whoever changes it ends with [`Inner::calls`], and wakes those only after unlocking.
struct Inner<K> {
    core: Core<K>,
    /// Those in [`Queue::get`].
    getters: Waiters,
    /// Those in [`Queue::shut_down_with_drain`].
    drainers: Waiters,
}

impl<K> Queue<K> {
    /// An empty queue.
    #[must_use]
    pub fn new(options: Options<K>) -> Self {
        let epoch = sync::now();
        let core = Core::new(options.rate_limiter, epoch);
        let inner = Mutex::new(Inner {
            core,
            getters: Waiters::new(),
            drainers: Waiters::new(),
        });
        Self {
            shared: Arc::new(Shared { epoch, inner }),
        }
    }

    /// How many keys are ready and not yet handed out. Keys that wait or are being processed do not count.
    #[must_use]
    pub fn len(&self) -> usize {
        let now = self.shared.now();
        self.shared.change(|inner| {
            inner.core.advance(now);
            inner.core.ready()
        })
    }

    /// Whether no key is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
        self.add_soon(key, Soon::Now);
    }

    /// Makes `key` ready `delay` from now. The earliest time asked for wins; a key that is ready stays ready.
    ///
    /// While `key` is being processed the time runs on, and takes effect when that is done.
    #[doc(alias = "AddAfter")]
    pub fn add_after(&self, key: K, delay: Duration) {
        self.add_soon(key, Soon::After(delay));
    }

    /// Counts a failure of `key` and makes it ready after the delay that the rate limiter sets.
    ///
    /// A key that is ready runs anyway: then nothing is counted.
    #[doc(alias = "AddRateLimited")]
    pub fn add_rate_limited(&self, key: K) {
        self.add_soon(key, Soon::RateLimited);
    }

    fn add_soon(&self, key: K, soon: Soon) {
        let now = self.shared.now();
        self.shared.change(|inner| inner.core.add(key, soon, now));
    }

    /// Takes back every run of `key` that was asked for: it is neither ready nor does it wait any more. A run that is
    /// under way goes on. Returns whether there was anything to take back.
    pub fn cancel(&self, key: &K) -> bool {
        self.shared.change(|inner| inner.core.cancel(key))
    }

    /// Until when and why `key` waits; `None` when it does not.
    ///
    /// For a key being processed this is about its next run.
    #[must_use]
    pub fn when(&self, key: &K) -> Option<Waiting> {
        let now = self.shared.now();
        let (until, why) = self.shared.inner.lock().core.when(key, now)?;
        Some(Waiting {
            until: until.instant(self.shared.epoch),
            why,
        })
    }

    /// Forgets the failures of `key`: it succeeded, or will not be tried again. Where it is in the queue does not change.
    #[doc(alias = "Forget")]
    pub fn forget(&self, key: &K) {
        let now = self.shared.now();
        self.shared.inner.lock().core.forget(key, now);
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
    pub async fn get(&self) -> Option<Item<K>> {
        let mut seat = Seat {
            shared: &self.shared,
            room: |inner| &mut inner.getters,
            ticket: None,
        };
        loop {
            match seat.look() {
                Look::Found(item) => return Some(item),
                Look::Finished => return None,
                Look::Wait(alarm) => seat.wait(alarm).await,
            }
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
        let mut seat = Seat {
            shared: &self.shared,
            room: |inner| &mut inner.drainers,
            ticket: None,
        };
        while !seat.is_drained() {
            seat.wait(None).await;
        }
        given_up
    }

    fn close(&self, drain: bool) -> Vec<K> {
        let now = self.shared.now();
        self.shared.change(|inner| inner.core.shut_down(drain, now))
    }
}

impl<K> Item<K> {
    /// The key to work on.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.key
    }
}

impl<K> Deref for Item<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.key
    }
}

impl<K> Drop for Item<K> {
    fn drop(&mut self) {
        let now = self.shared.now();
        self.shared.change(|inner| inner.core.done(self.id, now));
    }
}

impl<K> Shared<K> {
    fn now(&self) -> Moment {
        Moment::since(self.epoch, sync::now())
    }

    /// Changes the state and calls whom the change concerns.
    fn change<T>(&self, change: impl FnOnce(&mut Inner<K>) -> T) -> T {
        let mut inner = self.inner.lock();
        let result = change(&mut inner);
        let (calls, drained) = inner.calls();
        drop(inner);
        calls.into_iter().flatten().chain(drained).for_each(Waker::wake);
        result
    }
}

impl<K> Inner<K> {
    /// Whom to wake. Called after every change, because it is the state that says so and not the change.
    fn calls(&mut self) -> ([Option<Waker>; 2], Vec<Waker>) {
        // When all is finished every getter has something to learn: one calls the next.
        let runs = if self.core.is_finished() {
            usize::MAX
        } else {
            self.core.ready()
        };
        let calls = self.getters.call(runs, self.core.next_due());
        let over = !self.drainers.is_empty() && (self.core.is_drained() || !self.core.is_draining());
        (
            calls,
            if over {
                self.drainers.call_all()
            } else {
                Vec::new()
            },
        )
    }
}

/// A task's place among those who wait; it is given up when the task stops waiting, for whatever reason.
struct Seat<'q, K> {
    shared: &'q Arc<Shared<K>>,
    room: fn(&mut Inner<K>) -> &mut Waiters,
    /// Taken only when there is something to wait for.
    ticket: Option<Ticket>,
}

/// What a getter sees.
enum Look<K> {
    Found(Item<K>),
    Finished,
    /// Nothing yet: wait to be called, or until the alarm that this getter has to set.
    Wait(Option<Instant>),
}

impl<K> Seat<'_, K> {
    async fn wait(&self, alarm: Option<Instant>) {
        let called = |waker: &Waker| {
            self.ticket
                .is_none_or(|ticket| (self.room)(&mut self.shared.inner.lock()).is_called(ticket, waker))
        };
        sync::called_or_until(called, alarm).await;
    }

    fn is_drained(&mut self) -> bool {
        let mut inner = self.shared.inner.lock();
        let over = inner.core.is_drained() || !inner.core.is_draining();
        if !over {
            self.ticket = Some(inner.drainers.sit(self.ticket));
        }
        over
    }

    fn leave(ticket: &mut Option<Ticket>, room: &mut Waiters) {
        if let Some(ticket) = ticket.take() {
            room.leave(ticket);
        }
    }
}

impl<K: Clone + Eq + Hash> Seat<'_, K> {
    fn look(&mut self) -> Look<K> {
        let now = self.shared.now();
        let found = self.shared.change(|inner| {
            let taken = inner.core.take(now);
            match taken {
                Taken::Nothing => {
                    let ticket = inner.getters.sit(self.ticket);
                    self.ticket = Some(ticket);
                    let alarm = inner.getters.set_alarm(ticket, inner.core.next_due());
                    Err(Look::Wait(alarm.map(|alarm| alarm.instant(self.shared.epoch))))
                }
                Taken::Finished => {
                    Self::leave(&mut self.ticket, &mut inner.getters);
                    Err(Look::Finished)
                }
                Taken::Key(id, key) => {
                    Self::leave(&mut self.ticket, &mut inner.getters);
                    Ok((id, key))
                }
            }
        });
        match found {
            Ok((id, key)) => Look::Found(Item {
                key,
                id,
                shared: Arc::clone(self.shared),
            }),
            Err(look) => look,
        }
    }
}

impl<K> Drop for Seat<'_, K> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            self.shared
                .change(|inner| Self::leave(&mut self.ticket, (self.room)(inner)));
        }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Default for Options<K> {
    fn default() -> Self {
        Self {
            rate_limiter: Box::new(default_controller_rate_limiter()),
        }
    }
}

impl<K> Options<K> {
    /// How long a key added with [`Queue::add_rate_limited`] waits; [`default_controller_rate_limiter`] unless told
    /// otherwise.
    #[must_use]
    pub fn rate_limiter(mut self, rate_limiter: impl RateLimiter<K> + 'static) -> Self {
        self.rate_limiter = Box::new(rate_limiter);
        self
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Default for Queue<K> {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
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

impl<K: fmt::Debug> fmt::Debug for Item<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Item").field(&self.key).finish()
    }
}
