//! Names and prefixes of names.

use super::{DEFINITIONS, check};

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const SPEC: &str = r#""spec":{"group":"example.com","version":"v1","groupPriorityMinimum":1,"versionPriority":1,
    "service":{"name":"a","namespace":"default"}}"#;
const SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com";

#[tokio::test]
async fn the_prefix_of_an_api_service_is_its_name() {
    let create = |metadata: &str| format!(r#"{{"metadata":{{{metadata}}},{SPEC}}}"#);
    let prefix = |prefix: &str| format!(r#"{{"metadata":{{"generateName":"{prefix}"}}}}"#);
    let patch =
        |prefix: &str| format!(r#"[{{"op":"add","path":"/metadata/generateName","value":"{prefix}"}}]"#);
    let why = |field: &str, given: &str| {
        format!(
            r#"metadata.{field}: Invalid value: \"{given}\": must be `spec.version+\".\"+spec.group`: \"v1.example.com\""#
        )
    };
    let (named, wrong, given) = ("\"name\":\"v1.example.com\"", why("generateName", "x"), why("name", "bad"));
    let percent = r#"metadata.generateName: Invalid value: \"80%\": may not contain '%'"#;
    check(&[
        ("POST", SERVICES, &create(&format!("{named},\"generateName\":\"x\"")), 422, &[&wrong]),
        (
            "POST",
            SERVICES,
            &create("\"name\":\"bad\",\"generateName\":\"..\""),
            422,
            &[r#"[metadata.generateName: Invalid value: \"..\": may not be '..', "#, &given],
        ),
        ("POST", SERVICES, &create("\"generateName\":\"v1.example.com\""), 422, &["!generateName: Invalid"]),
        ("POST", SERVICES, &create("\"name\":\"bad\",\"labels\":{\"a b\":\"c\"}"), 422, &[&given, "labels"]),
        ("POST", SERVICES, &create(&format!("{named},\"generateName\":\"v1.example.com\"")), 201, &[]),
        ("merge", SERVICE, &prefix("x"), 422, &[&wrong]),
        ("strategic", SERVICE, &prefix("80%"), 422, &[percent]),
        ("json-patch", SERVICE, &patch("x"), 422, &[&wrong]),
        ("merge", &format!("{SERVICE}/status"), &prefix("x"), 200, &[]),
    ])
    .await;
}

#[tokio::test]
async fn errors_about_the_name_of_a_definition_come_before_those_about_its_labels() {
    let definition = r#"{"metadata":{"name":"bad","generateName":"x","labels":{"a b":"c"}},"spec":{"group":"example.com",
        "scope":"Namespaced","names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,
        "schema":{"openAPIV3Schema":{"type":"object"}}}]}}"#;
    let part = r#"[metadata.generateName: Invalid value: \"x\": must be spec.names.plural+\".\"+spec.group, metadata.name: Invalid value: \"bad\": must be spec.names.plural+\".\"+spec.group, metadata.labels"#;
    check(&[("POST", DEFINITIONS, definition, 422, &[part])]).await;
}

/// The rules of a ReplicationController leave its prefix alone. The rules for all kinds check it afterwards.
#[tokio::test]
async fn a_prefix_that_the_kind_accepts_is_checked_in_an_object_without_other_errors() {
    let controllers = "/api/v1/namespaces/default/replicationcontrollers";
    let controller = |prefix: &str, replicas: i32| {
        format!(
            r#"{{"metadata":{{"name":"a","generateName":"{prefix}"}},"spec":{{"replicas":{replicas},"selector":{{"a":"b"}},
            "template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{{"containers":[{{"name":"a","image":"a"}}]}}}}}}}}"#
        )
    };
    let percent = r#"metadata.generateName: Invalid value: \"80%\": may not contain '%'"#;
    let class = r#"{"metadata":{"name":"a","generateName":"80%"},"spec":{}}"#;
    check(&[
        ("POST", controllers, &controller("80%", 1), 422, &[percent]),
        (
            "POST",
            controllers,
            &controller("80%", -1),
            422,
            &["spec.replicas: Invalid value", "!generateName"],
        ),
        ("POST", controllers, &controller("X", 1), 201, &[]),
        ("POST", "/apis/resource.k8s.io/v1/deviceclasses", class, 422, &[percent]),
    ])
    .await;
}

#[tokio::test]
async fn the_prefix_of_a_role_is_a_name() {
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let dots = r#"metadata.generateName: Invalid value: \"..\": may not be '..'"#;
    check(&[
        ("POST", roles, r#"{"metadata":{"generateName":".."}}"#, 422, &[dots]),
        ("POST", roles, r#"{"metadata":{"name":"a"}}"#, 201, &[]),
        ("merge", &format!("{roles}/a"), r#"{"metadata":{"generateName":".."}}"#, 422, &[dots]),
    ])
    .await;
}
