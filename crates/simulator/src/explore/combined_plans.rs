//! Plans of several deviations: pairs of crashes, of a crash and late lines, and random ones.

use super::{
    Strategy,
    strategies::{Extent, crashes, of_strategy, staleness},
};
use crate::{
    plan::{Deviation, DeviationKind, OWN_WRITE, Plan},
    run::Outcome,
};

/// Number of writes after a crash at which the operator crashes again.
const CRASHES_AGAIN: u32 = 3;

/// Largest number of deviations of a random plan.
const MOST_AT_RANDOM: usize = 4;

/// Pairs of crashes, and of a crash and late lines about the same object.
pub(super) fn pairs(reference: &Outcome, extent: Extent, strategies: &[Strategy]) -> Vec<Plan> {
    let mut plans = Vec::new();
    let has = |strategy| strategies.contains(&strategy);
    if !has(Strategy::Crashes) {
        return plans;
    }
    // Three plans follow from each of these crashes, so crashes with a late restart have none.
    let during_steps = crashes(&reference.writes, extent.steps)
        .into_iter()
        .filter(|crash| !crash.what.reaches_over_a_step());
    for crash in during_steps {
        let again =
            |number| Deviation { what: DeviationKind::CrashAgain, call: OWN_WRITE.to_owned(), number };
        plans.extend(
            (1..=CRASHES_AGAIN).map(|number| Plan { deviations: vec![crash.clone(), again(number)] }),
        );
    }
    if !has(Strategy::Staleness) {
        return plans;
    }
    let key = |name: &str| name.split(' ').nth(2).unwrap_or_default().to_owned();
    let late = staleness(&reference.lines, extent.steps);
    for crash in crashes(&reference.writes, extent.steps) {
        let same = late.iter().filter(|late| {
            // Calls name objects with generated names by the prefix, lines by the whole name.
            let (one, other) = (key(&crash.call), key(&late.call));
            let prefix = one.strip_suffix('*');
            !one.is_empty() && prefix.map_or(one == other, |prefix| other.starts_with(prefix))
        });
        plans.extend(same.map(|late| Plan { deviations: vec![late.clone(), crash.clone()] }));
    }
    plans
}

/// Random plans: each draws which strategies it uses, and then deviations of them.
pub(super) fn random(reference: &Outcome, extent: Extent, seed: u64, runs: usize) -> Vec<Plan> {
    let mut random = fastrand::Rng::with_seed(seed);
    let pools: Vec<Vec<Plan>> = Strategy::SWEEPS
        .into_iter()
        .map(|strategy| of_strategy(reference, extent, strategy))
        .filter(|pool| !pool.is_empty())
        .collect();
    let mut plan = || {
        // Each plan uses only some of the strategies: bugs that need two faults of one strategy would be rare
        // among plans that mix all of them.
        let mut used: Vec<&Vec<Plan>> = pools.iter().filter(|_| random.bool()).collect();
        if used.is_empty() {
            used.extend(pools.first());
        }
        let mut deviations: Vec<Deviation> = Vec::new();
        for _ in 0..random.usize(2..=MOST_AT_RANDOM) {
            let Some(pool) = random.choice(&used) else { break };
            let more = random.choice(pool.iter()).map(|plan| plan.deviations.clone()).unwrap_or_default();
            // A deviation happens once, so a second copy of it would count as one that did not happen.
            deviations.extend(more.into_iter().filter(|one| !deviations.contains(one)).collect::<Vec<_>>());
        }
        Plan { deviations }
    };
    (0..runs).map(|_| plan()).filter(|plan| !plan.deviations.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::strategies::tests::{EXTENT, line, texts, write};

    #[test]
    fn pairs_share_an_object_and_random_plans_repeat() {
        let writes = vec![write("create a n/x", 1), write("create b n/y", 1)];
        let lines = vec![line("a ADDED n/x", 1)];
        let reference = Outcome { writes, lines, ..Outcome::default() };
        let extent = Extent { depth: 2, ..EXTENT };
        let both = pairs(&reference, extent, &[Strategy::Crashes, Strategy::Staleness]);
        let is_again = |plan: &Plan| plan.deviations[1].what == DeviationKind::CrashAgain;
        let (again, late): (Vec<Plan>, Vec<Plan>) = both.into_iter().partition(is_again);
        assert!(
            !late.is_empty() && late.iter().all(|plan| plan.deviations[1].call == "create a n/x"),
            "{late:?}"
        );
        assert_eq!(pairs(&reference, extent, &[Strategy::Crashes]), again);
        assert_eq!(
            texts(&again)[..2],
            [
                "crash before create a n/x #1; crash again after its write #1",
                "crash before create a n/x #1; crash again after its write #2",
            ]
        );
        let generated = Outcome {
            writes: vec![write("create a n/x-*", 1)],
            lines: vec![line("a ADDED n/x-f7k2p", 1), line("a ADDED n/y-f7k2p", 1)],
            ..Outcome::default()
        };
        let mut late = pairs(&generated, extent, &[Strategy::Crashes, Strategy::Staleness]);
        late.retain(|plan| !is_again(plan));
        assert!(!late.is_empty());
        assert!(late.iter().all(|plan| plan.deviations[0].call == "a ADDED n/x-f7k2p"), "{late:?}");
        let drawn = |seed| random(&reference, EXTENT, seed, 20);
        assert_eq!(drawn(1), drawn(1));
        assert!(drawn(1) != drawn(2) && drawn(1).iter().any(|plan| plan.deviations.len() > 1));
    }
}
