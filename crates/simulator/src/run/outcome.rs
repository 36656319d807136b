//! Result of a run.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use tokio::time::Duration;

use crate::{
    names::{ObjectId, process_of},
    plan::Deviation,
    similar::World,
    trace::{Action, Entry},
    truth::Counts,
};

use super::crash_point::CrashPoints;

/// A call of the operator that changed or may have changed the world, in the order in which they were carried out.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    /// Name, and count of calls of that name.
    pub(crate) call: String,
    pub(crate) number: u32,
    /// Step during or after which it was made; 0 is before the first.
    pub(crate) step: usize,
    /// Virtual time since the start of the run.
    pub(crate) at: Duration,
    /// Whether it changed a compared object.
    pub(crate) is_visible: bool,
    /// Whether something else changed the world since the operator's previous write.
    pub(crate) is_after_others: bool,
}

impl Write {
    /// Whether it is an effect on a remote system.
    pub(crate) fn is_effect(&self) -> bool {
        self.call.contains(" at ")
    }
}

/// A read of the operator from the API server, the first of its name in its step.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    /// Name, such as `get configmaps default/page`, and count of calls of that name.
    pub(crate) call: String,
    pub(crate) number: u32,
}

/// A line of a watch that reports a change of an object, in the order of arrival.
#[derive(Debug, Clone)]
pub(crate) struct ArrivedLine {
    /// Name of the line, such as `configmaps MODIFIED default/page`, and count of lines of that name.
    pub(crate) line: String,
    pub(crate) number: u32,
    /// Step during or after which it arrived; 0 is before the first.
    pub(crate) step: usize,
}

impl ArrivedLine {
    /// Resource, key of the object, and process.
    pub(crate) fn object(&self) -> (&str, &str, &str) {
        let mut words = self.line.split(' ');
        let resource = words.next().unwrap_or_default();
        (resource, words.nth(1).unwrap_or_default(), process_of(&self.line))
    }
}

/// End of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// All steps are done and the world is quiet.
    #[default]
    Quiet,
    /// The world did not become quiet; the last changes.
    NeverQuiet { changes: Vec<String> },
    /// An object is written again and again, much more often than without faults; the last changes.
    WritesAgain { object: String, changes: Vec<String> },
    /// Actions followed each other without time passing; the last ones.
    Loop { actions: Vec<String> },
    /// The driver waited too long, in real time, until no task could run; the last actions.
    Stuck { actions: Vec<String> },
    /// A step did not succeed.
    StepFailed { step: String, reason: String },
    /// The operator cannot be made, or ends by itself again and again.
    OperatorEnded { reason: String },
    /// Tasks of the operator survive its crash.
    Leaked { tasks: usize },
    /// The operator uses threads of tokio's blocking pool.
    Threads,
    /// A reconcile panicked.
    Panicked { reason: String },
    /// A request is reconciled while another reconcile of it is in progress.
    Overlap { controller: String, request: String },
    /// A check of the test does not hold.
    CheckFailed { check: String, when: String },
}

/// The limit of changes of one object: this number, plus a multiple of its changes in the run without faults.
const CHANGES: u32 = 25;
const TIMES_AS_MANY: u32 = 5;

/// Maximum numbers of actions at one moment of virtual time, above which a run counts as a loop: of the run without faults, and of other
/// runs, in addition to a multiple of the largest number in the run without faults.
const ACTIONS_AT_ONCE: usize = 20_000;
const MORE_ACTIONS_AT_ONCE: usize = 5_000;
const TIMES_AS_MANY_ACTIONS: usize = 3;

/// Limits of changes and of actions, derived from the run without faults. For that run itself only actions are limited.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits(Option<Rc<WithoutFaults>>);

#[derive(Debug, Clone, Default)]
struct WithoutFaults {
    counts: BTreeMap<ObjectId, Counts>,
    most_at_once: usize,
}

impl Limits {
    pub(crate) fn by(without_faults: &Outcome) -> Self {
        let Outcome { counts, most_at_once, .. } = without_faults;
        Self(Some(Rc::new(WithoutFaults { counts: counts.clone(), most_at_once: *most_at_once })))
    }

    /// Maximum number of actions at one moment of virtual time.
    pub(crate) fn at_once(&self) -> usize {
        self.0.as_ref().map_or(ACTIONS_AT_ONCE, |without_faults| {
            // Faults lead to retries, so a run may act more often than the one without faults before it
            // counts as a loop.
            without_faults.most_at_once.saturating_mul(TIMES_AS_MANY_ACTIONS) + MORE_ACTIONS_AT_ONCE
        })
    }

    /// Returns the number of changes of an object if it exceeds the limit.
    pub(crate) fn exceeded_by(&self, id: &ObjectId, counts: &BTreeMap<ObjectId, Counts>) -> Option<u32> {
        let expected = &self.0.as_ref()?.counts;
        let changed = |counts: &BTreeMap<ObjectId, Counts>| counts.get(id).map_or(0, |counts| counts.changed);
        let limit = changed(expected).saturating_mul(TIMES_AS_MANY) + CHANGES;
        Some(changed(counts)).filter(|found| *found > limit)
    }

    /// Number of changes of an object in the run without faults.
    pub(crate) fn expected(&self, object: &str) -> u32 {
        let mut known = self.0.iter().flat_map(|without_faults| &without_faults.counts);
        known.find(|(id, _)| id.to_string() == object).map_or(0, |(_, counts)| counts.changed)
    }
}

/// The world at a moment when it is quiet.
#[derive(Debug)]
pub(crate) struct QuietWorld {
    pub(crate) world: World,
    /// Numbers of writes so far.
    pub(crate) counts: BTreeMap<ObjectId, Counts>,
    /// Requests that fail, with their errors.
    pub(crate) failing: BTreeMap<String, String>,
}

/// Result of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) end: End,
    pub(crate) trace: Vec<Entry>,
    /// The world when it was last quiet, by number of steps done.
    pub(crate) quiet: BTreeMap<usize, QuietWorld>,
    /// Number of steps done when the run ended early, because it had become equal to the run without faults.
    pub(crate) merged_after: Option<usize>,
    pub(crate) counts: BTreeMap<ObjectId, Counts>,
    /// Largest number of actions at one moment of virtual time.
    pub(crate) most_at_once: usize,
    pub(crate) writes: Vec<Write>,
    pub(crate) reads: Vec<Read>,
    pub(crate) lines: Vec<ArrivedLine>,
    /// Writes that processes sent while another replica led, by name; with the process, and with the leader.
    pub(crate) without_lead: BTreeMap<String, String>,
    /// Steps during which the garbage collector acted.
    pub(crate) collected: Vec<usize>,
    /// Requests that fail at the end, with their errors.
    pub(crate) failing: BTreeMap<String, String>,
    /// Last errors that the operator logged.
    pub(crate) errors: Vec<String>,
    /// Conditions on changes that have held, as indices of the definition's checks.
    pub(crate) held: BTreeSet<usize>,
    /// Real time for which the thread neither ran nor waited for a processor, by number of earlier entries of the trace.
    pub(crate) blocked: BTreeMap<usize, Duration>,
    /// Crashes at which other runs can begin, if they were to be noted.
    pub(crate) crash_points: CrashPoints,
    /// Deviations of the plan that did not happen.
    pub(crate) did_not_happen: Vec<Deviation>,
}

impl Outcome {
    /// Whether a process under test has reconciled something.
    pub(crate) fn reconciles(&self) -> bool {
        let began = |entry: &Entry| matches!(&entry.action, Action::ReconcileBegan { actor, .. } if actor.is_operator());
        self.trace.iter().any(began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_is_changed_without_end_exceeds_its_limit_and_one_that_is_changed_often_does_not() {
        let id = ObjectId::new("", "configmaps", "a", "x");
        let counts = |changed| BTreeMap::from([(id.clone(), Counts { changed, ..Counts::default() })]);
        let limits =
            |expected| Limits(Some(Rc::new(WithoutFaults { counts: counts(expected), most_at_once: 0 })));
        let exceeds = |expected, found| limits(expected).exceeded_by(&id, &counts(found)).is_some();
        assert!(exceeds(1, 60) && exceeds(0, 26) && exceeds(20, 200));
        assert!(!exceeds(1, 30) && !exceeds(20, 100));
        assert!(Limits::default().exceeded_by(&id, &counts(1000)).is_none());
    }
}
