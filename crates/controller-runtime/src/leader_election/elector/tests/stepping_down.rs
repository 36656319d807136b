//! The end of a candidacy: how the lease is released.

use expect_test::expect;

use super::{LEADS, check};

#[test]
fn a_leader_that_steps_down_releases_its_lease() {
    check(
        &format!("{LEADS}; 3s release; 3.5s got 2 - 0; 4s wake; 5s release"),
        &expect![[r#"
        0s stand: get, no wake
        1s absent: create me 0 15s, no wake
        2s got 1 me 0: leader is me, LEADS until 11s as 0, wake at 4s
        3s release: update 1 - 0 1s, STOPS (this process steps down), no wake
        3.5s got 2 - 0: OVER, released: true, no wake
        4s wake: no wake
        5s release: no wake
    "#]],
    );
    check(
        &format!("{LEADS}; 3s quit"),
        &expect![[r#"
        0s stand: get, no wake
        1s absent: create me 0 15s, no wake
        2s got 1 me 0: leader is me, LEADS until 11s as 0, wake at 4s
        3s quit: STOPS (this process steps down), OVER, released: false, no wake
    "#]],
    );
}

#[test]
fn a_candidate_without_the_lease_steps_down_at_once() {
    check(
        "0s stand; 1s got 7 other 4; 2s release",
        &expect![[r#"
        0s stand: get, no wake
        1s got 7 other 4: leader is other, wake after a pause
        2s release: OVER, released: false, no wake
    "#]],
    );
}

#[test]
fn an_unconfirmed_write_is_looked_up_before_the_end() {
    check(
        "0s stand; 1s absent; 2s failed; 3s release; 4s got 1 me 0; 5s got 2 - 0",
        &expect![[r#"
        0s stand: get, no wake
        1s absent: create me 0 15s, no wake
        2s failed: wake after a pause
        3s release: get, no wake
        4s got 1 me 0: update 1 - 0 1s, leader is me, no wake
        5s got 2 - 0: OVER, released: true, no wake
    "#]],
    );
    check(
        "0s stand; 1s absent; 2s failed; 3s release; 4s got 1 other 0",
        &expect![[r#"
        0s stand: get, no wake
        1s absent: create me 0 15s, no wake
        2s failed: wake after a pause
        3s release: get, no wake
        4s got 1 other 0: leader is other, OVER, released: false, no wake
    "#]],
    );
    check(
        "0s stand; 1s absent; 2s failed; 3s release; 4s absent",
        &expect![[r#"
        0s stand: get, no wake
        1s absent: create me 0 15s, no wake
        2s failed: wake after a pause
        3s release: get, no wake
        4s absent: OVER, released: false, no wake
    "#]],
    );
}

#[test]
fn a_write_that_was_refused_leaves_nothing_to_release() {
    check(
        "0s stand; 1s absent; 2s conflict; 3s release",
        &expect![[r#"
        0s stand: get, no wake
        1s absent: create me 0 15s, no wake
        2s conflict: get, slow path, no wake
        3s release: OVER, released: false, no wake
    "#]],
    );
}

#[test]
fn releasing_is_given_up_after_ten_seconds() {
    check(
        &format!("{LEADS}; 3s release; 10.9s failed; 12s failed; 12.9s wake"),
        &expect![[r#"
        0s stand: get, no wake
        1s absent: create me 0 15s, no wake
        2s got 1 me 0: leader is me, LEADS until 11s as 0, wake at 4s
        3s release: update 1 - 0 1s, STOPS (this process steps down), no wake
        10.9s failed: get, no wake
        12s failed: wake at 12.9s
        12.9s wake: get, no wake
    "#]],
    );
    check(
        &format!("{LEADS}; 3s release; 11s failed; 12s failed; 13s wake"),
        &expect![[r#"
        0s stand: get, no wake
        1s absent: create me 0 15s, no wake
        2s got 1 me 0: leader is me, LEADS until 11s as 0, wake at 4s
        3s release: update 1 - 0 1s, STOPS (this process steps down), no wake
        11s failed: get, no wake
        12s failed: wake at 13s
        13s wake: OVER, released: false, no wake
    "#]],
    );
    check(
        &format!("{LEADS}; 3s release; 12s failed; 15s got 2 me 0"),
        &expect![[r#"
        0s stand: get, no wake
        1s absent: create me 0 15s, no wake
        2s got 1 me 0: leader is me, LEADS until 11s as 0, wake at 4s
        3s release: update 1 - 0 1s, STOPS (this process steps down), no wake
        12s failed: get, no wake
        15s got 2 me 0: OVER, released: false, no wake
    "#]],
    );
}

#[test]
fn a_leader_that_steps_down_late_releases_a_lease_that_it_may_still_hold() {
    check(
        &format!("{LEADS}; 20s release; 21s conflict; 22s got 2 other 1"),
        &expect![[r#"
        0s stand: get, no wake
        1s absent: create me 0 15s, no wake
        2s got 1 me 0: leader is me, LEADS until 11s as 0, wake at 4s
        20s release: update 1 - 0 1s, STOPS (not renewed within 10 s), no wake
        21s conflict: get, slow path, no wake
        22s got 2 other 1: leader is other, OVER, released: false, no wake
    "#]],
    );
}
