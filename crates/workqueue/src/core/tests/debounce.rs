//! Events in close succession.

use expect_test::expect;

use super::*;

/// Debouncing: a key runs when it had no event for 1 s, but at most 3 s after the first one.
fn debounced() -> Options<String> {
    options().debounce(seconds("1s"), seconds("3s"))
}

#[test]
fn an_event_waits_for_quiet() {
    check_with(
        debounced(),
        "add a; when a; at 0.5s; add a; when a; at 1.5s; get",
        &expect![[r#"
        when: 1s Debounced
        when: 1.5s Debounced
        get: a
        ready: -  waiting: -  processing: a
    "#]],
    );
}

#[test]
fn events_without_end_do_not_put_a_key_off_beyond_the_maximum() {
    let script = "add a; at 0.9s; add a; at 1.8s; add a; at 2.7s; add a; when a; at 2.9s; add a; when a; at 3s; get; done a; \
                  add a; when a";
    check_with(
        debounced(),
        script,
        &expect![[r#"
        when: 3s Debounced
        when: 3s Debounced
        get: a
        when: 4s Debounced
        ready: -  waiting: a@4s  processing: -
    "#]],
    );
}

#[test]
fn a_requested_time_is_not_postponed_by_debouncing() {
    check_with(
        debounced(),
        "after a 1.2s; add a; at 0.9s; add a; when a; add b; after b 1.5s; at 1.5s; add b; when b",
        &expect![[r#"
        when: 1.2s Debounced
        when: 2.4s Debounced
        ready: a  waiting: b@2.4s  processing: -
    "#]],
    );
}

#[test]
fn events_during_a_run_count_as_one_at_its_end() {
    check_with(
        debounced(),
        "after a 0s; get; add a; at 5s; add a; done a; when a",
        &expect![[r#"
        get: a
        when: 6s Debounced
        ready: -  waiting: a@6s  processing: -
    "#]],
    );
}

#[test]
fn an_event_in_back_off_follows_the_rule_for_back_off() {
    check_with(
        debounced(),
        "after a 0s; get; limited a; done a; add a; get",
        &expect![[r#"
        get: a
        get: a
        ready: -  waiting: -  processing: a
    "#]],
    );
}
