//! Operators with a bug each, and their twins without it: a simulation must find the bug, and find nothing in the twin.

mod create_then_record;
mod eager_replicas;
mod finalizer_first;
mod grave_robber;
mod moving_house;
mod observed_too_soon;
mod stale_secret;
mod two_buckets;

use kube_simulator::{Explore, Finding, Simulation};

/// Whether an operator has the bug of its module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Buggy,
    Twin,
}

/// Searches for the bug of an operator, and checks that the finding replays.
fn find(simulation: Simulation, explore: Explore) -> Finding {
    let finding = simulation.clone().find(explore).expect("a simulation finds the bug");
    println!("{finding}");
    let replayed = simulation.replay(&finding.plan().to_string()).expect("a plan").expect("it fails again");
    assert_eq!(replayed.trace(), finding.trace());
    finding
}

/// Checks that all plans are played and nothing is found.
fn find_nothing(simulation: Simulation, explore: Explore) {
    let report = simulation.explore(explore);
    assert!(report.is_complete(), "{report}");
}
