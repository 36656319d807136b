//! Defects and figures of Go's controller-runtime, with the tests that show the behaviour of this project.
//!
//! The numbers name the rows in comments of tests. Those with an A are figures that this project has to reach, the others defects that
//! it must not have.
//!
//! | defect or figure | test |
//! |---|---|
//! | 1. a stop before the caches are synced never ends and uses a CPU | `a_shutdown_while_the_caches_cannot_sync_ends_at_once`, `sigterm_ends_the_process_in_order_also_while_its_caches_cannot_sync`, `a_stop_while_starting_starts_nothing_more` |
//! | 2. a second shutdown of the queue panics | `shutdown_during_drain_releases_all_waiters` |
//! | 2. keys that are queued at a shutdown are dropped | `shutdown_hands_out_ready_keys_and_returns_the_others` |
//! | 2. low priorities starve | `no_key_waits_longer_than_ageing_allows` |
//! | 2. keys of the initial list keep their low priority | `a_key_does_not_stay_low_after_a_real_event_during_its_run` |
//! | 3. retries are not limited by a bucket any more | `controller_default_is_the_longer_of_exponential_and_bucket`, `a_storm_of_failures_does_not_slow_down_first_time_events` |
//! | 4. a terminal error leaves its failures behind | `a_terminal_error_is_not_retried_and_resets_failures` |
//! | 5. `leader_election_slowpath_total` is never registered | `names_labels_and_buckets_are_those_of_go`, `a_renewal_of_a_changed_lease_takes_the_counted_slow_path` |
//! | 6. the election does not wait for the warm-up | `a_process_stands_for_election_when_it_is_warm` |
//! | 7. servers report ready before they listen | `metrics_and_probes_are_served_while_the_manager_runs`, `a_manager_is_ready_when_its_runnables_are` |
//! | 8. the lease is released while reconciles run | `the_lease_is_kept_until_the_last_reconcile_has_ended`, `unfinished_reconciles_are_dropped_before_the_lease_is_released` |
//! | 9. a cache of several namespaces has the version of the last namespace | `scopes_are_replaced_and_withdrawn_independently` |
//! | 10. of two predicates the second one wins | `several_predicates_must_all_pass` |
//! | 10. event filters do not apply to raw sources | `event_filters_apply_to_all_sources_and_all_must_pass` |
//! | 10. a webhook on a path that is in use is skipped silently | `conflicting_registrations_are_refused_and_leave_nothing_behind` |
//! | 11. controller names are global to the process | `two_controllers_of_one_name_are_refused_within_a_manager_only` |
//! | 11. metrics are global to the process | `two_managers_do_not_add_to_each_other` |
//! | 11. signals can be listened to only once | `signals_can_be_listened_to_any_number_of_times` |
//! | 12. the bodies of conversion requests have no limit | `a_body_beyond_the_limit_is_refused_with_or_without_a_length` |
//! | 12. the endpoint of a single check shows the text of its error | `a_single_check_has_a_path_and_withholds_its_reason` |
//! | 13. helpers that set and remove owner references ignore the uid | `owner_references_are_added_and_removed_by_uid` |
//! | 13. so does the handler of owned objects, also here: a request is a name, and the new owner of the name handles objects that the old one left | `objects_of_a_deleted_owner_reconcile_its_successor` |
//! | 14. an immediate add leaves the delayed one, which causes a second run | `an_immediate_add_ends_the_waiting_without_a_second_run` |
//! | 14. delayed keys are lost at a drain | `shutdown_returns_keys_that_are_not_due` |
//! | 15. reservations of the bucket are never returned | `a_healed_storm_does_not_delay_an_honest_retry`, `beyond_the_horizon_nothing_is_reserved` |
//! | 16. an add without effect takes a token | `a_rate_limited_add_of_a_ready_key_counts_nothing` |
//! | 17. errors of admission requests have HTTP status 200 | `a_request_that_is_no_review_has_an_http_error` |
//! | 18. values of the context do not reach runnables | `a_span_around_the_run_contains_all_its_log_lines` |
//! | A13. thirteen failures and a success | `thirteen_failures_and_a_success_take_41_seconds_and_are_counted` |
//! | A14. a key that always fails beside others | `a_failing_request_does_not_delay_others` |
//! | A15. the table of outcomes | `success_resets_failures_and_does_not_requeue`, `requeue_after_resets_failures_and_waits_exactly`, `requeue_and_failures_back_off_further`, `a_requeue_backs_off_like_a_failure_and_is_none`, `outcomes_are_counted_as_in_go`, `requeues_are_logged_with_their_delays`, `an_unrecovered_panic_is_counted_and_logged` |
//! | A16. new objects | `new_objects_are_never_delayed` |
//! | A17. requeue after 30 s | `requeue_after_runs_exactly_after_its_delay` |
//! | A20. defaults | `sixteen_workers_by_default_and_as_many_as_asked_for`, `caches_have_two_minutes_to_sync_by_default`, `a_watch_added_early_waits_for_the_start_and_a_later_one_starts_at_once` |
//! | A21. path of an event | `an_event_passes_predicate_handler_and_queue_to_the_reconciler` |
//! | A22. groups of runnables | `groups_behave_under_every_interleaving`, `elections_behave_under_every_interleaving`, `runnables_can_be_added_in_every_state_until_the_stop` |
//! | A23. log line of a failure | `each_failure_is_one_line_with_the_fields_of_go_and_an_id_of_its_own` |
//! | A24. one limiter for several controllers | `three_controllers_under_one_bucket_retry_together_as_one_would` |

use std::{collections::BTreeSet, env, fs, path::Path, process::Command};

use controller_runtime::manager::Signals;

/// A test of this program must be one that it runs, by its own list. A test of another program must at least have the attribute
/// of a test, and not be ignored.
#[test]
fn every_test_of_the_table_runs() {
    let mut run = list(&[]);
    for ignored in list(&["--ignored"]) {
        run.remove(&ignored);
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for folder in ["controller-runtime/src", "controller-runtime/tests", "workqueue/src", "workqueue/tests"] {
        tests_in(&crates.join(folder), &mut run);
    }
    let rows: Vec<_> =
        include_str!("go_defects.rs").lines().filter_map(|line| line.strip_prefix("//! | ")).collect();
    let named: Vec<_> = (rows.iter().skip(1))
        .flat_map(|row| row.rsplit(" | ").next().unwrap().split('`').skip(1).step_by(2))
        .collect();
    assert!(named.len() > 40, "{named:?}");
    let missing: Vec<_> = named.iter().filter(|test| !run.contains(**test)).collect();
    assert!(missing.is_empty(), "no test of this name runs: {missing:?}");
}

/// Names of the tests of this program, without their modules.
fn list(options: &[&str]) -> BTreeSet<String> {
    let listed = Command::new(env::current_exe().unwrap()).arg("--list").args(options).output().unwrap();
    let lines = String::from_utf8(listed.stdout).unwrap();
    let paths = lines.lines().filter_map(|line| line.strip_suffix(": test"));
    paths.filter_map(|path| path.rsplit("::").next()).map(str::to_owned).collect()
}

/// Adds the names of functions that have the attribute of a test, and are not ignored.
fn tests_in(folder: &Path, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("tests/it") {
                tests_in(&path, into);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            let (mut is_test, mut is_ignored, mut is_property) = (false, false, false);
            for line in source.lines().map(str::trim_start) {
                is_property |= line.starts_with("proptest! {");
                match line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ") {
                    Some(name) => {
                        // The macro of property tests makes a test of a function with generated arguments.
                        let is_generated = is_property && name.ends_with('(');
                        if (is_test || is_generated) && !is_ignored {
                            into.extend(name.split('(').next().map(str::to_owned));
                        }
                        (is_test, is_ignored) = (false, false);
                    }
                    None => {
                        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                        is_ignored |=
                            line.strip_prefix("#[").is_some_and(|attribute| attribute.starts_with("ignore"));
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn signals_can_be_listened_to_any_number_of_times() {
    let listening: Result<Vec<_>, _> = (0..3).map(|_| Signals::listen()).collect();
    assert_eq!(listening.unwrap().len(), 3);
}
