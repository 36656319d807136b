use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

fn check(inputs: &[(&str, StepOutcome)], expected: &Expect) {
    check_machine(&mut ListWatch::new(None, fastrand::Rng::with_seed(7)), inputs, expected);
}

fn check_machine(machine: &mut ListWatch, inputs: &[(&str, StepOutcome)], expected: &Expect) {
    let now = Instant::now();
    let mut lines = String::new();
    for (name, input) in inputs {
        let lasts = |timeout: &Duration| assert!((300..600).contains(&timeout.as_secs()), "{timeout:?}");
        let step = match machine.step(input.clone(), now) {
            Step::Stream { timeout } => {
                lasts(&timeout);
                "stream".to_owned()
            }
            Step::List { paged: true } => "list".to_owned(),
            Step::List { paged: false } => "list in one piece".to_owned(),
            Step::Page { continue_token } => format!("list from {continue_token}"),
            Step::Watch { resource_version, timeout } => {
                lasts(&timeout);
                format!("watch from {resource_version}")
            }
            Step::Wait(_) => "wait".to_owned(),
            Step::AwaitServed(_) => "wait for the definition".to_owned(),
        };
        lines += &format!("{name} -> {step}\n");
    }
    expected.assert_eq(&lines);
}

fn page(version: &str, token: Option<&str>) -> StepOutcome {
    StepOutcome::Page { resource_version: version.into(), continue_token: token.map(Into::into) }
}

const OVERLOADED: StepOutcome = StepOutcome::Failed(RequestFailure::Transient { retry_after: None });

#[test]
fn the_initial_list_is_streamed_and_the_watch_continues_from_its_version() {
    let mut machine = ListWatch::new(None, fastrand::Rng::with_seed(7));
    check_machine(
        &mut machine,
        &[("start", StepOutcome::Start)],
        &expect![[r#"
        start -> stream
    "#]],
    );
    machine.saw(&"3".into()); // an initial object, which need not be the newest
    assert!(machine.listed(&"5".into()));
    machine.saw(&"6".into());
    check_machine(
        &mut machine,
        &[
            ("ended", StepOutcome::WatchEnded { progressed: true }),
            ("overloaded", OVERLOADED),
            ("waited", StepOutcome::Waited),
        ],
        &expect![[r#"
            ended -> watch from 6
            overloaded -> wait
            waited -> watch from 6
        "#]],
    );
}

#[test]
fn a_server_without_streaming_is_listed_in_pages_from_then_on() {
    check(
        &[
            ("start", StepOutcome::Start),
            ("unsupported", StepOutcome::Failed(RequestFailure::Unsupported)),
            ("page", page("5", Some("t1"))),
            ("last page", page("5", None)),
            ("expired", StepOutcome::Failed(RequestFailure::Expired)),
        ],
        &expect![[r#"
            start -> stream
            unsupported -> list
            page -> list from t1
            last page -> watch from 5
            expired -> list
        "#]],
    );
}

#[test]
fn an_event_out_of_order_causes_a_relist_at_a_limited_rate() {
    check(
        &[
            ("start", StepOutcome::Start),
            ("unsupported", StepOutcome::Failed(RequestFailure::Unsupported)),
            ("listed", page("5", None)),
            ("out of order", StepOutcome::Failed(RequestFailure::OutOfOrder)),
            ("listed", page("6", None)),
            ("out of order again", StepOutcome::Failed(RequestFailure::OutOfOrder)),
            ("waited", StepOutcome::Waited),
        ],
        &expect![[r#"
            start -> stream
            unsupported -> list
            listed -> watch from 5
            out of order -> list
            listed -> watch from 6
            out of order again -> wait
            waited -> list
        "#]],
    );
}

#[test]
fn a_refused_stream_is_followed_by_a_list_which_reports_the_reason() {
    check(
        &[
            ("start", StepOutcome::Start),
            ("refused", StepOutcome::Failed(RequestFailure::Refused)),
            ("refused too", StepOutcome::Failed(RequestFailure::Refused)),
            ("waited", StepOutcome::Waited),
            ("refused", StepOutcome::Failed(RequestFailure::Refused)),
            ("allowed", page("5", None)),
        ],
        &expect![[r#"
            start -> stream
            refused -> list
            refused too -> wait
            waited -> stream
            refused -> list
            allowed -> watch from 5
        "#]],
    );
}

#[test]
fn a_stream_that_ends_before_the_initial_list_is_complete_is_followed_by_a_list() {
    check(
        &[
            ("start", StepOutcome::Start),
            ("ended", StepOutcome::WatchEnded { progressed: true }),
            ("waited", StepOutcome::Waited),
            ("overloaded", OVERLOADED),
            ("waited", StepOutcome::Waited),
            ("overloaded", OVERLOADED),
            ("waited", StepOutcome::Waited),
        ],
        &expect![[r#"
            start -> stream
            ended -> wait
            waited -> list
            overloaded -> wait
            waited -> stream
            overloaded -> wait
            waited -> list
        "#]],
    );
}

#[test]
fn a_watch_is_reopened_from_the_latest_version_seen() {
    let mut machine = ListWatch::new(None, fastrand::Rng::with_seed(7));
    machine.step(page("5", None), Instant::now());
    machine.saw(&"9".into());
    machine.saw(&"8".into());
    let step = machine.step(StepOutcome::WatchEnded { progressed: true }, Instant::now());
    assert!(matches!(step, Step::Watch { resource_version, .. } if resource_version == "9".into()));
}

#[test]
fn an_expired_version_causes_an_immediate_relist() {
    check(
        &[("page", page("5", None)), ("watch gone", StepOutcome::Failed(RequestFailure::Expired))],
        &expect![[r#"
            page -> watch from 5
            watch gone -> stream
        "#]],
    );
}

#[test]
fn repeatedly_expired_versions_cause_relists_at_a_limited_rate() {
    check(
        &[
            ("page", page("5", None)),
            ("gone", StepOutcome::Failed(RequestFailure::Expired)),
            ("page", page("6", None)),
            ("gone again", StepOutcome::Failed(RequestFailure::Expired)),
            ("waited", StepOutcome::Waited),
        ],
        &expect![[r#"
            page -> watch from 5
            gone -> stream
            page -> watch from 6
            gone again -> wait
            waited -> stream
        "#]],
    );
}

#[test]
fn an_immediate_restart_is_allowed_every_ten_seconds() {
    let start = Instant::now();
    let gone_at = |machine: &mut ListWatch, seconds| {
        let now = start + Duration::from_secs_f64(seconds);
        machine.step(page("5", None), now);
        !matches!(machine.step(StepOutcome::Failed(RequestFailure::Expired), now), Step::Wait(_))
    };
    let mut machine = ListWatch::new(None, fastrand::Rng::with_seed(7));
    assert!(gone_at(&mut machine, 0.0));
    assert!(!gone_at(&mut machine, 9.999));
    assert!(gone_at(&mut machine, 10.0), "a wait is no restart");
    assert!(!gone_at(&mut machine, 10.001));
}

#[test]
fn after_an_expired_page_the_list_is_requested_in_one_piece() {
    check(
        &[
            ("unsupported", StepOutcome::Failed(RequestFailure::Unsupported)),
            ("page", page("5", Some("t1"))),
            ("token gone", StepOutcome::Failed(RequestFailure::Expired)),
            ("whole", page("6", None)),
        ],
        &expect![[r#"
            unsupported -> list
            page -> list from t1
            token gone -> list in one piece
            whole -> watch from 6
        "#]],
    );
}

#[test]
fn an_overload_repeats_the_watch_and_a_refusal_relists() {
    check(
        &[
            ("page", page("5", None)),
            ("overloaded", OVERLOADED),
            ("waited", StepOutcome::Waited),
            ("refused", StepOutcome::Failed(RequestFailure::Refused)),
            ("waited", StepOutcome::Waited),
        ],
        &expect![[r#"
            page -> watch from 5
            overloaded -> wait
            waited -> watch from 5
            refused -> wait
            waited -> stream
        "#]],
    );
}

#[test]
fn a_silent_watch_is_reopened_at_once_from_the_last_version_seen() {
    let mut machine = ListWatch::new(None, fastrand::Rng::with_seed(7));
    assert_eq!(machine.watched_version(), None);
    check_machine(
        &mut machine,
        &[("page", page("5", None)), ("silent", StepOutcome::Failed(RequestFailure::Silent))],
        &expect![[r#"
            page -> watch from 5
            silent -> watch from 5
        "#]],
    );
    machine.saw(&"7".into()); // from the bookmark of a probe
    assert_eq!(machine.watched_version(), Some("7".into()));
    check_machine(
        &mut machine,
        &[("silent", StepOutcome::Failed(RequestFailure::Silent))],
        &expect![[r#"
            silent -> watch from 7
        "#]],
    );
}

#[test]
fn a_watch_that_ends_at_once_waits_first() {
    check(
        &[
            ("page", page("5", None)),
            ("empty", StepOutcome::WatchEnded { progressed: false }),
            ("waited", StepOutcome::Waited),
        ],
        &expect![[r#"
            page -> watch from 5
            empty -> wait
            waited -> watch from 5
        "#]],
    );
}

#[test]
fn a_kind_that_is_not_served_is_awaited() {
    check(
        &[("not served", StepOutcome::Failed(RequestFailure::NotServed)), ("served", StepOutcome::Waited)],
        &expect![[r#"
            not served -> wait for the definition
            served -> stream
        "#]],
    );
}

#[test]
fn an_older_list_is_rejected_five_times_and_then_accepted() {
    let mut machine = ListWatch::new(Some("100".into()), fastrand::Rng::with_seed(7));
    let now = Instant::now();
    for _ in 0..5 {
        assert!(!machine.listed(&"99".into()));
        assert!(matches!(machine.step(StepOutcome::Failed(RequestFailure::Behind), now), Step::Wait(_)));
    }
    assert!(machine.listed(&"99".into()));
    assert!(!ListWatch::new(Some("100".into()), fastrand::Rng::with_seed(7)).listed(&"99".into()));
    assert!(ListWatch::new(Some("100".into()), fastrand::Rng::with_seed(7)).listed(&"101".into()));
}

#[test]
fn after_a_restart_a_list_is_requested_and_an_older_one_rejected() {
    let mut machine = ListWatch::new(None, fastrand::Rng::with_seed(7));
    check_machine(
        &mut machine,
        &[("page", page("5", None))],
        &expect![[r#"
            page -> watch from 5
        "#]],
    );
    machine.restart();
    assert_eq!(machine.watched_version(), None);
    check_machine(
        &mut machine,
        &[("waited", StepOutcome::Waited), ("older", page("4", None)), ("waited", StepOutcome::Waited)],
        &expect![[r#"
            waited -> stream
            older -> wait
            waited -> stream
        "#]],
    );
}

#[test]
fn retry_after_is_respected_up_to_a_limit() {
    let mut machine = ListWatch::new(None, fastrand::Rng::with_seed(7));
    let mut wait = |seconds| {
        let failure = RequestFailure::Transient { retry_after: Some(Duration::from_secs(seconds)) };
        match machine.step(StepOutcome::Failed(failure), Instant::now()) {
            Step::Wait(wait) => wait.as_secs(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(wait(17), 17);
    assert_eq!(wait(100_000), 300);
    assert!(wait(0) < 7, "then the wait is the usual one");
}

fn inputs() -> impl Strategy<Value = StepOutcome> {
    let failure = prop_oneof![
        Just(RequestFailure::Expired),
        Just(RequestFailure::Behind),
        prop::option::of(0..90u64)
            .prop_map(|seconds| RequestFailure::Transient { retry_after: seconds.map(Duration::from_secs) }),
        Just(RequestFailure::Silent),
        Just(RequestFailure::Unsupported),
        Just(RequestFailure::NotServed),
        Just(RequestFailure::Refused),
    ];
    prop_oneof![
        Just(StepOutcome::Waited),
        (1..99u8, any::<bool>()).prop_map(|(version, more)| page(&version.to_string(), more.then_some("t"))),
        any::<bool>().prop_map(|progressed| StepOutcome::WatchEnded { progressed }),
        failure.prop_map(StepOutcome::Failed),
    ]
}

proptest! {
    /// For every history: a watch continues from the highest version listed or seen, a page from its token alone, and
    /// only progress is followed by immediate requests without limit.
    #[test]
    fn watches_continue_from_known_versions_and_retries_are_limited(
        history in prop::collection::vec((inputs(), prop::option::of(1..99u8)), 1..60),
    ) {
        let mut machine = ListWatch::new(None, fastrand::Rng::with_seed(7));
        let (mut known, mut at_once, mut behind) = (0, 0, 0);
        for (input, seen) in history {
            // A watch counts as silent only after a while, so this is not a tight loop.
            let progress = matches!(
                input,
                StepOutcome::Page { .. }
                    | StepOutcome::Waited
                    | StepOutcome::WatchEnded { progressed: true }
                    | StepOutcome::Failed(RequestFailure::Silent)
            );
            let token = matches!(&input, StepOutcome::Page { continue_token: Some(_), .. });
            let mut refused = input == StepOutcome::Failed(RequestFailure::Behind);
            if let StepOutcome::Page { resource_version, continue_token: None } = &input {
                let version = resource_version.number().expect("a number");
                refused = version < known;
                if !refused {
                    (known, behind) = (version, 0);
                }
            }
            behind += u32::from(refused);
            if behind == 5 {
                (known, behind) = (0, 0);
            }
            match machine.step(input, Instant::now()) {
                Step::Watch { resource_version, .. } => prop_assert_eq!(resource_version.number(), Some(known)),
                Step::Page { .. } => prop_assert!(token),
                Step::List { .. } | Step::Stream { .. } => prop_assert!(!token),
                Step::Wait(delay) | Step::AwaitServed(delay) => {
                    prop_assert!(delay >= Duration::from_millis(800) && delay <= Duration::from_secs(90));
                    at_once = 0;
                    continue;
                }
            }
            at_once = if progress { 0 } else { at_once + 1 };
            prop_assert!(at_once <= 3, "four failures in a row were answered without a wait");
            if let (Some(version), ListWatchPhase::Watching { .. }) = (seen, &machine.phase) {
                machine.saw(&(&*version.to_string()).into());
                known = known.max(version.into());
            }
        }
    }
}
