//! Crashes of the run without faults at which other runs begin.
//!
//! A run with one crash equals the run without faults up to there. Its process then has no memory, so the rest of it depends on the state
//! of the world alone, and a copy of that suffices to begin in the middle. So a sweep of crashes takes a fraction of the time. Not all
//! crashes have such a point: other processes, a step under way and remote systems have state that cannot be copied.
//!
//! The order of simultaneous events may differ from that of a run from the start, for example of two watches of one resource. A violation
//! that is found this way is played again from the start, for its story and as a check.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube_apiserver_embedded::Checkpoint;
use tokio::time::{Duration, Instant};

use super::{Run, process::Alive};
use crate::{
    definition::Definition,
    hub::HubCopy,
    names::CallName,
    plan::{Deviation, DeviationKind, Plan, Restart},
    trace::Action,
    truth::Truth,
};

/// Largest number of points, and of objects in all of them, that a search keeps. Further crashes are played from the start.
const POINTS: usize = 10_000;
const OBJECTS: usize = 200_000;

/// Points by place: whether the call is carried out, its name and its number.
pub(crate) type CrashPoints = BTreeMap<CrashPlace, CrashPoint>;

/// Place of a crash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CrashPlace {
    pub(super) call: String,
    pub(super) number: u32,
    /// Whether the process crashes after its call is carried out, before it is answered.
    pub(super) is_carried_out: bool,
}

#[cfg(test)]
impl CrashPlace {
    /// The crash as a deviation.
    pub(crate) fn crash(&self, restart: Restart) -> Deviation {
        let what = if self.is_carried_out {
            DeviationKind::CrashAfter(restart)
        } else {
            DeviationKind::CrashBefore(restart)
        };
        Deviation { what, call: self.call.clone(), number: self.number }
    }
}

/// State of the world at a crash.
#[derive(Debug)]
pub(crate) struct CrashPoint {
    pub(super) server: Checkpoint,
    /// Virtual time since the start of the run.
    pub(super) at: Duration,
    /// State of the thread's random numbers.
    random: u64,
    truth: Truth,
    /// Virtual time of the last visible change since the start of the run.
    last_visible: Duration,
    hub: HubCopy,
    /// Number of entries of the trace before.
    entries: usize,
    begun: usize,
    counts: BTreeMap<String, u32>,
    others_changed: bool,
    collect_late: bool,
    held: BTreeSet<usize>,
    errors: Vec<String>,
    at_once: usize,
    most_at_once: usize,
    calls_at_once: BTreeMap<Arc<CallName>, usize>,
    most_calls_at_once: usize,
}

#[cfg(test)]
impl CrashPoint {
    /// Number of steps begun before.
    pub(crate) fn begun(&self) -> usize {
        self.begun
    }
}

/// Returns the place and the restart of the crash that is all of a plan.
pub(crate) fn only_crash(plan: &Plan) -> Option<(CrashPlace, Restart)> {
    let [Deviation { what, call, number }] = &*plan.deviations else { return None };
    let place = |is_carried_out| CrashPlace { call: call.clone(), number: *number, is_carried_out };
    match what {
        DeviationKind::CrashBefore(restart) => Some((place(false), *restart)),
        DeviationKind::CrashAfter(restart) => Some((place(true), *restart)),
        _ => None,
    }
}

/// Whether all state of a simulation but that of its process can be copied.
pub(super) fn can_be_copied(definition: &Definition) -> bool {
    definition.remotes.is_empty() && definition.programs.iter().map(|program| program.replicas).eq([1])
}

impl Run<'_> {
    /// Copies the state of the world before a call is carried out, or before it is answered.
    pub(super) fn note_crash_point(&mut self, place: CrashPlace) {
        let Some(points) = self.crash_points.as_ref() else { return };
        let truth = self.truth.lock();
        let is_full = points.len() >= POINTS || points.len() * truth.objects.len() >= OBJECTS;
        // A step is a future, which cannot be copied. Commits that no trace has taken would be missing in the copy.
        if is_full || self.step_runs || !truth.news.is_empty() || self.delayed.is_some() {
            return;
        }
        let point = CrashPoint {
            server: self.server.checkpoint(),
            at: self.start.elapsed(),
            random: fastrand::get_seed(),
            truth: truth.clone(),
            last_visible: truth.last_visible.saturating_duration_since(self.start),
            hub: self.hub.copy(),
            entries: self.trace.len(),
            begun: self.begun,
            counts: self.counts.clone(),
            others_changed: self.others_changed,
            collect_late: self.collect_late,
            held: self.held.clone(),
            errors: self.errors.clone(),
            at_once: self.at_once,
            most_at_once: self.most_at_once,
            calls_at_once: self.calls_at_once.clone(),
            most_calls_at_once: self.most_calls_at_once,
        };
        drop(truth);
        if let Some(points) = &mut self.crash_points {
            points.insert(place, point);
        }
    }

    /// Continues from a crash of the run without faults, in a run that has just begun.
    pub(super) fn continue_from(&mut self, point: &CrashPoint, restart: Restart) {
        let first = &mut self.processes[0];
        let actor = first.actor;
        let at = match self.plan.first() {
            Some(Deviation { what: DeviationKind::CrashBefore(_), call, .. }) => {
                format!("before it sends: {call}")
            }
            Some(Deviation { call, .. }) => format!("without the answer to: {call}"),
            None => String::new(),
        };
        first.next_life();
        first.state = Alive::after_crash(restart, point.begun);
        // The crash is all of the plan.
        self.plan.clear();
        let mut truth = point.truth.clone();
        truth.last_visible = self.start + point.last_visible;
        *self.truth.lock() = truth;
        // Counts continue, so that calls and lines have the numbers that they have in a run from the start.
        self.hub.restore(&point.hub);
        if let Some(expected) = self.merge.expected() {
            // The story needs the part before the crash, which this run did not play.
            self.trace.extend(expected.outcome.trace.iter().take(point.entries).cloned());
        }
        self.begun = point.begun;
        self.counts.clone_from(&point.counts);
        self.others_changed = point.others_changed;
        self.collect_late = point.collect_late;
        self.held.clone_from(&point.held);
        self.errors.clone_from(&point.errors);
        (self.at_once, self.most_at_once) = (point.at_once, point.most_at_once);
        self.calls_at_once.clone_from(&point.calls_at_once);
        self.most_calls_at_once = point.most_calls_at_once;
        self.log(Action::Crashed { actor, at });
        self.unrest_since = Instant::now();
        // Last: the next random number is that of a run from the start.
        fastrand::seed(point.random);
    }
}
