//! Metadata of objects, and fields of selectors.

use super::{METADATA_LIST, TABLE, check};
use crate::equal_requests::MAPS;

const APPS: &str = "/apis/apps/v1/namespaces/default";

#[tokio::test]
async fn metadata_lack_annotations_that_are_fields_of_the_internal_type() {
    assert_ne!(TABLE, METADATA_LIST);
    let sets = format!("{APPS}/daemonsets");
    let set = r#"{"metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":
        {"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"a"}]}}}}"#;
    let annotation = "\"deprecated.daemonset.template.generation\":";
    let none = format!("!{annotation}");
    check(&[
        ("POST", &sets, set, 201, &[annotation]),
        ("GET", &sets, "", 200, &[annotation]),
        ("table", &sets, "", 200, &[&none]),
        ("table", &format!("{sets}?includeObject=Object"), "", 200, &[annotation]),
        ("metadata", &sets, "", 200, &[&none]),
    ])
    .await;
}

#[tokio::test]
async fn an_autoscaler_of_version_1_has_the_annotations_of_kube_apiserver() {
    let scalers =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let scaler = r#"{"metadata":{"name":"a"},"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"d"},
        "metrics":[{"type":"Resource","resource":{"name":"memory","target":{"type":"AverageValue","averageValue":"1Gi"}}}],
        "behavior":{"scaleUp":{"stabilizationWindowSeconds":5}}}}"#;
    let status = r#"{"status":{"currentReplicas":1,"desiredReplicas":2,"currentMetrics":[
        {"type":"Resource","resource":{"name":"cpu","current":{"averageUtilization":5,"averageValue":"1"}}}]}}"#;
    let current = concat!(
        r#""autoscaling.alpha.kubernetes.io/current-metrics":"[{\"type\":\"Resource\",\"resource\":{\"name\":\"cpu\","#,
        r#"\"currentAverageUtilization\":5,\"currentAverageValue\":\"1\"}}]""#
    );
    let metrics = concat!(
        r#""autoscaling.alpha.kubernetes.io/metrics":"[{\"type\":\"Resource\",\"resource\":{\"name\":\"memory\","#,
        r#"\"targetAverageValue\":\"1Gi\"}}]""#
    );
    let behavior = r#"{\"ScaleUp\":{\"StabilizationWindowSeconds\":5,\"SelectPolicy\":\"Max\",\"Policies\":[{\"Type\":\"Pods\","#;
    let (older, newer) = (scalers("v1"), scalers("v2"));
    check(&[
        ("POST", &newer, scaler, 201, &[]),
        ("merge", &format!("{newer}/a/status"), status, 200, &[]),
        (
            "GET",
            &format!("{older}/a"),
            "",
            200,
            &[current, metrics, behavior, r#""currentCPUUtilizationPercentage":5"#],
        ),
        ("metadata", &older, "", 200, &["!autoscaling.alpha.kubernetes.io/metrics\":"]),
        // A write in the older version keeps fields that exist only in the newer version.
        ("merge", &format!("{older}/a"), r#"{"spec":{"maxReplicas":4}}"#, 200, &[]),
        ("GET", &format!("{newer}/a"), "", 200, &[r#""averageValue":"1Gi""#, r#""maxReplicas":4"#]),
    ])
    .await;
}

#[tokio::test]
async fn some_kinds_refuse_a_field_selector_with_a_text_of_their_own() {
    let jobs = "/apis/batch/v1/namespaces/default/jobs?fieldSelector=status.phase%3Da";
    let slices = "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=a%3Db";
    let part = "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: a";
    check(&[
        ("GET", jobs, "", 400, &[r#"field label \"status.phase\" not supported for Job"#]),
        ("GET", slices, "", 400, &[part]),
        (
            "GET",
            "/api/v1/namespaces/default/pods?fieldSelector=a%3Db",
            "",
            400,
            &["field label not supported: a"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn paths_that_do_not_exist_have_no_warnings_and_refuse_no_method() {
    let endpoints = "/api/v1/namespaces/default/endpoints";
    check(&[
        ("GET", endpoints, "", 200, &["v1 Endpoints is deprecated"]),
        ("GET", &format!("{endpoints}/a/unknown"), "", 404, &["!deprecated"]),
        ("OPTIONS", "/apis/authentication.k8s.io/v1/tokenreviews", "", 405, &[]),
        (
            "OPTIONS",
            "/apis/authentication.k8s.io/v1/tokenreviews/a",
            "",
            404,
            &["could not find the requested resource"],
        ),
        ("OPTIONS", &format!("{MAPS}/a"), "", 405, &[]),
    ])
    .await;
}

#[tokio::test]
async fn selectors_are_parsed_before_options_are_validated() {
    let list = |selector: &str| format!("{MAPS}?resourceVersionMatch=Exact&{selector}");
    check(&[
        (
            "GET",
            &list("labelSelector=a%20in"),
            "",
            400,
            &["unable to parse requirement: found '' expected: '('"],
        ),
        ("GET", &list("fieldSelector=x"), "", 400, &["invalid selector: 'x'; can't understand 'x'"]),
        ("GET", &list("fieldSelector=x%3Dy"), "", 422, &["resourceVersionMatch is forbidden unless"]),
    ])
    .await;
}

#[tokio::test]
async fn service_accounts_in_tables_of_bindings_have_a_slash() {
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    let binding = r#"{"metadata":{"name":"a"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"a"},
        "subjects":[{"kind":"ServiceAccount","name":"b"}]}"#;
    check(&[("POST", bindings, binding, 201, &[]), ("table", bindings, "", 200, &[r#""/b""#])]).await;
}
