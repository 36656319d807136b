//! Protobuf responses as client-go requests them: content types, and the framing of watches.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, Options, ResponseBody};
use serde_json::{Value, json};
use tower_service::Service;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

async fn ask(
    server: &ApiServer,
    method: &str,
    path: &str,
    accept: &str,
    body: &Value,
) -> Response<ResponseBody> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(ACCEPT, accept)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    server.service().call(request).await.unwrap()
}

/// Formats status, media type, and the kind in the envelope; `-` without one.
async fn shown(response: Response<ResponseBody>) -> String {
    let status = response.status().as_u16();
    let media_type = response.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    format!("{status} {media_type} {}", kind(&body))
}

/// Returns the kind: a `runtime.Unknown` begins with a message of two short strings.
fn kind(body: &[u8]) -> String {
    let Some([0x0a, _, 0x0a, length, rest @ ..]) = body.strip_prefix(b"k8s\0") else {
        return "-".into();
    };
    let (api_version, rest) = rest.split_at(usize::from(*length));
    let [0x12, length, rest @ ..] = rest else {
        return "-".into();
    };
    let kind = &rest[..usize::from(*length)];
    format!("{}/{}", String::from_utf8_lossy(api_version), String::from_utf8_lossy(kind))
}

async fn check(server: &ApiServer, path: &str, accept: &str, expected: &str) {
    let answer = ask(server, "GET", path, accept, &Value::Null).await;
    assert_eq!(shown(answer).await, expected, "{path} as {accept}");
}

async fn server_with_a_thing() -> ApiServer {
    let server = ApiServer::start(Options::default());
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object", "properties": {"replicas": {"type": "integer"}},
                }}}},
                "subresources": {"scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                }},
            }],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(
        shown(ask(&server, "POST", definitions, PROTOBUF, &definition).await).await,
        format!("201 {PROTOBUF} apiextensions.k8s.io/v1/CustomResourceDefinition")
    );
    let thing = json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"replicas": 2},
    });
    let created = ask(&server, "POST", "/apis/example.com/v1/things", "application/json", &thing).await;
    assert_eq!(created.status(), 201);
    server
}

#[tokio::test(start_paused = true)]
async fn builtin_kinds_lists_and_errors_are_answered_in_protobuf() {
    let server = ApiServer::start(Options::default());
    for (path, expected) in [
        ("/api/v1/namespaces/default", "200 application/vnd.kubernetes.protobuf v1/Namespace"),
        ("/api/v1/namespaces", "200 application/vnd.kubernetes.protobuf v1/NamespaceList"),
        ("/api/v1/namespaces/none", "404 application/vnd.kubernetes.protobuf v1/Status"),
        ("/apis/apps/v1", "200 application/vnd.kubernetes.protobuf v1/APIResourceList"),
        ("/version", "406 application/vnd.kubernetes.protobuf v1/Status"),
    ] {
        check(&server, path, PROTOBUF, expected).await;
    }
    let either = "application/vnd.kubernetes.protobuf,application/json";
    check(&server, "/version", either, "200 application/json -").await;
    let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json";
    check(&server, "/api/v1/namespaces", table, "200 application/json -").await;
}

#[tokio::test(start_paused = true)]
async fn custom_kinds_show_their_metadata_in_protobuf_and_themselves_in_json() {
    let server = server_with_a_thing().await;
    let (things, a) = ("/apis/example.com/v1/things", "/apis/example.com/v1/things/a");
    for (path, accept, expected) in [
        (a, METADATA, "200 application/vnd.kubernetes.protobuf meta.k8s.io/v1/PartialObjectMetadata"),
        (
            things,
            METADATA_LIST,
            "200 application/vnd.kubernetes.protobuf meta.k8s.io/v1/PartialObjectMetadataList",
        ),
        (
            "/apis/example.com/v1/things/a/scale",
            PROTOBUF,
            "406 application/vnd.kubernetes.protobuf v1/Status",
        ),
        (a, "application/vnd.kubernetes.protobuf,application/json", "200 application/json -"),
        (things, PROTOBUF, "406 application/vnd.kubernetes.protobuf v1/Status"),
        ("/apis/example.com/v1/things/b", METADATA, "404 application/json -"),
    ] {
        check(&server, path, accept, expected).await;
    }
}

/// Returns type and kind of each event of a watch that ends.
async fn events(server: &ApiServer, path: &str, accept: &str) -> Vec<String> {
    let watch = ask(server, "GET", path, accept, &Value::Null).await;
    assert_eq!(watch.headers()[CONTENT_TYPE], "application/vnd.kubernetes.protobuf;stream=watch");
    let body = watch.into_body().collect().await.unwrap().to_bytes();
    let mut rest = &body[..];
    let mut events = Vec::new();
    while let Some((length, frames)) = rest.split_first_chunk::<4>() {
        let (event, next) = frames.split_at(usize::try_from(u32::from_be_bytes(*length)).unwrap());
        let name = &event[2..][..usize::from(event[1])];
        let object = event.windows(4).position(|bytes| bytes == b"k8s\0").map_or(&[][..], |at| &event[at..]);
        events.push(format!("{} {}", String::from_utf8_lossy(name), kind(object)));
        rest = next;
    }
    assert!(rest.is_empty());
    events
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_a_sequence_of_frames_with_their_length() {
    let server = server_with_a_thing().await;
    let query = "watch=1&timeoutSeconds=5&allowWatchBookmarks=true";
    assert_eq!(
        events(&server, &format!("/api/v1/namespaces?{query}&fieldSelector=metadata.name=default"), PROTOBUF)
            .await,
        ["ADDED v1/Namespace", "BOOKMARK v1/Namespace"]
    );
    let list = format!("/apis/example.com/v1/things?{query}");
    assert_eq!(
        events(&server, &list, METADATA).await,
        ["ADDED meta.k8s.io/v1/PartialObjectMetadata", "BOOKMARK meta.k8s.io/v1/PartialObjectMetadata"]
    );
}
