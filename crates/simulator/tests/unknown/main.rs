//! Operators with one bug each, and a corrected version of each, written without a look at the simulator's sources: they measure whether a
//! search with its defaults finds bugs that it was not made for.

#[path = "../further/common.rs"]
#[expect(dead_code, unused_imports, reason = "these operators need only a part of it")]
mod common;

mod became_ready;
mod drained_for_less;
mod handed_over;
mod late_adoption;
mod previous_only;
mod taken_name;

use std::time::Duration;

use kube_simulator::{Explore, Finding, Simulation};

/// Whether an operator has the bug of its module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Buggy,
    Twin,
}

/// Guilty write of each operator, as the stories mark it.
const GUILTY: [(&str, &str); 6] = [
    ("became_ready", "changes configmaps default/db-proxy .data.upstream"),
    ("drained_for_less", "changes statefulsets.apps default/db .spec.replicas"),
    ("handed_over", "changes deployments.apps default/shop .spec.replicas"),
    ("late_adoption", "changes configmaps default/db-data .metadata.ownerReferences"),
    ("previous_only", "deployments.apps default/db-2"),
    ("taken_name", "changes clusters.further.dev default/db .status"),
];

/// Whether all searches are played, with the budget of `SIMULATION_BUDGET`, rather than a part of them.
fn plays_all() -> bool {
    std::env::var_os("SIMULATION_BUDGET").is_some()
}

/// Entry of this test in a table with the names of modules.
fn of_this_test<T: Copy>(table: &[(&str, T)]) -> Option<T> {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let (module, _) = test.split_once("::")?;
    table.iter().find(|(name, _)| *name == module).map(|(_, entry)| *entry)
}

/// Searches for the bug of an operator with all strategies, and checks that the story names the guilty write.
fn find(simulation: Simulation) -> Finding {
    let finding = simulation.find(Explore::all().budget(Duration::from_secs(300)));
    let finding = finding.expect("a simulation finds the bug");
    println!("{finding}");
    assert!(finding.to_string().lines().count() <= 15, "the story is short");
    let guilty = of_this_test(&GUILTY).expect("each has its write");
    let marks = |line: &str| line.contains('←') && line.contains(guilty);
    assert!(finding.to_string().lines().any(marks), "the story marks another write than {guilty:?}");
    finding
}

/// Checks that nothing is found: in the plans of a quarter of a second, and in all plans if [`plays_all`].
fn find_nothing(simulation: Simulation) {
    let report = simulation.explore(Explore::all().budget(Duration::from_millis(250)));
    assert!(report.is_complete() || !plays_all(), "{report}");
}
