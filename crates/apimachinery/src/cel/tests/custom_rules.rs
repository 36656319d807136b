//! Rules of custom resources: errors of kube-apiserver v1.36.3.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::*;
use crate::schema::Schema;

/// Evaluates the rules of the schema of `spec`, and compares errors and warnings.
fn check(spec: &Value, old: Option<&Value>, new: &Value, expected: &Expect) {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let rules = ObjectRules::read(&schema).expect("the schema has rules");
    let object = |spec: &Value| json!({"metadata": {"name": "x"}, "spec": spec});
    let old = old.map(object);
    let outcome = rules.validate(&object(new), old.as_ref());
    let errors = outcome.errors.iter().map(ToString::to_string);
    let warnings = outcome.warnings.iter().map(|warning| format!("warning: {warning}"));
    expected.assert_eq(&errors.chain(warnings).collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_schema_without_rules_costs_nothing() {
    assert!(ObjectRules::read(&json!({"type": "object", "properties": {"a": {"type": "string"}}})).is_none());
    // As in kube-apiserver, rules that stand only in `allOf` are not evaluated.
    let only_in_parts =
        json!({"type": "object", "allOf": [{"x-kubernetes-validations": [{"rule": "false"}]}]});
    assert!(ObjectRules::read(&only_in_parts).is_none());
}

#[test]
fn messages_name_the_rule_or_its_own_message() {
    let spec = json!({
        "type": "object",
        "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}, "name": {"type": "string"}, "on": {"type": "boolean"}},
        "x-kubernetes-validations": [
            {"rule": "self.min <= self.max", "message": "min must not exceed max"},
            {"rule": "!has(self.name) || self.name.startsWith('x')"},
            {"rule": "has(self.on) ? self.on : true"},
        ],
    });
    check(
        &spec,
        None,
        &json!({"min": 2, "max": 1, "name": "y", "on": false}),
        &expect![[r#"
            spec: Invalid value: min must not exceed max
            spec: Invalid value: failed rule: !has(self.name) || self.name.startsWith('x')
            spec: Invalid value: failed rule: has(self.on) ? self.on : true"#]],
    );
    check(
        &spec,
        None,
        &json!({"max": 1}),
        &expect![[
            r#"spec: Invalid value: "object": no such key: min evaluating rule: min must not exceed max"#
        ]],
    );
    check(&spec, None, &json!({"min": 1, "max": 2, "name": "xy"}), &expect![""]);
}

#[test]
fn reasons_paths_and_message_expressions_shape_an_error() {
    let spec = json!({
        "type": "object",
        "properties": {"size": {"type": "integer"}, "color": {"type": "string"}, "a.b": {"type": "string"}},
        "x-kubernetes-validations": [
            {"rule": "self.size != 1", "messageExpression": "'one is ' + (self.size > 0 ? 'odd' : 'bad')"},
            {"rule": "self.size != 2", "message": "fallback", "messageExpression": "1 / (self.size - 2) > 0 ? 'a' : 'b'"},
            {"rule": "self.size != 3", "reason": "FieldValueForbidden", "fieldPath": ".size", "message": "three is unlucky"},
            {"rule": "self.size != 4", "reason": "FieldValueRequired", "fieldPath": ".color"},
            {"rule": "self.size != 5", "reason": "FieldValueDuplicate", "message": "twice"},
            {"rule": "self.size != 6", "reason": "FieldValueInvalid", "fieldPath": "['a.b']"},
            {"rule": "self.size != 7", "messageExpression": "''"},
            {"rule": "self.size != 8", "messageExpression": "'two\\nlines'", "message": "kept"},
            {"rule": "self.size != 9", "message": "  padded  "},
        ],
    });
    for (size, expected) in [
        (1, expect!["spec: Invalid value: one is odd"]),
        (2, expect!["spec: Invalid value: fallback"]),
        (3, expect!["spec.size: Forbidden: three is unlucky"]),
        (4, expect!["spec.color: Required value: failed rule: self.size != 4"]),
        (5, expect!["spec: Duplicate value"]),
        (6, expect!["spec.a.b: Invalid value: failed rule: self.size != 6"]),
        (7, expect!["spec: Invalid value: failed rule: self.size != 7"]),
        (8, expect!["spec: Invalid value: kept"]),
        (9, expect!["spec: Invalid value: padded"]),
        (10, expect![""]),
    ] {
        check(&spec, None, &json!({"size": size}), &expected);
    }
}

#[test]
fn transition_rules_compare_with_the_old_value() {
    let spec = json!({
        "type": "object",
        "properties": {
            "frozen": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "frozen is immutable"}]},
            "grow": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]},
            "ports": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {
                    "name": {"type": "string"},
                    "port": {"type": "integer", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "port is fixed"}]},
                }},
            },
        },
        "x-kubernetes-validations": [{"rule": "!has(oldSelf.frozen) || has(self.frozen)", "message": "frozen must stay"}],
    });
    let old = json!({"frozen": "x", "grow": 1, "ports": [{"name": "web", "port": 80}]});
    let changed = |change: Value| {
        let mut new = old.clone();
        for (name, value) in change.as_object().unwrap() {
            new[name] = value.clone();
        }
        new
    };
    check(&spec, None, &old, &expect![""]);
    for (change, expected) in [
        (json!({"frozen": "y"}), expect![[r#"spec.frozen: Invalid value: "y": frozen is immutable"#]]),
        (json!({"frozen": null}), expect!["spec: Invalid value: frozen must stay"]),
        (json!({"grow": 0}), expect!["spec.grow: Invalid value: 0: failed rule: self >= oldSelf"]),
        (json!({"grow": 5}), expect![""]),
        (
            json!({"ports": [{"name": "dns", "port": 53}, {"name": "web", "port": 81}]}),
            expect!["spec.ports[1].port: Invalid value: 81: port is fixed"],
        ),
        (json!({"ports": [{"name": "dns", "port": 53}]}), expect![""]),
    ] {
        check(&spec, Some(&old), &changed(change), &expected);
    }
}

#[test]
fn a_rule_may_see_that_there_is_no_old_value() {
    let spec = json!({
        "type": "string",
        "x-kubernetes-validations": [{"rule": "oldSelf.orValue('a') == 'a'", "optionalOldSelf": true, "message": "left a"}],
    });
    check(&spec, None, &json!("b"), &expect![""]);
    check(&spec, Some(&json!("a")), &json!("b"), &expect![""]);
    check(&spec, Some(&json!("b")), &json!("c"), &expect![[r#"spec: Invalid value: "c": left a"#]]);
}

#[test]
fn errors_about_unchanged_values_are_warnings() {
    let spec = json!({
        "type": "object",
        "properties": {
            "a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 10", "message": "too large"}]},
            "b": {"type": "integer"},
        },
    });
    let old = json!({"a": 20, "b": 1});
    check(
        &spec,
        Some(&old),
        &json!({"a": 20, "b": 2}),
        &expect!["warning: spec.a: Invalid value: 20: too large"],
    );
    check(&spec, Some(&old), &json!({"a": 21, "b": 1}), &expect!["spec.a: Invalid value: 21: too large"]);
    check(&spec, None, &old, &expect!["spec.a: Invalid value: 20: too large"]);
}

#[test]
fn rules_in_maps_and_lists_apply_to_their_values() {
    let spec = json!({
        "type": "object",
        "properties": {
            "map": {"type": "object", "additionalProperties": {
                "type": "string", "x-kubernetes-validations": [{"rule": "self != 'bad'", "message": "bad entry"}],
            }},
            "list": {"type": "array", "items": {
                "type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "message": "not positive"}],
            }},
            "null": {"type": "string", "nullable": true, "x-kubernetes-validations": [{"rule": "false"}]},
        },
        "x-kubernetes-validations": [{"rule": "true"}],
    });
    check(
        &spec,
        None,
        &json!({"list": [1, 0], "map": {"k": "bad", "l": "good"}, "null": null}),
        &expect![[r#"
            spec.list[1]: Invalid value: 0: not positive
            spec.map[k]: Invalid value: "bad": bad entry"#]],
    );
}

#[test]
fn the_root_sees_type_and_name() {
    let schema = json!({
        "type": "object", "properties": {"metadata": {"type": "object"}},
        "x-kubernetes-validations": [{"rule": "self.metadata.name != 'forbidden'", "message": "not that name"}],
    });
    let rules = ObjectRules::read(&schema).unwrap();
    let texts = |name: &str| {
        let object =
            json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": name, "labels": {"a": "b"}}});
        rules.validate(&object, None).errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(texts("forbidden"), ["<nil>: Invalid value: not that name"]);
    assert!(texts("other").is_empty());
}

#[test]
fn errors_that_prevent_the_evaluation_are_mentioned() {
    let required = crate::status::FieldError::required("spec.name", "");
    let invalid = crate::status::FieldError::invalid("spec.size", "11", "should be less");
    assert_eq!(ObjectRules::unchecked(std::slice::from_ref(&invalid)), None);
    let note = ObjectRules::unchecked(&[invalid, required]).map(|note| note.to_string());
    assert_eq!(
        note.as_deref(),
        Some(
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the \
             existing errors to complete validation"
        )
    );
}

#[test]
fn a_rule_that_costs_too_much_ends_the_evaluation() {
    let spec = json!({
        "type": "object",
        "properties": {"list": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [
            {"rule": "self.list.all(a, self.list.all(b, self.list.all(c, a + b + c >= 0)))", "message": "slow"},
            {"rule": "false"},
        ],
    });
    let list: Vec<usize> = (0..200).collect();
    check(
        &spec,
        None,
        &json!({"list": list}),
        &expect![[
            r#"spec: Invalid value: "object": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: slow"#
        ]],
    );
}

#[test]
fn rules_with_syntax_errors_are_refused() {
    let spec = json!({
        "type": "object",
        "properties": {
            "l": {"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self =="}]}},
            "a": {"type": "string", "x-kubernetes-validations": [{"rule": "self.matches('(')"}, {"rule": "self.find('(') == ''"}]},
            "any": {"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": [{"rule": "true"}]},
        },
        "x-kubernetes-validations": [{"rule": "self.l.size() < 3 &&"}, {"rule": "true", "message": "kept"}],
    });
    let errors = ObjectRules::check(&json!({"type": "object", "properties": {"spec": spec}}), "schema", &[]);
    let expected = expect![[r#"
        schema.properties[spec].properties[a].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.matches('(')","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:14: invalid matches argument
         | self.matches('(')
         | .............^
        schema.properties[spec].properties[a].x-kubernetes-validations[1].rule: Invalid value: {"Rule":"self.find('(') == ''","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: program instantiation failed: error parsing regexp: missing closing ): `(`
        schema.properties[spec].properties[any].x-kubernetes-validations: Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations
        schema.properties[spec].properties[l].items.x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self ==","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:8: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}
         | self ==
         | .......^
        schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.l.size() \u003c 3 \u0026\u0026","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:21: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}
         | self.l.size() < 3 &&
         | ....................^"#]];
    expected.assert_eq(&errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
}

/// Recorded from kube-apiserver v1.36.3: the first line of the error of a definition with the rule.
#[test]
fn rules_are_checked_with_the_types_of_the_schema() {
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer"}, "ratio": {"type": "number"}, "on": {"type": "boolean"}, "name": {"type": "string"},
        "port": {"x-kubernetes-int-or-string": true}, "when": {"type": "string", "format": "date-time"},
        "wait": {"type": "string", "format": "duration"}, "data": {"type": "string", "format": "byte"},
        "tags": {"type": "array", "maxItems": 10, "items": {"type": "string"}},
        "items": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "sub": {"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}},
        "tmpl": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
    }});
    for (rule, expected) in [
        (
            "self.size + self.ratio > 1",
            "1:11: found no matching overload for '_+_' applied to '(int, double)'",
        ),
        ("self.port", "cel expression must evaluate to a bool"),
        ("self.port == 'x' || self.port > 1", "ok"),
        (
            "self.when - self.wait > 5",
            "1:23: found no matching overload for '_>_' applied to '(timestamp, int)'",
        ),
        ("self.data == 'abc'", "1:11: found no matching overload for '_==_' applied to '(bytes, string)'"),
        ("self.tags.exists(t, t.nope)", "1:22: type 'string' does not support field selection"),
        ("self.items.all(i, i.m > 1)", "1:20: undefined field 'm'"),
        (
            "self.labels.all(k, v, k == 1)",
            "1:25: found no matching overload for '_==_' applied to '(string, int)'",
        ),
        ("self.any == 1", "1:5: undefined field 'any'"),
        ("self.sub == null", "ok"),
        ("self.size == null", "1:11: found no matching overload for '_==_' applied to '(int, null)'"),
        ("[null, self.sub].size() == 2", "1:12: expected type 'null' but found 'selfType.sub'"),
        ("self.tmpl.metadata.labels == 'x'", "1:19: undefined field 'labels'"),
        ("self.tmpl.kind == 'Pod'", "ok"),
        (
            "self.?size.orValue('1') == 1",
            "1:19: found no matching overload for 'orValue' applied to 'optional_type(int).(string)'",
        ),
        ("optional.none().orValue(true)", "ok"),
        (
            "self.?size.optMap(s, s + 'a').orValue(2) == 3",
            "1:24: found no matching overload for '_+_' applied to '(int, string)'",
        ),
        ("(self.on ? [1] : []) == [1]", "ok"),
        (
            "ip(self.name) == '1.1.1.1'",
            "1:15: found no matching overload for '_==_' applied to '(net.IP, string)'",
        ),
        (
            "quantity('1') < quantity('2')",
            "1:15: found no matching overload for '_<_' applied to '(kubernetes.Quantity, kubernetes.Quantity)'",
        ),
        (
            "self.name.reverse() == 'a'",
            "1:18: found no matching overload for 'reverse' applied to 'string.()'",
        ),
        ("'%s %d'.format([self.name, self.size]) == 'a'", "ok"),
        ("[1, 'a'].size() == 2", "1:5: expected type 'int' but found 'string'"),
        ("self.tags.transformMapEntry(i, t, {t: i})['a'] == 1", "ok"),
        (
            "self.labels.transformMapEntry(k, v, v) == {'a': 'b'}",
            "1:30: found no matching overload for 'cel.@mapInsert' applied to '(map(dyn, dyn), string)'",
        ),
        ("self.size && true", "1:5: expected type 'bool' but found 'int'"),
        ("self.items.exists(i, i.n)", "1:23: expected type 'bool' but found 'int'"),
        ("nosuch(1) || nosuch2(2)", "1:7: undeclared reference to 'nosuch' (in container '')"),
        ("duration('nope') == duration('1h')", "1:10: invalid duration argument"),
        ("oldSelf.nope == 1", "1:8: undefined field 'nope'"),
        ("has(self.tags.x)", "1:4: type 'list(string)' does not support field selection"),
        ("google.protobuf.Int32Value{value: 1} == 1", "ok"),
        (
            "self.size.all(x, x == 1)",
            "1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
    ] {
        let mut spec = spec.clone();
        spec["x-kubernetes-validations"] = json!([{"rule": rule}]);
        let errors =
            ObjectRules::check(&json!({"type": "object", "properties": {"spec": spec}}), "schema", &[]);
        let found = errors.first().map_or("ok".to_owned(), |error| {
            let (_, why) = error.message.split_once("}: ").expect("a text behind the rule");
            let line = why.lines().next().unwrap_or_default();
            line.trim_start_matches("compilation failed: ERROR: <input>:").replace("selfType1.", "selfType.")
        });
        assert_eq!(found, expected, "{rule}");
    }
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn an_invalid_keyword_hides_the_rules_of_its_schema_and_of_those_around_it() {
    let rules = json!([{"rule": "80%"}]);
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "x-kubernetes-validations": rules,
        "properties": {
            "address": {"type": "string", "x-kubernetes-validations": rules},
            "hosts": {
                "type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "-a", "x-kubernetes-validations": rules,
            },
        },
    }}});
    let found = Schema::check_crd(&schema, "schema");
    assert!(found.are_rules_checked());
    let errors = ObjectRules::check(&schema, "schema", &found.keywords);
    let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields, ["schema.properties[spec].properties[address].x-kubernetes-validations[0].rule"]);
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn an_old_value_that_may_be_absent_is_an_optional() {
    let errors = |rule: &str| {
        let spec = json!({"type": "object", "properties": {"size": {"type": "integer"}}, "x-kubernetes-validations": [
            {"rule": rule, "optionalOldSelf": true, "messageExpression": "self.size"},
        ]});
        let errors =
            ObjectRules::check(&json!({"type": "object", "properties": {"spec": spec}}), "schema", &[]);
        errors
            .iter()
            .map(|error| error.message.lines().next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    let [rule, flag] = &errors("oldSelf.size > 1")[..] else { panic!("two errors") };
    assert!(
        rule.ends_with("1:14: found no matching overload for '_>_' applied to '(optional_type(int), int)'"),
        "{rule}"
    );
    assert_eq!(flag, "Invalid value: true: may not be set if oldSelf is not used in rule");
    let [message] = &errors("!oldSelf.hasValue() || oldSelf.value().size > 1")[..] else {
        panic!("one error")
    };
    assert!(message.ends_with("}: messageExpression must evaluate to a string"), "{message}");
}

#[test]
fn defaults_fit_the_rules() {
    let integer = |default: i64, rule: &str| json!({"type": "integer", "default": default, "x-kubernetes-validations": [{"rule": rule, "message": "refused"}]});
    for (spec, expected) in [
        (
            json!({"type": "object", "properties": {"a": integer(7, "self != 7")}}),
            expect!["schema.properties[spec].properties[a].default: Invalid value: 7: refused"],
        ),
        // Transition rules compare a default with itself.
        (
            json!({"type": "object", "properties": {"a": integer(7, "self != oldSelf")}}),
            expect!["schema.properties[spec].properties[a].default: Invalid value: 7: refused"],
        ),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {"a": integer(0, "1 / self > 0")}}}),
            expect![[
                r#"schema.properties[spec].items.properties[a].default: Invalid value: "integer": division by zero evaluating rule: refused"#
            ]],
        ),
        (
            json!({
                "type": "object", "default": {"a": 7},
                "properties": {"a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self != 7", "message": "seven"}]}},
                "x-kubernetes-validations": [{"rule": "self.a < 5", "message": "five", "fieldPath": ".a"}],
            }),
            expect![[r#"
                schema.properties[spec].default.a: Invalid value: five
                schema.properties[spec].default.a: Invalid value: 7: seven"#]],
        ),
        (json!({"type": "object", "properties": {"a": integer(1, "self != 7")}}), expect![""]),
    ] {
        let errors =
            ObjectRules::check(&json!({"type": "object", "properties": {"spec": spec}}), "schema", &[]);
        expected.assert_eq(&errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    }
}

#[test]
fn old_values_are_only_available_where_they_exist() {
    let list = |list_type: &str| {
        json!({
            "type": "array", "x-kubernetes-list-type": list_type, "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}}, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
        })
    };
    let errors = |list: Value| {
        let schema = json!({"type": "object", "properties": {"list": list}});
        let errors = ObjectRules::check(&schema, "schema", &[]);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    expect![[r#"schema.properties[list].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within schema.properties[list]"#]]
        .assert_eq(&errors(list("atomic")));
    expect![""].assert_eq(&errors(list("map")));
    let flagged = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1", "optionalOldSelf": true}]});
    expect!["schema.properties[list].x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"]
        .assert_eq(&errors(flagged));
}

/// Lengths of lists up to which a rule is evaluated: 360 in kube-apiserver v1.36.3, and 380 is too long.
#[test]
fn a_rule_costs_about_as_much_as_in_kube_apiserver() {
    let spec = json!({
        "type": "array", "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": "self.all(a, self.all(b, a + b >= 0))"}],
    });
    let rules = ObjectRules::read(&json!({"type": "object", "properties": {"spec": spec}})).unwrap();
    let errors = |length: usize| {
        let object = json!({"spec": (0..length).collect::<Vec<_>>()});
        rules.validate(&object, None).errors.len()
    };
    assert_eq!((errors(360), errors(380)), (0, 1));
}
