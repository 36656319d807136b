//! Smaller plans that show the same violation.

use std::time::Duration;

use super::{Finding, Reference, Tried, real_time};
use crate::{
    definition::Definition,
    plan::{Deviation, DeviationKind, Plan},
};

/// Maximum number of runs in the search for a smaller plan.
const RUNS: usize = 200;

/// Time of the search for a smaller plan, if the budget is shorter.
const TIME: Duration = Duration::from_secs(10);

/// Leaves out deviations, and then makes them milder, as long as the run violates the same rule. A drawn order of actions is replaced by one
/// of the `others`, plans that the search has not tried yet, if that leads to the same violation: it names the action that is late.
/// `budget` is that of the search that has the finding.
pub(super) fn shrink(
    definition: &Definition,
    reference: &Reference,
    finding: Finding,
    place: &str,
    others: &[Plan],
    budget: Duration,
) -> Finding {
    let time = budget.max(TIME);
    let (began, deviations) = (real_time(), finding.plan().deviations.len());
    let (mut best, mut runs) = (finding, 0);
    // Each success starts over with the smaller plan: a deviation that was needed before may now be
    // superfluous.
    'smaller: loop {
        for plan in smaller(best.plan()) {
            if runs == RUNS || real_time().duration_since(began) >= time {
                break 'smaller;
            }
            runs += 1;
            // A plan of which a deviation did not happen would name a deviation that has no part in the
            // violation.
            if let Tried { finding: Some(found), happened: true, .. } =
                reference.try_plan(definition, &plan, place)
                && found.oracle() == best.oracle()
            {
                best = found;
                continue 'smaller;
            }
        }
        break;
    }
    if best.plan().deviations.iter().all(|deviation| deviation.what == DeviationKind::Shuffle) {
        for plan in others.iter().filter(|plan| names_an_order(plan)).take(RUNS - runs) {
            if real_time().duration_since(began) >= time {
                break;
            }
            if let Tried { finding: Some(found), .. } = reference.try_plan(definition, plan, place)
                && found.oracle() == best.oracle()
                // These plans are not parts of the shuffled one. Without the same object they could show
                // another bug.
                && found.suspect() == best.suspect()
            {
                best = found;
                break;
            }
        }
    }
    best.shrunk_from(deviations);
    best
}

/// Whether a plan is one deviation of the order of actions, at a place.
fn names_an_order(plan: &Plan) -> bool {
    let is_late = |what| {
        matches!(
            what,
            DeviationKind::Hold(_)
                | DeviationKind::Apart
                | DeviationKind::Late
                | DeviationKind::Delay
                | DeviationKind::StepBefore
        )
    };
    matches!(&*plan.deviations, [only] if is_late(only.what))
}

/// Plans without one of the deviations, and then plans with a milder one.
fn smaller(plan: &Plan) -> Vec<Plan> {
    let all = &plan.deviations;
    let places = 0..all.len();
    let without = |place: usize| {
        let mut deviations = all.clone();
        deviations.remove(place);
        Plan { deviations }
    };
    let milder = |place: usize| {
        all[place].what.milder().into_iter().map(move |what| {
            let mut deviations = all.clone();
            deviations[place] = Deviation { what, ..deviations[place].clone() };
            Plan { deviations }
        })
    };
    // Fewer deviations come first: they make a story shorter than milder ones do. The empty plan is the run
    // without faults, which has no finding.
    let fewer = places.clone().filter(|_| all.len() > 1).map(without);
    fewer.chain(places.flat_map(milder)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_plans_have_fewer_deviations_and_then_milder_ones() {
        let plan: Plan =
            "crash, restart after the next step, after create a x #1\nhold for a second, from a ADDED x #1"
                .parse()
                .unwrap();
        let texts: Vec<String> =
            smaller(&plan).iter().map(|plan| plan.to_string().replace('\n', ";")).collect();
        assert_eq!(
            texts,
            [
                "hold for a second, from a ADDED x #1;",
                "crash, restart after the next step, after create a x #1;",
                "crash after create a x #1;hold for a second, from a ADDED x #1;",
            ]
        );
        let one: Plan = "refuse with 409 create a x #1".parse().unwrap();
        assert!(smaller(&one).is_empty());
    }
}
