//! Further operators with one bug each, and a corrected version of each, written against the public API only: a search with its
//! defaults must find the bug, and find nothing in the corrected version.
//!
//! The operators in `ordinary` and `risen_child` have no bug.

mod abandoned_shield;
mod adopted_database;
mod backup_of_now;
mod became_ready;
mod both_down;
mod changed_class;
mod changed_mind;
mod common;
mod crowded_rollout;
mod dead_holder;
mod deaf_selector;
mod debounced_edit;
mod double_rotation;
mod drained_for_less;
mod dropped_reconcile;
mod early_grant;
mod early_verdict;
mod ended_unseen;
mod endless_migration;
mod error_is_absence;
mod expired_preview;
mod expired_token;
mod failed_for_ever;
mod first_seen;
mod fixed_grace;
mod foreign_owner;
mod forgotten_expectation;
mod former_uid;
mod gives_up;
mod gone_credentials;
mod guarded_revocation;
mod handed_over;
mod hasty_rollback;
mod immutable_job;
mod kept_deadline;
mod last_error_wins;
mod last_user;
mod late_adoption;
mod late_finalizer;
mod late_switch;
mod latest_backup;
mod locked_out;
mod lost_original;
mod lost_request;
mod merged_finalizers;
mod missed_cutover;
mod missing_right;
mod mixed_reads;
mod narrow_trust;
mod newest_by_time;
mod old_release;
mod old_status;
mod opposite_locks;
mod opted_out;
mod ordinary;
mod orphan_sweeper;
mod outdated_bundle;
mod overdraft;
mod overlapping_pools;
mod partial_inventory;
mod polled_drain;
mod previous_only;
mod reapplied_legacy;
mod remembered_condition;
mod remembered_name;
mod remembered_zone;
mod removed_by_index;
mod retained_too_late;
mod reverted_edit;
mod risen_child;
mod same_port;
mod second_bootstrap;
mod shared_child;
mod shared_finalizer;
mod shared_pause;
mod shifted_page;
mod skipped_hop;
mod stale_grant;
mod stale_status;
mod sticky_field;
mod still_creating;
mod stolen_lock;
mod stranger_key;
mod strangers_work;
mod stripped_label;
mod successor_status;
mod taken_name;
mod token_of_generation;
mod two_passwords;
mod unawaited_pause;
mod unlisted_instance;
mod untracked_secret;
mod unwatched_namespaces;
mod wide_selector;
mod wrong_zone;

use std::time::Duration;

use kube_simulator::{Explore, Finding, Simulation};

/// Whether an operator has the bug of its module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Buggy,
    Twin,
}

/// Guilty write of each operator, as the stories mark it.
const GUILTY: [(&str, &str); 92] = [
    ("abandoned_shield", "creates configmaps default/database"),
    ("adopted_database", "changes clusters.further.dev default/db .status"),
    ("backup_of_now", "creates configmaps default/db-"),
    ("became_ready", "changes configmaps default/db-proxy .data.upstream"),
    ("both_down", "changes sites.further.dev default/east .status"),
    ("changed_class", "remove route at edge shop"),
    ("changed_mind", "decommission at gossip node 2"),
    ("crowded_rollout", "changes clusters.further.dev default/green .status"),
    ("dead_holder", "changes clusters.further.dev default/db .status"),
    ("deaf_selector", "deletes resourcequotas red/quota"),
    ("debounced_edit", "changes clusters.further.dev default/db .status"),
    ("double_rotation", "changes secrets default/root .metadata.annotations.further.dev/rotations"),
    ("drained_for_less", "changes statefulsets.apps default/db .spec.replicas"),
    ("dropped_reconcile", "changes clusters.further.dev default/db .status"),
    ("early_grant", "grant at broker shop"),
    ("early_verdict", "changes imports.further.dev ledger/january .status"),
    ("ended_unseen", "changes pipelines.further.dev default/june .status"),
    ("endless_migration", "creates jobs.batch default/db-migrate-1"),
    ("error_is_absence", "changes configmaps default/db-settings .data.memory"),
    ("expired_preview", "deletes previews.further.dev default/pr-1"),
    ("expired_token", "changes machines.further.dev default/web .status.joined"),
    ("failed_for_ever", "changes clusters.further.dev default/db .status"),
    ("first_seen", "changes clusters.further.dev default/east .status"),
    ("fixed_grace", "drop topic at broker orders"),
    ("foreign_owner", "creates configmaps monitoring/db-dashboard"),
    ("forgotten_expectation", "creates configmaps default/db-0"),
    ("former_uid", "creates configmaps red/kubeconfig"),
    ("gives_up", "changes clusters.further.dev default/db .status"),
    ("gone_credentials", "changes clusters.further.dev default/db .metadata.finalizers"),
    ("guarded_revocation", "deletes secrets edge/public-certificate"),
    ("handed_over", "changes deployments.apps default/shop .spec.replicas"),
    ("hasty_rollback", "stop server at host main"),
    ("immutable_job", "apply jobs.batch default/db-migrate"),
    ("kept_deadline", "changes deployments.apps default/db-blue"),
    ("last_error_wins", "configmaps default/db-region-0"),
    ("last_user", "changes configmaps default/router .data.blue"),
    ("late_adoption", "changes configmaps default/db-data .metadata.ownerReferences"),
    ("late_finalizer", "remove record at dns db"),
    ("late_switch", "changes configmaps default/traffic .data.backend"),
    ("latest_backup", "load at ledger backup"),
    ("locked_out", "alter user at postgres app"),
    ("lost_original", "changes clusters.further.dev default/db .status"),
    ("lost_request", "changes clusters.further.dev default/db .metadata.annotations"),
    ("merged_finalizers", "changes clusters.further.dev default/db .metadata.finalizers"),
    ("missed_cutover", "creates configmaps default/traffic"),
    ("missing_right", "delete configmaps default/db-1"),
    ("mixed_reads", "changes configmaps default/db-config .data.user"),
    ("narrow_trust", "changes configmaps default/trust-bundle .data.trusted"),
    ("newest_by_time", "deletes configmaps default/db-blue"),
    ("old_release", "changes statefulsets.apps default/shard-a .spec.template"),
    ("old_status", "changes configmaps default/traffic .data.version"),
    ("opposite_locks", "changes volumecopies.further.dev default/back .status"),
    ("opted_out", "creates deployments.apps default/shell"),
    ("orphan_sweeper", "deletes secrets default/admin"),
    ("outdated_bundle", "changes configmaps default/db-ca-bundle .data.ca.crt"),
    ("overdraft", "changes configmaps default/quota-blue .data.limit"),
    ("overlapping_pools", "changes configmaps default/m .metadata.labels.further.dev/pool"),
    ("partial_inventory", "deletes configmaps default/db-"),
    ("polled_drain", "decommission at ring member 1"),
    ("previous_only", "deletes deployments.apps default/db-1"),
    ("reapplied_legacy", "changes databases.further.dev default/db .spec.size"),
    ("remembered_condition", "changes stores.further.dev default/vault .status"),
    ("remembered_name", "create user at database db"),
    ("remembered_zone", "put record at dns www.shop.example.org"),
    ("removed_by_index", "changes ingresses.networking.k8s.io default/gateway .spec.rules"),
    ("retained_too_late", "changes persistentvolumeclaims default/data-es-0 .metadata.ownerReferences"),
    ("reverted_edit", "changes topics.further.dev default/orders .spec.retention"),
    ("same_port", "changes clusters.further.dev default/green .status"),
    ("second_bootstrap", "bootstrap at volumes db"),
    ("shared_child", "changes configmaps default/db-config .data.main"),
    ("shared_finalizer", "delete balancer at cloud db"),
    ("shared_pause", "changes configmaps default/store .data.stopped"),
    ("shifted_page", "create listener at balancer web"),
    ("skipped_hop", "start at servers red/db"),
    ("stale_grant", "at node node"),
    ("stale_status", "changes clusters.further.dev default/db .status"),
    ("sticky_field", "changes configmaps default/db-config .data.version"),
    ("still_creating", "create instance at cloud db"),
    ("stolen_lock", "reboot at rack east"),
    ("stranger_key", "changes secrets default/db-tls .data.tls.crt"),
    ("strangers_work", "upload part at repository photos"),
    ("stripped_label", "create configmaps default/db-config"),
    ("successor_status", "changes clusters.further.dev default/db .status"),
    ("taken_name", "changes clusters.further.dev default/db .status"),
    ("token_of_generation", "create volume at storage db"),
    ("two_passwords", "set password at database app"),
    ("unawaited_pause", "launch at cloud red/web"),
    ("unlisted_instance", "launch at cloud web"),
    ("untracked_secret", "changes configmaps default/metrics-config .data.user"),
    ("unwatched_namespaces", "creates configmaps blue/contact"),
    ("wide_selector", "configmaps default/other-0"),
    ("wrong_zone", "changes claims.further.dev default/data .metadata.annotations"),
];

/// Plans that the searches find, of operators for which this takes seconds.
const LONG_SEARCHES: [(&str, &str); 11] = [
    ("dead_holder", "crash after create configmaps default/migration-lock #1"),
    ("drained_for_less", "begin the next step before patch pods default/db-2 #1"),
    ("early_grant", "delay until nothing else happens: declare at broker orders #3"),
    ("kept_deadline", "begin the next step before patch deployments.apps default/db-green #1"),
    ("late_switch", "cut off, and carry out late: patch configmaps default/traffic #1"),
    ("locked_out", "crash, restart after the next step, after alter user at postgres app #1"),
    ("old_status", "shuffle the order of actions #2"),
    ("polled_drain", "refuse with reset decommission at ring member 1 #1"),
    ("stale_status", "let the next step pass before patch clusters.further.dev/status default/db #3"),
    ("stolen_lock", "crash, restart a minute after the next step, after reboot at rack west #1"),
    ("wide_selector", "skip one event and list again, from configmaps ADDED default/other-0 #1"),
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

/// Searches for the bug of an operator with all strategies, and checks that the story names the guilty write. Unless [`plays_all`], the
/// plans of [`LONG_SEARCHES`] are replayed instead.
fn find(simulation: Simulation) -> Finding {
    let known = of_this_test(&LONG_SEARCHES);
    let finding = match known.filter(|_| !plays_all()) {
        Some(plan) => simulation.replay(plan).expect("a plan"),
        None => simulation.find(Explore::all().budget(Duration::from_secs(300))),
    };
    let finding = finding.expect("a simulation finds the bug");
    println!("{finding}");
    if let Some(plan) = known {
        assert_eq!(finding.plan().to_string().trim_end(), plan);
    }
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
