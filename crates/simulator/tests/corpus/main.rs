//! Operators with one bug each, and a corrected version of each: a simulation must find the bug, and find nothing in
//! the corrected version.

mod careless_finalizer;
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
mod lost_requeue;
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

/// Guilty write of each operator, as the stories mark it.
const GUILTY: [(&str, &str); 26] = [
    ("careless_finalizer", "deletes configmaps default/t-data"),
    ("create_then_record", "creates configmaps default/welcome-page-"),
    ("deaf_predicate", "changes tasks.corpus.dev default/t .status.ready"),
    ("eager_replicas", "creates configmaps default/f-"),
    ("early_map", "creates configmaps default/t "),
    ("edge_listener", "deletes configmaps default/t-1-claim"),
    ("finalizer_first", "delete bucket at cloud photos"),
    ("forgetful_leader", "creates configmaps default/t-step0-"),
    ("grave_robber", "deletes configmaps default/x"),
    ("half_cleaned", "delete at cloud network"),
    ("heartbeat", "changes tasks.corpus.dev default/t .status.seen"),
    ("lost_quorum", "changes pods default/t-1 .metadata.deletionGracePeriodSeconds"),
    ("lost_requeue", "changes tasks.corpus.dev default/t .status.phase"),
    ("moving_house", "creates configmaps default/cellar"),
    ("observed_too_soon", "creates configmaps default/home"),
    ("replaced_owner", "creates configmaps default/t-notes"),
    ("second_hand", "creates persistentvolumeclaims default/t-data"),
    ("skipped_stage", "changes tasks.corpus.dev default/t .status"),
    ("stale_secret", "creates configmaps default/site"),
    ("stubborn_retry", "changes configmaps default/totals .data.mine"),
    ("time_traveller", "deletes configmaps default/t-data"),
    ("tug_of_war", "changes deployments.apps default/t .spec.replicas"),
    ("twins", "creates configmaps default/t-ticket-"),
    ("two_buckets", "create bucket at cloud photos"),
    ("whole_update", "changes services default/t .metadata.annotations"),
    ("wrong_victim", "deletes configmaps default/t-2"),
];

/// Searches for the bug of an operator, and checks that the finding replays. The budget is five times the goal, which the report checks,
/// because other tests run at the same time.
fn find(simulation: Simulation, explore: Explore) -> Finding {
    let explore = explore.budget(Duration::from_secs(300));
    let finding = simulation.clone().find(explore).expect("a simulation finds the bug");
    println!("{finding}");
    assert!(finding.to_string().lines().count() <= 15, "the story is short");
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let (_, guilty) = GUILTY.iter().find(|(module, _)| test.starts_with(module)).expect("each has its write");
    let marks = |line: &str| line.contains('←') && line.contains(guilty);
    assert!(finding.to_string().lines().any(marks), "the story marks another write than {guilty:?}");
    let replayed = simulation.replay(&finding.plan().to_string()).expect("a plan").expect("it fails again");
    assert_eq!(replayed.trace(), finding.trace());
    finding
}

/// Checks that nothing is found: in the plans of two seconds here, and in all plans with `SIMULATION_BUDGET` and in the report.
fn find_nothing(simulation: Simulation, explore: Explore) {
    let report = simulation.explore(explore.budget(Duration::from_secs(2)));
    assert!(report.is_complete() || std::env::var_os("SIMULATION_BUDGET").is_none(), "{report}");
}
