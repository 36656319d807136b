//! Schemas of builtin kinds: decoding with the errors of Go, and restored values.

use serde_json::json;

use super::super::*;
use super::check_prune;

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
    // Go reads the bytes of a list later, null as zero.
    check("v1", "Secret", data(json!([null, 1])), Ok(data(json!([null, 1]))));
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

    // The type of a nested object, observed with kube-apiserver v1.36.3, is in an embedded struct too.
    check(
        "apps/v1",
        "StatefulSet",
        json!({"spec": {"volumeClaimTemplates": [{"apiVersion": -1}]}}),
        Some(
            "json: cannot unmarshal number into Go struct field \
             PersistentVolumeClaim.spec.volumeClaimTemplates.TypeMeta.apiVersion of type string",
        ),
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
