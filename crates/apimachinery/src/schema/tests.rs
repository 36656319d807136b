//! Pruning, defaulting, decoding and validation by example schemas.

mod builtin_kinds;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::decode::normalize_numbers;
use crate::testing::json_value;

fn custom(spec: &Value) -> Arc<Schema> {
    let root = json!({"type": "object", "properties": {"spec": spec}});
    Schema::of_crd(&root)
}

fn fields(properties: &Value) -> Arc<Schema> {
    custom(&json!({"type": "object", "properties": properties}))
}

#[track_caller]
fn check_prune(schema: &Schema, object: &Value, expected: &Value, unknown: &[&str]) {
    assert_eq!(schema.unknown_fields(object), unknown);
    let mut pruned = object.clone();
    schema.prune(&mut pruned);
    assert_eq!(pruned, *expected);
}

#[track_caller]
fn check_default(schema: &Schema, object: &Value, expected: &Value) {
    let mut defaulted = object.clone();
    schema.default(&mut defaulted);
    assert_eq!(defaulted, *expected);
}

#[test]
fn undeclared_fields_are_named_and_pruned_except_where_preserved() {
    let schema = fields(&json!({
        "open": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"known": {"type": "integer"}, "shut": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        },
        "closed": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
    }));
    check_prune(
        &schema,
        &json!({"spec": {
            "open": {"known": 1, "free": {"x": [1, {"y": null}]}, "shut": {"a": 1, "b": 2}},
            "closed": {"a": 1, "b": 2}, "any": [1, {"x": true}],
        }}),
        &json!({"spec": {
            "open": {"known": 1, "free": {"x": [1, {"y": null}]}, "shut": {"a": 1}},
            "closed": {"a": 1}, "any": [1, {"x": true}],
        }}),
        &["spec.closed.b", "spec.open.shut.b"],
    );
}

#[test]
fn metadata_is_that_of_every_object() {
    check_prune(
        &fields(&json!({})),
        &json!({
            "apiVersion": "v1", "kind": "X", "junk": 1,
            "metadata": {"name": "a", "labels": {"a": "b"}, "bogus": 1, "ownerReferences": [{"uid": "u", "x": 1}]},
        }),
        &json!({
            "apiVersion": "v1", "kind": "X",
            "metadata": {"name": "a", "labels": {"a": "b"}, "ownerReferences": [{"uid": "u"}]},
        }),
        &["metadata.bogus", "metadata.ownerReferences[0].x", "junk"],
    );
}

#[test]
fn an_embedded_resource_has_metadata_too() {
    let schema = fields(&json!({"template": {
        "type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}},
    }}));
    let template = |metadata: Value| json!({"spec": {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}}}});
    check_prune(
        &schema,
        &template(json!({"name": "a", "bogus": 1})),
        &template(json!({"name": "a"})),
        &["spec.template.metadata.bogus"],
    );
    // Unknown fields of such metadata follow all others, and a null is an object without fields.
    let mut object = template(json!({"bogus": 1}));
    object["spec"]["template"]["zz"] = json!(1);
    assert_eq!(schema.unknown_fields(&object), ["spec.template.zz", "spec.template.metadata.bogus"]);
    let mut object = template(Value::Null);
    coerce_metadata(&schema, &mut object).unwrap();
    assert_eq!(object, template(json!({})));
}

#[test]
fn maps_and_lists_are_pruned_inside() {
    let item = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let schema = fields(&json!({
        "list": {"type": "array", "items": item}, "map": {"type": "object", "additionalProperties": item},
    }));
    check_prune(
        &schema,
        &json!({"spec": {"list": [{"a": 1, "b": 1}], "map": {"k": {"b": 1}}}}),
        &json!({"spec": {"list": [{"a": 1}], "map": {"k": {}}}}),
        &["spec.list[0].b", "spec.map.k.b"],
    );
}

#[test]
fn defaults_fill_what_is_absent_where_the_parent_exists() {
    let schema = fields(&json!({
        "size": {"type": "integer", "default": 3},
        "nested": {"type": "object", "properties": {"a": {"type": "integer", "default": 5}}},
        "made": {"type": "object", "default": {}, "properties": {"a": {"type": "integer", "default": 5}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
    }));
    check_default(&schema, &json!({}), &json!({}));
    check_default(&schema, &json!({"spec": {}}), &json!({"spec": {"size": 3, "made": {"a": 5}}}));
    check_default(
        &schema,
        &json!({"spec": {"size": 1, "nested": {}, "list": [{}, {"p": "UDP"}]}}),
        &json!({"spec": {
            "size": 1, "nested": {"a": 5}, "made": {"a": 5}, "list": [{"p": "TCP"}, {"p": "UDP"}],
        }}),
    );
}

#[test]
fn a_null_becomes_the_default_or_is_dropped_unless_nullable() {
    let schema = fields(&json!({
        "plain": {"type": "string"},
        "defaulted": {"type": "string", "default": "d"},
        "both": {"type": "string", "nullable": true, "default": "d"},
        "list": {"type": "array", "items": {"type": "string", "nullable": true}},
        "strict": {"type": "array", "items": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
    }));
    check_default(
        &schema,
        &json!({"spec": {
            "plain": null, "defaulted": null, "both": null, "list": [null, "x"], "strict": [null], "map": {"k": null},
        }}),
        &json!({"spec": {
            "defaulted": "d", "both": null, "list": [null, "x"], "strict": [null], "map": {},
        }}),
    );
    check_default(&schema, &json!({"spec": null}), &json!({}));
}

#[track_caller]
fn check_metadata(metadata: &Value, expected: Result<Value, &str>) {
    let mut object = json!({"metadata": metadata});
    let outcome = coerce_metadata(&fields(&json!({})), &mut object).map(|()| object["metadata"].clone());
    assert_eq!(outcome, expected.map_err(str::to_owned));
}

#[test]
fn metadata_is_converted_as_by_go() {
    check_metadata(
        &json!({"name": "e", "annotations": {"k": null}, "labels": null, "finalizers": []}),
        Ok(json!({"name": "e", "annotations": {"k": ""}})),
    );
    check_metadata(
        &json!({"labels": {"k": 5}}),
        Err("json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"),
    );
    check_metadata(
        &json!({"labels": "text"}),
        Err("json: cannot unmarshal string into Go struct field ObjectMeta.labels of type map[string]string"),
    );
    check_metadata(
        &json!({"generation": "x"}),
        Err("json: cannot unmarshal string into Go struct field ObjectMeta.generation of type int64"),
    );
    check_metadata(&json!([]), Err("json: cannot unmarshal array into Go value of type v1.ObjectMeta"));
    check_metadata(
        &json!({"creationTimestamp": "not a time"}),
        Err(
            r#"parsing time "not a time" as "2006-01-02T15:04:05Z07:00": cannot parse "not a time" as "2006""#,
        ),
    );
}

#[test]
fn numbers_without_fraction_are_integers() {
    let mut value = json!({"a": 3.0, "b": [2.5, -1.0], "c": 1e300, "d": 9e15, "e": -1e16});
    normalize_numbers(&mut value);
    assert_eq!(
        value,
        json!({"a": 3, "b": [2.5, -1], "c": 1e300, "d": 9_000_000_000_000_000_i64, "e": -1e16})
    );
}

#[test]
fn integers_beyond_the_range_of_i64_are_floats() {
    let mut value = json!([i64::MIN, i64::MAX, u64::MAX]);
    normalize_numbers(&mut value);
    assert_eq!(value, json!([i64::MIN, i64::MAX, 18_446_744_073_709_551_615.0]));
}

#[test]
fn a_schema_that_is_not_structural_is_refused() {
    let check = |schema: Value, expected: &[&str]| {
        let errors = Schema::check_crd(&schema, "s").reported();
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected, "{schema}");
    };
    let spec = |spec: Value| json!({"type": "object", "properties": {"spec": spec}});
    check(json!({}), &["s.type: Required value: must not be empty at the root"]);
    check(
        spec(json!({})),
        &["s.properties[spec].type: Required value: must not be empty for specified object fields"],
    );
    check(
        spec(json!({"type": "array", "items": {}})),
        &["s.properties[spec].items.type: Required value: must not be empty for specified array items"],
    );
    for items in [json!(null), json!(5), json!(""), json!(true), json!([])] {
        check(
            spec(json!({"type": "array", "items": items})),
            &["s.properties[spec].items: Required value: must be specified"],
        );
    }
    check(
        spec(json!({"type": "bogus"})),
        &[
            r#"s.properties[spec].type: Unsupported value: "bogus": supported values: "array", "boolean", "integer", "number", "object", "string""#,
        ],
    );
    check(
        spec(json!({"type": "string", "pattern": "(unclosed"})),
        &[
            "s.properties[spec].pattern: Invalid value: \"(unclosed\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(unclosed`",
        ],
    );
    check(
        spec(json!({"type": "object", "uniqueItems": true, "id": "x"})),
        &[
            "s.properties[spec].id: Forbidden: id is not supported",
            "s.properties[spec].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ],
    );
    check(
        spec(json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"})),
        &[
            "s.properties[spec].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ],
    );
    check(
        spec(json!({"type": "integer", "default": "x"})),
        &[
            r#"s.properties[spec].default: Invalid value: "string":  in body must be of type integer: "string""#,
        ],
    );
    check(
        json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
        &[
            "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ],
    );
}

#[test]
fn the_errors_of_a_schema_are_bounded_in_bytes() {
    // Each error contains the path of its property, which is as long as the names in it.
    let parts: Map<String, Value> = (0..20_000).map(|n| (format!("p{n}"), json!({}))).collect();
    let schema = json!({
        "type": "object", "properties": {"a".repeat(100_000): {"type": "object", "properties": parts}},
    });
    let errors = Schema::check_crd(&schema, "s").reported();
    assert_eq!(errors.len(), 11);
    assert!(errors.iter().map(|error| error.field.len()).sum::<usize>() < 2 << 20);
}

proptest! {
    #[test]
    fn pruning_twice_is_pruning_once_and_leaves_nothing_unknown(object in json_value(), schema in schema()) {
        let schema = custom(&schema);
        let mut once = json!({"spec": object});
        schema.prune(&mut once);
        prop_assert!(schema.unknown_fields(&once).is_empty());
        let mut twice = once.clone();
        schema.prune(&mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn defaulting_twice_is_defaulting_once(object in json_value(), schema in schema()) {
        let schema = custom(&schema);
        let mut once = json!({"spec": object});
        schema.default(&mut once);
        let mut twice = once.clone();
        schema.default(&mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn no_object_makes_validation_panic(object in json_value(), schema in schema()) {
        let _ = custom(&schema).validate(&object);
    }
}

/// Generates structural schemas over the names that [`json_value`] uses.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "integer", "default": 1})),
        Just(json!({"type": "string"})),
        Just(json!({"type": "string", "nullable": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            inner.clone().prop_map(|values| json!({"type": "object", "additionalProperties": values})),
            prop::collection::btree_map("[abc]", inner, 1..3)
                .prop_map(|properties| json!({"type": "object", "properties": properties})),
        ]
    })
}
