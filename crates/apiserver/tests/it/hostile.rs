//! Hostile clients: each request gets a response, and other clients are not affected.

use std::future::poll_fn;

use bytes::Bytes;
use http::Request;
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Options, Profile};
use proptest::prelude::*;
use serde_json::json;
use tokio::time::{Duration, Instant};
use tower_service::Service;

async fn send(service: &mut ApiService, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, Bytes) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .body(Full::new(Bytes::copy_from_slice(body)));
    // Requests that the http crate refuses cannot be sent over any transport.
    let Ok(request) = request else {
        return (400, Bytes::new());
    };
    let response = service.call(request).await.unwrap();
    let status = response.status().as_u16();
    (status, response.into_body().collect().await.unwrap().to_bytes())
}

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(future)
}

const JSON: &str = "application/json";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Inputs for one server: starting it takes longer than the requests.
const INPUTS: usize = 8;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256 / INPUTS as u32))]

    #[test]
    fn any_path_and_query_is_answered(
        inputs in prop::collection::vec(("/[a-z0-9/%._~-]{0,40}", "[ -~]{0,60}"), INPUTS),
    ) {
        run(async {
            let mut service = ApiServer::start(Options::default()).service();
            for (path, query) in inputs {
                let query = query.replace([' ', '"', '<', '>', '`', '{', '}', '#', '\\', '^', '|'], "");
                for path in [format!("{path}?{query}"), format!("{MAPS}?{query}&timeoutSeconds=1")] {
                    let (status, _) = send(&mut service, "GET", &path, "application/json", b"").await;
                    assert!((200..600).contains(&status));
                }
            }
        });
    }

    #[test]
    fn any_body_is_answered(
        inputs in prop::collection::vec((
            prop::collection::vec(any::<u8>(), 0..200),
            "[\\[\\]{}\":,a-z0-9. ]{0,80}",
            prop::sample::select(vec!["POST", "PUT", "PATCH", "DELETE"]),
            prop::sample::select(vec![
                "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/json-patch+json",
                "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml", "",
            ]),
        ), INPUTS),
    ) {
        run(async {
            let mut service = ApiServer::start(Options::default()).service();
            for (body, json, method, kind) in inputs {
                // Exists already, unless the input before deleted it.
                let existing = br#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#;
                send(&mut service, "POST", MAPS, "application/json", existing).await;
                let protobuf = [b"k8s\0".as_slice(), &body].concat();
                for body in [body.as_slice(), json.as_bytes(), &protobuf] {
                    for path in [MAPS.to_owned(), format!("{MAPS}/a?fieldManager=f"), format!("{MAPS}/b?fieldManager=f")] {
                        let (status, _) = send(&mut service, method, &path, kind, body).await;
                        assert!((200..600).contains(&status));
                    }
                }
            }
        });
    }
}

#[test]
fn a_body_above_three_mebibytes_is_too_large_and_a_deep_one_is_refused() {
    run(async {
        let mut service = ApiServer::start(Options::default()).service();
        let large = vec![b' '; (3 << 20) + 1];
        let (status, body) = send(&mut service, "POST", MAPS, "application/json", &large).await;
        assert_eq!(status, 413, "{body:?}");
        let deep = format!("{{\"data\":{}", "[".repeat(1 << 20));
        for kind in ["application/json", "application/yaml"] {
            let (status, _) = send(&mut service, "POST", MAPS, kind, deep.as_bytes()).await;
            assert_eq!(status, 400, "{kind}");
        }
    });
}

#[test]
fn a_watch_that_is_not_read_holds_no_events_and_ends_when_its_history_is_dropped() {
    run(async {
        let server = ApiServer::start(Options::default());
        let mut service = server.service();
        let request = Request::get(format!("{MAPS}?watch=1")).body(Full::new(Bytes::new())).unwrap();
        let mut watch = service.call(request).await.unwrap().into_body();
        let body = br#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#;
        let large = "x".repeat(64 << 10);
        send(&mut service, "POST", MAPS, "application/json", body).await;
        // More than the history of a resource holds.
        for n in 0..700 {
            let patch = format!(r#"{{"data":{{"k":"{n}{large}"}}}}"#);
            let (status, _) = send(
                &mut service,
                "PATCH",
                &format!("{MAPS}/a"),
                "application/merge-patch+json",
                patch.as_bytes(),
            )
            .await;
            assert_eq!(status, 200);
        }
        let mut frames = 0;
        while let Some(frame) = poll_fn(|context| std::pin::Pin::new(&mut watch).poll_frame(context)).await {
            assert!(frame.unwrap().into_data().unwrap().len() < 256 << 10);
            frames += 1;
        }
        assert!(frames <= 1, "the watch ended with the history it had not read");
    });
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/things";

/// Defines a custom kind with arbitrary contents.
async fn define_things(service: &mut ApiService) {
    let definition = json!({
        "metadata": { "name": "things.example.com" },
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": { "plural": "things", "kind": "Thing" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            } } }],
        },
    });
    let (status, answer) = send(service, "POST", DEFINITIONS, JSON, definition.to_string().as_bytes()).await;
    assert_eq!(status, 201, "{answer:?}");
}

#[test]
fn an_object_of_maximum_depth_can_be_changed_deleted_and_collected() {
    run(async {
        let mut service = ApiServer::start(Options::default().profile(Profile::Dev)).service();
        define_things(&mut service).await;
        let absent = r#"[{"apiVersion":"v1","kind":"ConfigMap","name":"none","uid":"u"}]"#;
        let mut deepest = 0;
        for depth in 100..130 {
            let deep = format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
            let body = format!(
                r#"{{"apiVersion":"example.com/v1","kind":"Thing","metadata":{{"name":"d{depth}"}},"spec":{deep}}}"#
            );
            if send(&mut service, "POST", THINGS, JSON, body.as_bytes()).await.0 != 201 {
                break;
            }
            deepest = depth;
            let (path, label) = (format!("{THINGS}/d{depth}"), br#"{"metadata":{"labels":{"x":"y"}}}"#);
            assert_eq!(
                send(&mut service, "PATCH", &path, "application/merge-patch+json", label).await.0,
                200
            );
        }
        assert_eq!(deepest, 126, "with the object itself, 127 levels");
        // The collector still works: it deletes an object without owners.
        let orphan = format!(r#"{{"metadata":{{"name":"orphan","ownerReferences":{absent}}}}}"#);
        assert_eq!(send(&mut service, "POST", MAPS, JSON, orphan.as_bytes()).await.0, 201);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(send(&mut service, "GET", &format!("{MAPS}/orphan"), JSON, b"").await.0, 404);
        let path = format!("{THINGS}/d{deepest}");
        assert_eq!(send(&mut service, "DELETE", &path, JSON, b"").await.0, 200);
    });
}

#[test]
fn a_body_in_yaml_has_127_levels() {
    run(async {
        let mut service = ApiServer::start(Options::default()).service();
        define_things(&mut service).await;
        for (depth, expected) in [(126, 201), (127, 400)] {
            let deep = format!("{}1{}", "{a: ".repeat(depth), "}".repeat(depth));
            let body =
                format!("apiVersion: example.com/v1\nkind: Thing\nmetadata: {{name: d}}\nspec: {deep}\n");
            let (code, answer) =
                send(&mut service, "POST", THINGS, "application/yaml", body.as_bytes()).await;
            assert_eq!(code, expected, "{depth}: {answer:?}");
        }
    });
}

/// Starts a watch of ConfigMaps.
async fn watch(service: &mut ApiService, query: &str) -> kube_apiserver_embedded::ResponseBody {
    let path = format!("{MAPS}?watch=1&{query}");
    let request = Request::get(path).body(Full::new(Bytes::new())).unwrap();
    service.call(request).await.unwrap().into_body()
}

#[tokio::test(start_paused = true)]
async fn a_timeout_beyond_the_range_of_the_clock_is_a_long_one() {
    let mut service = ApiServer::start(Options::default()).service();
    let mut body = watch(&mut service, "timeoutSeconds=9223372036854775807").await;
    let first = tokio::time::timeout(Duration::from_secs(3600), body.frame()).await;
    assert!(first.is_err(), "nothing happens for an hour: {first:?}");
}

#[tokio::test(start_paused = true)]
async fn a_busy_watch_ends_at_its_deadline() {
    let mut service = ApiServer::start(Options::default()).service();
    let mut body = watch(&mut service, "timeoutSeconds=5").await;
    let started = Instant::now();
    for name in 0..100 {
        let map = format!(r#"{{"metadata":{{"name":"m{name}"}}}}"#);
        assert_eq!(send(&mut service, "POST", MAPS, JSON, map.as_bytes()).await.0, 201);
        tokio::time::advance(Duration::from_secs(1)).await;
        if body.frame().await.is_none() {
            break;
        }
    }
    assert_eq!(started.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_watch_does_not_outlive_the_last_handle_of_its_server() {
    let server = ApiServer::start(Options::default());
    let mut body = watch(&mut server.service(), "timeoutSeconds=3600&resourceVersion=1").await;
    drop(server);
    let ended = async { while body.frame().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(1), ended).await.expect("it ends at once");
}

/// Sends a request that must be answered with a `Status` of this code.
async fn refused(service: &mut ApiService, method: &str, path: &str, kind: &str, body: &[u8], code: u16) {
    let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
    let (status, answer) = send(service, method, path, kind, body).await;
    assert_eq!(status, code, "{method} {path} {kind} {shown}: {answer:?}");
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((&answer["kind"], &answer["code"]), (&json!("Status"), &json!(code)), "{shown}");
    // The response does not quote the whole request.
    assert!(answer.to_string().len() < 16 << 10, "{shown}");
}

#[test]
fn bodies_that_are_no_objects_are_refused_with_a_status() {
    run(async {
        let mut service = ApiServer::start(Options::default()).service();
        define_things(&mut service).await;
        let yaml = "application/yaml";
        let protobuf = "application/vnd.kubernetes.protobuf";
        let deep_yaml = format!("data: {}", "[".repeat(100_000));
        let aliases = format!("a: &a [x,x,x,x,x,x,x,x,x]\n{}", bombs());
        let unclosed = format!(r#"{{"metadata":{{"name":"{}"#, "a".repeat(1 << 20));
        let deep_message = [b"k8s\0".as_slice(), &[0x12, 0x7f].repeat(5_000)].concat();
        let long_length = b"k8s\0\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f";
        let bodies: [(&str, &[u8]); 18] = [
            (JSON, b""),
            (JSON, b"{"),
            (JSON, br#"{"metadata":{"name":"a"}"#),
            (JSON, br#"{"metadata":{"name":"a"}}}"#),
            (JSON, br#"[{"metadata":{"name":"a"}}]"#),
            (JSON, b"\xff\xfe{\0}\0"),
            (JSON, b"\xef\xbb\xbf{}"),
            (JSON, unclosed.as_bytes()),
            (JSON, br#"{"metadata":{"name":1e999}}"#),
            (yaml, b"\xff\xfe"),
            (yaml, b"a: b: c"),
            (yaml, b"? [a]\n: b\n"),
            (yaml, deep_yaml.as_bytes()),
            (yaml, aliases.as_bytes()),
            (protobuf, b""),
            (protobuf, b"k8s\0\x12\x05abc"),
            (protobuf, &deep_message),
            (protobuf, long_length),
        ];
        for (kind, body) in bodies {
            refused(&mut service, "POST", MAPS, kind, body, 400).await;
        }
        // Custom resources have no protobuf, and CBOR is not supported.
        refused(&mut service, "POST", THINGS, protobuf, b"k8s\0", 415).await;
        refused(&mut service, "POST", MAPS, "application/cbor", b"\xa0", 415).await;
    });
}

/// Nested YAML aliases that would expand to a billion items.
fn bombs() -> String {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let lists = names.windows(2).map(|pair| {
        let item = format!("*{}", pair[0]);
        format!("{}: &{} [{}]\n", pair[1], pair[1], [item.as_str(); 9].join(","))
    });
    lists.collect()
}

#[test]
fn duplicate_keys_are_reported_up_to_a_limit() {
    run(async {
        let mut service = ApiServer::start(Options::default()).service();
        let repeated = r#""k":"v","#.repeat(100_000);
        let body = format!(r#"{{"metadata":{{"name":"a"}},"data":{{{repeated}"k":"last"}}}}"#);
        let strict = format!("{MAPS}?fieldValidation=Strict");
        refused(&mut service, "POST", &strict, JSON, body.as_bytes(), 400).await;
        let (status, answer) = send(&mut service, "POST", MAPS, JSON, body.as_bytes()).await;
        assert_eq!(status, 201, "{answer:?}");
        assert!(String::from_utf8_lossy(&answer).contains(r#""data":{"k":"last"}"#), "the last one counts");
        // Each duplicate has a path of its own.
        let lists: Vec<String> = (0..50_000).map(|n| format!(r#""d{n}":{{"x":1,"x":2}}"#)).collect();
        let body = format!(r#"{{"metadata":{{"name":"b"}},{}}}"#, lists.join(","));
        refused(&mut service, "POST", &strict, JSON, body.as_bytes(), 400).await;
    });
}

#[test]
fn absurd_queries_are_answered() {
    run(async {
        let mut service = ApiServer::start(Options::default()).service();
        let requirements: Vec<String> = (0..9_000).map(|n| format!("k{n}")).collect();
        let values: Vec<String> = (0..9_000).map(|n| format!("v{n}")).collect();
        let long = "x".repeat(60_000);
        for (query, code) in [
            (format!("labelSelector={}", requirements.join(",")), 200),
            (format!("labelSelector=k+in+({})", values.join(",")), 200),
            (format!("labelSelector=k%3D{long}"), 400),
            (format!("labelSelector={}", "(".repeat(60_000)), 400),
            (format!("labelSelector={}", "!".repeat(60_000)), 400),
            (format!("fieldSelector=metadata.name%3D{long}"), 200),
            (format!("fieldSelector={}", "metadata.name%3Da,".repeat(3_000)), 200),
            (format!("fieldSelector={long}"), 400),
            (format!("continue={long}"), 400),
            ("continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLy4uLy4uIn0".to_owned(), 400),
            ("limit=99999999999999999999".to_owned(), 400),
            ("limit=-1".to_owned(), 200),
            ("resourceVersion=-1".to_owned(), 400),
            ("resourceVersion=1&resourceVersion=x".to_owned(), 200),
            ("limit=1&".repeat(8_000), 200),
            ("&=&%=%zz&a=%00".to_owned(), 200),
            (format!("{long}={long}").chars().take(60_000).collect(), 200),
            ("watch=1&timeoutSeconds=99999999999999999999".to_owned(), 400),
            ("watch=1&timeoutSeconds=-1".to_owned(), 200),
        ] {
            let path = format!("{MAPS}?{query}&timeoutSeconds=1");
            let (status, answer) = send(&mut service, "GET", &path, JSON, b"").await;
            let shown = &path[..path.len().min(100)];
            assert_eq!(
                status,
                code,
                "{shown}: {}",
                String::from_utf8_lossy(&answer[..answer.len().min(300)])
            );
        }
    });
}
