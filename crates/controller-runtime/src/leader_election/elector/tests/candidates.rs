//! Candidates: when the lease is read, taken and created.

use expect_test::expect;

use super::{LEADS, check};

#[test]
fn a_candidate_sends_no_request_before_it_stands_for_election() {
    check(
        "0s wake; 1s seen 7 other 4; 1s seen 7 other 4; 2s seen 8 - 4; 3s seen 9 other 5; 4s stand",
        &expect![[r#"
        0s wake: no wake
        1s seen 7 other 4: leader is other, no wake
        1s seen 7 other 4: no wake
        2s seen 8 - 4: no wake
        3s seen 9 other 5: no wake
        4s stand: get, no wake
    "#]],
    );
}

#[test]
fn an_absent_lease_is_created_and_leadership_counts_from_the_request() {
    check(
        LEADS,
        &expect![[r#"
        0s stand: get, no wake
        1s absent: create me 0 15s, no wake
        2s got 1 me 0: leader is me, LEADS until 11s as 0, wake at 4s
    "#]],
    );
}

#[test]
fn a_free_lease_is_taken_with_the_next_fencing_token() {
    check(
        "0s stand; 1s got 3 - 4; 2s got 4 me 5",
        &expect![[r#"
        0s stand: get, no wake
        1s got 3 - 4: acquire 3 me 5 15s, no wake
        2s got 4 me 5: leader is me, LEADS until 11s as 5, wake at 4s
    "#]],
    );
}

#[test]
fn a_lease_is_taken_over_when_it_has_not_changed_for_its_duration() {
    check(
        "0s stand; 1s got 7 other 4; 5.5s wake; 6s got 7 other 4; 10.5s wake; 11s got 7 other 4; 15.5s wake; 15.9s got 7 other 4; \
         16s wake; 17s got 8 me 5",
        &expect![[r#"
            0s stand: get, no wake
            1s got 7 other 4: leader is other, wake after a pause
            5.5s wake: get, no wake
            6s got 7 other 4: wake after a pause
            10.5s wake: get, no wake
            11s got 7 other 4: wake after a pause
            15.5s wake: get, no wake
            15.9s got 7 other 4: wake at 16s
            16s wake: acquire 7 me 5 15s, no wake
            17s got 8 me 5: leader is me, LEADS until 26s as 5, wake at 19s
        "#]],
    );
}

#[test]
fn every_change_of_the_lease_restarts_its_duration() {
    check(
        "0s stand; 1s got 7 other 4; 10s seen 8 other 4; 10.5s failed; 15s wake; 16s got 8 other 4; 24.9s wake; 25s got 8 other 4",
        &expect![[r#"
            0s stand: get, no wake
            1s got 7 other 4: leader is other, wake after a pause
            10s seen 8 other 4: get, no wake
            10.5s failed: wake after a pause
            15s wake: get, no wake
            16s got 8 other 4: wake after a pause
            24.9s wake: get, no wake
            25s got 8 other 4: acquire 8 me 5 15s, no wake
        "#]],
    );
}

#[test]
fn a_lease_without_a_duration_has_that_of_the_candidate() {
    check(
        "0s stand; 1s got 7 other 4 0s; 15.9s seen 7 other 4; 16s seen 7 other 4",
        &expect![[r#"
        0s stand: get, no wake
        1s got 7 other 4 0s: leader is other, wake after a pause
        15.9s seen 7 other 4: get, no wake
        16s seen 7 other 4: no wake
    "#]],
    );
}

#[test]
fn a_lease_that_the_watch_reports_as_released_is_taken_at_once() {
    check(
        "0s stand; 1s got 7 other 4; 2s seen 8 - 4; 3s got 9 me 5",
        &expect![[r#"
        0s stand: get, no wake
        1s got 7 other 4: leader is other, wake after a pause
        2s seen 8 - 4: acquire 8 me 5 15s, no wake
        3s got 9 me 5: leader is me, LEADS until 12s as 5, wake at 5s
    "#]],
    );
}

#[test]
fn after_a_conflict_the_lease_is_read_and_written_at_most_once_more_in_the_same_attempt() {
    let released = "0s stand; 1s got 7 other 4; 2s seen 8 - 4";
    check(
        &format!("{released}; 3s conflict; 4s got 9 - 4; 5s conflict"),
        &expect![[r#"
        0s stand: get, no wake
        1s got 7 other 4: leader is other, wake after a pause
        2s seen 8 - 4: acquire 8 me 5 15s, no wake
        3s conflict: get, slow path, no wake
        4s got 9 - 4: acquire 9 me 5 15s, no wake
        5s conflict: slow path, wake after a pause
    "#]],
    );
    check(
        &format!("{released}; 3s conflict; 4s got 9 another 5"),
        &expect![[r#"
        0s stand: get, no wake
        1s got 7 other 4: leader is other, wake after a pause
        2s seen 8 - 4: acquire 8 me 5 15s, no wake
        3s conflict: get, slow path, no wake
        4s got 9 another 5: leader is another, wake after a pause
    "#]],
    );
}

#[test]
fn an_attempt_has_three_requests_at_most() {
    check(
        "0s stand; 1s absent; 2s absent; 3s absent; 3s wake",
        &expect![[r#"
        0s stand: get, no wake
        1s absent: create me 0 15s, no wake
        2s absent: create me 0 15s, no wake
        3s absent: wake after a pause
        3s wake: wake after a pause
    "#]],
    );
}

#[test]
fn after_a_failed_request_the_lease_is_read_first() {
    check(
        "0s stand; 1s failed; 6s wake; 7s got 3 - 4; 8s failed; 13s wake; 14s got 4 me 5",
        &expect![[r#"
        0s stand: get, no wake
        1s failed: wake after a pause
        6s wake: get, no wake
        7s got 3 - 4: acquire 3 me 5 15s, no wake
        8s failed: wake after a pause
        13s wake: get, no wake
        14s got 4 me 5: update 4 me 5 15s, leader is me, no wake
    "#]],
    );
}

#[test]
fn a_request_that_fails_when_the_lease_becomes_free_is_repeated_after_a_pause() {
    check(
        "0s stand; 1s got 7 other 4; 15s wake; 16s failed; 16s wake; 21s wake; 22s got 7 other 4",
        &expect![[r#"
        0s stand: get, no wake
        1s got 7 other 4: leader is other, wake after a pause
        15s wake: get, no wake
        16s failed: wake after a pause
        16s wake: wake after a pause
        21s wake: get, no wake
        22s got 7 other 4: acquire 7 me 5 15s, no wake
    "#]],
    );
}

#[test]
fn an_answer_after_the_end_of_its_permit_grants_no_leadership() {
    check(
        "0s stand; 1s absent; 10.999s got 1 me 0",
        &expect![[r#"
        0s stand: get, no wake
        1s absent: create me 0 15s, no wake
        10.999s got 1 me 0: leader is me, LEADS until 11s as 0, wake at 11s
    "#]],
    );
    check(
        "0s stand; 1s absent; 11s got 1 me 0",
        &expect![[r#"
        0s stand: get, no wake
        1s absent: create me 0 15s, no wake
        11s got 1 me 0: leader is me, wake after a pause
    "#]],
    );
}

#[test]
fn a_candidate_creates_a_deleted_lease_when_it_would_have_expired() {
    check(
        "0s stand; 1s got 7 other 4; 2s seen -; 15.9s wake; 15.95s absent; 16s wake; 17s got 9 me 5",
        &expect![[r#"
        0s stand: get, no wake
        1s got 7 other 4: leader is other, wake after a pause
        2s seen -: wake after a pause
        15.9s wake: get, no wake
        15.95s absent: wake at 16s
        16s wake: create me 5 15s, no wake
        17s got 9 me 5: leader is me, LEADS until 26s as 5, wake at 19s
    "#]],
    );
}

#[test]
fn standing_twice_changes_nothing() {
    check(
        "0s stand; 0.5s stand; 1s absent; 2s got 1 me 0; 3s stand",
        &expect![[r#"
        0s stand: get, no wake
        0.5s stand: no wake
        1s absent: create me 0 15s, no wake
        2s got 1 me 0: leader is me, LEADS until 11s as 0, wake at 4s
        3s stand: wake at 4s
    "#]],
    );
}
