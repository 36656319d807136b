//! Operators that were written without knowledge of the search, as a blind measurement: one bug each that needs a fault to show, and a
//! corrected version of each. A search with its defaults must find the bug, and find nothing in the corrected version.

mod adopted_database;
#[path = "../further/common.rs"]
#[expect(unused_imports, reason = "other operators of the file's own target use them")]
mod common;
mod debounced_edit;
mod fixed_grace;
mod missed_cutover;
mod remembered_condition;
mod unfenced_lock;

use std::time::Duration;

use kube_simulator::{Explore, Simulation};

/// Whether an operator has the bug of its module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Buggy,
    Twin,
}

/// Guilty write of each operator, as the stories mark it.
const GUILTY: [(&str, &str); 6] = [
    ("adopted_database", "changes clusters.further.dev default/db .status"),
    ("debounced_edit", "configmaps default/db-config"),
    ("fixed_grace", "stop at broker db"),
    ("missed_cutover", "changes cutovers.further.dev default/web .status"),
    ("remembered_condition", "changes stores.further.dev default/vault .status"),
    ("unfenced_lock", "lock at database db"),
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
fn find(simulation: Simulation) {
    let finding = simulation.find(Explore::all().budget(Duration::from_secs(300)));
    let finding = finding.expect("a simulation finds the bug");
    println!("{finding}");
    assert!(finding.to_string().lines().count() <= 15, "the story is short");
    let guilty = of_this_test(&GUILTY).expect("each has its write");
    let marks = |line: &str| line.contains('←') && line.contains(guilty);
    assert!(finding.to_string().lines().any(marks), "the story marks another write than {guilty:?}");
}

/// Checks that nothing is found: in the plans of a quarter of a second, and in all plans if [`plays_all`].
fn find_nothing(simulation: Simulation) {
    let report = simulation.explore(Explore::all().budget(Duration::from_millis(250)));
    assert!(report.is_complete() || !plays_all(), "{report}");
}
