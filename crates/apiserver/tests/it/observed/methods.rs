//! Methods without a handler, paths without a resource, and timeouts that have passed.

use super::*;

#[tokio::test(start_paused = true)]
async fn versions_that_a_group_does_not_have_are_not_found_by_any_method() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "FOO"] {
        for path in ["/api/v2", "/apis/apps/v9"] {
            assert_eq!(send(&service, method, path, &[], "").await.code, 404, "{method} {path}");
        }
    }
    assert_eq!(send(&service, "POST", "/apis/apps/v1", &[], "").await.code, 405);
}

#[tokio::test(start_paused = true)]
async fn a_method_without_a_verb_is_forbidden_as_a_request_for_its_resource() {
    let server = ApiServer::start(Options::default());
    let service = server.service_for(UserInfo::new("alice", "", [""; 0]));
    let refused = send(&service, "OPTIONS", &format!("{NAMESPACE}/pods"), &[], "").await;
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message(),
        r#"pods is forbidden: User "alice" cannot  resource "pods" in API group "" in the namespace "default""#
    );
    let written = send(&service, "POST", "/api/v1/watch/pods", &[], "").await;
    assert!(written.message().contains(r#"cannot watch resource "pods""#), "{}", written.message());
}

#[tokio::test(start_paused = true)]
async fn kinds_that_are_only_listed_refuse_watches() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let refused = get(&service, "/api/v1/componentstatuses?watch=1").await;
    let why = "watch is not supported on resources of kind \"componentstatuses\"";
    assert_eq!((refused.code, refused.message().as_str()), (405, why));
    assert_eq!(refused.value()["details"], json!({"kind": "componentstatuses"}));
    assert_eq!(refused.warnings(), ["v1 ComponentStatus is deprecated in v1.19+"]);
    for path in [
        "/api/v1/watch/componentstatuses",
        "/api/v1/watch/namespaces/default/bindings",
        "/api/v1/bindings",
        "/apis/authorization.k8s.io/v1/localsubjectaccessreviews",
    ] {
        assert_eq!(get(&service, path).await.code, 404, "{path}");
        assert_eq!(send(&service, "DELETE", path, &[], "").await.code, 404, "{path}");
    }
    assert_eq!(get(&service, &format!("{NAMESPACE}/bindings?watch=1")).await.code, 405);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_that_has_passed_is_answered_as_plain_text() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    for (method, path) in [("GET", "/api?timeout=1ns"), ("POST", "/api/v1/namespaces?timeout=1us")] {
        let answer = send(&service, method, path, &[JSON], r#"{"metadata":{"name":"late"}}"#).await;
        assert_eq!(
            (answer.code, &answer.headers["content-type"]),
            (504, &"text/plain; charset=utf-8".parse().unwrap())
        );
        assert_eq!(
            answer.value(),
            json!({
                "metadata": {}, "status": "Failure", "reason": "Timeout", "details": {}, "code": 504,
                "message": "Timeout: request did not complete within the allotted timeout",
            })
        );
    }
    assert_eq!(get(&service, "/api/v1/namespaces/late").await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn an_empty_namespace_stands_for_all() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    for path in ["/api/v1/namespaces//configmaps", "/apis/apps/v1/namespaces//deployments"] {
        assert_eq!(get(&service, path).await.code, 200, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_path_that_ends_before_the_resource_is_an_error_of_the_server() {
    let server = ApiServer::start(Options::default());
    let answer = get(&server.service(), "/api/v1/watch").await;
    let text = "Internal Server Error: \"/api/v1/watch\": failed to create RequestInfo: unable to determine kind and namespace from \
                url, /api/v1/watch\n";
    assert_eq!((answer.code, answer.body.as_ref()), (500, text.as_bytes()));
}

#[tokio::test(start_paused = true)]
async fn a_list_of_patch_types_passes_the_router_and_not_the_handler() {
    let server = ApiServer::start(Options::default());
    let service = server.service();
    let types = ("content-type", "application/merge-patch+json,application/json-patch+json");
    let refused = send(&service, "PATCH", NAMESPACE, &[types], "{}").await;
    assert_eq!(refused.code, 415);
    let why = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, \
               application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml";
    assert_eq!(refused.message(), why);
}
