//! When an added key may run: delays, back-off, and what events may do to both.

use std::hash::Hash;
use std::time::Duration;

use super::entry::{Again, Past, Reason, State};
use super::{Core, Id, Moment, Now};
use crate::Delay;
use crate::options::{AddOptions, BackOffEvents, Debounce};

/// Runs of one back-off that urgent events begin at once.
const URGENT_AT_ONCE: u8 = 10;

/// Time from the end of the last run to the next one that an urgent event asks for beyond these.
const URGENT_EVERY: Duration = Duration::from_secs(1);

/// When a key is to run.
#[derive(Clone, Copy)]
pub(super) enum Due {
    AtOnce,
    At(Moment, Reason),
}

impl<K> Core<K> {
    /// Whether a failure of the key counts.
    pub(super) fn is_charged(&self, known: Option<Id>) -> bool {
        let Some(entry) = known.map(|id| &self.slab[id]) else {
            return true;
        };
        match entry.state {
            // It runs anyway: the budget of the others is not touched.
            State::Ready => false,
            // A run that was brought forward: its failure says nothing new, so count and time stay as they were.
            State::Processing { .. } => entry.past.as_ref().is_none_or(|past| !past.early),
            State::Waiting { .. } => true,
        }
    }

    /// The time that an add which is no event asks for; `charged` is the limiter's answer if the failure counts.
    pub(super) fn asked_for(
        &mut self,
        id: Id,
        how: AddOptions,
        charged: Option<Delay>,
        now: Moment,
    ) -> Option<(Moment, Reason)> {
        let after = how.after.map(|delay| (now.after(delay), Reason::Delayed));
        let failed = how.rate_limited.then(|| (self.failed(id, charged, now), Reason::RateLimited));
        // Of two equal times the limiter's is named: it is the one that says that something is wrong.
        failed.into_iter().chain(after).min_by_key(|(at, _)| *at)
    }

    /// When a key that failed may be tried again; begins its back-off.
    fn failed(&mut self, id: Id, charged: Option<Delay>, now: Moment) -> Moment {
        self.recovery.failed();
        let entry = &mut self.slab[id];
        let Some(delay) = charged else {
            return entry.past.as_ref().map_or(now, |past| past.back_off);
        };
        let until = now.after(delay.total());
        let past = entry.past.get_or_insert_with(|| Box::new(Past::NONE));
        (past.failed, past.own) = (true, now.after(delay.own));
        let once = matches!(self.options.back_off_events, BackOffEvents::Once { .. });
        if once && until > now && !past.is_in_back_off(now) {
            (past.back_off, past.brought_forward, past.urgent) = (until, false, 0);
        }
        until
    }

    /// When a key runs because of an event now. `id` is new, waiting, or was just done.
    pub(super) fn event(&mut self, id: Id, urgent: bool, now: &Now<impl FnOnce() -> Moment>) -> Due {
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
            let at = past.ended.after(every).min(past.back_off);
            return match entry.state {
                State::Waiting { why, .. } if entry.at <= at => Due::At(entry.at, why),
                _ => Due::At(at, Reason::EventInBackOff),
            };
        }
        let Some(Debounce { quiet, max }) = self.options.debounce else {
            return Due::AtOnce;
        };
        let past = entry.past.get_or_insert_with(|| Box::new(Past::NONE));
        match entry.state {
            // Only what an event put off can be put off further by the next one.
            State::Waiting { why: Reason::Debounced, .. } => {}
            State::Waiting { .. } => past.latest = now.after(max).min(entry.at),
            State::Ready | State::Processing { .. } => past.latest = now.after(max),
        }
        Due::At(now.after(quiet).min(past.latest), Reason::Debounced)
    }

    /// When a key that was just done runs again.
    pub(super) fn after_run(&mut self, id: Id, again: Again, now: &Now<impl FnOnce() -> Moment>) -> Due {
        if let Some(past) = &mut self.slab[id].past {
            past.ended = **now;
        }
        let at = self.slab[id].at;
        let asked = Due::At(at, again.why);
        if !again.event {
            return asked;
        }
        match self.event(id, again.urgent, now) {
            Due::At(event, _) if at <= event => asked,
            event => event,
        }
    }
}

impl<K: Clone + Eq + Hash> Core<K> {
    /// Until when and why `key` waits; `None` when it is not known, or ready, or to run again at once.
    pub(crate) fn when(&self, key: &K, hash: u64, now: Moment) -> Option<(Moment, Reason)> {
        let entry = &self.slab[self.find(key, hash)?];
        match entry.state {
            State::Waiting { why, .. } => Some((entry.at, why)),
            State::Processing { again: Some(Again { event: false, why, .. }) } => Some((entry.at, why)),
            State::Ready | State::Processing { .. } => None,
        }
        .filter(|(until, _)| *until > now)
    }
}
