//! Operators with a bug each, and their twins without it: a simulation must find the bug, and find nothing in the twin.

mod create_then_record;
mod deaf_predicate;
mod eager_replicas;
mod early_map;
mod edge_listener;
mod finalizer_first;
mod forgetful_leader;
mod grave_robber;
mod half_cleaned;
mod heartbeat;
mod lost_quorum;
mod moving_house;
mod observed_too_soon;
mod replaced_owner;
mod second_hand;
mod skipped_stage;
mod stale_secret;
mod stubborn_retry;
mod task;
mod time_traveller;
mod tug_of_war;
mod twins;
mod two_buckets;
mod whole_update;
mod wrong_victim;

use std::time::Duration;

use kube_simulator::{Explore, Finding, Simulation};

/// Whether an operator has the bug of its module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Buggy,
    Twin,
}

/// Searches for the bug of an operator, and checks that the finding replays.
fn find(simulation: Simulation, explore: Explore) -> Finding {
    let explore = explore.budget(Duration::from_secs(60));
    let finding = simulation.clone().find(explore).expect("a simulation finds the bug");
    println!("{finding}");
    assert!(finding.to_string().lines().count() <= 15, "the story is short");
    let replayed = simulation.replay(&finding.plan().to_string()).expect("a plan").expect("it fails again");
    assert_eq!(replayed.trace(), finding.trace());
    finding
}

/// Checks that nothing is found: within seconds here, and in all plans with `SIMULATION_BUDGET` and in the report.
fn find_nothing(simulation: Simulation, explore: Explore) {
    let report = simulation.explore(explore.budget(Duration::from_secs(5)));
    assert!(report.is_complete() || std::env::var_os("SIMULATION_BUDGET").is_none(), "{report}");
}
