//! Subresource `scale`, of builtin and custom kinds.

use super::{APPS, DEFINITIONS, check};

#[tokio::test]
async fn the_values_of_a_scale_are_validated() {
    let scales = r#"{"metadata":{"name":"sizes.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
        "names":{"plural":"sizes","kind":"Size"},"versions":[{"name":"v1","served":true,"storage":true,
        "subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas",
        "labelSelectorPath":".status.selector"}},
        "schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}"#;
    let sizes = "/apis/example.com/v1/namespaces/default/sizes";
    let size = |replicas: &str| {
        format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Size","metadata":{{"name":"a"}},"spec":{{"replicas":{replicas}}}}}"#
        )
    };
    let status = format!("{sizes}/a/status");
    check(&[
        ("POST", DEFINITIONS, scales, 201, &[]),
        (
            "POST",
            sizes,
            &size("-1"),
            422,
            &[".spec.replicas: Invalid value: -1: should be a non-negative integer"],
        ),
        (
            "POST",
            sizes,
            &size("2147483648"),
            422,
            &[".spec.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647"],
        ),
        (
            "POST",
            sizes,
            &size(r#""x""#),
            422,
            &[".spec.replicas accessor error: x is of the type string, expected int64"],
        ),
        (
            "POST",
            sizes,
            &size("1").replace(r#"{"replicas":1}"#, "1"),
            422,
            &[".spec.replicas accessor error: 1 is of the type int64, expected map[string]interface{}"],
        ),
        ("POST", sizes, &size("1"), 201, &[]),
        ("merge", &status, r#"{"status":{"replicas":-2}}"#, 422, &[".status.replicas: Invalid value: -2"]),
        (
            "merge",
            &status,
            r#"{"status":{"selector":1}}"#,
            422,
            &[".status.selector accessor error: 1 is of the type int64, expected string"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_scale_below_zero_is_refused_by_the_schema_too() {
    let sizes = r#"{"metadata":{"name":"sizes.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
        "names":{"plural":"sizes","kind":"Size"},"versions":[{"name":"v1","served":true,"storage":true,
        "subresources":{"scale":{"specReplicasPath":".spec.size","statusReplicasPath":".status.size"}},
        "schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":
        {"size":{"type":"integer","minimum":1}}}}}}}]}}"#;
    let path = "/apis/example.com/v1/namespaces/default/sizes";
    let size = r#"{"apiVersion":"example.com/v1","kind":"Size","metadata":{"name":"a"},"spec":{"size":1}}"#;
    let scale =
        r#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a"},"spec":{"replicas":-1}}"#;
    let errors = "[spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 1, .spec.size: Invalid value: -1: \
                  should be a non-negative integer]";
    check(&[
        ("POST", DEFINITIONS, sizes, 201, &[]),
        ("POST", path, size, 201, &[]),
        ("PUT", &format!("{path}/a/scale"), scale, 422, &[errors]),
    ])
    .await;
}

#[tokio::test]
async fn a_scale_is_read_and_written_like_its_object() {
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = r#"{"metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"a","image":"a"}]}}}}"#;
    let scale = format!("{deployments}/a/scale");
    let absent = format!("{deployments}/b/scale");
    let other = r#"{"metadata":{"name":"b","namespace":"c"},"spec":{"replicas":1}}"#;
    let missing = "deployments.apps \\\"b\\\" not found";
    check(&[
        ("POST", deployments, deployment, 201, &[]),
        ("GET", &format!("{scale}?export=true"), "", 400, &["the export parameter, deprecated since v1.14"]),
        ("GET", &format!("{absent}?resourceVersion=x"), "", 500, &["resourceVersion: Invalid value"]),
        ("PUT", &scale, other, 400, &["the namespace of the provided object does not match"]),
        ("merge", &scale, other, 400, &["the namespace of the provided object does not match"]),
        ("merge", &absent, "[]", 404, &[missing]),
        (
            "apply",
            &format!("{absent}?fieldManager=m"),
            r#"{"apiVersion":"v1","kind":"Pod"}"#,
            404,
            &[missing],
        ),
    ])
    .await;
}

#[tokio::test]
async fn scales_of_all_kinds_have_the_names_of_scales() {
    let sets = format!("{APPS}/statefulsets");
    let set = r#"{"metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"a","image":"a"}]}}}}"#;
    check(&[
        ("POST", &sets, set, 201, &[]),
        (
            "merge",
            &format!("{sets}/a/scale"),
            r#"{"metadata":{"generateName":"G"}}"#,
            422,
            &["a lowercase RFC 1123 subdomain must"],
        ),
    ])
    .await;
}
