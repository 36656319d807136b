//! Shell around the core: one lock, and the wakers of waiting tasks.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use hashbrown::DefaultHashBuilder;
use tokio::time::Instant;

use crate::core::{Core, Flow, Loan, Now, Taken, Timestamp};
use crate::item::Item;
use crate::options::{FlowOf, Options};
use crate::sync::{self, Alarm, QueueLock};
use crate::waiters::{Ticket, Waiters};

pub(crate) struct Shared<K> {
    pub(crate) epoch: Instant,
    /// The hasher of the core, so that keys are hashed before the lock is taken.
    hasher: DefaultHashBuilder,
    /// The user's function, which is called without the lock.
    flow_of: Option<FlowOf<K>>,
    pub(crate) inner: QueueLock<Inner<K>>,
}

/// State under the lock. A change ends with [`Inner::calls`], and its wakers are woken after unlocking.
pub(crate) struct Inner<K> {
    pub(crate) core: Core<K>,
    /// Tasks in [`Queue::get`].
    pub(crate) getters: Waiters,
    /// Tasks in [`Queue::shut_down_with_drain`].
    pub(crate) drainers: Waiters,
}

impl<K> Shared<K> {
    pub(crate) fn new(options: Options<K>) -> Self {
        let epoch = sync::now();
        let flow_of = options.flow_of.clone();
        let core = Core::new(options, epoch);
        let hasher = core.hasher();
        Self {
            epoch,
            hasher,
            flow_of,
            inner: QueueLock::new(Inner { core, getters: Waiters::new(), drainers: Waiters::new() }),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::since(self.epoch, sync::now())
    }

    /// Takes a key if there is one. A getter tries this first, to avoid registering as a waiter.
    #[inline]
    pub(crate) fn take(&self) -> Option<Loan<K>> {
        match self.change(|inner, now| inner.core.take(now)) {
            Taken::Key(loan) => Some(loan),
            Taken::Nothing | Taken::Finished => None,
        }
    }

    /// Returns a processed key, and takes another one if there is one.
    pub(crate) fn exchange(&self, done: Loan<K>) -> Option<Loan<K>> {
        // The key is dropped after the lock is released.
        let mut gone = None;
        let taken = self.change(|inner, now| {
            inner.core.done(done, &mut gone, now);
            inner.core.take(now)
        });
        match taken {
            Taken::Key(loan) => Some(loan),
            Taken::Nothing | Taken::Finished => None,
        }
    }

    #[inline]
    pub(crate) fn hash(&self, key: &impl Hash) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The flow of a key; `None` if the queue has no flows.
    pub(crate) fn flow_of(&self, key: &K) -> Option<Flow> {
        self.flow_of.as_ref().map(|flow_of| flow_of(key))
    }

    /// Changes the state, and wakes the tasks that the change concerns.
    #[inline]
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut Inner<K>, &Now<&dyn Fn() -> Timestamp>) -> T,
    ) -> T {
        let read = || self.now();
        let now = Now::new(&read as &dyn Fn() -> Timestamp);
        let mut inner = self.inner.lock();
        let result = change(&mut inner, &now);
        // The common case of busy workers: no task waits, so none needs to be woken.
        if inner.getters.is_empty() && inner.drainers.is_empty() {
            return result;
        }
        let calls = inner.calls();
        // Wake after unlocking, or the woken task would wait for the lock.
        drop(inner);
        calls.wake();
        result
    }
}

impl<K> Inner<K> {
    /// Returns the tasks to wake. Derived from the state after every change, not from the kind of change, so that no operation can
    /// forget a wake-up.
    fn calls(&mut self) -> Calls {
        // When the queue is finished, every getter must return: each wakes the next.
        let runs = if self.core.is_finished() { usize::MAX } else { self.core.ready() };
        let [for_run, for_alarm] = self.getters.call(runs, self.core.next_due());
        // A second shutdown turns draining into closed, which ends the wait of the drainers.
        let over = !self.drainers.is_empty() && (self.core.is_drained() || !self.core.is_draining());
        let drained = if over { self.drainers.call_all() } else { Vec::new() };
        Calls { for_run, for_alarm, drained }
    }
}

/// Tasks to wake once the lock is released.
struct Calls {
    for_run: Option<Waker>,
    for_alarm: Option<Waker>,
    drained: Vec<Waker>,
}

impl Calls {
    fn wake(self) {
        if let Some(getter) = self.for_run {
            getter.wake();
        }
        if let Some(keeper) = self.for_alarm {
            keeper.wake();
        }
        for drainer in self.drained {
            drainer.wake();
        }
    }
}

/// A task's registration as a waiter; dropped when the task stops waiting, for whatever reason.
pub(crate) struct Registration<'q, K> {
    shared: &'q Arc<Shared<K>>,
    list: fn(&mut Inner<K>) -> &mut Waiters,
    /// Set only while the task waits.
    ticket: Option<Ticket>,
    alarm: Alarm,
}

/// Result of a getter's poll.
enum Polled<'q, K> {
    Found(Item<'q, K>),
    Finished,
    /// Nothing yet: wait for a wake-up, or until the alarm that this getter keeps.
    Wait(Option<Instant>),
}

impl<'q, K> Registration<'q, K> {
    /// Registration of a task in [`Queue::get`](crate::Queue::get).
    pub(crate) fn of_getter(shared: &'q Arc<Shared<K>>) -> Self {
        Self { shared, list: |inner| &mut inner.getters, ticket: None, alarm: Alarm::default() }
    }

    /// Registration of a task in [`Queue::shut_down_with_drain`](crate::Queue::shut_down_with_drain).
    pub(crate) fn of_drainer(shared: &'q Arc<Shared<K>>) -> Self {
        Self { shared, list: |inner| &mut inner.drainers, ticket: None, alarm: Alarm::default() }
    }

    pub(crate) fn poll_drained(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.shared.inner.lock();
        if inner.core.is_drained() || !inner.core.is_draining() {
            return Poll::Ready(());
        }
        // Registered under the lock of the check, so that no wake-up falls in between.
        self.ticket = Some(inner.drainers.register(self.ticket, cx.waker()));
        Poll::Pending
    }

    fn leave(ticket: &mut Option<Ticket>, list: &mut Waiters) {
        if let Some(ticket) = ticket.take() {
            list.leave(ticket);
        }
    }

    pub(crate) fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<Item<'q, K>>> {
        loop {
            match self.poll_once(cx.waker()) {
                Polled::Found(item) => return Poll::Ready(Some(item)),
                Polled::Finished => return Poll::Ready(None),
                // When the alarm has fired a key may be due, so look again.
                Polled::Wait(alarm) => ready!(self.alarm.poll(alarm, cx)),
            }
        }
    }

    /// Takes a key, or registers `waker`, under one lock so that no wake-up falls in between.
    fn poll_once(&mut self, waker: &Waker) -> Polled<'q, K> {
        let found = self.shared.change(|inner, now| {
            let taken = inner.core.take(now);
            if let Taken::Nothing = taken {
                let ticket = inner.getters.register(self.ticket, waker);
                self.ticket = Some(ticket);
                let alarm = inner.getters.set_alarm(ticket, inner.core.next_due());
                return Err(Polled::Wait(alarm.map(|alarm| alarm.instant(self.shared.epoch))));
            }
            // Leaving before `change` selects wakers lets it wake the next getter, if more keys are ready.
            Self::leave(&mut self.ticket, &mut inner.getters);
            match taken {
                Taken::Key(loan) => Ok(loan),
                Taken::Nothing | Taken::Finished => Err(Polled::Finished),
            }
        });
        match found {
            Ok(loan) => Polled::Found(Item::new(loan, self.shared)),
            Err(polled) => polled,
        }
    }
}

impl<K> Drop for Registration<'_, K> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            // `change` passes a wake-up that this task has not used to the next waiter.
            self.shared.change(|inner, _| Self::leave(&mut self.ticket, (self.list)(inner)));
        }
    }
}
