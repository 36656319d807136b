//! Binding of placeholders.

use crate::bindings::Bindings;

#[test]
fn the_first_value_seen_binds_and_later_ones_must_agree() {
    let mut bindings = Bindings::new(&[("ns", "default-x")]);
    assert_eq!(bindings.agree("{{ns}}/{{uid:1}}", "default-x/ab-1"), Ok(()));
    assert_eq!(bindings.expand("uid is {{uid:1}}, not {{uid:2}}"), "uid is ab-1, not {{uid:2}}");
    assert_eq!(bindings.agree("{{uid:1}}", "ab-2"), Err(String::new()));
}

#[test]
fn two_placeholders_of_a_distinct_kind_cannot_share_a_value() {
    let mut bindings = Bindings::default();
    assert_eq!(bindings.agree("{{rv:1}}", "7"), Ok(()));
    assert_eq!(bindings.agree("{{rv:2}}", "7"), Err("this value is already {{rv:1}}".to_owned()));
    assert_eq!(bindings.agree("{{listrv:1}}", "7"), Ok(()));
    assert_eq!(
        bindings.agree("{{uid:1}} {{uid:2}}", "a a"),
        Err("this value is already {{uid:1}}".to_owned())
    );
}

#[test]
fn a_failed_match_binds_nothing() {
    let mut bindings = Bindings::default();
    assert!(bindings.agree("{{uid:1}} and {{rv:1}}", "u and x").is_err());
    assert_eq!(bindings.expand("{{uid:1}}"), "{{uid:1}}");
}

#[test]
fn times_may_change_and_requests_send_the_latest() {
    let mut bindings = Bindings::default();
    for time in ["2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"] {
        assert_eq!(bindings.agree("{{time:1}}", time), Ok(()));
    }
    assert_eq!(bindings.expand("{{time:1}}"), "2026-01-01T00:00:01Z");
}

#[test]
fn creation_times_do_not_change() {
    let mut bindings = Bindings::default();
    assert_eq!(bindings.agree("{{created:1}}", "2026-01-01T00:00:00Z"), Ok(()));
    assert!(bindings.agree("{{created:1}}", "2026-01-01T00:00:01Z").is_err());
}

#[test]
fn a_placeholder_takes_the_text_before_the_longest_matching_rest() {
    let mut bindings = Bindings::default();
    assert_eq!(bindings.agree("pods \"{{name:1}}-x\" gone", "pods \"a-x-x\" gone"), Ok(()));
    assert_eq!(bindings.expand("{{name:1}}"), "a-x");
}

#[test]
fn falling_revisions_are_named() {
    let mut bindings = Bindings::default();
    bindings.agree("{{rv:1}} {{rv:2}} {{listrv:1}}", "5 4 4").unwrap();
    let rising = ["rv:1", "rv:2", "rv:3", "listrv:1"].map(str::to_owned);
    assert_eq!(bindings.disorder(&rising), [[("rv:1", 5), ("rv:2", 4)]]);
}
