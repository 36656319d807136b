//! Answers of a kube-apiserver 1.36.3 that `just differential` found to differ, each shortened to a few requests.

mod builtin_kinds;
mod builtin_metadata;
mod custom_kinds;
mod decoding;
mod definitions;
mod deletions;
mod names;
mod node_ports;
mod order_of_errors;
mod patches;
mod scales;
mod views;
mod writes;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, Options};
use tower_service::Service;

const APPS: &str = "/apis/apps/v1/namespaces/default";
const CORE: &str = "/api/v1/namespaces/default";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const DEFINITION: &str = r#"{"metadata":{"name":"things.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
    "names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":
    {"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}"#;
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";
const THING: &str = r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"}}"#;

/// Part of an expectation: the resourceVersion is that of the last response.
const SAME: &str = "same revision";

/// Plays requests on a new server. Each has a method (with `merge`, `strategic`, `json-patch`, `apply`, `plain`, `POST plain`, `spaced`, `protobuf`, `table`,
/// `metadata` and `html` for the media types, and ` accepting ` before another type of the response), a path, a body, and the status with parts of the warnings and the body; `!` marks a part that must be absent. `{{rv}}` in a
/// path or a body is the last resourceVersion, and the part [`SAME`] means that the request kept it.
async fn check(steps: &[(&str, &str, &str, u16, &[&str])]) {
    let mut service = ApiServer::start(Options::default()).service();
    let mut revision = String::new();
    for (what, path, body, code, parts) in steps {
        let (verb, accepted) = what.split_once(" accepting ").unzip();
        let (method, content_type, accept) = match verb.unwrap_or(what) {
            "merge" => ("PATCH", "application/merge-patch+json", "application/json"),
            "strategic" => ("PATCH", "application/strategic-merge-patch+json", "application/json"),
            "json-patch" => ("PATCH", "application/json-patch+json", "application/json"),
            "apply" => ("PATCH", "application/apply-patch+yaml", "application/json"),
            "plain" => ("PATCH", "text/plain", "application/json"),
            "POST plain" => ("POST", "text/plain", "application/json"),
            "spaced" => ("PATCH", "application/merge-patch+json ; charset=utf-8", "application/json"),
            "protobuf" => ("PUT", "application/vnd.kubernetes.protobuf", "application/json"),
            "table" => ("GET", "", TABLE),
            "metadata" => ("GET", "", METADATA_LIST),
            "html" => ("GET", "", "text/html"),
            method => (method, "application/json", "application/json"),
        };
        let accept = accepted.unwrap_or(accept);
        let path = &*path.replace("{{rv}}", &revision);
        let request = Request::builder().method(method).uri(path).header(header::ACCEPT, accept);
        let request = request.header(header::CONTENT_TYPE, content_type);
        let request = request.body(Full::new(Bytes::from(body.replace("{{rv}}", &revision)))).unwrap();
        let (head, body) = service.call(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let warnings: Vec<&str> =
            head.headers.get_all(header::WARNING).iter().map(|line| line.to_str().unwrap()).collect();
        let text = format!("{}\n{}", warnings.join("\n"), String::from_utf8_lossy(&body));
        assert_eq!(head.status.as_u16(), *code, "{what} {path}: {text}");
        let mark = "\"resourceVersion\":\"";
        let found = text.split_once(mark).and_then(|(_, rest)| rest.split_once('"'));
        let before = std::mem::replace(&mut revision, found.map_or("", |(found, _)| found).to_owned());
        for part in *parts {
            if *part == SAME {
                assert_eq!(revision, before, "{what} {path}: {text}");
                continue;
            }
            match part.strip_prefix('!') {
                Some(absent) => assert!(!text.contains(absent), "{what} {path}: {part} in {text}"),
                None => assert!(text.contains(part), "{what} {path}: {part} not in {text}"),
            }
        }
    }
}

#[tokio::test]
async fn versions_of_owners_have_one_slash_at_most() {
    let owned = |version: &str| {
        format!(
            r#"{{"metadata":{{"name":"a","ownerReferences":[{{"apiVersion":"{version}","kind":"A","name":"a","uid":"u"}}]}}}}"#
        )
    };
    let part = r#"metadata.ownerReferences.apiVersion: Invalid value: \"a/b/c\": version must not be empty"#;
    check(&[("POST", MAPS, &owned("a/b/c"), 422, &[part]), ("POST", MAPS, &owned("a/b"), 201, &[])]).await;
}

#[tokio::test]
async fn an_update_accepts_any_prefix_that_the_kind_itself_does_not_check_again() {
    let classes = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let ingress = r#"{"metadata":{"name":"a"},"spec":{"defaultBackend":{"service":{"name":"a","port":{"number":80}}}}}"#;
    let prefix = r#"{"metadata":{"generateName":"G"}}"#;
    let percent = r#"{"metadata":{"generateName":"80%"}}"#;
    check(&[
        ("POST", classes, ingress, 201, &[]),
        ("merge", &format!("{classes}/a/status"), prefix, 200, &[]),
        ("POST", DEFINITIONS, DEFINITION, 201, &[]),
        ("POST", THINGS, THING, 201, &[]),
        ("merge", &format!("{THINGS}/a"), prefix, 200, &[]),
        ("merge", &format!("{THINGS}/a"), percent, 422, &["may not contain '%'"]),
    ])
    .await;
}

#[tokio::test]
async fn finalizers_of_admission_configurations_need_no_domain() {
    let body = r#"{"metadata":{"name":"a","finalizers":["a"]}}"#;
    let part = "name is neither a standard finalizer name nor is it fully qualified";
    check(&[
        ("POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", body, 201, &[]),
        ("POST", MAPS, body, 422, &[part]),
    ])
    .await;
}

#[tokio::test]
async fn a_put_with_a_uid_creates_no_object() {
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let with_uid = r#"{"metadata":{"name":"a","uid":"u"}}"#;
    let part = "Precondition failed: UID in precondition: u, UID in object meta: ";
    let class = r#"{"metadata":{"name":"a"},"handler":"a"}"#;
    check(&[
        ("PUT", &format!("{roles}/a"), with_uid, 409, &[part]),
        ("PUT", "/apis/node.k8s.io/v1/runtimeclasses/a", class, 201, &[]),
    ])
    .await;
}

#[tokio::test]
async fn a_missing_object_is_reported_before_an_unreadable_patch() {
    let path = format!("{MAPS}/a");
    check(&[
        ("merge", &path, "", 404, &["configmaps \\\"a\\\" not found"]),
        ("POST", MAPS, r#"{"metadata":{"name":"a"}}"#, 201, &[]),
        ("merge", &path, "", 400, &["error decoding patch: unexpected end of JSON input"]),
    ])
    .await;
}

#[tokio::test]
async fn a_patched_object_is_decoded_before_its_name_is_compared() {
    let path = format!("{MAPS}/a");
    let patch = r#"[{"op":"replace","path":"/metadata","value":80}]"#;
    check(&[
        ("POST", MAPS, r#"{"metadata":{"name":"a"}}"#, 201, &[]),
        ("json-patch", &path, patch, 422, &["json: cannot unmarshal number into Go struct field"]),
        ("strategic", &path, r#"{"metadata":{"name":"b"}}"#, 400, &["does not match the name on the URL"]),
    ])
    .await;
}

#[tokio::test]
async fn generations_begin_and_grow_by_the_rules_of_their_kind() {
    let (classes, drivers) =
        ("/apis/scheduling.k8s.io/v1/priorityclasses", "/apis/storage.k8s.io/v1/csidrivers");
    let driver = r#"{"metadata":{"name":"a"},"spec":{"attachRequired":false}}"#;
    check(&[
        ("POST", classes, r#"{"metadata":{"name":"a"},"value":1}"#, 201, &["\"generation\":1"]),
        ("merge", &format!("{classes}/a"), r#"{"description":"b"}"#, 200, &["\"generation\":1"]),
        ("POST", drivers, driver, 201, &["!generation"]),
        (
            "merge",
            &format!("{drivers}/a"),
            r#"{"spec":{"requiresRepublish":true}}"#,
            200,
            &["\"generation\":1"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_empty_list_of_managers_is_ignored_for_custom_objects() {
    check(&[
        ("POST", DEFINITIONS, DEFINITION, 201, &[]),
        (
            "POST",
            &format!("{THINGS}?fieldManager=m"),
            &THING.replace("\"name\"", "\"labels\":{\"a\":\"b\"},\"name\""),
            201,
            &[],
        ),
        (
            "merge",
            &format!("{THINGS}/a"),
            r#"{"metadata":{"managedFields":[]}}"#,
            200,
            &["\"manager\":\"m\""],
        ),
    ])
    .await;
}

#[tokio::test]
async fn deletions_of_jobs_warn_that_pods_stay() {
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = r#"{"metadata":{"name":"a"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"a"}]}}}}"#;
    let warning = "child pods are preserved by default when jobs are deleted";
    check(&[
        ("POST", jobs, job, 201, &[]),
        ("DELETE", &format!("{jobs}/a?dryRun=All"), "", 200, &[warning]),
        ("DELETE", &format!("{jobs}/a"), r#"{"propagationPolicy":"Background"}"#, 200, &["!child pods"]),
    ])
    .await;
}

#[tokio::test]
async fn a_job_with_labels_of_its_own_gets_no_others() {
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let spec =
        r#""spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"a"}]}}}}"#;
    let labelled = format!(r#"{{"metadata":{{"name":"a","labels":{{"a":"b"}}}},{spec}"#);
    let bare = format!(r#"{{"metadata":{{"name":"b"}},{spec}"#);
    check(&[
        ("POST", jobs, &labelled, 201, &["\"labels\":{\"a\":\"b\"}"]),
        ("POST", jobs, &bare, 201, &["\"labels\":{\"batch.kubernetes.io/controller-uid\""]),
    ])
    .await;
}

#[tokio::test]
async fn events_have_no_dependents_to_delete_first() {
    let events = "/api/v1/namespaces/default/events";
    let event = r#"{"metadata":{"name":"a"},"involvedObject":{"namespace":"default"}}"#;
    check(&[
        ("POST", events, event, 201, &[]),
        ("DELETE", &format!("{events}/a"), r#"{"propagationPolicy":"Foreground"}"#, 200, &["\"Success\""]),
    ])
    .await;
}

#[tokio::test]
async fn paths_of_objects_that_are_not_stored_do_not_exist() {
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    check(&[
        ("merge", &format!("{reviews}/a"), "{}", 404, &["the server could not find the requested resource"]),
        ("GET", reviews, "", 405, &[]),
    ])
    .await;
}

#[tokio::test]
async fn a_patch_of_a_custom_collection_is_refused_for_its_type_first() {
    check(&[
        ("POST", DEFINITIONS, DEFINITION, 201, &[]),
        ("PATCH", THINGS, "{}", 415, &[]),
        ("merge", THINGS, "{}", 400, &["name must be provided"]),
    ])
    .await;
}

#[tokio::test]
async fn empty_lists_of_metadata_and_of_default_tables_are_null() {
    check(&[
        ("metadata", MAPS, "", 200, &["\"items\":null"]),
        ("metadata", &format!("{MAPS}?includeObject=x"), "", 200, &[]),
        ("table", MAPS, "", 200, &["\"rows\":[]"]),
        ("table", &format!("{MAPS}?includeObject=x"), "", 400, &["includeObject: Invalid value"]),
        (
            "table",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles?fieldSelector=metadata.name%3Da",
            "",
            200,
            &["\"rows\":null"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_put_that_creates_reads_the_resource_version() {
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let body = |version: &str| format!(r#"{{"metadata":{{"name":"a","resourceVersion":"{version}"}}}}"#);
    let path = format!("{roles}/a");
    check(&[
        ("PUT", &path, &body("a.b"), 500, &[r#"strconv.ParseUint: parsing \"a.b\": invalid syntax"#]),
        ("PUT", &path, &body("1"), 201, &["!\"resourceVersion\":\"1\""]),
        (
            "PUT",
            &format!("{roles}/b?dryRun=All"),
            &body("1").replace("\"a\"", "\"b\""),
            201,
            &["\"resourceVersion\":\"1\""],
        ),
    ])
    .await;
}

#[tokio::test]
async fn labels_have_a_text_of_their_own_for_keys_with_several_slashes() {
    let body = r#"{"metadata":{"name":"a","labels":{"a/b/c":"x"}}}"#;
    check(&[("POST", MAPS, body, 422, &["a valid label key must consist of"])]).await;
}

#[tokio::test]
async fn a_write_of_status_ignores_the_fields_of_a_deletion() {
    let definition =
        DEFINITION.replace("\"storage\":true,", "\"storage\":true,\"subresources\":{\"status\":{}},");
    let status = r#"{"metadata":{"deletionGracePeriodSeconds":1},"status":{"a":1}}"#;
    check(&[
        ("POST", DEFINITIONS, &definition, 201, &[]),
        ("POST", THINGS, THING, 201, &[]),
        ("merge", &format!("{THINGS}/a/status"), status, 200, &["!deletionGracePeriodSeconds"]),
    ])
    .await;
}

#[tokio::test]
async fn finalizers_of_custom_objects_without_a_domain_are_warned_of_once() {
    let warning = "prefer a domain-qualified finalizer name";
    check(&[
        ("POST", DEFINITIONS, DEFINITION, 201, &[]),
        ("POST", THINGS, &THING.replace("\"name\"", "\"finalizers\":[\"a\"],\"name\""), 201, &[warning]),
        ("merge", &format!("{THINGS}/a"), r#"{"metadata":{"labels":{"a":"b"}}}"#, 200, &["!prefer"]),
        ("merge", &format!("{THINGS}/a"), r#"{"metadata":{"finalizers":["a","b/c"]}}"#, 200, &["!prefer"]),
    ])
    .await;
}

#[tokio::test]
async fn rules_of_scaling_are_completed_once_there_is_one() {
    let scalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let scaler = |behavior: &str, name: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{{behavior}"maxReplicas":3,"scaleTargetRef":{{"apiVersion":"apps/v1","kind":"Deployment","name":"a"}}}}}}"#
        )
    };
    let down = r#""scaleDown":{"policies":[{"periodSeconds":15,"type":"Percent","value":100}],"selectPolicy":"Max"}"#;
    check(&[
        (
            "POST",
            scalers,
            &scaler(r#""behavior":{"scaleUp":{}},"#, "a"),
            201,
            &[down, r#""type":"Pods","value":4"#],
        ),
        ("POST", scalers, &scaler("", "b"), 201, &["!behavior"]),
    ])
    .await;
}

#[tokio::test]
async fn updates_of_some_kinds_compare_names_with_the_old_state_alone() {
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let named = r#"{"metadata":{"name":"a","finalizers":["b"]}}"#;
    let prefix = r#"{"metadata":{"generateName":"G"}}"#;
    check(&[
        ("POST", leases, named, 201, &[]),
        ("merge", &format!("{leases}/a"), prefix, 200, &["\"generateName\":\"G\""]),
        ("POST", MAPS, r#"{"metadata":{"name":"a"}}"#, 201, &[]),
        ("merge", &format!("{MAPS}/a"), prefix, 422, &["metadata.generateName: Invalid value"]),
    ])
    .await;
}

#[tokio::test]
async fn fields_of_features_that_are_off_and_references_besides_names_are_dropped() {
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let lease = r#"{"metadata":{"name":"a"},"spec":{"holderIdentity":"h","preferredHolder":"p"}}"#;
    let account = r#"{"metadata":{"name":"a"},"secrets":[{"kind":"Secret","name":"s","namespace":"n"}]}"#;
    check(&[
        ("POST", leases, lease, 201, &["\"holderIdentity\":\"h\"", "!\"preferredHolder\""]),
        ("POST", accounts, account, 201, &["\"secrets\":[{\"name\":\"s\"}]"]),
    ])
    .await;
}

#[tokio::test]
async fn a_put_that_creates_keeps_the_fields_of_a_deletion() {
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let body = |name: &str| {
        format!(r#"{{"metadata":{{"name":"{name}","deletionTimestamp":"2001-02-03T04:05:06Z"}}}}"#)
    };
    let kept = "\"deletionTimestamp\":\"2001-02-03T04:05:06Z\"";
    check(&[
        ("PUT", &format!("{roles}/a"), &body("a"), 201, &[kept]),
        ("POST", roles, &body("b"), 201, &["!deletionTimestamp"]),
    ])
    .await;
}

#[tokio::test]
async fn metadata_of_custom_objects_is_decoded_like_object_meta() {
    let with = |fields: &str| THING.replace("\"name\"", &format!("{fields},\"name\""));
    let unknown = "unknown field \\\"metadata.nope\\\"";
    let late = r#"{"metadata":{"deletionTimestamp":"2001-02-03T04:05:06.789Z"}}"#;
    let cut = "metadata.deletionTimestamp: Invalid value: \\\"2001-02-03T04:05:06Z\\\"";
    check(&[
        ("POST", DEFINITIONS, DEFINITION, 201, &[]),
        ("POST", THINGS, &with(r#""nope":null,"finalizers":["b/c","b/c"]"#), 201, &[unknown]),
        ("merge", &format!("{THINGS}/a"), late, 422, &[cut]),
    ])
    .await;
}

#[tokio::test]
async fn fields_of_storage_classes_are_immutable() {
    let classes = "/apis/storage.k8s.io/v1/storageclasses";
    let part = "field is immutable";
    check(&[
        ("POST", classes, r#"{"metadata":{"name":"a"},"provisioner":"p"}"#, 201, &[]),
        (
            "merge",
            &format!("{classes}/a"),
            r#"{"parameters":{"a":"b"}}"#,
            422,
            &["parameters: Invalid value", part],
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_put_is_refused_for_its_namespace_before_its_name() {
    let part = "the namespace of the provided object does not match";
    check(&[("PUT", &format!("{MAPS}/a"), r#"{"metadata":{"namespace":"b"}}"#, 400, &[part])]).await;
}
