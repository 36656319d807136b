//! Objects that Go does not decode, or decodes in another way than their text suggests.

use super::{DEFINITIONS, MAPS, check};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SCALIES: &str = "/apis/example.com/v1/namespaces/default/scalies";
const SCALIES_DEFINITION: &str = r#"{"metadata":{"name":"scalies.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
    "names":{"plural":"scalies","kind":"Scaly"},"versions":[{"name":"v1","served":true,"storage":true,
    "subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},
    "schema":{"openAPIV3Schema":{"type":"object","properties":{
    "spec":{"type":"object","properties":{"replicas":{"type":"integer"},"x":{"type":"string"}}},
    "status":{"type":"object","properties":{"replicas":{"type":"integer"}}}}}}}]}}"#;

fn scaly(fields: &str) -> String {
    format!(r#"{{"apiVersion":"example.com/v1","kind":"Scaly",{fields}}}"#)
}

#[tokio::test]
async fn the_first_error_in_the_order_of_the_body_is_reported() {
    let number = "cannot unmarshal number into Go struct field";
    let steps = [
        (
            MAPS,
            r#"{"metadata":{"name":"a"},"immutable":"x","data":{"z":1,"a":true}}"#,
            "ConfigMap.immutable of type bool".to_owned(),
        ),
        (
            MAPS,
            r#"{"data":{"z":1,"a":true},"metadata":{"name":5},"immutable":"x"}"#,
            format!("{number} ConfigMap.data of type string"),
        ),
        (
            DEPLOYMENTS,
            r#"{"spec":{"template":{"spec":{"nodeName":1,"containers":[{"name":true,"image":5},{"image":[]}]}},"replicas":"x"}}"#,
            format!("{number} PodSpec.spec.template.spec.nodeName of type string"),
        ),
        // Decoders of single types end the decoding, and replace an error before theirs.
        (
            DEPLOYMENTS,
            r#"{"spec":{"replicas":"x","template":{"metadata":{"creationTimestamp":5}}},"metadata":{"name":5}}"#,
            format!("{number} ObjectMeta.spec.template.metadata.creationTimestamp of type string"),
        ),
        (
            DEPLOYMENTS,
            r#"{"spec":{"replicas":"x","strategy":{"rollingUpdate":{"maxSurge":1.5}}},"metadata":{"name":5}}"#,
            "number 1.5 into Go struct field RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge"
                .to_owned(),
        ),
        (
            DEFINITIONS,
            r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"type":7,"items":{"externalDocs":{"url":5}}}}}]}}"#,
            format!("{number} JSONSchemaProps.spec.versions.schema.openAPIV3Schema.items.externalDocs.url"),
        ),
        // A repeated field is decoded each time it occurs.
        (
            MAPS,
            r#"{"metadata":{"name":"a"},"data":{"z":1},"data":{"z":"x"}}"#,
            format!("{number} ConfigMap.data of type string"),
        ),
        (
            MAPS,
            r#"{"metadata":{"name":"a"},"data":5,"data":{"z":"x"},"data":{"a":[]}}"#,
            format!("{number} ConfigMap.data of type map[string]string"),
        ),
    ];
    for (path, body, why) in &steps {
        check(&[("POST", path, body, 400, &[why])]).await;
    }
}

#[tokio::test]
async fn a_patch_reports_the_first_error_in_the_order_of_its_result() {
    let deployment = r#"{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
    let path = format!("{DEPLOYMENTS}/d");
    // The patch enters `spec`, whose fields are sorted, but not the metadata before it.
    let spec = r#"{"spec":{"replicas":"x","paused":"y","minReadySeconds":"z"}}"#;
    let nested = r#"{"spec":{"template":{"spec":{"hostNetwork":5,"volumes":5}},"replicas":"x"}}"#;
    let both = r#"{"spec":{"strategy":{"rollingUpdate":{"maxSurge":true}}},"metadata":{"labels":5,"generation":"x"}}"#;
    let sorted = "DeploymentSpec.spec.minReadySeconds of type int32";
    let surge = "RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32";
    check(&[
        ("POST", DEPLOYMENTS, deployment, 201, &[]),
        ("merge", &path, spec, 422, &[sorted]),
        ("merge", &path, nested, 422, &["DeploymentSpec.spec.replicas of type int32"]),
        ("merge", &path, both, 422, &[surge]),
        // Go restores a strategic merge in the order of declarations: the replicas before the template, the generation before the labels.
        ("strategic", &path, nested, 422, &["unrecognized type: int32"]),
        ("strategic", &path, both, 422, &["unrecognized type: int64"]),
    ])
    .await;
}

#[tokio::test]
async fn a_number_of_replicas_is_no_float_in_json() {
    let create =
        |number: &str| scaly(&format!(r#""metadata":{{"name":"a"}},"spec":{{"replicas":{number}}}"#));
    let why = |shown: &str| {
        format!(
            ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: {shown} is of the type float64, expected int64"
        )
    };
    let path = format!("{SCALIES}/a");
    check(&[
        ("POST", DEFINITIONS, SCALIES_DEFINITION, 201, &[]),
        ("POST", SCALIES, &create("3.0"), 422, &[&why("3")]),
        ("POST", SCALIES, &create("30e-1"), 422, &[&why("3")]),
        ("POST", SCALIES, &create("1e10"), 422, &[&why("1e+10")]),
        ("POST", SCALIES, &create("3"), 201, &[r#""replicas":3"#]),
        ("merge", &path, r#"{"spec":{"replicas":4.0}}"#, 422, &[&why("4")]),
        ("json-patch", &path, r#"[{"op":"replace","path":"/spec/replicas","value":4.0}]"#, 422, &[&why("4")]),
        (
            "merge",
            &format!("{path}/status"),
            r#"{"status":{"replicas":4.0}}"#,
            422,
            &[".status.replicas accessor error"],
        ),
        // The main endpoint does not write the status, and an apply is not decoded from JSON.
        ("merge", &path, r#"{"status":{"replicas":4.0}}"#, 200, &["!status"]),
        ("apply", &format!("{path}?fieldManager=m&force=true"), &create("4.0"), 200, &[r#""replicas":4}"#]),
    ])
    .await;
}

#[tokio::test]
async fn a_custom_object_has_no_null_version() {
    let why = r#"Scaly in version \"\" cannot be handled as a Scaly: .apiVersion accessor error: <nil> is of the type <nil>, expected string"#;
    let null = r#"{"apiVersion":null,"kind":"Scaly","metadata":{"name":"a","labels":5}}"#;
    check(&[
        ("POST", DEFINITIONS, SCALIES_DEFINITION, 201, &[]),
        ("POST", SCALIES, null, 400, &[why]),
        ("POST", SCALIES, &scaly(r#""metadata":{"name":"a"}"#), 201, &[]),
        (
            "json-patch",
            &format!("{SCALIES}/a"),
            r#"[{"op":"replace","path":"/apiVersion","value":null}]"#,
            422,
            &[".apiVersion accessor error: <nil> is of the type <nil>, expected string"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_entry_in_an_unknown_version_of_the_own_group_ends_the_tracking() {
    let with_entry = |version: &str| {
        scaly(&format!(
            r#""metadata":{{"name":"a","managedFields":[{{"manager":"m","operation":"Update","apiVersion":"{version}",
            "fieldsType":"FieldsV1","fieldsV1":{{"f:spec":{{"f:x":{{}}}}}}}}]}},"spec":{{"x":"y"}}"#
        ))
    };
    check(&[
        ("POST", DEFINITIONS, SCALIES_DEFINITION, 201, &[]),
        ("POST", &format!("{SCALIES}?dryRun=All"), &with_entry("example.com/v1"), 201, &["managedFields"]),
        ("POST", SCALIES, &with_entry("example.com/v9"), 201, &["!managedFields"]),
    ])
    .await;
}
