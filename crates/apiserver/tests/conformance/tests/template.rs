//! Parsing of placeholders.

use crate::template::{Part, Placeholder, fits, parts};

#[test]
fn braces_that_are_no_placeholder_stay_literal() {
    assert_eq!(parts("f:{{a b}} {{x"), [Part::Literal("f:{{a b}} {{x")]);
    assert_eq!(
        parts("{{{ns}}"),
        [Part::Literal("{"), Part::Placeholder(Placeholder { kind: "ns", label: "ns" }),]
    );
}

#[test]
fn times_must_have_their_shape() {
    assert_eq!(fits("time", "2026-01-02T03:04:05Z"), Some(true));
    assert_eq!(fits("time", "2026-01-02T03:04:05.000000Z"), Some(false));
    assert_eq!(fits("microTime", "2026-01-02T03:04:05.000000Z"), Some(true));
    assert_eq!(fits("rv", "007"), Some(false));
    assert_eq!(fits("nonsense", "x"), None);
}
