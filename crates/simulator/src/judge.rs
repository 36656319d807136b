//! Judgement of a run by comparison with the run without faults.

mod counts;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    names::{Actor, ObjectId},
    oracle::Oracle,
    plan::Plan,
    run::{End, Expected, Outcome},
    similar::{Difference, ObjectState},
    trace::{Action, Entry, Suspect},
    truth::{Change, Counts, Verb},
};
pub(crate) use counts::CountsOfSteps;
use counts::{compare_counts, lasting_counts, leave_out_orphans, orphans, sums_of_families};

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) oracle: Oracle,
    pub(crate) title: String,
    /// The object that the violation is about.
    pub(crate) suspect: Suspect,
    /// Other facts, one per line.
    pub(crate) details: Vec<String>,
}

/// Judges the end of a run alone, by the rules for every run.
pub(crate) fn judge_end(end: &End) -> Option<Violation> {
    let suspect = match end {
        End::WritesAgain { object, .. } => Suspect::about(object),
        End::CheckFailed { .. } | End::NeverQuiet { .. } | End::Loop { .. } => Suspect::LastChange,
        _ => Suspect::Unknown,
    };
    let violation = |oracle, title: String, details: &[String]| {
        Some(Violation { oracle, title, suspect: suspect.clone(), details: details.to_vec() })
    };
    match end {
        End::Quiet => None,
        End::NeverQuiet { changes } => violation(
            Oracle::Quiet,
            "objects never stop changing: they still change an hour after the last step or crash, or repeatedly after pauses".to_owned(),
            changes,
        ),
        End::WritesAgain { object, changes } => violation(
            Oracle::Quiet,
            format!("{object} is changed repeatedly: each write of the operator causes its next write"),
            changes,
        ),
        End::Loop { actions } => violation(
            Oracle::Quiet,
            "actions follow each other without end, and the virtual time does not advance".to_owned(),
            actions,
        ),
        End::Stuck { actions } => violation(
            Oracle::Quiet,
            "the tasks do not become idle within 10 s of real time: one is always ready, or one blocks the thread".to_owned(),
            actions,
        ),
        End::Threads => violation(
            Oracle::Runs,
            "the operator uses threads, whose order no simulation controls: spawn_blocking, tokio::fs or a name lookup; \
             put it behind a trait and use a Remote in simulations"
                .to_owned(),
            &[],
        ),
        End::Panicked { reason } if reason.contains("IO is disabled") => violation(
            Oracle::Runs,
            format!(
                "the operator opens a socket or waits for input, which a simulation does not support: put it behind a trait \
                 and use a Remote in simulations: {reason}"
            ),
            &[],
        ),
        End::Panicked { reason } => {
            violation(Oracle::Runs, format!("a reconcile of the operator panics: {reason}"), &[])
        }
        End::StepFailed { step, reason } => violation(
            Oracle::Steps,
            format!("the step {step:?} does not succeed: {reason}"),
            &[],
        ),
        End::OperatorEnded { reason } => {
            violation(Oracle::Runs, format!("the operator does not run: {reason}"), &[])
        }
        End::Leaked { tasks } => violation(
            Oracle::Runs,
            format!(
                "{tasks} tasks of the operator keep running after its crash, because it spawned them with tokio::spawn: \
                 spawn them in a JoinSet that the reconciler or a runnable holds, so that they end with it"
            ),
            &[],
        ),
        End::Overlap { controller, request } => violation(
            Oracle::OneAtATime,
            format!("controller {controller} runs two reconciles of {request} at the same time"),
            &[],
        ),
        End::CheckFailed { check, when } => {
            violation(Oracle::Check, format!("{check:?} does not hold {when}"), &[])
        }
    }
}

/// Judges the writes of a run alone: fields of other programs that an operator removed.
pub(crate) fn judge_writes(trace: &[Entry]) -> Option<Violation> {
    changes(trace).find_map(|change| {
        let (path, writer) = change.trespass.as_ref()?;
        let title = format!(
            "{} removes {path} of {}, which {writer} wrote, by replacing the whole object: apply the fields that it owns",
            change.actor, change.id
        );
        let suspect = Suspect::about(&change.family.to_string());
        Some(Violation { oracle: Oracle::Trespass, title, suspect, details: Vec::new() })
    })
}

/// Parts of the messages with which the API server refuses a request for good. A conflict with an object does not last, unless the
/// operator ignores the object: in a world that is quiet, no other program changes it.
const REFUSED: [&str; 4] =
    [" is forbidden: ", " is invalid: ", " already exists", "Operation cannot be fulfilled on "];

/// Judges the end of the run without faults: a request that the API server will never carry out, and an object that the user has deleted and
/// that a finalizer of the operator keeps.
pub(crate) fn judge_last_world(outcome: &Outcome) -> Option<Violation> {
    let violation = |title: String, suspect| {
        let details = Vec::new();
        Some(Violation { oracle: Oracle::Succeeds, title, suspect, details })
    };
    let is_refused = |error: &str| REFUSED.iter().any(|refused| error.contains(refused));
    // Other failing requests may succeed later, such as those that wait for an object of the user. There is
    // no run to compare with here.
    if let Some((request, error)) = outcome.failing.iter().find(|(_, error)| is_refused(error)) {
        return violation(format!("{request} fails forever: {error}"), Suspect::CallOf(error.clone()));
    }
    let (_, last) = outcome.quiet.last_key_value()?;
    let is_terminating = |state: &ObjectState| !state.whole()["metadata"]["deletionTimestamp"].is_null();
    for (id, state) in last.world.objects.iter().filter(|(_, state)| is_terminating(state)) {
        // Only finalizers that the operator added count: those of others, such as the server's, wait for
        // programs that the simulation does not run.
        let own = own_finalizers(id, &outcome.trace);
        if let Some(finalizer) = finalizers(state).intersection(&own).next() {
            let title =
                format!("{id} is never deleted: the operator does not remove its finalizer {finalizer}");
            return violation(title, Suspect::about(&id.to_string()));
        }
    }
    None
}

/// Finalizers that processes under test have added to an object.
fn own_finalizers(id: &ObjectId, trace: &[Entry]) -> BTreeSet<String> {
    let of = |state: &Option<Arc<ObjectState>>| state.as_deref().map(finalizers).unwrap_or_default();
    let own = changes(trace).filter(|change| change.id == *id && change.actor.is_operator());
    own.flat_map(|change| &of(&change.after) - &of(&change.before)).collect()
}

fn finalizers(state: &ObjectState) -> BTreeSet<String> {
    let all = state.whole()["metadata"]["finalizers"].as_array().into_iter().flatten();
    all.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Judges a run by the one without faults. Allowed violations do not count. `at_other_paces` plays runs without faults in which the user is slower and
/// faster.
pub(crate) fn judge<'a>(
    expected: &Expected,
    outcome: &Outcome,
    plan: &Plan,
    is_allowed: &dyn Fn(Oracle) -> bool,
    at_other_paces: &dyn Fn() -> &'a [CountsOfSteps],
) -> Option<Violation> {
    let reference = &expected.outcome;
    // A run that ended early, because it had become equal, is compared with the run without faults at that step.
    let merged = outcome.merged_after.and_then(|step| reference.quiet.get(&step));
    let counts = merged.map_or(&reference.counts, |quiet| &quiet.counts);
    let failing = merged.map_or(&reference.failing, |quiet| &quiet.failing);
    let reaches = plan.deviations.iter().any(|deviation| deviation.what.reaches_over_a_step());
    let learned = &expected.learned;
    let by_family = |counts: &BTreeMap<ObjectId, Counts>| sums_of_families(counts, learned);
    let may_miss = reaches && is_deleted_before_its_first_write(&reference.trace, &outcome.trace);
    let tolerance = Tolerance { between_steps: reaches, missing_objects: may_miss };
    // The first violation is reported. A run that ended early would violate later rules as a consequence.
    let rules: [&dyn Fn() -> Option<Violation>; 6] = [
        &|| judge_end(&outcome.end),
        &|| compare_leads(&reference.without_lead, &outcome.without_lead),
        &|| judge_writes(&outcome.trace),
        &|| compare_worlds(expected, outcome, tolerance, is_allowed),
        &|| {
            let (mut expected, mut found) =
                (vec![by_family(counts)], by_family(&lasting_counts(outcome, plan)));
            compare_counts(&expected, &found, reaches)?;
            // Looked up only now, because it parses the objects.
            leave_out_orphans(&orphans(&outcome.trace, learned, plan), &expected[0], &mut found);
            compare_counts(&expected, &found, reaches)?;
            let others = at_other_paces();
            expected.extend(others.iter().map(|other| by_family(other.after(outcome.merged_after))));
            compare_counts(&expected, &found, reaches)
        },
        &|| compare_failures(failing, &outcome.failing),
    ];
    let mut violations = rules.iter().filter_map(|rule| rule());
    violations.find(|violation| !is_allowed(violation.oracle))
}

/// Whether an object was deleted before the operator first wrote to it, unlike in the run without faults. The operator had not set a
/// finalizer, so it may never have seen the object, and then does none of the work that a deletion causes.
fn is_deleted_before_its_first_write(reference: &[Entry], trace: &[Entry]) -> bool {
    let unmarked = |trace| -> BTreeSet<&ObjectId> {
        let mut marked = BTreeSet::new();
        let deleted = changes(trace).filter(|change| {
            let is_tested = matches!(&change.actor, Actor::Process { process, .. } if process.is_tested);
            if is_tested {
                marked.insert(&change.id);
            }
            change.verb == Verb::Deleted && !marked.contains(&change.id)
        });
        deleted.map(|change| &change.id).collect()
    };
    let expected = unmarked(reference);
    unmarked(trace).iter().any(|id| !expected.contains(id))
}

fn changes(trace: &[Entry]) -> impl Iterator<Item = &Change> {
    trace.iter().filter_map(|entry| match &entry.action {
        Action::Committed(change) => Some(&**change),
        _ => None,
    })
}

/// Differences between worlds that the plan makes possible, and that are no violations.
#[derive(Debug, Clone, Copy)]
struct Tolerance {
    /// Any difference before the last step is done.
    between_steps: bool,
    /// Objects that are missing.
    missing_objects: bool,
}

/// Compares the worlds after each step, when they were quiet. Differences that violate an allowed rule do not hide others.
fn compare_worlds(
    expected: &Expected,
    outcome: &Outcome,
    tolerance: Tolerance,
    is_allowed: &dyn Fn(Oracle) -> bool,
) -> Option<Violation> {
    let last = expected.outcome.quiet.keys().last().copied().unwrap_or_default();
    let last = outcome.merged_after.unwrap_or(last);
    // An operator that was down or late during a step may have skipped its state, but must reach the last
    // one.
    let first = if tolerance.between_steps { last } else { 0 };
    for (step, found) in outcome.quiet.range(first..) {
        let mut differences = expected.differences(*step, &found.world);
        differences
            .retain(|difference| !tolerance.missing_objects || !matches!(difference, Difference::Missing(_)));
        differences.retain(|difference| !is_allowed(rule_of(difference)));
        let Some(difference) = differences.first() else { continue };
        let suspect = match difference {
            Difference::Value { name, path, expected: Some(value), .. } => {
                // If a value should be that of another object, either of the two may be wrong.
                let others = expected.places_of_ids_in(*step, value);
                let names = std::iter::once(&**name).chain(others.iter().map(|other| &**other));
                Suspect::about_all(names).of_field(path)
            }
            Difference::Value { name, path, expected: None, .. } => Suspect::about(name).of_field(path),
            Difference::Missing(name) | Difference::Extra(name) => Suspect::about(name),
        };
        let oracle = rule_of(difference);
        let (when, suspect) = match *step {
            step if step == last => ("at the end".to_owned(), suspect),
            step => (format!("after step {step}"), suspect.until(step)),
        };
        let title = format!("{when}, {difference}");
        let others = differences.iter().skip(1).filter_map(|difference| match difference {
            Difference::Value { name, path, .. } => Some((name.clone(), path.clone())),
            Difference::Missing(_) | Difference::Extra(_) => None,
        });
        let suspect = suspect.with_others(others.collect());
        let details = differences.iter().skip(1).take(3).map(ToString::to_string).collect();
        return Some(Violation { oracle, title, suspect, details });
    }
    None
}

/// Rule that a difference of two worlds violates.
fn rule_of(difference: &Difference) -> Oracle {
    if difference.name().starts_with("remote ") { Oracle::SameRemotes } else { Oracle::SameObjects }
}

/// Finds a write that a process sends while another replica leads. A write that is also sent so without faults needs no leadership.
fn compare_leads(expected: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> Option<Violation> {
    let (call, processes) = found.iter().find(|(call, _)| !expected.contains_key(*call))?;
    let title = format!("{processes}; the former still sends: {call}");
    Some(Violation { oracle: Oracle::OneAtATime, title, suspect: Suspect::Unknown, details: Vec::new() })
}

/// Finds a request that still fails although nothing has changed for longer than the longest back-off.
fn compare_failures(
    expected: &BTreeMap<String, String>,
    found: &BTreeMap<String, String>,
) -> Option<Violation> {
    let (request, error) = found.iter().find(|(request, _)| !expected.contains_key(*request))?;
    let title = format!("{request} fails forever, and succeeds in the run without faults: {error}");
    Some(Violation { oracle: Oracle::Succeeds, title, suspect: Suspect::Unknown, details: Vec::new() })
}

#[cfg(test)]
mod tests;
