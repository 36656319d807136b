//! The shell around the core: one lock, and wakers for those who wait.

use std::hash::Hash;
use std::sync::Arc;
use std::task::Waker;

use tokio::time::Instant;

use crate::core::{Core, Moment, Taken};
use crate::item::Item;
use crate::options::Options;
use crate::sync::{self, Mutex};
use crate::waiters::{Ticket, Waiters};

pub(crate) struct Shared<K> {
    pub(crate) epoch: Instant,
    pub(crate) inner: Mutex<Inner<K>>,
}

/// What the lock protects. Whoever changes it ends with [`Inner::calls`], and wakes those only after unlocking.
pub(crate) struct Inner<K> {
    pub(crate) core: Core<K>,
    /// Those in [`Queue::get`].
    pub(crate) getters: Waiters,
    /// Those in [`Queue::shut_down_with_drain`].
    pub(crate) drainers: Waiters,
}

impl<K> Shared<K> {
    pub(crate) fn new(options: Options<K>) -> Self {
        let epoch = sync::now();
        let core = Core::new(options, epoch);
        Self {
            epoch,
            inner: Mutex::new(Inner {
                core,
                getters: Waiters::new(),
                drainers: Waiters::new(),
            }),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        Moment::since(self.epoch, sync::now())
    }

    /// Changes the state and calls whom the change concerns.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Inner<K>) -> T) -> T {
        let mut inner = self.inner.lock();
        let result = change(&mut inner);
        if inner.getters.is_empty() && inner.drainers.is_empty() {
            return result;
        }
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
pub(crate) struct Seat<'q, K> {
    pub(crate) shared: &'q Arc<Shared<K>>,
    pub(crate) room: fn(&mut Inner<K>) -> &mut Waiters,
    /// Taken only when there is something to wait for.
    pub(crate) ticket: Option<Ticket>,
}

/// What a getter sees.
pub(crate) enum Look<K> {
    Found(Item<K>),
    Finished,
    /// Nothing yet: wait to be called, or until the alarm that this getter has to set.
    Wait(Option<Instant>),
}

impl<K> Seat<'_, K> {
    pub(crate) async fn wait(&self, alarm: Option<Instant>) {
        let called = |waker: &Waker| {
            self.ticket
                .is_none_or(|ticket| (self.room)(&mut self.shared.inner.lock()).is_called(ticket, waker))
        };
        sync::called_or_until(called, alarm).await;
    }

    pub(crate) fn is_drained(&mut self) -> bool {
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
    pub(crate) fn look(&mut self) -> Look<K> {
        let found = self.shared.change(|inner| {
            let taken = inner.core.take(|| self.shared.now());
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
                Taken::Key(id, key, priority) => {
                    Self::leave(&mut self.ticket, &mut inner.getters);
                    Ok((id, key, priority))
                }
            }
        });
        match found {
            Ok((id, key, priority)) => Look::Found(Item::new(id, key, priority, Arc::clone(self.shared))),
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
