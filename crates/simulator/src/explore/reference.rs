//! The run without faults, by which others are judged.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Duration;

use super::finding::Finding;
use crate::{
    definition::Definition,
    judge::{Violation, judge, judge_end, judge_writes},
    oracle::Oracle,
    plan::Plan,
    run::{Limits, Outcome, Seed, play},
    similar::{Learned, learn},
    trace::{Suspect, first_difference},
};

/// Seed of all runs but the one that shows which values differ from run to run.
const SEED: Seed = Seed(0);
const OTHER_SEED: Seed = Seed(1);

/// Number of additional runs that must show the same if the thread was blocked at one action in the first three.
const CHECKS: usize = 3;

/// The run without faults, and the values that may differ from it.
pub(crate) struct Reference {
    pub(super) outcome: Outcome,
    learned: Learned,
    limits: Limits,
}

/// Result of a plan.
pub(crate) struct Tried {
    pub(crate) finding: Option<Finding>,
    /// Whether all its deviations happened.
    pub(crate) happened: bool,
    /// Conditions on changes that have held, as indices of the definition's checks.
    pub(crate) held: BTreeSet<usize>,
}

impl Reference {
    /// Plays the run without faults three times: twice with one seed, which must repeat, and once with another.
    ///
    /// # Errors
    ///
    /// The run itself violates a rule, or does not repeat.
    pub(crate) fn new(definition: &Definition) -> Result<Self, Box<Finding>> {
        let definition = &Definition { looks_at_real_time: true, ..definition.clone() };
        let (plan, none) = (Plan::default(), Limits::default());
        let find = |violation: &Violation, run: &Outcome, other: Option<&Outcome>| {
            Box::new(Finding::new("the run has no faults", violation, &plan, run, other))
        };
        let judge_alone = |run: &Outcome| {
            let violations = [judge_end(&run.end), judge_writes(&run.trace)].into_iter().flatten();
            violations.into_iter().find(|violation| !definition.allows(violation.oracle))
        };
        let outcome = play(definition, &plan, SEED, &none);
        if let Some(violation) = judge_alone(&outcome) {
            return Err(find(&violation, &outcome, None));
        }
        // A place where the thread is blocked must show in each run, so without one the others need not look.
        let looks_at_real_time = !outcome.blocked.is_empty();
        let definition = &Definition { looks_at_real_time, ..definition.clone() };
        let again = play(definition, &plan, SEED, &none);
        if let Some((line, one, other)) = first_difference(&outcome.trace, &again.trace) {
            let violation = Violation {
                oracle: Oracle::Repeats,
                title: format!(
                    "two equal runs differ at line {line}: the operator depends on something other than the API server, \
                     its remote systems and tokio's time, such as hash order, random numbers, the system's clock or threads"
                ),
                suspect: Suspect::Unknown,
                details: vec![format!("first run:  {one}"), format!("second run: {other}")],
            };
            return Err(find(&violation, &again, Some(&outcome)));
        }
        let other = play(definition, &plan, OTHER_SEED, &none);
        if let Some(violation) = judge_alone(&other) {
            return Err(find(&violation, &other, Some(&outcome)));
        }
        if let Some(violation) = judge_real_time(definition, &[&outcome, &again, &other])
            && !definition.allows(violation.oracle)
        {
            return Err(find(&violation, &outcome, None));
        }
        let mut learned = Learned::masking(&definition.masks);
        for (step, one) in &outcome.quiet {
            let Some(other_world) = other.quiet.get(step) else { continue };
            match learn(one, other_world, &definition.masks) {
                Ok(more) => learned.extend(more),
                Err(differences) => {
                    let violation = Violation {
                        oracle: Oracle::Repeats,
                        title: "two runs without faults, with different seeds and dates, end differently"
                            .to_owned(),
                        suspect: Suspect::Unknown,
                        details: differences.iter().take(3).map(ToString::to_string).collect(),
                    };
                    return Err(find(&violation, &other, Some(&outcome)));
                }
            }
        }
        let limits = Limits::by(&outcome);
        Ok(Self { outcome, learned, limits })
    }

    /// Plays a plan. Without a finding it violates nothing.
    pub(crate) fn try_plan(&self, definition: &Definition, plan: &Plan, place: &str) -> Tried {
        let outcome = play(definition, plan, SEED, &self.limits);
        let is_allowed = |oracle| definition.allows(oracle);
        let violation = judge(&self.outcome, &self.learned, &outcome, plan, &is_allowed);
        let finding =
            violation.map(|violation| Finding::new(place, &violation, plan, &outcome, Some(&self.outcome)));
        Tried { finding, happened: outcome.did_not_happen.is_empty(), held: outcome.held }
    }
}

/// Finds an operator that waits in real time: the thread is blocked after the same action in each run. A busy machine may block it
/// anywhere, so the runs are repeated to be sure.
fn judge_real_time(definition: &Definition, runs: &[&Outcome]) -> Option<Violation> {
    let mut places = runs.first()?.blocked.clone();
    let stays_blocked = |places: &mut BTreeMap<usize, Duration>, run: &Outcome| {
        places.retain(|place, time| {
            run.blocked.get(place).is_some_and(|other| {
                *time = (*time).min(*other);
                true
            })
        });
    };
    runs.iter().for_each(|run| stays_blocked(&mut places, run));
    for _ in 0..CHECKS {
        if places.is_empty() {
            return None;
        }
        let run = play(definition, &Plan::default(), SEED, &Limits::default());
        stays_blocked(&mut places, &run);
    }
    let (place, time) = places.into_iter().max_by_key(|(_, time)| *time)?;
    let entry = place.checked_sub(1).and_then(|last| runs.first()?.trace.get(last));
    let after = entry.map(|entry| entry.to_string().trim().to_owned()).unwrap_or_default();
    Some(Violation {
        oracle: Oracle::Runs,
        title: format!(
            "the operator blocks its thread for {} ms of real time in each run, after: {after}",
            time.as_millis()
        ),
        suspect: Suspect::Unknown,
        details: vec![
            "use tokio::time::sleep instead of std::thread::sleep, and a Remote for other systems".to_owned(),
        ],
    })
}
