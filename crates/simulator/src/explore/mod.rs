//! Search: the order in which plans are tried, and the report.

mod combined_plans;
mod environment;
mod finding;
pub(crate) mod jobs;
mod reference;
mod shrink;
mod strategies;

use std::{fmt, time::Duration};

use serde_json::json;

pub use self::finding::Finding;
use self::strategies::{Extent, plans};
pub(crate) use self::{
    environment::Settings,
    reference::{Reference, Tried},
};
use crate::{
    definition::{Definition, When},
    plan::Plan,
};

/// Default of [`Explore::budget`].
const BUDGET: Duration = Duration::from_secs(10);

/// Default of [`Explore::runs`].
const RUNS: usize = 1000;

/// The deviations from the run without faults that a search tries, and the time that it may take.
#[derive(Debug, Clone)]
#[must_use]
pub struct Explore {
    strategies: Vec<Strategy>,
    budget: Duration,
    depth: usize,
}

/// A kind of deviation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strategy {
    Crashes,
    Staleness,
    LostAnswers,
    Refusals,
    Unobserved,
    Order,
    EarlySteps,
    Failovers,
    Pauses,
    Random { seed: u64, runs: usize },
}

impl Strategy {
    /// All strategies that try each plan once.
    const SWEEPS: [Self; 9] = [
        Self::Crashes,
        Self::Staleness,
        Self::LostAnswers,
        Self::Refusals,
        Self::Unobserved,
        Self::Order,
        Self::EarlySteps,
        Self::Failovers,
        Self::Pauses,
    ];
}

/// Names of strategies, each once.
fn names(strategies: &[Strategy]) -> Vec<String> {
    let mut names: Vec<String> = strategies.iter().map(ToString::to_string).collect();
    names.dedup();
    names
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Crashes => "crashes",
            Self::Staleness => "staleness",
            Self::LostAnswers => "lost answers",
            Self::Refusals => "refusals",
            Self::Unobserved => "unobserved",
            Self::Order => "order",
            Self::EarlySteps => "early steps",
            Self::Failovers => "failovers",
            Self::Pauses => "pauses",
            Self::Random { .. } => "random",
        })
    }
}

impl Explore {
    fn only(strategy: Strategy) -> Self {
        Self { strategies: vec![strategy], budget: BUDGET, depth: 1 }
    }

    /// The operator crashes before its first write, and after each write that changes something, before it receives the answer. It
    /// is started again at once, and in other runs after the user's next step. It also crashes while nothing changes after a step.
    pub fn crashes() -> Self {
        Self::only(Strategy::Crashes)
    }

    /// Starting with each event of the operator's watches, the events of that resource are held back: until one more
    /// event has come, so that a state is skipped; until events of another resource have come, so that these come
    /// first; for one to three reconciles; until the user's next step is done; and for a second. Other runs deliver
    /// the events one by one, or each a second late.
    pub fn staleness() -> Self {
        Self::only(Strategy::Staleness)
    }

    /// A watch ends with 410 and its last events are lost, so that the operator lists again and never receives these
    /// states.
    pub fn unobserved() -> Self {
        Self::only(Strategy::Unobserved)
    }

    /// The garbage collector, which otherwise acts last, acts between a write and its answer; actions that are possible at the same
    /// moment happen in random orders; and a write is carried out only when other reconciles of its step have written. Events of a watch
    /// do not overtake each other.
    pub fn order() -> Self {
        Self::only(Strategy::Order)
    }

    /// Each write that changes something is carried out, and the connection breaks before the answer. In other runs the retry
    /// also comes before the watch reports the write.
    pub fn lost_answers() -> Self {
        Self::only(Strategy::LostAnswers)
    }

    /// Each write is refused once with 409, 429, 500, 503, and by a broken connection, and the first read of each name in a step with 500
    /// and by a broken connection. In other runs a resource or remote system refuses all
    /// requests of the operator for a minute.
    pub fn refusals() -> Self {
        Self::only(Strategy::Refusals)
    }

    /// The user's next step begins before a write, and the write is carried out when the step is done. In other runs the reconciles that
    /// the step leads to also end before the write.
    pub fn early_steps() -> Self {
        Self::only(Strategy::EarlySteps)
    }

    /// With [replicas](crate::Simulation::replicas): the leader is cut off at a write, and the write is carried out
    /// when another replica leads; or a standby that has received no event about a resource for some steps becomes the
    /// leader.
    pub fn failovers() -> Self {
        Self::only(Strategy::Failovers)
    }

    /// Requests, answers and watch events of the operator are held back for 11, 16 and 61 virtual seconds from a write on. Its
    /// timers run.
    pub fn pauses() -> Self {
        Self::only(Strategy::Pauses)
    }

    /// Plans of two to four deviations, drawn from all kinds with this seed. Each plan draws which kinds it uses.
    pub fn random(seed: u64) -> Self {
        Self::only(Strategy::Random { seed, runs: RUNS })
    }

    /// All deviations that are tried one by one.
    pub fn all() -> Self {
        Self { strategies: Strategy::SWEEPS.to_vec(), budget: BUDGET, depth: 1 }
    }

    /// Adds the deviations of `other`. The longer budget and the larger depth of both apply.
    pub fn and(mut self, other: Self) -> Self {
        self.strategies.extend(other.strategies);
        self.strategies.sort_unstable();
        self.strategies.dedup();
        self.budget = self.budget.max(other.budget);
        self.depth = self.depth.max(other.depth);
        self
    }

    /// Sets the real time after which no more runs with faults begin. Default: 10 seconds. The environment variable
    /// `SIMULATION_BUDGET`, such as `60s`, overrides it. [`Report::played`] is the number of plans that were tried.
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the number of deviations in a plan. Default: 1. With 2, pairs of a [crash](Self::crashes) and
    /// [delayed watch events](Self::staleness) of the same object are also tried, and crashes after each of the first three writes that
    /// follow a crash.
    pub fn depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }

    /// Sets the number of [random](Self::random) plans. Default: 1000. The budget may end the search before all of them
    /// are tried.
    pub fn runs(mut self, number: usize) -> Self {
        for strategy in &mut self.strategies {
            if let Strategy::Random { runs, .. } = strategy {
                *runs = number;
            }
        }
        self
    }

    /// Adds a random plan for each seed of the environment.
    fn with_seeds(mut self, settings: &Settings) -> Self {
        self.strategies.extend(settings.seeds.clone().map(|seed| Strategy::Random { seed, runs: 1 }));
        self
    }
}

impl Default for Explore {
    /// [`Explore::all`].
    fn default() -> Self {
        Self::all()
    }
}

/// Extent of a search that found nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Number of plans.
    pub plans: usize,
    /// Number of plans that were played within the budget.
    pub played: usize,
    /// Number of plans that showed nothing, because their deviation did not happen.
    pub did_not_happen: usize,
    strategies: Vec<Strategy>,
    /// Conditions of [`Simulation::sometimes`](crate::Simulation::sometimes) that held in no run.
    pub never: Vec<String>,
}

impl Report {
    /// The report as JSON, for `SIMULATION_REPORT`.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        json!({
            "plans": self.plans,
            "played": self.played,
            "didNotHappen": self.did_not_happen,
            "never": self.never,
            "strategies": names(&self.strategies),
        })
    }

    /// Report of a search that has played nothing yet.
    pub(crate) fn of_no_plan() -> Self {
        Self { plans: 0, played: 0, did_not_happen: 0, strategies: Vec::new(), never: Vec::new() }
    }

    /// Report of a search whose shares have these reports, as JSON. A condition has never held if it held in no share.
    fn of_parts(parts: &[serde_json::Value]) -> Self {
        let sum = |name: &str| {
            let numbers = parts.iter().filter_map(|part| usize::try_from(part[name].as_u64()?).ok());
            numbers.sum::<usize>()
        };
        let never = |part: &serde_json::Value| -> Vec<String> {
            let names = part["never"].as_array().into_iter().flatten();
            names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        // Each share plays other plans, so only a condition that is in the list of every share has never
        // held.
        let mut shared = parts.first().map(never).unwrap_or_default();
        for part in parts {
            let never = never(part);
            shared.retain(|name| never.contains(name));
        }
        Self {
            plans: sum("plans"),
            played: sum("played"),
            did_not_happen: sum("didNotHappen"),
            never: shared,
            ..Self::of_no_plan()
        }
    }

    /// Checks that the conditions of [`Simulation::sometimes`](crate::Simulation::sometimes) have held, if all plans were played.
    ///
    /// # Panics
    ///
    /// One has not.
    pub(crate) fn check_conditions(&self, simulation: &str) {
        assert!(
            self.never.is_empty() || !self.is_complete(),
            "the simulation {simulation:?} does not test its subject: no run met the conditions {:?} of Simulation::sometimes",
            self.never
        );
    }

    /// Report of a replay.
    pub(crate) fn of_one_plan() -> Self {
        Self { plans: 1, played: 1, ..Self::of_no_plan() }
    }

    /// Whether all plans were played.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.played == self.plans
    }
}

/// Formats as `crashes, refusals: 40 of 40 plans played`.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strategies = names(&self.strategies);
        let name = if strategies.is_empty() { "replay".to_owned() } else { strategies.join(", ") };
        write!(f, "{name}: {} of {} plans played", self.played, self.plans)?;
        if !self.is_complete() {
            write!(f, "; the budget ended before the rest")?;
        }
        if self.did_not_happen > 0 {
            write!(f, "; in {} the deviation did not happen", self.did_not_happen)?;
        }
        Ok(())
    }
}

/// Tries plans until one violates a rule, all are played, or the budget ends: first `saved` ones, then those of the strategies.
///
/// # Errors
///
/// The first finding, with a plan that is as small as possible.
pub(crate) fn search(
    definition: &Definition,
    explore: Explore,
    saved: &[(String, Plan)],
    settings: &Settings,
) -> Result<Report, Box<Finding>> {
    let budget = settings.budget.unwrap_or(explore.budget);
    let explore = explore.with_seeds(settings);
    let sweeps_crashes = explore.strategies.contains(&Strategy::Crashes);
    let reference =
        if sweeps_crashes { Reference::with_crash_points(definition)? } else { Reference::new(definition)? };
    // The runs without faults do not count, so that each search plays a plan.
    let began = real_time();
    // Saved plans come first: the budget never ends the search before a known bug is looked for again.
    for (name, plan) in saved {
        let Tried { finding, happened, .. } =
            reference.try_plan(definition, plan, &format!("saved as {name}"));
        if let Some(finding) = finding {
            return Err(Box::new(finding));
        }
        assert!(
            happened,
            "simulation {:?}: a deviation of the plan in {name} does not happen any more, so the file tests nothing: \
             remove it, or correct its plan:\n{plan}",
            definition.name
        );
    }
    let replicas = definition.programs.first().map_or(1, |program| program.replicas);
    let extent = Extent { steps: definition.steps.len(), replicas, depth: explore.depth };
    let plans = plans(reference.outcome(), extent, &explore.strategies);
    let mut shows_something = !reference.outcome().writes.is_empty() || !definition.checks.is_empty();
    // Without faults a correct operator may have nothing to write, such as one that deletes expired objects.
    assert!(
        (shows_something || reference.outcome().reconciles()) && !plans.is_empty(),
        "the simulation {:?} tests nothing: the operator changes nothing in the run without faults, so no fault has a place. \
         Do the steps create objects that it reconciles?",
        definition.name
    );
    // All shares compute the same list of plans, because each plays the same run without faults. So a place
    // in the list is enough to divide them.
    let is_own = |(place, _): &(usize, &Plan)| settings.share.is_none_or(|share| share.has(*place));
    let own: Vec<(usize, &Plan)> = plans.iter().enumerate().filter(is_own).collect();
    let mut report = Report { plans: own.len(), strategies: explore.strategies, ..Report::of_no_plan() };
    let mut held = reference.outcome().held.clone();
    for (number, plan) in own {
        if real_time().duration_since(began) >= budget {
            break;
        }
        let place = format!("plan {} of {}", number + 1, plans.len());
        let Tried { finding, happened, held: also_held, writes } =
            reference.try_plan(definition, plan, &place);
        if let Some(finding) = finding {
            // Earlier plans of this share found nothing, so only later ones can replace the plan of this
            // finding.
            let others = &plans[number + 1..];
            return Err(Box::new(shrink::shrink(definition, &reference, finding, &place, others, budget)));
        }
        report.played += 1;
        report.did_not_happen += usize::from(!happened);
        held.extend(also_held);
        shows_something |= writes;
    }
    assert!(
        // The writes may be in plans that the budget left out, or in those of another share.
        shows_something || !report.is_complete() || settings.share.is_some(),
        "the simulation {:?} tests nothing: the operator changes nothing in any run. Do the steps create objects that it reconciles?",
        definition.name
    );
    let checks = definition.checks.iter().enumerate();
    let never = checks.filter(|(place, check)| check.when == When::Sometimes && !held.contains(place));
    report.never = never.map(|(_, check)| check.name.to_string()).collect();
    Ok(report)
}

#[expect(clippy::disallowed_methods, reason = "the budget of a search is real time; no run depends on it")]
fn real_time() -> std::time::Instant {
    std::time::Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_has_never_held_if_it_held_in_no_share() {
        let part = |never: &[&str]| json!({ "plans": 2, "played": 1, "didNotHappen": 1, "never": never });
        let report = Report::of_parts(&[part(&["a", "b"]), part(&["b", "c"])]);
        assert_eq!((report.plans, report.played, report.did_not_happen), (4, 2, 2));
        assert_eq!(report.never, ["b"]);
    }

    #[test]
    fn a_report_says_when_the_budget_ended_first() {
        let report = |played, did_not_happen| {
            let strategies = vec![Strategy::Crashes];
            Report { plans: 7, played, did_not_happen, strategies, never: Vec::new() }.to_string()
        };
        assert_eq!(report(7, 0), "crashes: 7 of 7 plans played");
        assert_eq!(report(3, 0), "crashes: 3 of 7 plans played; the budget ended before the rest");
        assert_eq!(report(7, 1), "crashes: 7 of 7 plans played; in 1 the deviation did not happen");
    }
}
