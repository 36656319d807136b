//! Failures, and the effect of events on a key in back-off.

use expect_test::expect;

use super::*;
use crate::BackOffEvents;

fn as_go() -> Options<String> {
    options().back_off_events(BackOffEvents::Always)
}

/// Fails once; the retry is due at 0.1 s.
const FAILED: &str = "add a; get; limited a; done a";

#[test]
fn the_first_event_in_a_back_off_makes_the_key_ready_at_once() {
    check(
        &format!("{FAILED}; when a; add a; get"),
        &expect![[r#"
        get: a
        when: 100ms RateLimited
        get: a
        ready: -  waiting: -  processing: a
    "#]],
    );
}

#[test]
fn the_failure_of_a_run_that_was_brought_forward_changes_neither_count_nor_time() {
    check(
        &format!("{FAILED}; add a; get; at 0.05s; limited a; done a; failures a; when a"),
        &expect![[r#"
        get: a
        get: a
        failures: 1
        when: 100ms RateLimited
        ready: -  waiting: a@100ms  processing: -
    "#]],
    );
}

#[test]
fn later_events_in_a_back_off_wait_for_its_end() {
    check(
        &format!("{FAILED}; add a; get; limited a; done a; add a; get; when a"),
        &expect![[r#"
        get: a
        get: a
        get: nothing
        when: 100ms RateLimited
        ready: -  waiting: a@100ms  processing: -
    "#]],
    );
}

#[test]
fn in_a_long_back_off_later_events_run_the_key_some_time_after_its_last_run() {
    let limiter = ItemExponentialFailure::try_new(seconds("1000s"), seconds("1000s")).unwrap();
    let script = "add a; get; limited a; at 1s; done a; at 2s; add a; get; limited a; at 3s; done a; at 4s; add a; when a; \
                  at 5s; add a; when a; at 33s; get; limited a; done a; when a; at 50s; add a; when a; failures a";
    check_with(
        options().rate_limiter(limiter),
        script,
        &expect![[r#"
        get: a
        get: a
        when: 33s EventInBackOff
        when: 33s EventInBackOff
        get: a
        when: 1000s RateLimited
        when: 63s EventInBackOff
        failures: 1
        ready: -  waiting: a@63s  processing: -
    "#]],
    );
}

#[test]
fn every_urgent_event_in_a_back_off_makes_the_key_ready_at_once() {
    let limiter = ItemExponentialFailure::try_new(seconds("1000s"), seconds("1000s")).unwrap();
    let script = "add a; get; limited a; done a; at 1s; add urgent a; get; limited a; done a; at 2s; add a; when a; \
                  at 3s; add urgent a; get; limited a; done a; failures a; at 4s; add a; when a";
    check_with(
        options().rate_limiter(limiter),
        script,
        &expect![[r#"
        get: a
        get: a
        when: 31s EventInBackOff
        get: a
        failures: 1
        when: 33s EventInBackOff
        ready: -  waiting: a@33s  processing: -
    "#]],
    );
}

#[test]
fn an_urgent_event_during_a_run_that_fails_runs_the_key_at_once_when_it_is_done() {
    let limiter = ItemExponentialFailure::try_new(seconds("1000s"), seconds("1000s")).unwrap();
    let script = "add a; get; limited a; done a; add a; get; add urgent a; add a; limited a; done a; get; \
                  add a; limited a; done a; get; when a";
    check_with(
        options().rate_limiter(limiter),
        script,
        &expect![[r#"
        get: a
        get: a
        get: a
        get: nothing
        when: 30s EventInBackOff
        ready: -  waiting: a@30s  processing: -
    "#]],
    );
}

#[test]
fn beyond_ten_urgent_events_in_a_back_off_run_the_key_a_second_after_its_last_run() {
    let limiter = ItemExponentialFailure::try_new(seconds("1000s"), seconds("1000s")).unwrap();
    let ten = "add urgent a; get; limited a; done a; ".repeat(10);
    let script = format!("add a; get; limited a; done a; at 5s; {ten} add urgent a; get; when a; at 6s; get");
    let ran = "get: a\n".repeat(11);
    let rest = "get: nothing\nwhen: 6s EventInBackOff\nget: a\nready: -  waiting: -  processing: a\n";
    let output = Script::new(options().rate_limiter(limiter)).run(&script);
    assert_eq!(output, ran + rest);
}

#[test]
fn outside_of_back_off_an_urgent_event_is_debounced_like_others() {
    check_with(
        options().debounce(seconds("1s"), seconds("5s")),
        "add urgent a; when a; after b 5s; add urgent b; when b",
        &expect![[r#"
        when: 1s Debounced
        when: 1s Debounced
        ready: -  waiting: a@1s b@1s  processing: -
    "#]],
    );
}

#[test]
fn an_event_during_the_run_that_fails_is_the_first_one() {
    let either_order =
        ["add a; get; add a; limited a; done a; get", "add a; get; limited a; add a; done a; get"];
    for script in either_order {
        check(
            &format!("{script}; limited a; add a; done a; get; when a; failures a"),
            &expect![[r#"
            get: a
            get: a
            get: nothing
            when: 100ms RateLimited
            failures: 1
            ready: -  waiting: a@100ms  processing: -
        "#]],
        );
    }
}

#[test]
fn after_the_back_off_failures_count_again() {
    check(
        &format!(
            "{FAILED}; add a; get; limited a; done a; at 0.1s; get; limited a; done a; when a; failures a"
        ),
        &expect![[r#"
        get: a
        get: a
        get: a
        when: 300ms RateLimited
        failures: 2
        ready: -  waiting: a@300ms  processing: -
    "#]],
    );
}

#[test]
fn a_run_brought_forward_that_outlasts_the_back_off_is_followed_by_the_one_that_was_due() {
    check(
        &format!(
            "{FAILED}; add a; get; at 5s; limited a; done a; failures a; get; limited a; done a; failures a"
        ),
        &expect![[r#"
        get: a
        get: a
        failures: 1
        get: a
        failures: 2
        ready: -  waiting: a@5.2s  processing: -
    "#]],
    );
}

#[test]
fn every_back_off_has_its_own_first_event() {
    check(
        &format!("{FAILED}; add a; at 0.1s; get; limited a; done a; add a; when a; get"),
        &expect![[r#"
            get: a
            get: a
            when: -
            get: a
            ready: -  waiting: -  processing: a
        "#]],
    );
}

#[test]
fn a_key_that_succeeds_leaves_its_back_off() {
    check(
        &format!(
            "{FAILED}; add a; get; forget a; done a; add a; get; add a; done a; get; limited a; done a; when a"
        ),
        &expect![[r#"
        get: a
        get: a
        get: a
        get: a
        when: 100ms RateLimited
        ready: -  waiting: a@100ms  processing: -
    "#]],
    );
}

#[test]
fn a_requested_time_holds_during_back_off() {
    check(
        &format!(
            "{FAILED}; add a; get; limited a; done a; after a 0.01s; when a; add a; when a; at 0.01s; get"
        ),
        &expect![[r#"
        get: a
        get: a
        when: 10ms Delayed
        when: 10ms Delayed
        get: a
        ready: -  waiting: -  processing: a
    "#]],
    );
}

#[test]
fn a_failure_with_a_delay_of_its_own_takes_the_earlier_time() {
    check(
        "add a; get; limited a 0.05s; done a; when a; at 0.05s; get; limited a 5s; done a; when a",
        &expect![[r#"
        get: a
        when: 50ms Delayed
        get: a
        when: 100ms RateLimited
        ready: -  waiting: a@100ms  processing: -
    "#]],
    );
}

#[test]
fn with_always_every_event_runs_the_key_and_every_failure_counts() {
    let script = "add a; get; limited a; add a; done a; get; limited a; add a; done a; get; limited a; done a; failures a";
    check_with(
        as_go(),
        script,
        &expect![[r#"
        get: a
        get: a
        get: a
        failures: 3
        ready: -  waiting: a@400ms  processing: -
    "#]],
    );
}

#[test]
fn after_shutdown_the_last_run_does_not_wait_for_the_back_off() {
    check(
        &format!("{FAILED}; add a; get; add a; limited a; shut; get; done a; get; done a; get"),
        &expect![[r#"
            get: a
            get: a
            given up: []
            get: nothing
            get: a
            get: finished
            ready: -  waiting: -  processing: -
        "#]],
    );
}
