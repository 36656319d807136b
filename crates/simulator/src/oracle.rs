//! Judgement of a run by comparison with the run without faults.

use std::{collections::BTreeMap, fmt};

use crate::{
    names::ObjectId,
    plan::{Plan, Restart, What},
    run::{End, Outcome},
    similar::{Difference, Learned, compare, normal_form},
    truth::Counts,
};

/// Rule that a run violates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Oracle {
    /// Whenever the world is quiet, its objects equal those of the run without faults.
    SameObjects,
    /// Objects are created and deleted as often as in the run without faults.
    SameCounts,
    /// Remote systems end in the states of the run without faults.
    SameRemotes,
    /// The world becomes quiet.
    Quiet,
    /// The operator runs until it is stopped.
    Runs,
    /// The steps of the user succeed.
    Steps,
    /// A check of the simulation holds.
    Check,
    /// Two runs of one plan are equal.
    Repeats,
}

/// Formats as in reports, such as `same objects`.
impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SameObjects => "same objects",
            Self::SameCounts => "same counts",
            Self::SameRemotes => "same remotes",
            Self::Quiet => "quiet",
            Self::Runs => "runs",
            Self::Steps => "steps",
            Self::Check => "check",
            Self::Repeats => "repeats",
        })
    }
}

/// A violated rule, and the violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) oracle: Oracle,
    pub(crate) title: String,
    /// Further facts, one a line.
    pub(crate) details: Vec<String>,
}

/// Judges the end of a run alone, by the rules for every run.
pub(crate) fn judge_end(end: &End) -> Option<Violation> {
    let violation = |oracle, title: String, details: &[String]| {
        Some(Violation { oracle, title, details: details.to_vec() })
    };
    match end {
        End::Quiet => None,
        End::NeverQuiet { changes } => violation(
            Oracle::Quiet,
            "objects change for ever: an hour after the last step or crash they still do".to_owned(),
            changes,
        ),
        End::Loop { actions } => violation(
            Oracle::Quiet,
            "actions follow each other without end, and no time passes".to_owned(),
            actions,
        ),
        End::StepFailed { step, reason } => violation(
            Oracle::Steps,
            format!("the step {step:?} does not succeed within ten minutes: {reason}"),
            &[],
        ),
        End::OperatorEnded { reason } => {
            violation(Oracle::Runs, format!("the operator does not run: {reason}"), &[])
        }
        End::Leaked { tasks } => violation(
            Oracle::Runs,
            format!(
                "{tasks} tasks of the operator survive its crash, which those of a process do not: \
                 it spawns them with tokio::spawn; a JoinSet that the reconciler or a runnable holds ends them"
            ),
            &[],
        ),
        End::CheckFailed { check, when } => {
            violation(Oracle::Check, format!("{check:?} does not hold {when}"), &[])
        }
    }
}

/// Judges a run by the one without faults.
pub(crate) fn judge(
    reference: &Outcome,
    learned: &Learned,
    outcome: &Outcome,
    plan: &Plan,
) -> Option<Violation> {
    judge_end(&outcome.end)
        .or_else(|| compare_worlds(reference, learned, outcome, plan))
        .or_else(|| compare_counts(&reference.counts, &outcome.counts, reaches_over_a_step(plan)))
}

/// Whether an operator is down or misses news during a step, so that states between steps may differ and changes may be merged.
fn reaches_over_a_step(plan: &Plan) -> bool {
    let is_late = |what| {
        matches!(
            what,
            What::CrashBefore(Restart::AfterNextStep)
                | What::CrashAfter(Restart::AfterNextStep)
                | What::Hold(_)
        )
    };
    plan.deviations.iter().any(|deviation| is_late(deviation.what))
}

fn compare_worlds(
    reference: &Outcome,
    learned: &Learned,
    outcome: &Outcome,
    plan: &Plan,
) -> Option<Violation> {
    let last = reference.quiet.len().saturating_sub(1);
    let first = if reaches_over_a_step(plan) { last } else { 0 };
    let moments = reference.quiet.iter().zip(&outcome.quiet).enumerate().skip(first);
    for (step, (expected, found)) in moments {
        let differences = compare(&normal_form(expected, learned), &normal_form(found, learned));
        let Some(difference) = differences.first() else { continue };
        let is_remote = match difference {
            Difference::Missing(name) | Difference::Extra(name) | Difference::Value { name, .. } => {
                name.starts_with("remote ")
            }
        };
        let oracle = if is_remote { Oracle::SameRemotes } else { Oracle::SameObjects };
        let when = if step == last { "at the end".to_owned() } else { format!("after step {step}") };
        let title = format!("{when}, {difference}");
        let details = differences.iter().skip(1).take(3).map(ToString::to_string).collect();
        return Some(Violation { oracle, title, details });
    }
    None
}

/// Compares creations and deletions. Fewer are no violation if changes were merged while the operator was down.
fn compare_counts(
    expected: &BTreeMap<ObjectId, Counts>,
    found: &BTreeMap<ObjectId, Counts>,
    may_be_fewer: bool,
) -> Option<Violation> {
    let ids: std::collections::BTreeSet<&ObjectId> = expected.keys().chain(found.keys()).collect();
    let differs = |expected: u32, found: u32| found > expected || (found < expected && !may_be_fewer);
    for id in ids {
        let of = |counts: &BTreeMap<ObjectId, Counts>| counts.get(id).copied().unwrap_or_default();
        let (expected, found) = (of(expected), of(found));
        for (verb, expected, found) in
            [("created", expected.created, found.created), ("deleted", expected.deleted, found.deleted)]
        {
            if differs(expected, found) {
                let title = format!("{id} {verb} {found} times, {expected} times in the run without faults");
                return Some(Violation { oracle: Oracle::SameCounts, title, details: Vec::new() });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_creations_are_always_a_violation_and_fewer_only_if_nothing_was_merged() {
        let id = ObjectId::new("", "configmaps", "a", "x");
        let counts = |created| BTreeMap::from([(id.clone(), Counts { created, deleted: 0 })]);
        let title = |expected, found, merged| {
            compare_counts(&counts(expected), &counts(found), merged).map(|violation| violation.title)
        };
        let more = "configmaps a/x created 2 times, 1 times in the run without faults";
        assert_eq!(title(1, 2, false).as_deref(), Some(more));
        assert_eq!(title(1, 2, true).as_deref(), Some(more));
        assert!(title(2, 1, false).is_some());
        assert_eq!(title(2, 1, true), None);
        assert_eq!(title(1, 1, false), None);
    }
}
