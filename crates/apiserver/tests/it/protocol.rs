//! HTTP protocol of the server: methods, content negotiation, content types, YAML. All codes and texts were recorded from kube-apiserver
//! v1.36.3.

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use kube_apimachinery::yaml;
use kube_apiserver_embedded::{ApiServer, ApiService, Options};
use serde_json::Value;
use tower_service::Service;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const GADGETS: &str = "/apis/example.com/v1/namespaces/default/gadgets";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const DEFINITION: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gadgets.example.com"},
    "spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"gadgets","kind":"Gadget"},"versions":[{"name":"v1","served":true,
    "storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}"#;

struct Answer {
    code: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    fn message(&self) -> String {
        let status: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        status["message"].as_str().unwrap_or_default().to_owned()
    }

    fn content_type(&self) -> &str {
        self.headers["content-type"].to_str().unwrap()
    }
}

async fn send(
    service: &mut ApiService,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = service.call(request.body(Full::new(body.into())).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer { code: head.status.as_u16(), headers: head.headers, body }
}

async fn get(service: &mut ApiService, path: &str, accept: &str) -> Answer {
    send(service, "GET", path, &[("accept", accept)], "").await
}

async fn post(service: &mut ApiService, path: &str, content_type: &str, body: impl Into<Bytes>) -> Answer {
    send(service, "POST", path, &[("content-type", content_type)], body).await
}

/// Returns a server with a ConfigMap `x`, a custom kind and its object `c`.
async fn service() -> ApiService {
    let mut service = ApiServer::start(Options::default()).service();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(post(&mut service, definitions, JSON, DEFINITION).await.code, 201);
    let map = r#"{"metadata":{"name":"x"},"data":{"a":"b"}}"#;
    assert_eq!(post(&mut service, MAPS, JSON, map).await.code, 201);
    let gadget = r#"{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"c"}}"#;
    assert_eq!(post(&mut service, GADGETS, JSON, gadget).await.code, 201);
    service
}

#[tokio::test]
async fn builtin_kinds_have_no_head() {
    let mut service = service().await;
    for path in
        [MAPS, &format!("{MAPS}/x"), "/api/v1/namespaces", &format!("{MAPS}?watch=1"), "/api", "/version"]
    {
        let answer = send(&mut service, "HEAD", path, &[], "").await;
        assert_eq!((answer.code, answer.content_type(), answer.text()), (405, JSON, ""), "{path}");
    }
    for (path, code) in
        [(GADGETS, 200), (&format!("{GADGETS}/c"), 200), ("/api/v1/nope", 404), ("/apis", 200)]
    {
        assert_eq!(send(&mut service, "HEAD", path, &[], "").await.code, code, "{path}");
    }
}

#[tokio::test]
async fn handlers_of_groups_ignore_the_method() {
    let mut service = service().await;
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        for path in ["/apis", "/apis/apps", "/apis/example.com", "/apis/example.com/v1", "/openapi/v3"] {
            assert_eq!(send(&mut service, method, path, &[], "").await.code, 200, "{method} {path}");
        }
        for path in ["/api", "/api/v1", "/apis/apps/v1", "/version"] {
            let answer = send(&mut service, method, path, &[("accept", YAML)], "").await;
            assert_eq!((answer.code, answer.content_type()), (405, YAML), "{method} {path}");
        }
        assert_eq!(send(&mut service, method, "/apis/nope.example.com", &[], "").await.code, 404);
    }
}

#[tokio::test]
async fn a_wildcard_with_a_type_is_refused_by_the_router() {
    let mut service = service().await;
    let wildcard = "application/*";
    for path in [MAPS, "/api", "/api/v1", "/apis/apps/v1", "/version"] {
        let answer = get(&mut service, path, wildcard).await;
        let begin = "406: Not Acceptable\n\nAvailable representations: application/json";
        assert_eq!((answer.code, answer.message().starts_with(begin)), (406, true), "{path}");
    }
    for path in [GADGETS, "/apis", "/apis/apps", "/apis/example.com/v1", "/openapi/v2"] {
        assert_eq!(get(&mut service, path, wildcard).await.code, 200, "{path}");
    }
}

#[tokio::test]
async fn errors_for_clients_that_accept_no_status_are_indented() {
    let mut service = service().await;
    let answer = get(&mut service, "/api/v1/nope", "text/html").await;
    assert!(answer.text().starts_with("{\n  \"") && answer.text().ends_with('}'), "{}", answer.text());
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    assert!(get(&mut service, &format!("{MAPS}/none"), table).await.text().starts_with("{\n"));
    assert!(get(&mut service, &format!("{MAPS}/none"), JSON).await.text().starts_with("{\""));
    assert!(
        get(&mut service, &format!("{MAPS}/x?pretty=false"), "application/json;pretty=1")
            .await
            .text()
            .starts_with("{\n")
    );
}

#[tokio::test]
async fn an_unknown_path_is_refused_in_the_accepted_encoding() {
    let mut service = service().await;
    for path in ["/api/v1/nope", "/apis/apps/v2/x", "/apis/apps/v1//x"] {
        let answer = get(&mut service, path, YAML).await;
        assert_eq!((answer.code, answer.content_type()), (404, YAML), "{path}");
        let begin = "apiVersion: v1\ncode: 404\ndetails: {}\nkind: Status\n";
        assert!(answer.text().starts_with(begin), "{path}: {}", answer.text());
    }
    let answer = get(&mut service, "/apis/example.com/v1/nope", YAML).await;
    assert_eq!((answer.code, answer.text()), (404, "404 page not found\n"));
}

#[tokio::test]
async fn a_watch_has_no_yaml() {
    let mut service = service().await;
    let streams = "apiVersion: v1\ncode: 406\nkind: Status\nmessage: 'only the following media types are accepted: \
                   application/json;stream=watch,\n  application/vnd.kubernetes.protobuf;stream=watch'\nmetadata: {}\n\
                   reason: NotAcceptable\nstatus: Failure\n";
    for path in [MAPS, GADGETS] {
        for accept in [YAML, "application/yaml, application/json"] {
            let answer = get(&mut service, &format!("{path}?watch=1"), accept).await;
            assert_eq!((answer.code, answer.text()), (406, streams), "{path} {accept}");
        }
        let table = "application/yaml;as=Table;v=v1;g=meta.k8s.io";
        let answer = get(&mut service, &format!("{path}?watch=1"), table).await;
        assert_eq!((answer.code, answer.content_type()), (406, JSON));
        let answer = get(&mut service, &format!("{path}?watch=1"), "application/yaml;stream=watch").await;
        let types = "only the following media types are accepted: application/json, application/yaml, \
                     application/vnd.kubernetes.protobuf";
        assert_eq!((answer.code, answer.message()), (406, types.to_owned()), "{path}");
    }
    let answer = get(&mut service, &format!("{MAPS}?watch=1&resourceVersion=abc"), YAML).await;
    assert_eq!(answer.code, 500, "the options are checked first");
}

#[tokio::test]
async fn a_single_object_is_no_list_of_metadata() {
    let mut service = service().await;
    let list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let is_no_list = "you requested PartialObjectMetadataList, but the requested object is not a list";
    for (path, kind) in [
        (format!("{MAPS}/x"), "*core.ConfigMap"),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles/view".to_owned(), "*rbac.ClusterRole"),
    ] {
        let answer = get(&mut service, &path, list).await;
        assert_eq!((answer.code, answer.message()), (406, format!("{is_no_list} ({kind})")));
    }
    let answer = get(&mut service, &format!("{GADGETS}/c"), list).await;
    assert_eq!((answer.code, answer.message().as_str()), (500, "content is not a list"));
}

#[tokio::test]
async fn only_the_first_of_several_header_lines_counts() {
    let mut service = service().await;
    for (types, code) in [([JSON, "text/plain"], 201), (["text/plain", JSON], 415)] {
        let headers = types.map(|content_type| ("content-type", content_type));
        let body = r#"{"metadata":{"name":"twice"}}"#;
        assert_eq!(send(&mut service, "POST", MAPS, &headers, body).await.code, code, "{types:?}");
    }
    let headers = [("accept", YAML), ("accept", JSON)];
    assert_eq!(send(&mut service, "GET", MAPS, &headers, "").await.content_type(), YAML);
}

#[tokio::test]
async fn malformed_content_types_are_refused() {
    let mut service = service().await;
    let accepted = "the body of the request was in an unknown format - accepted media types include: application/json, \
                    application/yaml, application/vnd.kubernetes.protobuf";
    let answer = post(&mut service, MAPS, "application/json; foo=\"bar", "{}").await;
    assert_eq!((answer.code, answer.message().as_str()), (415, accepted));
    // Handlers of patches only cut the parameters off.
    let headers = [("content-type", "application/merge-patch+json; x=\"")];
    assert_eq!(send(&mut service, "PATCH", &format!("{MAPS}/x"), &headers, "{}").await.code, 200);
    let headers = [("content-type", "APPLICATION/merge-patch+json")];
    assert_eq!(send(&mut service, "PATCH", &format!("{MAPS}/x"), &headers, "{}").await.code, 415);
}

#[tokio::test]
async fn null_is_an_object_without_fields() {
    let mut service = service().await;
    let required =
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required";
    for (content_type, body) in
        [(JSON, "null"), (JSON, " null "), (YAML, ""), (YAML, "# c\n"), (YAML, "---\n")]
    {
        let answer = post(&mut service, MAPS, content_type, body).await;
        assert_eq!((answer.code, answer.message().as_str()), (422, required), "{body:?}");
        let headers = [("content-type", content_type)];
        let answer = send(&mut service, "PUT", &format!("{MAPS}/x"), &headers, body).await;
        let nameless = "the name of the object (x based on URL) was undeterminable: name must be provided";
        assert_eq!((answer.code, answer.message().as_str()), (400, nameless), "{body:?}");
    }
    let answer = post(&mut service, GADGETS, YAML, "# c\n").await;
    let missing = "the object provided is unrecognized (must be of type Gadget): Object 'Kind' is missing in '# c\n' (2320630a)";
    assert_eq!((answer.code, answer.message().as_str()), (400, missing));
}

#[tokio::test]
async fn unreadable_bodies_are_explained() {
    let mut service = service().await;
    let unrecognized =
        |why: &str| format!("the object provided is unrecognized (must be of type ConfigMap): {why}");
    let prefix = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
    let beginning = "looking for beginning of value";
    for (content_type, body, why) in [
        (PROTOBUF, &b"abc"[..], format!("{prefix} (616263)")),
        (PROTOBUF, b"", "empty data (<empty>)".to_owned()),
        (PROTOBUF, b"k8s\0", "empty body (6b387300)".to_owned()),
        (
            YAML,
            b"a: b: c",
            "yaml: mapping values are not allowed in this context (613a20623a2063)".to_owned(),
        ),
        (
            JSON,
            b"\xef\xbb\xbf{}",
            format!(
                "couldn't get version/kind; json parse error: invalid character 'ï' {beginning} (efbbbf7b7d)"
            ),
        ),
        (
            JSON,
            b"{\"a\":\xff}",
            format!(
                "couldn't get version/kind; json parse error: invalid character 'ÿ' {beginning} ({{\"a\":\u{fffd}}})"
            ),
        ),
    ] {
        let answer = post(&mut service, MAPS, content_type, body).await;
        assert_eq!((answer.code, answer.message()), (400, unrecognized(&why)), "{body:?}");
    }
    for (content_type, body, why) in
        [(PROTOBUF, "abc", prefix), (YAML, "a: b: c", "yaml: mapping values are not allowed in this context")]
    {
        let headers = [("content-type", content_type)];
        let answer = send(&mut service, "DELETE", &format!("{MAPS}/zzz"), &headers, body).await;
        assert_eq!((answer.code, answer.message().as_str()), (400, why));
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_has_no_details() {
    let mut service = service().await;
    let answer = post(&mut service, MAPS, JSON, vec![b' '; (3 << 20) + 1]).await;
    assert_eq!(answer.code, 413);
    let status: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(status["message"], "Request entity too large: limit is 3145728");
    assert!(status.get("details").is_none());
}

#[tokio::test]
async fn yaml_has_the_layout_of_go() {
    let mut service = service().await;
    let map = serde_json::json!({"metadata": {"name": "y"}, "data": {
        "file10": "a", "file2": "\nb", "file1": "word ".repeat(20).trim(), "-": "=", "emoji": "\u{1f600}",
    }});
    assert_eq!(post(&mut service, MAPS, JSON, map.to_string()).await.code, 201);
    let answer = get(&mut service, &format!("{MAPS}/y"), YAML).await;
    let data = "apiVersion: v1\ndata:\n  '-': =\n  emoji: \"\\U0001F600\"\n  file1: word word word word word word word word word \
                word word word word word word\n    word word word word word\n  file2: |2-\n\n    b\n  file10: a\nkind: ConfigMap\n";
    assert!(answer.text().starts_with(data), "{}", answer.text());
    let control = r#"{"metadata":{"name":"z"},"data":{"a":"\u007f"}}"#;
    assert_eq!(post(&mut service, MAPS, JSON, control).await.code, 201);
    for path in [MAPS, &format!("{MAPS}/z")] {
        let answer = get(&mut service, path, YAML).await;
        let why = "apiVersion: v1\ncode: 500\nkind: Status\nmessage: 'yaml: control characters are not allowed'\n\
                   metadata: {}\nstatus: Failure\n";
        assert_eq!((answer.code, answer.text()), (500, why), "{path}");
    }
}

#[tokio::test]
async fn discovery_is_negotiated() {
    let mut service = service().await;
    let aggregated = "v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList";
    for path in ["/api", "/apis"] {
        let answer = get(&mut service, path, &format!("application/yaml;{aggregated}")).await;
        assert_eq!(
            answer.content_type(),
            "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        );
        assert!(
            answer.text().starts_with("apiVersion: apidiscovery.k8s.io/v2\nitems:\n- metadata:"),
            "{}",
            answer.text()
        );
        assert_eq!(
            (&answer.headers["vary"], &answer.headers["cache-control"]),
            (&"Accept".parse().unwrap(), &"public".parse().unwrap())
        );
        for unknown in [
            "application/json;v=v3;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList",
            "application/json;g=apidiscovery.k8s.io",
        ] {
            assert_eq!(get(&mut service, path, unknown).await.code, 406, "{unknown}");
        }
        let answer = get(&mut service, path, JSON).await;
        assert!(!answer.headers.contains_key("vary"), "{path}");
    }
    for path in ["/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/apis/example.com/v1"] {
        let answer = get(&mut service, path, PROTOBUF).await;
        assert_eq!((answer.code, answer.content_type()), (200, PROTOBUF), "{path}");
    }
}

#[tokio::test]
async fn preconditions_of_a_deletion_may_stand_in_the_query() {
    let mut service = service().await;
    let map = get(&mut service, &format!("{MAPS}/x"), JSON).await;
    let map: Value = serde_json::from_slice(&map.body).unwrap();
    let [uid, version] =
        ["uid", "resourceVersion"].map(|field| map["metadata"][field].as_str().unwrap().to_owned());
    let in_record = |name: &str, given: &str, actual: &str| {
        format!(
            "Operation cannot be fulfilled on ConfigMap \"x\": the {name} in the precondition ({given}) does not match the {name} in \
             record ({actual}). The object might have been "
        )
    };
    for (query, why) in [
        ("resourceVersion=5", in_record("ResourceVersion", "5", &version) + "modified"),
        ("resourceVersion=abc", in_record("ResourceVersion", "abc", &version) + "modified"),
        ("uid=U&resourceVersion=5", in_record("UID", "U", &uid) + "deleted and then recreated"),
    ] {
        let answer = send(&mut service, "DELETE", &format!("{MAPS}/x?{query}"), &[], "").await;
        assert_eq!((answer.code, answer.message()), (409, why), "{query}");
    }
    let answer = send(&mut service, "DELETE", &format!("{MAPS}?labelSelector=!none&uid=U"), &[], "").await;
    assert_eq!(answer.code, 409, "{}", answer.text());
    // A body replaces the query.
    let headers = [("content-type", JSON)];
    let path = format!("{MAPS}/x?uid=U&dryRun=All");
    assert_eq!(send(&mut service, "DELETE", &path, &headers, r#"{"dryRun":["All"]}"#).await.code, 200);
    assert_eq!(
        send(&mut service, "DELETE", &format!("{MAPS}/x?uid=&resourceVersion="), &[], "").await.code,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn options_of_a_watch_are_checked_before_its_stream() {
    let mut service = service().await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let answer = get(&mut service, &format!("{MAPS}?watch=1&includeObject=Bad"), table).await;
    let why = "Unable to convert to Table as requested: includeObject: Invalid value: \"Bad\": must be 'Metadata', 'Object', \
               'None', or empty";
    assert_eq!((answer.code, answer.message().as_str()), (400, why));
    let implied = "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden \
                   when continue is provided";
    for query in ["continue=x", "continue=x&resourceVersion=0"] {
        let answer = get(&mut service, &format!("{MAPS}?watch=1&{query}"), JSON).await;
        assert_eq!((answer.code, answer.message().as_str()), (422, implied), "{query}");
    }
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=99999999";
    let answer = get(&mut service, &format!("{MAPS}?watch=1&{initial}"), JSON).await;
    let begin = "{\"type\":\"ERROR\",\"object\":{";
    let why = "Timeout: Too large resource version: 99999999, current: ";
    assert_eq!(answer.code, 200);
    assert!(answer.text().starts_with(begin) && answer.text().contains(why), "{}", answer.text());
    let answer = get(&mut service, &format!("{MAPS}?watch=1&{initial}&fieldSelector=a.b=c"), JSON).await;
    assert_eq!(answer.code, 400);
}

#[tokio::test]
async fn a_label_key_with_two_slashes_is_refused_as_one() {
    let mut service = service().await;
    let answer = get(&mut service, &format!("{MAPS}?labelSelector=x/y/z%3D1"), JSON).await;
    let why = "unable to parse requirement: <nil>: Invalid value: \"x/y/z\": a valid label key must consist of alphanumeric";
    assert!(answer.code == 400 && answer.message().starts_with(why), "{}", answer.text());
}

/// Compares documents with those of Go's `sigs.k8s.io/yaml` v1.6.0, which kube-apiserver uses. Each line of the file holds a document and its
/// YAML, or null if the library refuses it.
#[test]
fn documents_are_written_as_go_writes_them() {
    let mut refused = 0;
    for line in include_str!("../data/yaml-documents.jsonl").lines() {
        let [document, expected]: [Value; 2] = serde_json::from_str(line).unwrap();
        match expected.as_str() {
            Some(expected) => {
                assert_eq!(yaml::check_writable(&document), Ok(()), "{line}");
                assert_eq!(yaml::write(&document), expected, "{line}");
            }
            None => {
                refused += 1;
                assert!(yaml::check_writable(&document).is_err(), "{line}");
            }
        }
    }
    assert!(refused > 0);
}
