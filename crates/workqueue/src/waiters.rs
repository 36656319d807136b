//! Tasks that wait for the queue, and when to wake them.
//!
//! Pure bookkeeping under the queue's lock. A waiter registers, is woken at most once until it has polled again, and
//! leaves. The reason for waking is derived again after every change, so a waiter that leaves without polling loses
//! nothing: the next one is woken instead.

use std::task::Waker;

use crate::core::Timestamp;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ticket(u64);

pub(crate) struct Waiters {
    /// Ordered by ticket, because tickets ascend.
    waiters: Vec<Waiter>,
    next: u64,
    /// Number of waiters that were woken and have not polled since.
    called: usize,
    /// The waiter that keeps an alarm for the first waiting key, and the time of the alarm.
    alarm: Option<(Ticket, Timestamp)>,
}

struct Waiter {
    ticket: Ticket,
    /// Taken when the waiter is woken.
    waker: Option<Waker>,
    /// Whether it was woken and has not polled since.
    called: bool,
}

impl Waiters {
    pub(crate) fn new() -> Self {
        Self { waiters: Vec::new(), next: 0, called: 0, alarm: None }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Registers a waiter, or renews its registration: from now on it can be woken (again) by `waker`.
    pub(crate) fn register(&mut self, ticket: Option<Ticket>, waker: &Waker) -> Ticket {
        let known =
            ticket.and_then(|ticket| self.waiters.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok());
        if let Some(place) = known {
            let waiter = &mut self.waiters[place];
            // The waiter has polled, so the next one may be woken.
            self.called -= usize::from(std::mem::take(&mut waiter.called));
            match &mut waiter.waker {
                // `clone_from` keeps the stored waker if it wakes the same task.
                Some(known) => known.clone_from(waker),
                None => waiter.waker = Some(waker.clone()),
            }
            return waiter.ticket;
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        self.waiters.push(Waiter { ticket, waker: Some(waker.clone()), called: false });
        ticket
    }

    /// Sets the alarm for `due`, unless another waiter has set one that is early enough. Returns the time if this waiter keeps
    /// the alarm.
    pub(crate) fn set_alarm(&mut self, ticket: Ticket, due: Option<Timestamp>) -> Option<Timestamp> {
        // This waiter's earlier alarm ends, even if nothing is due any more.
        self.alarm.take_if(|(keeper, _)| *keeper == ticket);
        let due = due.filter(|due| self.alarm.is_none_or(|(_, at)| at > *due))?;
        self.alarm = Some((ticket, due));
        Some(due)
    }

    pub(crate) fn leave(&mut self, ticket: Ticket) {
        if let Ok(place) = self.waiters.binary_search_by_key(&ticket, |waiter| waiter.ticket) {
            // A waiter that was woken and leaves must not block the next wake-up.
            self.called -= usize::from(self.waiters.remove(place).called);
        }
        self.alarm.take_if(|(keeper, _)| *keeper == ticket);
    }

    /// Selects wakers: one waiter for the first of `runs`, and one to set the alarm if `due` needs one.
    ///
    /// One waiter is on its way at a time, and causes the next to be woken when it has polled. So many runs wake many waiters
    /// without a wake-up of all at once, and a few short runs wake one, which takes them one after another.
    pub(crate) fn call(&mut self, runs: usize, due: Option<Timestamp>) -> [Option<Waker>; 2] {
        if self.waiters.is_empty() {
            return [None, None];
        }
        // The last waiter is woken first: its task is the warmest, and the keeper of the alarm is not disturbed.
        let run = if self.called == 0 && runs > 0 {
            self.waiters.iter().rposition(|waiter| !waiter.called)
        } else {
            None
        };
        let run = run.and_then(|place| self.take_waker(place));
        let keeper = due.and_then(|due| match self.alarm {
            Some((_, at)) if at <= due => None,
            // The alarm is too late: its keeper must poll to set it again.
            Some((keeper, _)) => self.waiters.binary_search_by_key(&keeper, |waiter| waiter.ticket).ok(),
            // The woken waiter will poll, and then either set the alarm or leave and cause another one to be woken.
            None if self.called > 0 => None,
            // `call` wakes the last waiter first, so the first one stays registered the longest.
            None => Some(0),
        });
        [run, keeper.and_then(|place| self.take_waker(place))]
    }

    /// Wakes all waiters.
    pub(crate) fn call_all(&mut self) -> Vec<Waker> {
        (0..self.waiters.len()).filter_map(|place| self.take_waker(place)).collect()
    }

    fn take_waker(&mut self, place: usize) -> Option<Waker> {
        let waiter = &mut self.waiters[place];
        if !waiter.called {
            waiter.called = true;
            self.called += 1;
        }
        waiter.waker.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_is_called_when_the_one_before_has_looked_or_left() {
        let mut waiters = Waiters::new();
        let tickets = [0; 3].map(|_| waiters.register(None, Waker::noop()));
        let calls = |waiters: &mut Waiters| waiters.call(5, None)[0].is_some();
        assert_eq!([calls(&mut waiters), calls(&mut waiters)], [true, false]);
        waiters.leave(tickets[2]); // woken for a run
        assert_eq!([calls(&mut waiters), calls(&mut waiters)], [true, false]);
        waiters.register(Some(tickets[1]), Waker::noop()); // polled and found nothing
        assert!(calls(&mut waiters));
        waiters.leave(tickets[0]); // never woken
        assert!(!calls(&mut waiters));
    }

    #[test]
    fn another_waiter_sets_an_alarm_only_if_its_time_is_earlier() {
        let mut waiters = Waiters::new();
        let [keeper, other] = [0; 2].map(|_| waiters.register(None, Waker::noop()));
        let [first, second, third] =
            [1, 2, 3].map(|s| Some(Timestamp::START.after(std::time::Duration::from_secs(s))));
        assert_eq!(waiters.set_alarm(keeper, second), second);
        assert_eq!([second, third].map(|due| waiters.set_alarm(other, due)), [None, None]);
        assert_eq!(waiters.set_alarm(other, first), first);
        assert_eq!(waiters.set_alarm(keeper, first), None, "the other one keeps it now");
    }

    #[test]
    fn no_alarm_is_asked_of_another_waiter_while_one_is_on_its_way() {
        let mut waiters = Waiters::new();
        let tickets = [0; 2].map(|_| waiters.register(None, Waker::noop()));
        let due = Some(Timestamp::START);
        let calls = |waiters: &mut Waiters, runs| waiters.call(runs, due).map(|waker| waker.is_some());
        assert_eq!(calls(&mut waiters, 1), [true, false], "the woken one will set the alarm");
        assert_eq!((calls(&mut waiters, 1), waiters.called), ([false, false], 1));
        waiters.leave(tickets[1]);
        assert_eq!((calls(&mut waiters, 0), waiters.called), ([false, true], 1));
    }
}
