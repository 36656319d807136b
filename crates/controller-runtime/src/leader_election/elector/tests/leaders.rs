//! Leaders: when the lease is renewed, and when leadership ends.

use expect_test::expect;

use super::{LEADS, check};

#[test]
fn a_leader_renews_every_two_seconds() {
    check(
        &format!("{LEADS}; 3.9s wake; 4s wake; 5s got 2 me 0; 6.9s wake; 7s wake; 7.5s got 3 me 0"),
        &expect![[r#"
            0s stand: get, no wake
            1s absent: create me 0 15s, no wake
            2s got 1 me 0: leader is me, LEADS until 11s as 0, wake at 4s
            3.9s wake: wake at 4s
            4s wake: update 1 me 0 15s, wake at 11s
            5s got 2 me 0: RENEWED until 14s, wake at 7s
            6.9s wake: wake at 7s
            7s wake: update 2 me 0 15s, wake at 14s
            7.5s got 3 me 0: RENEWED until 17s, wake at 9.5s
        "#]],
    );
}

#[test]
fn a_leader_retries_two_seconds_after_the_request_or_at_once_when_that_has_passed() {
    check(
        &format!("{LEADS}; 4s wake; 4.5s failed; 5.9s wake; 6s wake; 9s failed"),
        &expect![[r#"
            0s stand: get, no wake
            1s absent: create me 0 15s, no wake
            2s got 1 me 0: leader is me, LEADS until 11s as 0, wake at 4s
            4s wake: update 1 me 0 15s, wake at 11s
            4.5s failed: wake at 6s
            5.9s wake: wake at 6s
            6s wake: get, wake at 11s
            9s failed: get, wake at 11s
        "#]],
    );
}

#[test]
fn a_leader_that_cannot_renew_stops_at_the_end_of_its_time_and_stands_again() {
    check(
        &format!(
            "{LEADS}; 4s wake; 4.5s failed; 6s wake; 10.999s failed; 11s got 1 me 0; 11s wake; 12s stand; 13s got 1 me 0; 14s got 2 me 0"
        ),
        &expect![[r#"
            0s stand: get, no wake
            1s absent: create me 0 15s, no wake
            2s got 1 me 0: leader is me, LEADS until 11s as 0, wake at 4s
            4s wake: update 1 me 0 15s, wake at 11s
            4.5s failed: wake at 6s
            6s wake: get, wake at 11s
            10.999s failed: get, wake at 11s
            11s got 1 me 0: STOPS (not renewed within 10 s), no wake
            11s wake: no wake
            12s stand: update 1 me 0 15s, no wake
            13s got 1 me 0: LEADS until 22s as 0, wake at 15s
            14s got 2 me 0: wake at 15s
        "#]],
    );
}

#[test]
fn a_leader_reads_the_lease_when_the_watch_reports_another_holder_and_stops_if_that_is_so() {
    check(
        &format!("{LEADS}; 2.5s seen 1 me 0; 3s seen 2 other 1; 3.1s seen 3 other 1; 3.2s got 3 other 1"),
        &expect![[r#"
            0s stand: get, no wake
            1s absent: create me 0 15s, no wake
            2s got 1 me 0: leader is me, LEADS until 11s as 0, wake at 4s
            2.5s seen 1 me 0: wake at 4s
            3s seen 2 other 1: get, wake at 11s
            3.1s seen 3 other 1: wake at 11s
            3.2s got 3 other 1: leader is other, STOPS (other holds the lease), no wake
        "#]],
    );
    check(
        &format!("{LEADS}; 3s seen 0 other 1; 3.2s got 1 me 0"),
        &expect![[r#"
        0s stand: get, no wake
        1s absent: create me 0 15s, no wake
        2s got 1 me 0: leader is me, LEADS until 11s as 0, wake at 4s
        3s seen 0 other 1: get, wake at 11s
        3.2s got 1 me 0: update 1 me 0 15s, wake at 11s
    "#]],
    );
}

#[test]
fn a_leader_creates_its_deleted_lease_again_with_the_same_token() {
    check(
        &format!("{LEADS}; 3s seen -; 3.1s absent; 3.2s got 5 me 0"),
        &expect![[r#"
            0s stand: get, no wake
            1s absent: create me 0 15s, no wake
            2s got 1 me 0: leader is me, LEADS until 11s as 0, wake at 4s
            3s seen -: get, wake at 11s
            3.1s absent: create me 0 15s, wake at 11s
            3.2s got 5 me 0: RENEWED until 13.1s, wake at 5.2s
        "#]],
    );
}
