//! Quiet worlds: nothing more happens by itself.

use tokio::time::{Duration, Instant};

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

/// Longest time for which a request may wait and still keep the world from being quiet.
const LONGEST_TIMER: Duration = Duration::from_secs(7200);

/// Virtual time within which the world must become quiet after a step or a crash, or wait for requests that are due later than in
/// [`QUIET_AFTER`].
const LONGEST_UNREST: Duration = Duration::from_secs(3600);

/// Maximum number of changes, or series of changes, after such waits.
const MOST_WAKES: u32 = 12;

/// A time without visible changes, of at least [`QUIET_AFTER`], in which requests wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct LongWait {
    /// Time of the last visible change, step or crash.
    since: Instant,
    /// Time at which the last of the requests is due.
    until: Instant,
}

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
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut states = self.processes.iter().map(|process| process.state);
        if !self.paused.is_empty()
            || states.clone().any(|state| matches!(state, Alive::Down { steps: None, .. }))
        {
            return false;
        }
        // The operator waits for the next step, so nothing is gained by a longer silence.
        if states.any(|state| state != Alive::Running) {
            return self.working.is_empty();
        }
        if !self.all_are_led() {
            return false;
        }
        let since = self.truth.lock().last_visible.max(self.unrest_since);
        let (is_held, are_at_rest) = (!self.holds.is_empty(), self.processes_are_at_rest());
        // The hold waits for that reconcile. If the next step began first, the deviation would not happen as
        // planned.
        if self.a_timer_ends_a_hold() {
            return false;
        }
        // While lines are held back, a short silence must do: after a longer one the operator's cache would probe its watch and reopen it.
        let after = match (is_held, are_at_rest) {
            (true, _) => QUIET_WHILE_HELD,
            (false, true) => QUIET_AT_REST,
            (false, false) => QUIET_AFTER,
        };
        since.elapsed() >= after && (is_held || are_at_rest || self.timers_have_fired(since))
    }

    /// Whether the requests that waited at the first call after the last change, at `since`, have all had their turn. They may be due much
    /// later: a Job may be deleted an hour after its end, and its owner then creates another one.
    fn timers_have_fired(&mut self, since: Instant) -> bool {
        let known = self.long_wait.filter(|wait| wait.since == since);
        let wait = known.unwrap_or_else(|| {
            let now = Instant::now();
            // Timers fire up to a millisecond late.
            let until = self.last_due(now + LONGEST_TIMER).map_or(now, |due| due + Duration::from_millis(10));
            LongWait { since, until }
        });
        self.long_wait = Some(wait);
        Instant::now() >= wait.until
    }

    /// Records a visible change: after a [`LongWait`] the world must become quiet again.
    pub(super) fn end_long_wait(&mut self) {
        if self.long_wait.take().is_some() {
            self.wakes += 1;
            self.unrest_since = Instant::now();
        }
    }

    /// Whether the world has changed for so long that it will do so forever.
    pub(super) fn is_restless(&self) -> bool {
        let is_waiting = self.long_wait.is_some();
        self.wakes > MOST_WAKES || (!is_waiting && self.unrest_since.elapsed() > LONGEST_UNREST)
    }

    /// Records the world as it is while quiet. The checks of quiet worlds apply only if all processes run and have received all events.
    pub(super) fn note_quiet(&mut self, all_run: bool) -> Result<(), End> {
        let (counts, failing) = (self.truth.lock().counts.clone(), self.failing());
        self.quiet.insert(self.begun, QuietWorld { world: self.world(), counts, failing });
        // With a fault ahead, an equal world says nothing about the rest of the run.
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
