//! Whatever a client sends, there is an answer, and other clients do not notice.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::future::poll_fn;

use bytes::Bytes;
use http::Request;
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Options};
use proptest::prelude::*;
use tower_service::Service;

async fn send(service: &mut ApiService, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, Bytes) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .body(Full::new(Bytes::copy_from_slice(body)));
    // What the http crate does not take, no transport delivers.
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

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_path_and_query_is_answered(path in "/[a-z0-9/%._~-]{0,40}", query in "[ -~]{0,60}") {
        run(async {
            let mut service = ApiServer::start(Options::default()).service();
            let query = query.replace([' ', '"', '<', '>', '`', '{', '}', '#', '\\', '^', '|'], "");
            for path in [format!("{path}?{query}"), format!("{MAPS}?{query}&timeoutSeconds=1")] {
                let (status, _) = send(&mut service, "GET", &path, "application/json", b"").await;
                assert!((200..600).contains(&status));
            }
        });
    }

    #[test]
    fn any_body_is_answered(
        body in prop::collection::vec(any::<u8>(), 0..200),
        json in "[\\[\\]{}\":,a-z0-9. ]{0,80}",
        method in prop::sample::select(vec!["POST", "PUT", "PATCH", "DELETE"]),
        kind in prop::sample::select(vec![
            "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/json-patch+json",
            "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml", "",
        ]),
    ) {
        run(async {
            let mut service = ApiServer::start(Options::default()).service();
            send(&mut service, "POST", MAPS, "application/json", br#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#).await;
            let protobuf = [b"k8s\0".as_slice(), &body].concat();
            for body in [body.as_slice(), json.as_bytes(), &protobuf] {
                for path in [MAPS.to_owned(), format!("{MAPS}/a?fieldManager=f"), format!("{MAPS}/b?fieldManager=f")] {
                    let (status, _) = send(&mut service, method, &path, kind, body).await;
                    assert!((200..600).contains(&status));
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
fn a_watch_that_is_not_read_costs_nothing_and_ends_when_its_history_is_gone() {
    run(async {
        let server = ApiServer::start(Options::default());
        let mut service = server.service();
        let request = Request::get(format!("{MAPS}?watch=1")).body(Full::new(Bytes::new())).unwrap();
        let mut watch = service.call(request).await.unwrap().into_body();
        let body = br#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#;
        let large = "x".repeat(64 << 10);
        send(&mut service, "POST", MAPS, "application/json", body).await;
        // More than the history of a resource keeps.
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
