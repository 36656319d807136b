//! Pruning, defaulting, decoding and validation by example schemas.

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

fn builtin() -> Arc<Schema> {
    let definitions = json!({
        "io.example.v1.Tree": {
            "type": "object", "required": ["children"],
            "properties": {
                "children": {"type": "array", "items": {"allOf": [{"$ref": "#/components/schemas/io.example.v1.Tree"}], "default": {}}},
                "spec": {"allOf": [{"$ref": "#/components/schemas/io.example.v1.TreeSpec"}], "default": {}},
                "status": {"$ref": "#/components/schemas/io.example.v1.TreeSpec"},
            },
        },
        "io.example.v1.TreeSpec": {
            "type": "object",
            "properties": {"height": {"type": "integer", "format": "int32"}, "name": {"type": "string", "default": ""}},
        },
    });
    let sources: Vec<(&'static str, &'static str)> = definitions
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, source)| (&*name.clone().leak(), &*source.to_string().leak()))
        .collect();
    let definitions = Arc::new(Definitions::new(&sources));
    Schema::builtin(&definitions, "io.example.v1.Tree").unwrap()
}

#[test]
fn definitions_may_refer_to_themselves() {
    check_prune(
        &builtin(),
        &json!({"children": [{"children": [{"spec": {"height": 1, "x": 1}}]}]}),
        &json!({"children": [{"children": [{"spec": {"height": 1}}]}]}),
        &["children[0].children[0].spec.x"],
    );
}

#[test]
fn an_empty_builtin_object_has_its_structs_and_lists() {
    assert_eq!(builtin().empty_object(), json!({"children": null, "spec": {"name": ""}}));
}

#[test]
fn a_builtin_object_that_does_not_decode_is_reported_as_go_does() {
    let check = |object: Value, expected: Option<&str>| {
        assert_eq!(builtin().decode_error(&object, &[]).as_deref(), expected, "{object}");
    };
    check(json!({"spec": {"height": 1, "name": null}}), None);
    check(
        json!({"children": [{"spec": {"height": "x"}}]}),
        Some(
            "json: cannot unmarshal string into Go struct field TreeSpec.children.spec.height of type int32",
        ),
    );
    check(
        json!({"children": "x"}),
        Some("json: cannot unmarshal string into Go struct field Tree.children of type []v1.Tree"),
    );
}

/// Expectations are kube-apiserver 1.36.3's answers to applied and strategically merged objects.
#[test]
fn restored_values_are_checked_less_strictly_than_decoded_ones() {
    let check = |api_version: &str, kind: &str, fields: Value, expected: Result<Value, &str>| {
        let schema = schema_of_kind(api_version, kind).unwrap();
        let mut restored = fields.clone();
        let result = schema.restore(&mut restored).map(|()| restored);
        assert_eq!(result, expected.map_err(str::to_owned), "{fields}");
    };
    let deployment = |spec: Value, expected: Result<Value, &str>| {
        check("apps/v1", "Deployment", json!({"spec": spec}), expected.map(|spec| json!({"spec": spec})));
    };
    deployment(json!({"replicas": 9_999_999_999_i64}), Ok(json!({"replicas": 1_410_065_407})));
    deployment(json!({"replicas": 2_147_483_648_i64}), Ok(json!({"replicas": -2_147_483_648_i64})));
    deployment(json!({"replicas": 1.5}), Err("cannot convert float64 to int32"));
    deployment(json!({"replicas": 9_223_372_036_854_775_808_u64}), Ok(json!({"replicas": 0})));
    deployment(json!({"replicas": 3e10}), Ok(json!({"replicas": -64_771_072})));
    deployment(json!({"replicas": -1e30}), Ok(json!({"replicas": 0})));
    deployment(json!({"replicas": "3"}), Err("unrecognized type: int32"));
    deployment(json!({"paused": 1}), Err("unrecognized type: bool"));
    deployment(json!({"template": 1}), Err("cannot restore struct from: int64"));
    let surge = |value: Value| json!({"strategy": {"rollingUpdate": {"maxSurge": value}}});
    deployment(surge(json!("25%")), Ok(surge(json!("25%"))));
    deployment(surge(json!(1.5)), Err("json: cannot unmarshal number 1.5 into Go value of type int32"));
    deployment(surge(json!(true)), Err("json: cannot unmarshal bool into Go value of type int32"));
    let cpu = |value: Value| json!({"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": value}}}]}}});
    deployment(cpu(json!(1.5)), Ok(cpu(json!(1.5))));
    let why = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    deployment(cpu(json!("nope")), Err(why));

    let time = |value: Value| json!({"metadata": {"creationTimestamp": value}});
    let no_time = r#"parsing time "nope" as "2006-01-02T15:04:05Z07:00": cannot parse "nope" as "2006""#;
    check("v1", "Secret", time(json!("nope")), Err(no_time));
    check("v1", "Secret", time(json!(5)), Err("json: cannot unmarshal number into Go value of type string"));
    check("v1", "Secret", time(Value::Null), Ok(time(Value::Null)));
    let data = |value: Value| json!({"data": {"a": value}});
    check("v1", "Secret", data(json!("YQ==")), Ok(data(json!("YQ=="))));
    let why = "error decoding from json: illegal base64 data at input byte 3";
    check("v1", "Secret", data(json!("not base64!")), Err(why));
    check("v1", "Secret", data(json!(5)), Err("cannot restore slice from int64"));
    check("v1", "Secret", data(json!(["x"])), Err("unrecognized type: uint8"));
}

#[test]
fn builtin_values_must_have_the_types_of_go() {
    let check = |api_version: &str, kind: &str, object: Value, expected: Option<&str>| {
        let schema = schema_of_kind(api_version, kind).unwrap();
        assert_eq!(schema.decode_error(&object, &[]).as_deref(), expected, "{object}");
    };
    let deployment = |spec: Value, expected: Option<&str>| {
        check("apps/v1", "Deployment", json!({"spec": spec}), expected);
    };
    deployment(json!({"replicas": 2_147_483_647}), None);
    for (replicas, why) in [
        (json!(9_999_999_999_i64), "number 9999999999"),
        (json!(-2_147_483_649_i64), "number -2147483649"),
        (json!(1.5), "number 1.5"),
        (json!(3.0), "number 3.0"),
        (json!(u64::MAX), "number 18446744073709551615"),
    ] {
        let why = format!(
            "json: cannot unmarshal {why} into Go struct field DeploymentSpec.spec.replicas of type int32"
        );
        deployment(json!({"replicas": replicas}), Some(&why));
    }
    check("v1", "Pod", json!({"metadata": {"generation": 9_999_999_999_i64}}), None);
    // Names of text types, and of embedded structs.
    let pod = |spec: Value, why: &str| {
        let why = format!("json: cannot unmarshal number into Go struct field {why}");
        check("v1", "Pod", json!({"spec": spec}), Some(&why));
    };
    pod(json!({"restartPolicy": 1}), "PodSpec.spec.restartPolicy of type v1.RestartPolicy");
    pod(
        json!({"volumes": [{"emptyDir": 1}]}),
        "Volume.spec.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource",
    );
    pod(
        json!({"volumes": [{"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": [1]}}}}]}),
        "PersistentVolumeClaimSpec.spec.volumes.VolumeSource.ephemeral.volumeClaimTemplate.spec.accessModes of type \
         v1.PersistentVolumeAccessMode",
    );
    pod(
        json!({"ephemeralContainers": [{"command": 1}]}),
        "EphemeralContainer.spec.ephemeralContainers.EphemeralContainerCommon.command of type []string",
    );

    let surge = |surge: Value| json!({"strategy": {"rollingUpdate": {"maxSurge": surge}}});
    for good in [json!(1), json!("25%"), json!(null), json!("anything")] {
        deployment(surge(good), None);
    }
    for (bad, found) in [
        (json!(true), "bool"),
        (json!({}), "object"),
        (json!(2.5), "number 2.5"),
        (json!(1_i64 << 31), "number 2147483648"),
    ] {
        let why = format!(
            "json: cannot unmarshal {found} into Go struct field \
             RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32"
        );
        deployment(surge(bad), Some(&why));
    }

    let limits = |cpu: Value| json!({"spec": {"containers": [{"resources": {"limits": {"cpu": cpu}}}]}});
    for good in [json!("500m"), json!(2), json!(0.5), json!(null), json!(" 1Gi ")] {
        check("v1", "Pod", limits(good), None);
    }
    let why = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    for bad in [json!("lots"), json!({}), json!([]), json!(true), json!("")] {
        check("v1", "Pod", limits(bad), Some(why));
    }
    check("v1", "Pod", limits(json!("1Kii")), Some("unable to parse quantity's suffix"));
    // An error of a type with its own decoder ends the decoding and replaces earlier errors.
    deployment(
        json!({"minReadySeconds": "x", "template": {"spec": {"overhead": {"cpu": "lots"}}}}),
        Some(why),
    );
}

#[test]
fn a_schema_that_is_not_structural_is_refused() {
    let check = |schema: Value, expected: &[&str]| {
        let errors = Schema::check_crd(&schema, "s");
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
    let errors = Schema::check_crd(&schema, "s");
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

#[test]
fn every_builtin_definition_parses_and_starts_empty() {
    let sources = definitions();
    let definitions = Arc::new(Definitions::new(sources));
    for (name, _) in sources {
        let schema = Schema::builtin(&definitions, name).unwrap();
        if schema.root().kind() != ValueKind::Of(JsonType::Object) {
            continue;
        }
        let mut empty = schema.empty_object();
        assert_eq!(schema.unknown_fields(&empty), [""; 0], "{name}");
        assert_eq!(schema.decode_error(&empty, &[]), None, "{name}");
        schema.default(&mut empty);
        schema.prune(&mut empty);
    }
}
