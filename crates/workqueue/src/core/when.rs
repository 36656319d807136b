//! Times at which added keys run: delays, back-off, and the effect of events on both.

use std::hash::Hash;
use std::time::Duration;

use super::entry::{Again, Past, Reason, State};
use super::{Core, Id, Now, Timestamp};
use crate::Delay;
use crate::options::{AddOptions, BackOffEvents, Debounce};

/// Number of runs in one back-off that urgent events start at once.
const URGENT_AT_ONCE: u8 = 10;

/// Shortest time from the end of the last run to the next one for later urgent events.
const URGENT_EVERY: Duration = Duration::from_secs(1);

/// Time at which a key runs.
#[derive(Clone, Copy)]
pub(super) enum Due {
    AtOnce,
    At(Timestamp, Reason),
}

impl<K> Core<K> {
    /// Returns whether a failure of the key counts.
    pub(super) fn is_charged(&self, known: Option<Id>) -> bool {
        let Some(entry) = known.map(|id| &self.slab[id]) else {
            return true;
        };
        match entry.state {
            // It runs anyway, so the budget of the others is not touched.
            State::Ready => false,
            // The run was brought forward by an event: its failure says nothing new, so count and time stay.
            State::Processing { .. } => entry.past.as_ref().is_none_or(|past| !past.early),
            State::Waiting { .. } => true,
        }
    }

    /// The time requested by an add that is not an event; `charged` is the limiter's answer if the failure counts.
    pub(super) fn asked_for(
        &mut self,
        id: Id,
        how: AddOptions,
        charged: Option<Delay>,
        now: Timestamp,
    ) -> Option<(Timestamp, Reason)> {
        let after = how.after.map(|delay| (now.after(delay), Reason::Delayed));
        let failed = how.rate_limited.then(|| (self.failed(id, charged, now), Reason::RateLimited));
        // If both times are equal, report the limiter's: it shows that the key failed.
        failed.into_iter().chain(after).min_by_key(|(at, _)| *at)
    }

    /// Starts the back-off of a key that failed. Returns when it may run again.
    fn failed(&mut self, id: Id, charged: Option<Delay>, now: Timestamp) -> Timestamp {
        self.recovery.failed();
        let entry = &mut self.slab[id];
        // A failure that does not count starts no back-off: the key waits for the end of the one that it is in.
        let Some(delay) = charged else {
            return entry.past.as_ref().map_or(now, |past| past.back_off);
        };
        let until = now.after(delay.total());
        let past = entry.past.get_or_insert_with(|| Box::new(Past::NONE));
        (past.failed, past.own) = (true, now.after(delay.own));
        let once = matches!(self.options.back_off_events, BackOffEvents::Once { .. });
        // A failure within a back-off does not start another one.
        if once && !past.is_in_back_off(now) {
            (past.back_off, past.brought_forward, past.urgent) = (until, false, 0);
        }
        until
    }

    /// Takes a requested time for the next run of a key.
    pub(super) fn accept(&mut self, id: Id, (at, why): (Timestamp, Reason)) -> Due {
        if let (Reason::RateLimited, Some(past)) = (why, &mut self.slab[id].past) {
            past.own_of_next = past.own;
        }
        Due::At(at, why)
    }

    /// Time at which a key runs because of an event now. `id` is new, waiting, or was just processed.
    pub(super) fn event(&mut self, id: Id, urgent: bool, now: &Now<impl FnOnce() -> Timestamp>) -> Due {
        let entry = &mut self.slab[id];
        if entry.past.is_none() && self.options.debounce.is_none() {
            return Due::AtOnce;
        }
        let now = **now;
        if let (BackOffEvents::Once { then_every }, Some(past)) =
            (self.options.back_off_events, &mut entry.past)
            && past.is_in_back_off(now)
        {
            let is_first = !std::mem::replace(&mut past.brought_forward, true);
            past.urgent = past.urgent.saturating_add(u8::from(urgent));
            if is_first || urgent && past.urgent <= URGENT_AT_ONCE {
                return Due::AtOnce;
            }
            let every = if urgent { URGENT_EVERY.min(then_every) } else { then_every };
            // When the back-off ends, the key may run in any case.
            let at = past.ended.after(every).min(past.back_off);
            return match entry.state {
                // An earlier time stays, with its reason.
                State::Waiting { why, .. } if entry.at <= at => Due::At(entry.at, why),
                _ => Due::At(at, Reason::EventInBackOff),
            };
        }
        let Some(Debounce { quiet, max }) = self.options.debounce else {
            return Due::AtOnce;
        };
        let past = entry.past.get_or_insert_with(|| Box::new(Past::NONE));
        match entry.state {
            // The next event can postpone only a time that was set by debouncing. A requested time is a limit
            // for events.
            State::Waiting { why: Reason::Debounced, .. } => {}
            State::Waiting { .. } => past.latest = now.after(max).min(entry.at),
            State::Ready | State::Processing { .. } => past.latest = now.after(max),
        }
        Due::At(now.after(quiet).min(past.latest), Reason::Debounced)
    }

    /// Time at which a key that was just processed runs again.
    pub(super) fn after_run(&mut self, id: Id, again: Again, now: &Now<impl FnOnce() -> Timestamp>) -> Due {
        if let Some(past) = &mut self.slab[id].past {
            past.ended = **now;
        }
        let at = self.slab[id].at;
        let asked = Due::At(at, again.why);
        if !again.event {
            return asked;
        }
        // The earlier of the two times counts.
        match self.event(id, again.urgent, now) {
            Due::At(event, _) if at <= event => asked,
            event => event,
        }
    }
}

impl<K: Clone + Eq + Hash> Core<K> {
    /// Until when and why `key` waits; `None` if it is unknown or ready, or runs again at once.
    pub(crate) fn when(&self, key: &K, hash: u64, now: Timestamp) -> Option<(Timestamp, Reason)> {
        let entry = &self.slab[self.find(key, hash)?];
        match entry.state {
            State::Waiting { why, .. } => Some((entry.at, why)),
            State::Processing { again: Some(Again { event: false, why, .. }) } => Some((entry.at, why)),
            State::Ready | State::Processing { .. } => None,
        }
        .filter(|(until, _)| *until > now)
    }
}
