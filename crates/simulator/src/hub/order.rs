//! The order of actions: a fixed one, or one that is drawn from a seed.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{
    Hub, HubState, Possible, Seen,
    calls::{Call, CallPhase},
    streams::LATE,
};
use crate::names::Actor;

/// Number of actions after which a [shuffled](Hub::shuffle) order changes its priorities.
const SAME_PRIORITIES: u64 = 7;

impl Hub {
    /// Returns the next action. In the fixed order this is the oldest answer, else the oldest call, else a delivery by the watch with the
    /// oldest unread line; watches of processes under test come last.
    pub(crate) fn next(&self) -> Option<Possible> {
        // A call that its caller has given up must not be offered: the driver would carry out a request that
        // was never sent.
        self.drop_abandoned();
        let mut state = self.0.lock();
        if state.shuffled.is_some() {
            return state.shuffled_next();
        }
        let of_user = || state.next_of_calls(|call| call.actor == Actor::User);
        let of_preferred = state.prefers_user.then(of_user).flatten();
        if let Some(of_calls) = of_preferred.or_else(|| state.next_of_calls(|_| true)) {
            return Some(of_calls);
        }
        // Actors of the world are fast: an operator then receives its change and theirs together.
        let is_tested = |deliver: &Possible| match deliver {
            Possible::Deliver { actor, .. } => actor.is_operator(),
            Possible::CarryOut(_) | Possible::Answer(_) => false,
        };
        let (_, deliver) = state.unread().min_by_key(|(oldest, deliver)| (is_tested(deliver), *oldest))?;
        Some(deliver)
    }

    /// Offers calls of the user and their answers before everything else from now on.
    pub(crate) fn prefer_user(&self) {
        self.0.lock().prefers_user = true;
    }

    /// Whether calls of the user come first, so that a process receives all lines about them at once.
    pub(super) fn prefers_user(&self) -> bool {
        self.0.lock().prefers_user
    }

    /// Draws the order of actions from a seed from now on.
    pub(crate) fn shuffle(&self, seed: u64) {
        self.0.lock().shuffled = Some((seed, 0));
    }
}

impl HubState {
    /// Returns the oldest answer, else the oldest call, of the calls that are chosen.
    fn next_of_calls(&self, is_chosen: impl Fn(&Call) -> bool) -> Option<Possible> {
        let passes = |call: &Call| !call.is_held && !self.paused.contains(&call.actor) && is_chosen(call);
        let mut calls = self.calls.iter().filter(|(_, call)| passes(call));
        let carried = calls.clone().find(|(_, call)| matches!(call.phase, CallPhase::CarriedOut(_)));
        if let Some(carried) = carried {
            return Some(Possible::Answer(seen(carried)));
        }
        let waiting = calls.find(|(_, call)| matches!(call.phase, CallPhase::Waiting(_)))?;
        Some(Possible::CarryOut(seen(waiting)))
    }

    /// Returns the watches with lines that may be delivered, and the number of the oldest line of each.
    fn unread(&self) -> impl Iterator<Item = (u64, Possible)> {
        self.watches.iter().filter_map(|(id, watch)| {
            let is_early = || {
                let oldest = watch.unread.front();
                self.late.contains(&watch.stream)
                    && oldest.is_some_and(|unread| unread.arrived.elapsed() < LATE)
            };
            let passes =
                !self.held.contains(&watch.stream) && !self.paused.contains(&watch.actor) && !is_early();
            let oldest = watch.oldest().filter(|_| passes)?;
            Some((oldest, Possible::Deliver { watch: *id, actor: watch.actor, name: watch.name.clone() }))
        })
    }

    /// Returns the possible action with the highest priority. The calls of an actor, the answers to it and each of its streams have a
    /// priority. All priorities are drawn again after [`SAME_PRIORITIES`] actions.
    fn shuffled_next(&mut self) -> Option<Possible> {
        let (seed, chosen) = self.shuffled?;
        let priority = |of: &str| {
            let mut hasher = DefaultHasher::new();
            // The number of actions stands in for a generator's state: the order depends on the seed and on
            // the actions so far, not on how often the hub is asked.
            (seed, chosen / SAME_PRIORITIES, of).hash(&mut hasher);
            hasher.finish()
        };
        let passes = |call: &Call| !call.is_held && !self.paused.contains(&call.actor);
        let calls =
            self.calls.iter().filter(|(_, call)| passes(call)).filter_map(|entry| match entry.1.phase {
                CallPhase::Running => None,
                CallPhase::Waiting(_) => {
                    let of = format!("calls of {}", entry.1.actor);
                    Some((priority(&of), *entry.0, Possible::CarryOut(seen(entry))))
                }
                CallPhase::CarriedOut(_) => {
                    let of = format!("answers to {}", entry.1.actor);
                    Some((priority(&of), *entry.0, Possible::Answer(seen(entry))))
                }
            });
        let lines = self.unread().map(|(oldest, deliver)| {
            let of = match &deliver {
                Possible::Deliver { actor, name, .. } => format!("lines of {name} to {actor}"),
                _ => String::new(),
            };
            (priority(&of), oldest, deliver)
        });
        // Ids break ties, so that calls of one actor keep their order and equal runs choose alike.
        let first = calls.chain(lines).min_by_key(|(priority, age, _)| (*priority, *age));
        let (_, _, action) = first?;
        self.shuffled = Some((seed, chosen + 1));
        Some(action)
    }
}

fn seen((id, call): (&u64, &Call)) -> Seen {
    Seen { id: *id, actor: call.actor, name: call.name.clone() }
}
