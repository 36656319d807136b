//! Objects and their errors; the expectations are recorded answers.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::Schema;

#[track_caller]
fn check(spec: &Value, value: &Value, expected: &Expect) {
    let root =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"f": spec}}}});
    let schema = Schema::of_crd(&root);
    let errors = schema.validate(&json!({"spec": {"f": value}}));
    let texts: Vec<_> = errors.iter().map(|error| format!("{} {error}", error.reason)).collect();
    expected.assert_eq(&texts.join("\n"));
}

#[test]
fn wrong_types_are_errors() {
    check(
        &json!({"type": "integer"}),
        &json!("x"),
        &expect![[
            r#"FieldValueTypeInvalid spec.f: Invalid value: "string": spec.f in body must be of type integer: "string""#
        ]],
    );
    check(&json!({"type": "integer"}), &json!(3), &expect![""]);
    check(
        &json!({"type": "integer"}),
        &json!(1.5),
        &expect![[r#"
        FieldValueTypeInvalid spec.f: Invalid value: "number": spec.f in body must be of type integer: "number"
        FieldValueInvalid <nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.f"#]],
    );
    check(
        &json!({"type": "array", "items": {"type": "string"}}),
        &json!([null]),
        &expect![[
            r#"FieldValueTypeInvalid spec.f[0]: Invalid value: "null": spec.f[0] in body must be of type string: "null""#
        ]],
    );
    check(&json!({"type": "string", "nullable": true}), &json!(null), &expect![""]);
    check(&json!({"x-kubernetes-int-or-string": true}), &json!("50%"), &expect![""]);
    check(
        &json!({"x-kubernetes-int-or-string": true}),
        &json!(true),
        &expect![[
            r#"FieldValueTypeInvalid spec.f: Invalid value: "boolean": spec.f in body must be of type integer,string: "boolean""#
        ]],
    );
}

#[test]
fn numbers_must_be_in_their_bounds_and_multiples() {
    check(
        &json!({"type": "integer", "minimum": 3}),
        &json!(2),
        &expect![
            "FieldValueInvalid spec.f: Invalid value: 2: spec.f in body should be greater than or equal to 3"
        ],
    );
    check(
        &json!({"type": "integer", "maximum": 100}),
        &json!(101),
        &expect![
            "FieldValueInvalid spec.f: Invalid value: 101: spec.f in body should be less than or equal to 100"
        ],
    );
    check(
        &json!({"type": "number", "minimum": 0, "exclusiveMinimum": true}),
        &json!(0),
        &expect!["FieldValueInvalid spec.f: Invalid value: 0: spec.f in body should be greater than 0"],
    );
    check(
        &json!({"type": "number", "maximum": 1, "exclusiveMaximum": true}),
        &json!(1.0),
        &expect!["FieldValueInvalid spec.f: Invalid value: 1: spec.f in body should be less than 1"],
    );
    check(
        &json!({"type": "integer", "multipleOf": 5}),
        &json!(7),
        &expect!["FieldValueInvalid spec.f: Invalid value: 7: spec.f in body should be a multiple of 5"],
    );
    check(
        &json!({"type": "number", "multipleOf": 0.5}),
        &json!(0.3),
        &expect!["FieldValueInvalid spec.f: Invalid value: 0.3: spec.f in body should be a multiple of 0.5"],
    );
    check(
        &json!({"type": "integer", "format": "int32"}),
        &json!(3_000_000_000_u64),
        &expect![[
            r#"FieldValueInvalid <nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.f"#
        ]],
    );
    check(
        &json!({"type": "integer", "enum": [1, 2, 3]}),
        &json!(4),
        &expect![[r#"FieldValueNotSupported spec.f: Unsupported value: 4: supported values: "1", "2", "3""#]],
    );
}

#[test]
fn strings_must_have_their_length_pattern_and_format() {
    check(
        &json!({"type": "string", "maxLength": 3}),
        &json!("four"),
        &expect!["FieldValueTooLong spec.f: Too long: may not be more than 3 bytes"],
    );
    check(
        &json!({"type": "string", "maxLength": 1}),
        &json!("xx"),
        &expect!["FieldValueTooLong spec.f: Too long: may not be more than 1 byte"],
    );
    check(&json!({"type": "string", "maxLength": 3}), &json!("äöü"), &expect![""]);
    check(
        &json!({"type": "string", "minLength": 2}),
        &json!("x"),
        &expect![[
            r#"FieldValueInvalid spec.f: Invalid value: "x": spec.f in body should be at least 2 chars long"#
        ]],
    );
    check(
        &json!({"type": "string", "pattern": "^[a-z]+$"}),
        &json!("A1"),
        &expect![[
            r#"FieldValueInvalid spec.f: Invalid value: "A1": spec.f in body should match '^[a-z]+$'"#
        ]],
    );
    check(
        &json!({"type": "string", "enum": ["red", "blue"]}),
        &json!(""),
        &expect![[
            r#"FieldValueNotSupported spec.f: Unsupported value: "": supported values: "red", "blue""#
        ]],
    );
    check(
        &json!({"type": "string", "format": "isbn"}),
        &json!("0321751042"),
        &expect![[
            r#"FieldValueTypeInvalid spec.f: Invalid value: "0321751042": spec.f in body must be of type isbn: "0321751042""#
        ]],
    );
    check(
        &json!({"type": "string", "minLength": 5, "maxLength": 2, "pattern": "^x", "enum": ["y"]}),
        &json!("abc"),
        &expect![[r#"
        FieldValueTooLong spec.f: Too long: may not be more than 2 bytes
        FieldValueNotSupported spec.f: Unsupported value: "abc": supported values: "y""#]],
    );
}

#[test]
fn objects_and_lists_must_have_their_size_fields_and_choices() {
    let item = json!({"type": "object", "properties": {"n": {"type": "integer", "maximum": 3}}, "required": ["n", "name"]});
    check(
        &json!({"type": "array", "items": item}),
        &json!([{"n": 4}, {"n": "x"}, {}, 5]),
        &expect![[r#"
        FieldValueInvalid spec.f[0].n: Invalid value: 4: spec.f[0].n in body should be less than or equal to 3
        FieldValueRequired spec.f[0].name: Required value
        FieldValueTypeInvalid spec.f[1].n: Invalid value: "string": spec.f[1].n in body must be of type integer: "string"
        FieldValueRequired spec.f[1].name: Required value
        FieldValueRequired spec.f[2].n: Required value
        FieldValueRequired spec.f[2].name: Required value
        FieldValueTypeInvalid spec.f[3]: Invalid value: "integer": spec.f[3] in body must be of type object: "integer""#]],
    );
    let strings = json!({"type": "string"});
    check(
        &json!({"type": "array", "items": strings, "maxItems": 1}),
        &json!(["a", "b"]),
        &expect!["FieldValueTooMany spec.f: Too many: 2: must have at most 1 item"],
    );
    check(
        &json!({"type": "array", "items": strings, "minItems": 2}),
        &json!(["a"]),
        &expect!["FieldValueInvalid spec.f: Invalid value: 1: spec.f in body should have at least 2 items"],
    );
    check(
        &json!({"type": "object", "additionalProperties": strings, "maxProperties": 1}),
        &json!({"a": "", "b": ""}),
        &expect!["FieldValueTooMany spec.f: Too many: 2: must have at most 1 item"],
    );
    check(
        &json!({"type": "object", "additionalProperties": strings}),
        &json!({"a": 1}),
        &expect![[
            r#"FieldValueTypeInvalid spec.f.a: Invalid value: "integer": spec.f.a in body must be of type string: "integer""#
        ]],
    );
}

#[test]
fn sets_and_keyed_lists_have_no_duplicates() {
    check(
        &json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
        &json!(["a", "b", "a"]),
        &expect![[r#"FieldValueDuplicate spec.f[2]: Duplicate value: "a""#]],
    );
    let ports = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {"type": "object", "properties": {"port": {"type": "integer"}, "protocol": {"type": "string"}}},
    });
    check(
        &ports,
        &json!([{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "TCP"}]),
        &expect![[r#"FieldValueDuplicate spec.f[1]: Duplicate value: {"port":53,"protocol":"TCP"}"#]],
    );
}

#[test]
fn all_any_one_and_not_combine_schemas() {
    let one = json!({
        "type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    });
    check(&one, &json!({"a": "x"}), &expect![""]);
    check(
        &one,
        &json!({}),
        &expect![[r#"
        FieldValueInvalid <nil>: Invalid value: "": "spec.f" must validate one and only one schema (oneOf). Found none valid
        FieldValueRequired spec.f.a: Required value"#]],
    );
    check(
        &one,
        &json!({"a": "x", "b": "y"}),
        &expect![[
            r#"FieldValueInvalid <nil>: Invalid value: "": "spec.f" must validate one and only one schema (oneOf). Found 2 valid alternatives"#
        ]],
    );
    let any = json!({
        "type": "object", "properties": {"n": {"type": "integer"}},
        "anyOf": [{"properties": {"n": {"maximum": 3}}}, {"properties": {"n": {"minimum": 10}}}],
    });
    check(&any, &json!({"n": 12}), &expect![""]);
    check(
        &any,
        &json!({"n": 5}),
        &expect![[r#"
        FieldValueInvalid <nil>: Invalid value: "": "spec.f" must validate at least one schema (anyOf)
        FieldValueInvalid spec.f.n: Invalid value: 5: spec.f.n in body should be less than or equal to 3"#]],
    );
    check(
        &json!({"type": "string", "allOf": [{"minLength": 3}, {"pattern": "^a"}]}),
        &json!("b"),
        &expect![[r#"
        FieldValueInvalid spec.f: Invalid value: "b": spec.f in body should be at least 3 chars long
        FieldValueInvalid spec.f: Invalid value: "b": spec.f in body should match '^a'
        FieldValueInvalid <nil>: Invalid value: "": "spec.f" must validate all the schemas (allOf). None validated"#]],
    );
    check(
        &json!({"type": "integer", "not": {"enum": [7]}}),
        &json!(7),
        &expect![[
            r#"FieldValueInvalid <nil>: Invalid value: "": "spec.f" must not validate the schema (not)"#
        ]],
    );
}

#[track_caller]
fn check_update(spec: &Value, old: &Value, new: &Value, expected: &Expect) {
    let root = json!({"type": "object", "properties": {"spec": spec}});
    let schema = Schema::of_crd(&root);
    let errors = schema.validate_update(&json!({"spec": old}), &json!({"spec": new}));
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    expected.assert_eq(&texts.join("\n"));
}

#[test]
fn an_update_may_leave_invalid_parts_unchanged() {
    let short = json!({"type": "string", "maxLength": 3});
    let spec = json!({"type": "object", "required": ["must"], "properties": {
        "must": short, "plain": {"type": "array", "items": short},
        "ports": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": short, "note": {"type": "string"}}},
        },
    }});
    let old = json!({"plain": ["toolong", "b"], "ports": [{"name": "toolong", "note": "1"}, {"name": "b"}]});
    let with = |changes: Value| {
        let mut new = old.clone();
        crate::patch::merge(&mut new, &changes);
        new
    };
    check_update(&spec, &old, &old, &expect![""]);
    check_update(&spec, &old, &with(json!({"note": "x"})), &expect!["spec.must: Required value"]);
    check_update(&spec, &old, &with(json!({"must": "x"})), &expect![""]);
    // A schema that does not declare a field never leaves the object unchanged.
    let open = json!({"type": "object", "required": ["must"], "x-kubernetes-preserve-unknown-fields": true});
    check_update(&open, &json!({}), &json!({}), &expect![""]);
    check_update(&open, &json!({"any": 1}), &json!({"any": 1}), &expect!["spec.must: Required value"]);
    // Elements of a keyed list may move.
    let moved =
        json!({"plain": ["toolong", "b"], "ports": [{"name": "b"}, {"name": "toolong", "note": "1"}]});
    check_update(&spec, &old, &moved, &expect![""]);
    // Elements of an atomic list have no identity, so each counts as new.
    check_update(
        &spec,
        &old,
        &with(json!({"must": "x", "plain": ["toolong", "c"]})),
        &expect!["spec.plain[0]: Too long: may not be more than 3 bytes"],
    );
    check_update(
        &spec,
        &old,
        &with(json!({"must": "x", "ports": [{"name": "b"}, {"name": "toolong", "note": "new"}]})),
        &expect![""],
    );
}

#[test]
fn messages_of_status_errors_begin_below_status() {
    let root = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
    }});
    let schema = Schema::of_crd(&root);
    let object = |replicas: Value| json!({"spec": {"size": "x"}, "status": {"replicas": replicas}});
    let errors = schema.validate_status_update(&object(json!(1)), &object(json!("x")));
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [r#"status.replicas: Invalid value: "string": replicas in body must be of type integer: "string""#]
    );
}

#[test]
fn thousands_of_elements_find_their_counterparts_quickly() {
    let list = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "integer"}, "v": {"type": "integer", "maximum": 1}}},
    });
    let root = json!({"type": "object", "properties": {"spec": list}});
    let schema = Schema::of_crd(&root);
    let object = |changed: usize| {
        let elements: Vec<Value> =
            (0..20_000).map(|n| json!({"k": n, "v": if n == changed { 3 } else { 2 }})).collect();
        json!({"spec": elements})
    };
    // Unchanged invalid elements are skipped, so only the changed one is reported.
    assert_eq!(schema.validate_update(&object(7), &object(9)).len(), 2);
    assert_eq!(schema.validate_update(&object(7), &object(7)).len(), 0);
}
