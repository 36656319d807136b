//! Steps against a scripted server.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use expect_test::{Expect, expect};
use http::{Request, Response};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::player::{Failure, play};
use crate::transport::Transport;
use crate::webhooks::Webhooks;

/// Maps a request line to status and body.
type Script = dyn Fn(&str) -> (u16, Value) + Send + Sync;

/// A server that responds by method and path.
#[derive(Clone)]
struct Scripted(Arc<Script>);

impl tower_service::Service<Request<Full<Bytes>>> for Scripted {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let (status, body) = (self.0)(&format!("{} {}", request.method(), request.uri()));
        let text = match body {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let response = Response::builder().status(status).header("Content-Type", "application/json");
        ready(Ok(response.body(Full::from(text)).unwrap()))
    }
}

/// Plays a step against a server that responds with `answer(request line)`, and formats the failures.
async fn check(
    step: Value,
    answer: impl Fn(&str) -> (u16, Value) + Send + Sync + 'static,
    failures: &Expect,
) {
    let transport = Transport::over(Scripted(Arc::new(move |line: &str| match line {
        "POST /api/v1/namespaces" => (201, json!({})),
        line => answer(line),
    })));
    let transcript = json!({"name": "a/b", "namespace": "ns", "steps": [step]});
    let transcript = serde_json::from_str(&transcript.to_string()).unwrap();
    let found: Vec<String> = play(&transport, &transcript, "", &|_| {}, &Webhooks::new("hooks:1", ""))
        .await
        .iter()
        .map(Failure::to_string)
        .collect();
    failures.assert_eq(&found.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_difference_names_step_request_and_path() {
    let request = json!({"method": "GET", "path": "/x/{{ns}}"});
    let response = json!({"status": 200, "contentType": "application/json", "body": {"a": [1]}});
    check(
        json!({"request": request, "response": response}),
        |line| (if line == "GET /x/ns-played" { 404 } else { 500 }, json!({"a": [2]})),
        &expect![[r#"
            step 1: GET /x/ns-played
              status
                expected 200
                got      404
            step 1: GET /x/ns-played
              $.a[0]
                expected 1
                got      2"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_condition_or_at_the_timeout() {
    let wait = json!({"wait": {"path": "/x", "until": ["items.1.ok", true], "seconds": 30}});
    let start = Instant::now();
    let is_ripe = move || start.elapsed() >= Duration::from_secs(20);
    check(wait.clone(), move |_| (200, json!({"items": [{}, {"ok": is_ripe()}]})), &expect![[""]]).await;
    assert_eq!(start.elapsed(), Duration::from_secs(20));
    check(
        wait,
        |_| (200, json!({"items": []})),
        &expect![[r#"
            step 1: GET /x
              items.1.ok
                expected true
                got      null"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_delivers_its_events_and_reports_an_unexpected_end() {
    let watch = json!({"watch": {
        "request": {"method": "GET", "path": "/w"}, "during": [], "count": 3, "seconds": 5,
        "response": {"status": 200, "contentType": "application/json", "events": [{"n": 1}, {"n": 2}, {"n": 3}]},
    }});
    check(watch.clone(), |_| (200, json!("{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n{\"n\":4}\n")), &expect![[""]])
        .await;
    check(
        watch,
        |_| (200, json!("{\"n\":1}\n")),
        &expect![[r#"
            step 1: GET /w
              stream ended by the server
                expected false
                got      true
            step 1: GET /w
              events.length
                expected 3
                got      1"#]],
    )
    .await;
}
