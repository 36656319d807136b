//! Properties of all responses: audit id, indentation and compression. Also health checks.

use std::io::Read;

use bytes::Bytes;
use expect_test::expect;
use flate2::read::GzDecoder;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Options, UserInfo};
use serde_json::{Value, json};
use tower_service::Service;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn send(
    service: &mut ApiService,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> (u16, HeaderMap, Bytes) {
    let json = ("content-type", "application/json");
    let is_json = headers.iter().all(|(name, _)| *name != json.0);
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers.iter().chain(is_json.then_some(&json)) {
        request = request.header(*name, *value);
    }
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let response: Response<_> = service.call(request.body(Full::new(body)).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    (head.status.as_u16(), head.headers, body.collect().await.unwrap().to_bytes())
}

async fn get(service: &mut ApiService, path: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap, Bytes) {
    send(service, "GET", path, headers, &Value::Null).await
}

#[tokio::test]
async fn parameters_that_are_no_longer_supported_are_refused() {
    let mut service = ApiServer::start(Options::default()).service();
    for query in ["export=true", "export"] {
        let (code, _, body) = get(&mut service, &format!("/api/v1/namespaces/default?{query}"), &[]).await;
        let status: Value = serde_json::from_slice(&body).unwrap();
        let why = "the export parameter, deprecated since v1.14, is no longer supported";
        assert_eq!((code, status["message"].as_str()), (400, Some(why)), "{query}");
    }
    let (code, _, _) = get(&mut service, "/api/v1/namespaces/default?export=false", &[]).await;
    assert_eq!(code, 200);
}

/// Observed with kube-apiserver v1.36.3.
#[tokio::test(start_paused = true)]
async fn a_continue_token_from_the_future_is_too_large() {
    use base64::Engine as _;

    let mut service = ApiServer::start(Options::default()).service();
    let page = |revision: u64| {
        let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": "a\0"}).to_string();
        format!("{MAPS}?limit=1&continue={}", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token))
    };
    let (code, _, body) = get(&mut service, &format!("{MAPS}?limit=1"), &[]).await;
    let list: Value = serde_json::from_slice(&body).unwrap();
    let current: u64 = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert_eq!(code, 200);
    assert_eq!(get(&mut service, &page(current), &[]).await.0, 200);
    let (code, _, body) = get(&mut service, &page(1_000_000), &[]).await;
    let status: Value = serde_json::from_slice(&body).unwrap();
    let why = format!("Timeout: Too large resource version: 1000000, current: {current}");
    assert_eq!((code, &status["reason"], &status["message"]), (504, &json!("Timeout"), &json!(why)));
}

/// Observed with kube-apiserver v1.36.3.
#[tokio::test]
async fn options_beside_a_continue_token_are_checked() {
    use base64::Engine as _;

    let mut service = ApiServer::start(Options::default()).service();
    for name in ["a", "b", "c"] {
        let map = json!({"metadata": {"name": name}});
        assert_eq!(send(&mut service, "POST", MAPS, &[], &map).await.0, 201);
    }
    let token = |revision: i64| {
        let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": "a\0"}).to_string();
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token)
    };
    for (options, code, expected) in [
        // With the revision 0 the limit does not apply, as without a token.
        (format!("{}&resourceVersion=0", token(-1)), 200, json!(["b", "c"])),
        (token(-1), 200, json!(["b"])),
        // An invalid token is reported before the revision beside it.
        (
            format!("{}&resourceVersion=1", token(0)),
            400,
            json!(
                "invalid continue token: continue key is not valid: incorrect encoded start resourceVersion (version \
                 meta.k8s.io/v1)"
            ),
        ),
        (
            format!("{}&resourceVersion=1", token(-1)),
            400,
            json!("specifying resource version is not allowed when using continue"),
        ),
        // Options are validated before the list waits for the revision of the token.
        (
            format!("{}&resourceVersionMatch=NotOlderThan", token(1_000_000)),
            422,
            json!(
                "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden \
                 unless resourceVersion is provided, resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when \
                 continue is provided]"
            ),
        ),
    ] {
        let path = format!("{MAPS}?limit=1&continue={options}");
        let (status, _, body) = get(&mut service, &path, &[]).await;
        let body: Value = serde_json::from_slice(&body).unwrap();
        let items = body["items"]
            .as_array()
            .map(|items| Value::from_iter(items.iter().map(|item| item["metadata"]["name"].clone())));
        assert_eq!((status, items.unwrap_or_else(|| body["message"].clone())), (code, expected), "{options}");
    }
}

#[tokio::test]
async fn values_of_the_wrong_type_are_refused_by_every_verb() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let mut service = ApiServer::start(Options::default()).service();
    let pod = |cpu: Value| {
        let container = json!({"name": "c", "image": "i", "resources": {"limits": {"cpu": cpu}}});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}})
    };
    let message = |body: Bytes| {
        serde_json::from_slice::<Value>(&body).unwrap()["message"].as_str().unwrap_or_default().to_owned()
    };
    let why = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    for cpu in [json!("lots"), json!({}), json!(true)] {
        let (code, _, body) = send(&mut service, "POST", PODS, &[], &pod(cpu)).await;
        let expected = format!("Pod in version \"v1\" cannot be handled as a Pod: {why}");
        assert_eq!((code, message(body)), (400, expected));
    }
    assert_eq!(send(&mut service, "POST", PODS, &[], &pod(json!("1"))).await.0, 201);
    let path = format!("{PODS}/a");
    let (code, _, body) = send(&mut service, "PUT", &path, &[], &pod(json!("lots"))).await;
    assert_eq!((code, message(body).ends_with(why)), (400, true));
    for (kind, expected) in
        [("merge-patch+json", 422), ("strategic-merge-patch+json", 422), ("apply-patch+yaml", 500)]
    {
        let headers = [("content-type", &*format!("application/{kind}"))];
        let path = format!("{path}?{}", if expected == 500 { "fieldManager=m&force=true" } else { "" });
        let (code, _, body) = send(&mut service, "PATCH", &path, &headers, &pod(json!("lots"))).await;
        let message = message(body);
        assert_eq!((code, message.contains("quantities must match")), (expected, true), "{message}");
    }
    let (_, _, body) = get(&mut service, &path, &[]).await;
    let stored: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(stored["spec"]["containers"][0]["resources"]["limits"], json!({"cpu": "1"}));
}

#[tokio::test]
async fn a_lease_is_written_only_by_a_client_that_knows_its_last_state() {
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let mut service = ApiServer::start(Options::default()).service();
    let path = format!("{LEASES}/leader");
    let lease = |holder: &str, version: &Value| {
        json!({
            "metadata": {"name": "leader", "resourceVersion": version},
            "spec": {"holderIdentity": holder, "renewTime": "2026-01-02T03:04:05.678901Z"},
        })
    };
    // A PUT creates the lease.
    let (code, _, body) = send(&mut service, "PUT", &path, &[], &lease("a", &Value::Null)).await;
    let first: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((code, &first["spec"]["renewTime"]), (201, &json!("2026-01-02T03:04:05.678901Z")));
    let version = &first["metadata"]["resourceVersion"];
    let (code, _, body) = send(&mut service, "PUT", &path, &[], &lease("b", &Value::Null)).await;
    let status: Value = serde_json::from_slice(&body).unwrap();
    let why = "leases.coordination.k8s.io \"leader\" is invalid: metadata.resourceVersion: Invalid value: 0: must be \
               specified for an update";
    assert_eq!((code, status["message"].as_str()), (422, Some(why)));
    assert_eq!(send(&mut service, "PUT", &path, &[], &lease("a", version)).await.0, 200, "nothing changed");
    assert_eq!(send(&mut service, "PUT", &path, &[], &lease("b", version)).await.0, 200);
    let (code, _, body) = send(&mut service, "PUT", &path, &[], &lease("c", version)).await;
    assert_eq!(
        (code, serde_json::from_slice::<Value>(&body).unwrap()["reason"].as_str()),
        (409, Some("Conflict"))
    );
    let (_, _, body) = get(&mut service, &path, &[]).await;
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["spec"]["holderIdentity"], "b");
}

#[tokio::test]
async fn an_event_is_the_same_in_both_groups() {
    const CORE: &str = "/api/v1/namespaces/default/events";
    const GROUP: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
    let mut service = ApiServer::start(Options::default()).service();
    let event = json!({
        "metadata": {"name": "e"}, "eventTime": "2026-01-02T03:04:05.000006Z", "action": "Scaling", "reason": "Scaled",
        "reportingController": "example.com/scaler", "reportingInstance": "scaler-0", "note": "scaled up", "type": "Normal",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
    });
    assert_eq!(send(&mut service, "POST", GROUP, &[], &event).await.0, 201);
    let (_, _, body) = get(&mut service, &format!("{CORE}/e"), &[]).await;
    let core: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&core["apiVersion"], &core["message"]), (&json!("v1"), &json!("scaled up")));
    assert_eq!(core["involvedObject"], event["regarding"]);
    assert_eq!(core["reportingComponent"], "example.com/scaler");
    // A repeated event gets a series, through either group.
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-02T03:05:05.000000Z"}});
    let merge = [("content-type", "application/merge-patch+json")];
    assert_eq!(send(&mut service, "PATCH", &format!("{CORE}/e"), &merge, &series).await.0, 200);
    let (_, _, body) = get(&mut service, &format!("{GROUP}/e"), &[]).await;
    let again: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&again["note"], &again["series"]), (&event["note"], &series["series"]));
    assert_eq!(again["regarding"], event["regarding"]);
    let (_, _, body) = get(&mut service, &format!("{GROUP}?fieldSelector=regarding.name%3Dp"), &[]).await;
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_impersonated_user_has_only_its_own_permissions() {
    let server = ApiServer::start(Options::default());
    let mut service = server.service();
    let jane = ("impersonate-user", "jane");
    let (code, _, body) = get(&mut service, MAPS, &[jane]).await;
    let status: Value = serde_json::from_slice(&body).unwrap();
    let why = "configmaps is forbidden: User \"jane\" cannot list resource \"configmaps\" in API group \"\" in the namespace \
               \"default\"";
    assert_eq!((code, status["message"].as_str()), (403, Some(why)));
    assert_eq!(get(&mut service, MAPS, &[jane, ("impersonate-group", "system:masters")]).await.0, 200);
    assert_eq!(get(&mut service, MAPS, &[("impersonate-group", "devs")]).await.0, 400);
    // Without the permission, the request does not act as the other user.
    let mut bob = server.service_for(UserInfo::new("bob", "", ["devs"]));
    let (code, _, body) = get(&mut bob, MAPS, &[jane]).await;
    let status: Value = serde_json::from_slice(&body).unwrap();
    assert!(status["message"].as_str().unwrap().contains("cannot impersonate-on:user-info:list resource"));
    assert_eq!(code, 403);
}

#[tokio::test]
async fn one_object_is_not_watched() {
    let mut service = ApiServer::start(Options::default()).service();
    for path in
        ["/api/v1/namespaces/default", "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical"]
    {
        let plain = get(&mut service, path, &[]).await.2;
        let (code, _, body) = get(&mut service, &format!("{path}?watch=true&timeoutSeconds=1"), &[]).await;
        assert_eq!((code, body), (200, plain));
    }
}

#[tokio::test]
async fn invalid_times_are_refused_by_every_verb() {
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
    const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";
    let mut service = ApiServer::start(Options::default()).service();
    let lease = |created: &Value, renewed: &Value| {
        let metadata = json!({"name": "a", "creationTimestamp": created});
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {"renewTime": renewed}})
    };
    let message = |body: &Bytes| {
        serde_json::from_slice::<Value>(body).unwrap()["message"].as_str().unwrap_or_default().to_owned()
    };
    let now = json!("2026-01-02T03:04:05.678901Z");
    for (created, renewed, layout, rest, part) in [
        (json!(""), now.clone(), SECONDS, "", "2006"),
        (json!("2026-01-02"), now.clone(), SECONDS, "", "T"),
        (Value::Null, json!(""), MICROS, "", "2006"),
        (Value::Null, json!("2026-01-02T03:04:05Z"), MICROS, "Z", ".000000"),
        (Value::Null, json!("2026-01-02T03:04:05.678Z"), MICROS, ".678Z", ".000000"),
    ] {
        let text = if renewed == now { &created } else { &renewed };
        let why = format!("parsing time {text} as \"{layout}\": cannot parse \"{rest}\" as \"{part}\"");
        let (code, _, body) = send(&mut service, "POST", LEASES, &[], &lease(&created, &renewed)).await;
        let expected = format!("Lease in version \"v1\" cannot be handled as a Lease: {why}");
        assert_eq!((code, message(&body)), (400, expected));
    }
    let made = send(&mut service, "POST", LEASES, &[], &lease(&Value::Null, &Value::Null)).await;
    assert_eq!(made.0, 201);
    let path = format!("{LEASES}/a");
    for (kind, expected) in
        [("merge-patch+json", 422), ("strategic-merge-patch+json", 422), ("apply-patch+yaml", 500)]
    {
        let headers = [("content-type", &*format!("application/{kind}"))];
        let path = format!("{path}?{}", if expected == 500 { "fieldManager=m&force=true" } else { "" });
        let (code, _, body) =
            send(&mut service, "PATCH", &path, &headers, &lease(&Value::Null, &json!(""))).await;
        let message = message(&body);
        assert_eq!(
            (code, message.contains(&format!("parsing time \"\" as \"{MICROS}\""))),
            (expected, true),
            "{message}"
        );
    }
    let (code, _, _) = send(&mut service, "PUT", &path, &[], &lease(&json!(""), &now)).await;
    assert_eq!(code, 400);
}

/// Checks which responses forbid browsers to guess the content type: those for which kube-apiserver v1.36.3 does.
#[tokio::test]
async fn texts_and_refusals_of_access_control_forbid_sniffing() {
    let server = ApiServer::start(Options::default());
    let jane = server.service_for(UserInfo::new("jane", "", [""; 0]));
    let mut services = [server.service(), jane];
    let cases = [
        (0, "/nothing", "", 404, true),
        (0, "/healthz", "", 200, true),
        (0, "/healthz/nothing", "", 404, true),
        (0, "/api/v1/namespaces/default/pods/none", "", 404, false),
        (0, "/api/v1/pods", "", 200, false),
        (1, "/api/v1/pods", "", 403, true),
        (1, "/api/v1/pods", "impersonate-user", 403, true),
        (1, "/api/v1/pods", "impersonate-group", 400, true),
    ];
    for (service, path, header, expected, is_set) in cases {
        let headers: &[(&str, &str)] = if header.is_empty() { &[] } else { &[(header, "x")] };
        let (code, answer, _) = get(&mut services[service], path, headers).await;
        assert_eq!(code, expected, "{path} {header}");
        let option = answer.get("x-content-type-options").map(|value| value.to_str().unwrap());
        assert_eq!(option, is_set.then_some("nosniff"), "{path} {header}");
    }
}

#[tokio::test]
async fn every_answer_has_an_audit_id_and_the_request_may_choose_it() {
    let mut service = ApiServer::start(Options::default().seed(3)).service();
    let mut ids = Vec::new();
    for path in ["/readyz", "/nope", MAPS, "/api/v1/namespaces/nope"] {
        let (_, headers, _) = get(&mut service, path, &[]).await;
        let id = headers["audit-id"].to_str().unwrap().to_owned();
        assert_eq!((id.len(), id.as_bytes()[14]), (36, b'4'), "{id}");
        ids.push(id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 4);
    let (_, headers, _) = get(&mut service, "/nope", &[("Audit-Id", "mine")]).await;
    assert_eq!(headers["audit-id"], "mine");
    // With equal seeds the audit ids are equal, and UIDs of objects do not depend on the number of earlier responses.
    let mut again = ApiServer::start(Options::default().seed(3)).service();
    assert_eq!(get(&mut again, "/version", &[]).await.1["audit-id"], ids[0].as_str());
    let map = json!({"metadata": {"name": "a"}});
    let uid = |body: Bytes| serde_json::from_slice::<Value>(&body).unwrap()["metadata"]["uid"].clone();
    let first = send(&mut service, "POST", MAPS, &[], &map).await.2;
    let second = send(&mut again, "POST", MAPS, &[], &map).await.2;
    assert_eq!(uid(first), uid(second));
}

#[tokio::test]
async fn large_responses_are_compressed_for_clients_that_accept_it() {
    let mut service = ApiServer::start(Options::default()).service();
    let text: String = (0..60_000).map(|n| char::from(b'a' + (n % 23) as u8)).collect();
    let mut size = 0;
    for n in 0..3 {
        let map = json!({"metadata": {"name": format!("m{n}")}, "data": {"k": text}});
        assert_eq!(send(&mut service, "POST", MAPS, &[], &map).await.0, 201);
        let (_, plain, whole) = get(&mut service, MAPS, &[]).await;
        assert!(!plain.contains_key("content-encoding"));
        assert!(whole.len() > size);
        size = whole.len();
        for (accepted, takes) in
            [("gzip", true), ("br, gzip", true), ("gzip;q=1", false), ("identity", false)]
        {
            let (code, headers, body) = get(&mut service, MAPS, &[("accept-encoding", accepted)]).await;
            assert_eq!(code, 200);
            let is_compressed = headers.contains_key("content-encoding");
            assert_eq!(is_compressed, takes && size > 128 << 10, "{accepted}, {size} bytes");
            if is_compressed {
                assert_eq!(headers["content-encoding"], "gzip");
                assert_eq!(headers["vary"], "Accept-Encoding");
                assert!(body.len() < size / 10, "{} of {size}", body.len());
                let mut text = Vec::new();
                GzDecoder::new(&body[..]).read_to_end(&mut text).unwrap();
                assert_eq!(text, whole);
            } else {
                assert_eq!(body, whole);
            }
        }
    }
    assert!(size > 128 << 10);
    // A watch is never compressed, however large its initial events are.
    let path = format!("{MAPS}?watch=1&timeoutSeconds=1");
    let (_, headers, body) = get(&mut service, &path, &[("accept-encoding", "gzip")]).await;
    assert!(!headers.contains_key("content-encoding") && body.len() > 128 << 10);
    let (_, headers, body) =
        send(&mut service, "HEAD", "/openapi/v2", &[("accept-encoding", "gzip")], &Value::Null).await;
    assert!(!headers.contains_key("content-encoding") && body.is_empty());
}

#[tokio::test]
async fn json_is_indented_for_command_line_tools_and_browsers() {
    let mut service = ApiServer::start(Options::default()).service();
    let (_, _, body) = get(&mut service, "/api/v1/namespaces/nope?pretty=true", &[]).await;
    expect![[r#"
        {
          "apiVersion": "v1",
          "code": 404,
          "details": {
            "kind": "namespaces",
            "name": "nope"
          },
          "kind": "Status",
          "message": "namespaces \"nope\" not found",
          "metadata": {},
          "reason": "NotFound",
          "status": "Failure"
        }"#]]
    .assert_eq(std::str::from_utf8(&body).unwrap());
    let (_, _, asked) =
        get(&mut service, "/api/v1/namespaces/default", &[("user-agent", "curl/8.5.0")]).await;
    let (_, _, plain) = get(&mut service, "/api/v1/namespaces/default", &[]).await;
    assert!(asked.starts_with(b"{\n  \"kind\": \"Namespace\",\n  \"apiVersion\": \"v1\","), "{asked:?}");
    let values = [asked, plain].map(|body| serde_json::from_slice::<Value>(&body).unwrap());
    assert_eq!(values[0], values[1]);
    // Events take one line each for every user agent.
    let path = "/api/v1/namespaces?watch=1&timeoutSeconds=1";
    let (_, _, watched) = get(&mut service, path, &[("user-agent", "curl/8.5.0")]).await;
    assert_eq!(watched.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count(), 4);
}

#[tokio::test]
async fn health_is_reported_for_each_check() {
    let mut service = ApiServer::start(Options::default()).service();
    for endpoint in ["healthz", "livez", "readyz"] {
        let (code, headers, body) = get(&mut service, &format!("/{endpoint}"), &[]).await;
        assert_eq!((code, &body[..]), (200, &b"ok"[..]));
        assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
        assert!(headers.contains_key("x-content-type-options"));
        for check in ["ping", "etcd", "poststarthook/rbac/bootstrap-roles"] {
            let (code, headers, body) = get(&mut service, &format!("/{endpoint}/{check}"), &[]).await;
            assert_eq!((code, &body[..]), (200, &b"ok"[..]), "{check}");
            assert!(!headers.contains_key("x-content-type-options"), "{check}");
        }
        for path in ["nope", "", "ping/", "poststarthook"] {
            let (code, _, body) = get(&mut service, &format!("/{endpoint}/{path}"), &[]).await;
            assert_eq!((code, &body[..]), (404, &b"404 page not found\n"[..]), "{path}");
        }
        let only_ready = if endpoint == "readyz" { 200 } else { 404 };
        for check in ["informer-sync", "shutdown"] {
            assert_eq!(get(&mut service, &format!("/{endpoint}/{check}"), &[]).await.0, only_ready);
        }
    }
    let path = "/livez?verbose&exclude=log&exclude=etcd&exclude=a%22";
    let (code, _, body) = get(&mut service, path, &[]).await;
    assert_eq!(code, 200);
    let text = std::str::from_utf8(&body).unwrap();
    let begin = "[+]ping ok\n[+]log excluded: ok\n[+]loopback-serving-certificate ok\n[+]etcd excluded: ok\n\
                 [+]poststarthook/start-apiserver-admission-initializer ok\n";
    let end = "[+]autoregister-completion ok\n[+]poststarthook/apiservice-openapi-controller ok\n\
               [+]poststarthook/apiservice-openapiv3-controller ok\n\
               warn: some health checks cannot be excluded: no matches for \"a\\\"\"\nlivez check passed\n";
    assert!(text.starts_with(begin) && text.ends_with(end), "{text}");
    assert_eq!(text.lines().count(), 36);
    assert_eq!(get(&mut service, "/readyz?exclude=ping", &[]).await.2, "ok");
}
