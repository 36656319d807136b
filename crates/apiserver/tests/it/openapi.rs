//! Requests for OpenAPI documents, and caching by clients.

use bytes::Bytes;
use expect_test::{Expect, expect};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, Epoch, Options};
use serde_json::{Value, json};
use tower_service::Service;

const PB_V2: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const PB_V3: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
const LEASES: &str = "/openapi/v3/apis/coordination.k8s.io/v1";

fn start() -> ApiServer {
    ApiServer::start(Options::default().epoch(Epoch::starting_now("2026-01-02T03:04:05Z".parse().unwrap())))
}

async fn ask(server: &ApiServer, method: Method, path: &str, headers: &[(&str, &str)]) -> Response<Bytes> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request: Request<Full<Bytes>> = request.body(Full::default()).unwrap();
    let (head, body) = server.service().call(request).await.unwrap().into_parts();
    Response::from_parts(head, body.collect().await.unwrap().to_bytes())
}

async fn get(server: &ApiServer, path: &str, headers: &[(&str, &str)]) -> Response<Bytes> {
    ask(server, Method::GET, path, headers).await
}

fn header<'a>(response: &'a Response<Bytes>, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

/// Formats the status and the headers on type and caching, without entity tags.
fn summary(response: &Response<Bytes>) -> String {
    let mut text = response.status().as_u16().to_string();
    for name in ["content-type", "vary", "cache-control", "last-modified", "expires", "location"] {
        if let Some(value) = response.headers().get(name) {
            let value = value.to_str().unwrap();
            let value =
                value.split_once("hash=").map_or(value.to_owned(), |(path, _)| format!("{path}hash=…"));
            text += &format!("\n{name}: {value}");
        }
    }
    text += if response.headers().contains_key("etag") { "\ntagged" } else { "\nno tag" };
    text + if response.body().is_empty() { ", empty" } else { "" }
}

#[expect(clippy::needless_pass_by_value, reason = "expect![…] makes values")]
fn check(response: &Response<Bytes>, expected: Expect) {
    check_again(response, &expected);
}

fn check_again(response: &Response<Bytes>, expected: &Expect) {
    expected.assert_eq(&summary(response));
}

#[tokio::test(start_paused = true)]
async fn version_2_is_json_or_protobuf_as_accept_says() {
    let server = start();
    let json = expect![[r"
        200
        content-type: application/json
        vary: Accept
        cache-control: no-cache, private
        last-modified: Fri, 02 Jan 2026 03:04:05 GMT
        tagged"]];
    for accept in ["application/json", "*/*", "text/html, application/*;q=0.1"] {
        check_again(&get(&server, "/openapi/v2", &[("accept", accept)]).await, &json);
    }
    check(&get(&server, "/openapi/v2", &[]).await, json);
    let protobuf = expect![[r"
        200
        content-type: application/com.github.proto-openapi.spec.v2.v1.0+protobuf
        vary: Accept
        cache-control: no-cache, private
        last-modified: Fri, 02 Jan 2026 03:04:05 GMT
        tagged"]];
    for accept in
        [PB_V2, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", &format!("{PB_V2}, */*")]
    {
        check_again(&get(&server, "/openapi/v2", &[("accept", accept)]).await, &protobuf);
    }
    check(
        &get(&server, "/openapi/v2", &[("accept", "text/html")]).await,
        expect![[r"
            406
            vary: Accept
            cache-control: no-cache, private
            no tag, empty"]],
    );
    let json: Value = serde_json::from_slice(get(&server, "/openapi/v2", &[]).await.body()).unwrap();
    assert_eq!(json["swagger"], "2.0");
    // Field 1 of the message is the version of the format.
    assert!(get(&server, "/openapi/v2", &[("accept", PB_V2)]).await.body().starts_with(b"\x0a\x032.0"));
}

#[tokio::test(start_paused = true)]
async fn a_document_with_a_known_etag_is_not_sent_again() {
    let server = start();
    for path in ["/openapi/v2", "/openapi/v3", LEASES] {
        let first = get(&server, path, &[]).await;
        let tag = header(&first, "etag");
        for known in [tag, "*", &format!("\"x\", W/{tag}")] {
            check(
                &get(&server, path, &[("if-none-match", known)]).await,
                expect![[r"
                    304
                    vary: Accept
                    cache-control: no-cache, private
                    tagged, empty"]],
            );
        }
        let since = header(&first, "last-modified");
        assert_eq!(get(&server, path, &[("if-modified-since", since)]).await.status(), 304, "{path}");
        for other in [("if-none-match", "\"x\""), ("if-modified-since", "Fri, 02 Jan 2026 03:04:04 GMT")] {
            assert_eq!(get(&server, path, &[other]).await.status(), 200, "{path} {other:?}");
        }
        // An entity tag takes precedence over a time.
        let both = [("if-none-match", "\"x\""), ("if-modified-since", since)];
        assert_eq!(get(&server, path, &both).await.status(), 200, "{path}");
        let head = ask(&server, Method::HEAD, path, &[]).await;
        assert_eq!((header(&head, "etag"), head.body().is_empty()), (tag, true), "{path}");
        // As in kube-apiserver, the handler does not look at the method.
        assert_eq!(ask(&server, Method::POST, path, &[]).await.status(), 200, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_url_with_the_current_hash_is_cached_for_ever_and_another_redirects_to_it() {
    let server = start();
    let index = get(&server, "/openapi/v3", &[]).await;
    // As in kube-apiserver, which guesses the type.
    assert_eq!(header(&index, "content-type"), "text/plain; charset=utf-8");
    let index: Value = serde_json::from_slice(index.body()).unwrap();
    let url = index["paths"]["apis/coordination.k8s.io/v1"]["serverRelativeURL"].as_str().unwrap();
    let kept = get(&server, url, &[]).await;
    check(
        &kept,
        expect![[r"
            200
            content-type: application/json
            vary: Accept
            cache-control: public, immutable
            last-modified: Fri, 02 Jan 2026 03:04:05 GMT
            expires: Sat, 02 Jan 2027 03:04:05 GMT
            tagged"]],
    );
    assert_eq!(url, format!("{LEASES}?hash={}", header(&kept, "etag").trim_matches('"')));
    check(
        &get(&server, url, &[("accept", PB_V3)]).await,
        expect![[r"
            200
            content-type: application/com.github.proto-openapi.spec.v3.v1.0+protobuf
            vary: Accept
            cache-control: public, immutable
            last-modified: Fri, 02 Jan 2026 03:04:05 GMT
            expires: Sat, 02 Jan 2027 03:04:05 GMT
            tagged"]],
    );
    check(
        &get(&server, url, &[("if-none-match", header(&kept, "etag"))]).await,
        expect![[r"
            304
            vary: Accept
            cache-control: public, immutable
            expires: Sat, 02 Jan 2027 03:04:05 GMT
            tagged, empty"]],
    );
    let wrong = get(&server, &format!("{LEASES}?hash=0"), &[]).await;
    check(
        &wrong,
        expect![[r"
            301
            content-type: application/json
            vary: Accept
            cache-control: no-cache, private
            location: /openapi/v3/apis/coordination.k8s.io/v1?hash=…
            tagged, empty"]],
    );
    assert_eq!(header(&wrong, "location"), url);
    check(
        &get(&server, LEASES, &[("accept", "text/html")]).await,
        expect![[r"
            406
            vary: Accept
            cache-control: no-cache, private
            no tag, empty"]],
    );
}

#[tokio::test(start_paused = true)]
async fn a_definition_changes_the_documents() {
    let server = start();
    let tag = async |path: &str| header(&get(&server, path, &[]).await, "etag").to_owned();
    let before = [tag("/openapi/v2").await, tag("/openapi/v3").await, tag(LEASES).await];
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let request = Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions");
    let request =
        request.header("content-type", "application/json").body(Full::from(definition.to_string())).unwrap();
    assert_eq!(server.service().call(request).await.unwrap().status(), 201);
    let after = [tag("/openapi/v2").await, tag("/openapi/v3").await, tag(LEASES).await];
    assert!(before[0] != after[0] && before[1] != after[1]);
    assert_eq!(before[2], after[2], "another group is what it was");

    let document = get(&server, "/openapi/v2", &[]).await;
    assert_eq!(header(&document, "last-modified"), "Fri, 02 Jan 2026 03:04:08 GMT");
    let document: Value = serde_json::from_slice(document.body()).unwrap();
    assert!(document["definitions"]["com.example.v1.Thing"].is_object());
    assert!(document["paths"]["/apis/example.com/v1/things/{name}"]["patch"].is_object());
}
