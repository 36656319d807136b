//! Quiet worlds: nothing more happens by itself.

use tokio::time::Duration;

use super::{
    Run,
    outcome::{End, QuietWorld},
    process::Alive,
};
use crate::trace::Action;

/// Virtual time without a visible change after which the world counts as quiet: more than the longest back-off, 1000 s.
const QUIET_AFTER: Duration = Duration::from_secs(1200);

/// Like [`QUIET_AFTER`], but while no request of the operator's controllers waits.
const QUIET_AT_REST: Duration = Duration::from_secs(30);

/// Like [`QUIET_AFTER`], but while a plan holds lines back.
const QUIET_WHILE_HELD: Duration = Duration::from_secs(5);

/// Degree to which the world is at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    No,
    /// Quiet except for held calls and lines, and a step follows.
    Quiet,
    /// Quiet except for held calls and lines, and nothing follows.
    Forever,
}

impl Run<'_> {
    /// Whether nothing more happens by itself. While an operator waits for the end of a step, the world is quiet as soon as no call
    /// is being carried out.
    pub(super) fn is_quiet(&self) -> bool {
        let mut states = self.processes.iter().map(|process| process.state);
        if !self.paused.is_empty()
            || states.clone().any(|state| matches!(state, Alive::Down { steps: None, .. }))
        {
            return false;
        }
        if states.any(|state| state != Alive::Running) {
            return self.working.is_empty();
        }
        if !self.all_are_led() {
            return false;
        }
        let since = self.truth.lock().last_visible.max(self.unrest_since);
        // Short while lines are held back: after a longer silence the operator's cache would probe its watch and reopen it.
        let after = match (self.holds.is_empty(), self.processes_are_at_rest()) {
            (false, _) => QUIET_WHILE_HELD,
            (true, true) => QUIET_AT_REST,
            (true, false) => QUIET_AFTER,
        };
        since.elapsed() >= after
    }

    /// Records the world as it is while quiet. The checks of quiet worlds apply only if all processes run and have received all events.
    pub(super) fn note_quiet(&mut self, all_run: bool) -> Result<(), End> {
        let (counts, failing) = (self.truth.lock().counts.clone(), self.failing());
        self.quiet.insert(self.begun, QuietWorld { world: self.world(), counts, failing });
        let is_over = all_run && self.holds.is_empty() && self.plan.is_empty();
        if let (true, Some(quiet)) = (is_over, self.quiet.get(&self.begun)) {
            self.merge.look(self.begun, quiet);
        }
        if !all_run || !self.holds.is_empty() {
            return Ok(());
        }
        self.log(Action::Quiet);
        self.check_quiet()
    }

    pub(super) fn never_quiet(&self) -> End {
        let visible = self
            .trace
            .iter()
            .filter(|entry| matches!(&entry.action, Action::Committed(change) if change.is_visible));
        let mut changes: Vec<String> = visible.rev().take(6).map(ToString::to_string).collect();
        changes.reverse();
        End::NeverQuiet { changes }
    }
}
