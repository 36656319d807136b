//! The elector as scripts.
//!
//! A script is a list of steps, each a time and an input: `0s stand`, `1s absent`, `2s got 7 other 4` (the lease at version 7,
//! held by `other`, with 4 changes of leader and a duration of 15 s), `3s got 7 other 4 30s`, `4s seen 7 other 4`, `4s seen -`,
//! `5s conflict`, `5s failed`, `6s wake`, `7s release` and `7s quit` (step down with and without releasing the lease). A holder
//! of `-` is none. The output has a line per step: the request that is sent, the events, and the time of the next wake-up.
//! A time that the elector draws at random is shown as `after a pause`.

use expect_test::{Expect, expect};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn check(script: &str, expected: &Expect) {
    let mut elector = Elector::new(Timing::default(), "me".to_owned(), fastrand::Rng::with_seed(1));
    let mut last = None;
    let lines = script.split(';').map(|step| {
        let (time, input) = step.trim().split_once(' ').expect("a step is a time and an input");
        let now = seconds(time);
        let output = elector.step(input_of(input), now);
        let mut parts: Vec<String> = output.request.iter().map(request_text).collect();
        parts.extend(output.events.iter().map(event_text));
        let wake = elector.next_wake();
        // A pause counts from the step that drew it.
        let drawn = wake.filter(|_| wake != last).map(|at| at.saturating_sub(now));
        parts.push(wake.map_or("no wake".to_owned(), |at| wake_text(at, drawn)));
        last = wake;
        format!("{time} {input}: {}\n", parts.join(", "))
    });
    expected.assert_eq(&lines.collect::<String>());
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs_f64(text.strip_suffix('s').expect("a unit").parse().expect("a number"))
}

fn holder(text: &str) -> &str {
    if text == "-" { "" } else { text }
}

fn lease(words: &[&str]) -> LeaseRecord {
    let [version, of, transitions, rest @ ..] = words else { panic!("no lease: {words:?}") };
    LeaseRecord {
        version: (*version).to_owned(),
        holder: holder(of).to_owned(),
        lease_duration: rest.first().map_or(15 * SECOND, |duration| seconds(duration)),
        transitions: transitions.parse().expect("a number"),
    }
}

fn input_of(text: &str) -> ElectorInput {
    let words: Vec<&str> = text.split(' ').collect();
    match *words {
        ["wake"] => ElectorInput::Wake,
        ["stand"] => ElectorInput::Stand,
        ["release"] => ElectorInput::StepDown { release: true },
        ["quit"] => ElectorInput::StepDown { release: false },
        ["seen", "-"] => ElectorInput::Seen(None),
        ["seen", ref words @ ..] => ElectorInput::Seen(Some(lease(words))),
        ["got", ref words @ ..] => ElectorInput::Answer(LeaseAnswer::Lease(lease(words))),
        ["absent"] => ElectorInput::Answer(LeaseAnswer::Absent),
        ["conflict"] => ElectorInput::Answer(LeaseAnswer::Conflict),
        ["failed"] => ElectorInput::Answer(LeaseAnswer::Failed("no answer".to_owned())),
        _ => panic!("no input: {text}"),
    }
}

fn request_text(request: &LeaseRequest) -> String {
    let name = |holder: &str| if holder.is_empty() { "-".to_owned() } else { holder.to_owned() };
    match request {
        LeaseRequest::Get => "get".to_owned(),
        LeaseRequest::Create { holder, lease_seconds, transitions } => {
            format!("create {} {transitions} {lease_seconds}s", name(holder))
        }
        LeaseRequest::Update { version, holder, lease_seconds, transitions, acquired } => {
            let why = if *acquired { "acquire" } else { "update" };
            format!("{why} {version} {} {transitions} {lease_seconds}s", name(holder))
        }
    }
}

fn event_text(event: &LeadershipEvent) -> String {
    match event {
        LeadershipEvent::StartedLeading { until, transitions } => {
            format!("LEADS until {until:?} as {transitions}")
        }
        LeadershipEvent::Renewed { until } => format!("RENEWED until {until:?}"),
        LeadershipEvent::StoppedLeading { reason } => format!("STOPS ({reason})"),
        LeadershipEvent::NewLeader { identity } => format!("leader is {identity}"),
        LeadershipEvent::SlowPath => "slow path".to_owned(),
        LeadershipEvent::Over { released } => format!("OVER, released: {released}"),
    }
}

/// A candidate's pause is 1 to 2.2 retry periods of 2 s, drawn to the nanosecond.
fn wake_text(at: Moment, drawn: Option<Duration>) -> String {
    if at.subsec_nanos().is_multiple_of(1_000_000) {
        return format!("wake at {at:?}");
    }
    assert!(drawn.is_none_or(|pause| (2 * SECOND..=seconds("4.4s")).contains(&pause)), "{drawn:?}");
    "wake after a pause".to_owned()
}

/// Leads from 2 s on, until 11 s; the next renewal is at 4 s.
const LEADS: &str = "0s stand; 1s absent; 2s got 1 me 0";

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
