//! Reads: metadata of objects, options of lists, fields of selectors.

use super::{APPS, CORE, DEFINITIONS, MAPS, METADATA_LIST, TABLE, check};

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
    let scaler = r#"{"metadata":{"name":"a"},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},
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

#[tokio::test]
async fn a_refusal_of_the_media_type_lists_what_the_path_offers() {
    let three = r#"Available representations: application/json, application/yaml, application/vnd.kubernetes.protobuf","#;
    let handler = "only the following media types are accepted: application/json";
    let of_text = "Available representations: text/plain, application/json, application/yaml, \
                   application/vnd.kubernetes.protobuf\"";
    let pods = "/api/v1/namespaces/default/pods";
    check(&[
        ("html", MAPS, "", 406, &["application/vnd.kubernetes.protobuf;stream=watch\""]),
        ("html", &format!("{MAPS}/a"), "", 406, &[three]),
        ("html", &format!("{pods}/a/log"), "", 406, &[of_text]),
        ("html", "/api", "", 406, &[three]),
        ("html", "/api/v1", "", 406, &[three]),
        ("html", "/apis", "", 406, &[handler]),
        ("html", "/apis/apps", "", 406, &[handler]),
        ("html", "/apis/apps/v1", "", 406, &[three]),
        ("html", "/version", "", 406, &[r#"Available representations: application/json","#]),
        // The router finds no path before it looks at the media type.
        ("html", "/apis/x", "", 404, &[]),
        ("html", &format!("{pods}/a/x"), "", 404, &[]),
        ("html", &format!("{pods}/a/eviction"), "", 405, &[]),
        // Some subresources and all discovery documents have no Table.
        ("table", &format!("{pods}/a/status"), "", 404, &[]),
        ("table", &format!("{pods}/a/resize"), "", 406, &[handler]),
        ("table", &format!("{pods}/a/log"), "", 406, &[handler]),
        ("table", &format!("{DEFINITIONS}/a/status"), "", 406, &[handler]),
        ("table", "/apis/apps/v1", "", 406, &[handler]),
        ("metadata", "/api", "", 406, &[handler]),
    ])
    .await;
}

#[tokio::test]
async fn a_volume_keeps_the_time_of_its_phase() {
    let volumes = "/api/v1/persistentvolumes";
    let volume = r#"{"metadata":{"name":"a"},"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/a"}}}"#;
    let status = format!("{volumes}/a/status");
    let time = r#""lastPhaseTransitionTime":""#;
    let given = r#""lastPhaseTransitionTime":"2001-02-03T04:05:06Z""#;
    let timed = format!(r#"{{"status":{{"phase":"Bound",{given}}}}}"#);
    check(&[
        ("POST", volumes, volume, 201, &[time]),
        ("merge", &status, r#"{"status":null}"#, 200, &[time, r#""phase":"Pending""#]),
        ("merge", &status, &timed, 200, &[given]),
        ("merge", &status, r#"{"status":{"lastPhaseTransitionTime":null}}"#, 200, &[given]),
        ("merge", &status, r#"{"status":{"phase":"Released"}}"#, 200, &[time, "!2001-02-03"]),
    ])
    .await;
}

/// The router knows types without their parameters. The handler compares them with their spaces.
#[tokio::test]
async fn the_router_checks_types_before_the_handler() {
    let path = format!("{MAPS}/a");
    let (routed, handled) =
        ("415: Unsupported Media Type", "accepted media types include: application/json-patch+json");
    let transformed = "application/json;v=v1";
    check(&[
        ("plain accepting application/xml", &path, "{}", 415, &[routed]),
        ("merge accepting application/xml", &path, "{}", 406, &["406: Not Acceptable"]),
        ("spaced accepting application/xml", &path, "{}", 406, &["406: Not Acceptable"]),
        (&format!("plain accepting {transformed}"), &path, "{}", 415, &[routed]),
        (&format!("spaced accepting {transformed}"), &path, "{}", 415, &[handled]),
        (&format!("merge accepting {transformed}"), &path, "{}", 406, &["only the following media types"]),
        ("spaced", &path, "{}", 415, &[handled]),
    ])
    .await;
}

#[tokio::test]
async fn a_future_revision_of_an_event_is_refused_at_once() {
    let events = "/api/v1/namespaces/default/events";
    let part = "Timeout: Too large resource version: 99999999, current: ";
    check(&[
        ("GET", &format!("{events}/a?resourceVersion=99999999"), "", 504, &[part, "!retryAfterSeconds"]),
        ("GET", &format!("{events}?resourceVersion=99999999"), "", 504, &[part, "!retryAfterSeconds"]),
    ])
    .await;
}

#[tokio::test]
async fn numbers_in_the_options_of_a_list_are_read_before_selectors() {
    let part = r#"strconv.ParseInt: parsing \"y\": invalid syntax"#;
    check(&[
        ("GET", &format!("{MAPS}?limit=y&labelSelector=a%20in"), "", 400, &[part]),
        ("GET", &format!("{MAPS}?limit=x&timeoutSeconds=y&fieldSelector=z"), "", 400, &[part]),
    ])
    .await;
}

#[tokio::test]
async fn a_log_has_no_metadata() {
    let pods = "/api/v1/namespaces/default/pods";
    let pod = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let log = format!("{pods}/p/log");
    let metadata = "GET accepting application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    check(&[
        ("POST", pods, pod, 201, &[]),
        (metadata, &log, "", 500, &["object does not implement the Object interfaces"]),
        ("metadata", &log, "", 406, &["the requested object is not a list (*rest.LocationStreamer)"]),
        (metadata, &format!("{pods}/nope/log"), "", 404, &["not found"]),
        (metadata, &format!("{log}?tailLines=-1"), "", 422, &["tailLines"]),
    ])
    .await;
}

#[tokio::test]
async fn a_bad_resource_version_has_another_error_for_uncached_kinds() {
    let part = r#"invalid resource version: resourceVersion: Invalid value: \"x\""#;
    check(&[
        ("GET", &format!("{CORE}/events/a?resourceVersion=x"), "", 400, &[part]),
        ("GET", &format!("{MAPS}/a?resourceVersion=x"), "", 500, &["!invalid resource version"]),
    ])
    .await;
}

#[tokio::test]
async fn compact_json_ends_with_a_newline() {
    let map = r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#;
    let metadata = "GET accepting application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    check(&[
        ("POST", MAPS, map, 201, &["}\n"]),
        ("GET", &format!("{MAPS}/a"), "", 200, &["}\n"]),
        ("GET", MAPS, "", 200, &["}]}\n"]),
        ("GET", "/api/v1/namespaces/none/configmaps", "", 200, &["\"items\":[]}\n"]),
        (metadata, &format!("{MAPS}/a"), "", 200, &["}}\n"]),
        ("table", MAPS, "", 200, &["}]}\n"]),
        ("GET", &format!("{MAPS}/b"), "", 404, &["}\n"]),
        ("GET", "/apis/apps/v1", "", 200, &["}]}\n"]),
        ("GET", &format!("{MAPS}/a?pretty=true"), "", 200, &["}\n}", "!}\n}\n"]),
        ("GET", "/version", "", 200, &["{\n  \"", "!}\n"]),
    ])
    .await;
}
