//! Comparison of responses, and the output of differences.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::bindings::Bindings;
use crate::comparison::Comparison;

/// Compares two response bodies to a request for `request_path`, and formats the differences, one per
/// line.
fn check(request_path: &str, expected: &Value, actual: &Value, differences: &Expect) {
    let mut bindings = Bindings::default();
    let mut comparison = Comparison::new(&mut bindings, request_path);
    comparison.values("$", expected, actual);
    let lines = comparison.into_differences().into_iter();
    let text: String = lines.map(|d| format!("{}: {} ≠ {}\n", d.path, d.expected, d.got)).collect();
    differences.assert_eq(&text);
}

#[test]
fn key_order_is_ignored_but_missing_and_additional_keys_are_not() {
    check("/x", &json!({"a": 1, "b": {}}), &json!({"b": {}, "a": 1}), &expect![""]);
    check(
        "/x",
        &json!({"a": {"gone": null}}),
        &json!({"a": {"new.key": []}}),
        &expect![[r#"
            $.a.gone: null ≠ (absent)
            $.a["new.key"]: (absent) ≠ []
        "#]],
    );
}

#[test]
fn numbers_differ_by_type_and_lists_by_length_and_order() {
    check(
        "/x",
        &json!({"n": 1, "l": ["a", "b", "c"]}),
        &json!({"n": 1.0, "l": ["b", "a"]}),
        &expect![[r#"
            $.l.length: 3 ≠ 2
            $.l[0]: "a" ≠ "b"
            $.l[1]: "b" ≠ "a"
            $.n: 1 ≠ 1.0
        "#]],
    );
}

#[test]
fn placeholders_in_keys_bind_as_those_in_values_do() {
    let expected = json!({"id": "{{uid:1}}", "owners": {"k:{\"uid\":\"{{uid:1}}\"}": {}}});
    let actual = |uid| json!({"id": "u", "owners": {format!("k:{{\"uid\":\"{uid}\"}}"): {}}});
    check("/x", &expected, &actual("u"), &expect![""]);
    check(
        "/x",
        &expected,
        &actual("v"),
        &expect![[r#"
            $.owners["k:{\"uid\":\"u\"}"]: {} ≠ (absent)
            $.owners["k:{\"uid\":\"v\"}"]: (absent) ≠ {}
        "#]],
    );
}

#[test]
fn a_long_text_is_shown_from_the_first_difference() {
    let (a, b) = (format!("{}end", "x".repeat(300)), format!("{}END", "x".repeat(300)));
    check(
        "/x",
        &json!(a),
        &json!(b),
        &expect![[r#"
            $: …"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxend" ≠ …"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxEND"
        "#]],
    );
}

#[test]
fn parts_that_may_differ_are_not_compared() {
    let version = |commit| json!({"major": "1", "gitCommit": commit, "platform": commit});
    check("/version", &version("a"), &version("b"), &expect![""]);
    check("/api", &json!({"serverAddressByClientCIDRs": [{}]}), &json!({}), &expect![""]);
    let causes =
        |order: [&str; 2]| json!({"details": {"causes": order.map(|field| json!({"field": field}))}});
    check("/x", &causes([".a", ".b"]), &causes([".b", ".a"]), &expect![""]);
    check(
        "/x",
        &json!("Code: 4, Key: /registry/configmaps/ns/a, ResourceVersion: 0, more"),
        &json!("Code: 4, Key: /other, ResourceVersion: 12, more"),
        &expect![""],
    );
}

#[test]
fn managed_fields_come_in_the_order_of_their_times() {
    let entry = |manager: &str, time: &str| json!({"manager": manager, "operation": "Update", "time": time});
    let recorded = json!({"managedFields": [entry("z", "{{time}}"), entry("a", "{{time}}")]});
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
    let in_one_second = json!({"managedFields": [entry("a", early), entry("z", early)]});
    check("/x", &recorded, &in_one_second, &expect![""]);
    let out_of_order = json!({"managedFields": [entry("a", late), entry("z", early)]});
    check(
        "/x",
        &recorded,
        &out_of_order,
        &expect![[r#"
            $.managedFields[0].manager: "z" ≠ "a"
            $.managedFields[1].manager: "a" ≠ "z"
        "#]],
    );
}
