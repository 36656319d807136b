//! Search: the order in which plans are tried, and the report.

use std::{collections::BTreeSet, fmt, time::Duration};

use crate::{
    definition::Definition,
    oracle::{Oracle, Violation, judge, judge_end},
    plan::{Deviation, Plan, Refusal, Restart, Until, What},
    run::{ArrivedLine, Outcome, Seed, Write, play},
    similar::{Learned, learn},
    trace::{first_difference, story},
};

/// Default of [`Explore::budget`].
const BUDGET: Duration = Duration::from_secs(10);

/// Which deviations from the run without faults are tried, and for how long.
#[derive(Debug, Clone)]
#[must_use]
pub struct Explore {
    strategies: Vec<Strategy>,
    budget: Duration,
}

/// A kind of deviation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strategy {
    Crashes,
    Staleness,
    LostAnswers,
    Refusals,
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Crashes => "crashes",
            Self::Staleness => "staleness",
            Self::LostAnswers => "lost answers",
            Self::Refusals => "refusals",
        })
    }
}

impl Explore {
    fn only(strategy: Strategy) -> Self {
        Self { strategies: vec![strategy], budget: BUDGET }
    }

    /// The operator dies before its first write, and after each write that changes something, before it receives the answer. It is
    /// started again at once, and in further runs after the user's next step.
    pub fn crashes() -> Self {
        Self::only(Strategy::Crashes)
    }

    /// From each line of the operator's watches on, lines about its resource are held back: for one more line, so that a state is
    /// skipped; for lines of another resource, so that these come first; for one to three reconciles; until the user's next step
    /// is done; and for a second. Further runs hand the lines over one by one.
    pub fn staleness() -> Self {
        Self::only(Strategy::Staleness)
    }

    /// Each write that changes something is carried out, and the connection breaks before the answer.
    pub fn lost_answers() -> Self {
        Self::only(Strategy::LostAnswers)
    }

    /// Each write is refused once with 409, 429, 500, 503, and by a broken connection.
    pub fn refusals() -> Self {
        Self::only(Strategy::Refusals)
    }

    /// All deviations that are implemented.
    pub fn all() -> Self {
        Self::crashes().and(Self::staleness()).and(Self::lost_answers()).and(Self::refusals())
    }

    /// Adds the deviations of `other`. The longer budget counts.
    pub fn and(mut self, other: Self) -> Self {
        self.strategies.extend(other.strategies);
        self.strategies.sort_unstable();
        self.strategies.dedup();
        self.budget = self.budget.max(other.budget);
        self
    }

    /// Sets the real time after which no further run begins. Default: 10 seconds. The [`Report`] says how far the search came.
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
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
    /// Number of plans that showed nothing, because their deviation found no place.
    pub did_not_happen: usize,
    strategies: Vec<Strategy>,
}

impl Report {
    /// Whether all plans were played.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.played == self.plans
    }
}

/// Formats as `crashes, refusals: 40 of 40 plans played`.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strategies: Vec<String> = self.strategies.iter().map(ToString::to_string).collect();
        write!(f, "{}: {} of {} plans played", strategies.join(", "), self.played, self.plans)?;
        if !self.is_complete() {
            write!(f, "; the budget ended before the rest")?;
        }
        if self.did_not_happen > 0 {
            write!(f, "; {} found no place for their deviation", self.did_not_happen)?;
        }
        Ok(())
    }
}

/// A run that violates a rule.
///
/// Its text is the story: the violation, the events, the first write that the run without faults lacks, and the plan.
#[derive(Debug, Clone)]
pub struct Finding {
    oracle: Oracle,
    text: String,
    plan: Plan,
    trace: Vec<String>,
}

impl Finding {
    /// The violated rule.
    #[must_use]
    pub fn oracle(&self) -> Oracle {
        self.oracle
    }

    /// The deviations that lead to the violation: [`Simulation::replay`](crate::Simulation::replay) plays them.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Every action of the run, one a line.
    #[must_use]
    pub fn trace(&self) -> &[String] {
        &self.trace
    }

    fn new(
        place: &str,
        violation: &Violation,
        plan: &Plan,
        run: &Outcome,
        reference: Option<&Outcome>,
    ) -> Self {
        let mut text = format!("{}\n  violates: {}", violation.title, violation.oracle);
        if !place.is_empty() {
            text.push_str(&format!("; {place}"));
        }
        for line in &violation.details {
            text.push_str(&format!("\n  also: {line}"));
        }
        let without_faults = reference.map_or(&[][..], |reference| &reference.trace);
        for line in story(&run.trace, without_faults) {
            text.push_str(&format!("\n  {line}"));
        }
        for deviation in &plan.deviations {
            text.push_str(&format!("\n  replay: {deviation}"));
        }
        Self {
            oracle: violation.oracle,
            text,
            plan: plan.clone(),
            trace: run.trace.iter().map(ToString::to_string).collect(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The run without faults, and the values that may differ from it.
pub(crate) struct Reference {
    outcome: Outcome,
    learned: Learned,
}

/// Seed of all runs but the one that shows which values differ from run to run.
const SEED: Seed = Seed(0);
const OTHER_SEED: Seed = Seed(1);

impl Reference {
    /// Plays the run without faults three times: twice with one seed, which must repeat, and once with another.
    ///
    /// # Errors
    ///
    /// The run itself violates a rule, or does not repeat.
    pub(crate) fn new(definition: &Definition) -> Result<Self, Box<Finding>> {
        let plan = Plan::default();
        let find = |violation: &Violation, run: &Outcome, other: Option<&Outcome>| {
            Box::new(Finding::new("the run has no faults", violation, &plan, run, other))
        };
        let outcome = play(definition, &plan, SEED);
        if let Some(violation) = judge_end(&outcome.end) {
            return Err(find(&violation, &outcome, None));
        }
        let again = play(definition, &plan, SEED);
        if let Some((line, one, other)) = first_difference(&outcome.trace, &again.trace) {
            let violation = Violation {
                oracle: Oracle::Repeats,
                title: format!(
                    "two equal runs differ at line {line}: the operator depends on something besides the API server, \
                     its remote systems and tokio's time, such as hash order, random numbers, the system's clock or threads"
                ),
                details: vec![format!("first run:  {one}"), format!("second run: {other}")],
            };
            return Err(find(&violation, &again, Some(&outcome)));
        }
        let other = play(definition, &plan, OTHER_SEED);
        if let Some(violation) = judge_end(&other.end) {
            return Err(find(&violation, &other, Some(&outcome)));
        }
        let mut learned = Learned::default();
        for (one, other_world) in outcome.quiet.iter().zip(&other.quiet) {
            match learn(one, other_world) {
                Ok(more) => learned.extend(more),
                Err(differences) => {
                    let violation = Violation {
                        oracle: Oracle::Repeats,
                        title: "two runs without faults, with different seeds and dates, end differently"
                            .to_owned(),
                        details: differences.iter().take(3).map(ToString::to_string).collect(),
                    };
                    return Err(find(&violation, &other, Some(&outcome)));
                }
            }
        }
        Ok(Self { outcome, learned })
    }

    /// Plays a plan; `None` if it violates nothing. The flag says whether all its deviations happened.
    pub(crate) fn try_plan(
        &self,
        definition: &Definition,
        plan: &Plan,
        place: &str,
    ) -> (Option<Finding>, bool) {
        let outcome = play(definition, plan, SEED);
        let violation = judge(&self.outcome, &self.learned, &outcome, plan);
        let finding =
            violation.map(|violation| Finding::new(place, &violation, plan, &outcome, Some(&self.outcome)));
        (finding, outcome.did_not_happen.is_empty())
    }
}

/// Tries plans until one violates a rule, all are played, or the budget ends.
///
/// # Errors
///
/// The first finding.
pub(crate) fn search(definition: &Definition, explore: Explore) -> Result<Report, Box<Finding>> {
    let began = real_time();
    let reference = Reference::new(definition)?;
    let plans = plans(&reference.outcome, definition.steps.len(), &explore.strategies);
    assert!(
        !plans.is_empty(),
        "the simulation {:?} tests nothing: the operator changes nothing in the run without faults, so no fault has a place. \
         Do the steps create objects that it reconciles?",
        definition.name
    );
    let mut report =
        Report { plans: plans.len(), played: 0, did_not_happen: 0, strategies: explore.strategies };
    for (number, plan) in plans.iter().enumerate() {
        if real_time().duration_since(began) >= explore.budget {
            break;
        }
        let place = format!("plan {} of {}", number + 1, plans.len());
        let (finding, happened) = reference.try_plan(definition, plan, &place);
        if let Some(finding) = finding {
            return Err(Box::new(finding));
        }
        report.played += 1;
        report.did_not_happen += usize::from(!happened);
    }
    Ok(report)
}

#[expect(clippy::disallowed_methods, reason = "the budget of a search is real time; no run depends on it")]
fn real_time() -> std::time::Instant {
    std::time::Instant::now()
}

/// Makes the plans of the strategies from the writes of the run without faults, in turn, so that none starves another.
fn plans(reference: &Outcome, steps: usize, strategies: &[Strategy]) -> Vec<Plan> {
    let Outcome { writes, lines, .. } = reference;
    let mut queues: Vec<_> = strategies
        .iter()
        .map(|strategy| {
            let deviations = match strategy {
                Strategy::Crashes => crashes(writes, steps),
                Strategy::Staleness => staleness(lines, steps),
                Strategy::LostAnswers => lost_answers(writes),
                Strategy::Refusals => refusals(writes),
            };
            deviations.into_iter()
        })
        .collect();
    let mut plans = Vec::new();
    loop {
        let before = plans.len();
        plans.extend(queues.iter_mut().filter_map(Iterator::next).map(Plan::of));
        if plans.len() == before {
            return plans;
        }
    }
}

fn at(write: &Write, what: What) -> Deviation {
    Deviation { what, call: write.call.clone(), number: write.number }
}

/// A crash for each world that the operator leaves behind: after each visible write, and before a write if something else changed
/// the world since the last one. First those with a restart at once.
fn crashes(writes: &[Write], steps: usize) -> Vec<Deviation> {
    let with = |restart: Restart| {
        writes.iter().enumerate().flat_map(move |(place, write)| {
            let has_restart = restart == Restart::AtOnce || write.step < steps;
            let before = (place == 0 || write.is_after_others) && has_restart;
            let after = write.is_visible && has_restart;
            let before = before.then(|| at(write, What::CrashBefore(restart)));
            before.into_iter().chain(after.then(|| at(write, What::CrashAfter(restart))))
        })
    };
    with(Restart::AtOnce).chain(with(Restart::AfterNextStep)).collect()
}

/// Holds from each line on. Skipped states need a later line about the object, and a hold until the next step needs one.
fn staleness(lines: &[ArrivedLine], steps: usize) -> Vec<Deviation> {
    let resources: BTreeSet<&str> = lines.iter().map(ArrivedLine::resource).collect();
    let apart = resources.iter().map(|resource| Deviation {
        what: What::Apart,
        call: (*resource).to_owned(),
        number: 1,
    });
    let object = |line: &ArrivedLine| {
        let mut words = line.line.split(' ');
        (line.resource().to_owned(), words.nth(2).unwrap_or_default().to_owned())
    };
    let has_others = resources.len() > 1;
    let with = |until: Until| {
        lines.iter().enumerate().filter_map(move |(place, line)| {
            let has_place = match until {
                Until::NextLine => lines[place + 1..].iter().any(|later| object(later) == object(line)),
                Until::OtherLines => has_others,
                Until::NextStep => line.step < steps,
                Until::Reconciles(_) | Until::Second => true,
            };
            let deviation =
                || Deviation { what: What::Hold(until), call: line.line.clone(), number: line.number };
            has_place.then(deviation)
        })
    };
    let untils = [
        Until::Reconciles(1),
        Until::NextLine,
        Until::OtherLines,
        Until::NextStep,
        Until::Second,
        Until::Reconciles(2),
        Until::Reconciles(3),
    ];
    apart.chain(untils.into_iter().flat_map(with)).collect()
}

fn lost_answers(writes: &[Write]) -> Vec<Deviation> {
    writes.iter().filter(|write| write.is_visible).map(|write| at(write, What::LoseAnswer)).collect()
}

fn refusals(writes: &[Write]) -> Vec<Deviation> {
    let all = [
        Refusal::Conflict,
        Refusal::InternalError,
        Refusal::Reset,
        Refusal::Unavailable,
        Refusal::TooManyRequests,
    ];
    // Remote systems have no status codes.
    let may = |write: &Write, refusal| refusal == Refusal::Reset || !write.is_effect();
    let of = |refusal| {
        let writes = writes.iter().filter(move |write| may(write, refusal));
        writes.map(move |write| at(write, What::Refuse(refusal)))
    };
    all.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(call: &str, step: usize, is_visible: bool, is_after_others: bool) -> Write {
        Write { call: call.to_owned(), number: 1, step, is_visible, is_after_others }
    }

    #[test]
    fn crashes_are_tried_once_for_each_world() {
        let writes = [
            write("create a x", 1, true, true),
            write("apply b x", 1, false, false),
            write("apply c x", 2, true, true),
        ];
        let plans: Vec<String> = crashes(&writes, 2).iter().map(ToString::to_string).collect();
        assert_eq!(
            plans,
            [
                "crash before create a x #1",
                "crash after create a x #1",
                "crash before apply c x #1",
                "crash after apply c x #1",
                "crash, restart after the next step, before create a x #1",
                "crash, restart after the next step, after create a x #1",
            ]
        );
    }

    #[test]
    fn strategies_take_turns() {
        let writes = vec![write("create a x", 1, true, false), write("apply b x", 1, true, false)];
        let reference = Outcome { writes, ..Outcome::default() };
        let plans = plans(&reference, 1, &[Strategy::Crashes, Strategy::LostAnswers]);
        let plans: Vec<String> = plans.iter().map(|plan| plan.to_string().trim().to_owned()).collect();
        assert_eq!(
            plans,
            [
                "crash before create a x #1",
                "lose the answer of create a x #1",
                "crash after create a x #1",
                "lose the answer of apply b x #1",
                "crash after apply b x #1",
            ]
        );
    }

    #[test]
    fn a_report_says_when_the_budget_ended_first() {
        let report = |played, did_not_happen| {
            Report { plans: 7, played, did_not_happen, strategies: vec![Strategy::Crashes] }.to_string()
        };
        assert_eq!(report(7, 0), "crashes: 7 of 7 plans played");
        assert_eq!(report(3, 0), "crashes: 3 of 7 plans played; the budget ended before the rest");
        assert_eq!(report(7, 1), "crashes: 7 of 7 plans played; 1 found no place for their deviation");
    }
}
