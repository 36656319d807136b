//! Changes of the world: commits and remote effects in the trace, and the conditions that the world must meet.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;
use tokio::time::Instant;

use super::{Run, outcome::End};
use crate::{
    definition::{Check, Now, When},
    names::Actor,
    similar::World,
    trace::{Action, Entry},
    truth::differing_paths,
};

impl Run<'_> {
    /// Moves commits since the last call into the trace, and checks conditions that must always hold.
    pub(super) fn take_news(&mut self) -> Result<(), End> {
        let news = std::mem::take(&mut self.truth.lock().news);
        let (mut is_visible, mut exceeded) = (false, None);
        self.collect_late |= !news.is_empty();
        self.forget_abandoned_writes();
        for change in news {
            // All commits still reach the trace: the run ends only after the loop, with a complete story.
            let times = self.limits.exceeded_by(&change.family, &self.truth.lock().counts);
            exceeded = exceeded.or_else(|| Some((change.family.to_string(), times?)));
            if change.is_visible {
                is_visible = true;
                self.attribute_change(change.actor);
            }
            self.log(Action::Committed(Arc::new(change)));
        }
        let changed = self.fields_of_remotes_that_changed();
        if !changed.is_empty() {
            is_visible = true;
            // Remote systems have no commits, so the truth does not see their changes.
            self.truth.lock().last_visible = Instant::now();
            match self.note_effect(changed.into()) {
                Some(actor) => self.attribute_change(actor),
                None => self.others_changed = true,
            }
        }
        if let Some((object, changes)) = exceeded {
            let changes = self.last_changes(&object, changes);
            return Err(End::WritesAgain { object, changes });
        }
        if !is_visible {
            return Ok(());
        }
        self.end_long_wait();
        self.check_change()
    }

    /// Forgets the writes that have left the hub without an answer, because their callers gave up or died.
    fn forget_abandoned_writes(&mut self) {
        self.written.retain(|id, _| self.hub.has_call(*id));
        self.numbers.retain(|id, _| self.hub.has_call(*id));
    }

    /// Records a visible change: one of the operator belongs to the latest of its writes that are not answered yet.
    fn attribute_change(&mut self, actor: Actor) {
        match self.written.values().max() {
            Some(write) if actor.is_operator() => self.writes[*write].is_visible = true,
            _ => self.others_changed = true,
        }
    }

    /// Notes in the trace what the last effect changed in a remote system, and returns the actor of the effect.
    fn note_effect(&mut self, fields: Arc<[String]>) -> Option<Actor> {
        let mut effects = self.trace.iter_mut().rev().filter_map(|entry| match &mut entry.action {
            Action::CarriedOut { actor, name, changed } if name.is_effect() => Some((*actor, changed)),
            _ => None,
        });
        let (actor, changed) = effects.next()?;
        *changed = fields;
        Some(actor)
    }

    /// Returns the fields of remote systems that changed since the last call.
    fn fields_of_remotes_that_changed(&mut self) -> Vec<String> {
        let mut changed = Vec::new();
        if self.remotes.is_empty() || self.effects == self.effects_seen {
            return changed;
        }
        self.effects_seen = self.effects;
        let states = self.states();
        // Many effects only read. The states are compared, because names do not show which effects change
        // something.
        for (before, after) in self.remote_states.values().zip(states.values()) {
            differing_paths(before, after, "", usize::MAX, &mut changed);
            if changed.is_empty() && before != after {
                // A field that is null was added or removed.
                changed.push(String::new());
            }
        }
        self.remote_states = states;
        changed
    }

    pub(super) fn states(&self) -> BTreeMap<Arc<str>, Value> {
        self.remotes.iter().map(|(name, remote)| (Arc::clone(name), remote.state())).collect()
    }

    /// Checks the conditions on changes.
    fn check_change(&mut self) -> Result<(), End> {
        let is_on_changes = |when| when != When::Quiet;
        if !self.definition.checks.iter().any(|check| is_on_changes(check.when)) {
            return Ok(());
        }
        let world = self.world();
        for (place, check) in
            self.definition.checks.iter().enumerate().filter(|(_, check)| is_on_changes(check.when))
        {
            let holds = (check.holds)(&Now { world: &world });
            let has_held = self.held.contains(&place);
            if holds {
                self.held.insert(place);
            } else if check.when == When::Always || (check.when == When::Lasting && has_held) {
                return Err(self.failed(check, if has_held { "any more" } else { "" }));
            }
        }
        Ok(())
    }

    /// Checks the conditions on quiet worlds.
    pub(super) fn check_quiet(&self) -> Result<(), End> {
        let mut checks = self.definition.checks.iter().filter(|check| check.when == When::Quiet).peekable();
        if checks.peek().is_none() {
            return Ok(());
        }
        let world = self.world();
        let failed = checks.find(|check| !(check.holds)(&Now { world: &world }));
        failed.map_or(Ok(()), |check| Err(self.failed(check, "")))
    }

    fn failed(&self, check: &Check, more: &str) -> End {
        let when = match self.begun {
            0 => "before the first step".to_owned(),
            begun => format!("after the step {:?} began", self.definition.steps[begun - 1].name),
        };
        let when = if more.is_empty() { when } else { format!("{more} {when}") };
        End::CheckFailed { check: check.name.to_string(), when }
    }

    pub(super) fn world(&self) -> World {
        let truth = self.truth.lock();
        World { objects: truth.objects.clone(), uncompared: truth.uncompared.clone(), remotes: self.states() }
    }

    /// Describes the changes of an object that is written again and again.
    fn last_changes(&self, object: &str, count: u32) -> Vec<String> {
        let of_object = |entry: &&Entry| match &entry.action {
            Action::Committed(change) => change.family.to_string() == object,
            _ => false,
        };
        let mut last: Vec<String> =
            self.trace.iter().filter(of_object).rev().take(2).map(ToString::to_string).collect();
        last.reverse();
        last.insert(
            0,
            format!("{count} changes, {} in the run without faults", self.limits.expected(object)),
        );
        last
    }
}
