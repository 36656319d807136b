//! The recordings played against themselves, to show that the player reports no false differences.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::player::play;
use crate::template::{Part, Placeholder, parts};
use crate::transcript::{self, Step, Transcript};
use crate::transport::Transport;
use crate::webhooks::Hooks;

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_as_recorded_passes_every_scenario() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/transcripts");
    for transcript in transcript::load(&folder).unwrap().values() {
        let mut answers = Answers::of(transcript);
        answers.push(&plain(201), &json!({}), true);
        answers.steps(&transcript.steps);
        let hooks = Recorded(Mutex::new(answers.calls));
        let recording = Recording(Arc::new(Mutex::new(answers.queue)));
        let failures = play(&Transport::over(recording.clone()), transcript, "host:1", &|_| {}, &hooks).await;
        let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
        assert!(failures.is_empty(), "{}\n{}", transcript.name, failures.join("\n"));
        assert!(recording.0.lock().unwrap().is_empty(), "{}: not all steps were played", transcript.name);
    }
}

/// A server that sends prepared responses in order, whatever the requests are.
#[derive(Clone)]
struct Recording(Arc<Mutex<VecDeque<Response<Played>>>>);

impl tower_service::Service<Request<Full<Bytes>>> for Recording {
    type Response = Response<Played>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let answer = self.0.lock().unwrap().pop_front();
        ready(Ok(answer.unwrap_or_else(|| panic!("unexpected {} {}", request.method(), request.uri()))))
    }
}

/// Webhooks that received the recorded calls, each `webhookCalls` step those that it expects.
struct Recorded(Mutex<VecDeque<Vec<Value>>>);

impl Hooks for Recorded {
    fn host(&self) -> String {
        "hooks:1".to_owned()
    }

    fn ca_bundle(&self) -> String {
        "bundle".to_owned()
    }

    fn respond(&self, _: &str, _: Value) {}

    fn record(&self, _: bool) {}

    fn take_calls(&self, _: &str) -> Vec<Value> {
        self.0.lock().unwrap().pop_front().unwrap_or_default()
    }
}

/// A body that ends, or stays open like a watch.
struct Played {
    bytes: Option<Bytes>,
    ends: bool,
}

impl Body for Played {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.bytes.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None if self.ends => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

/// The responses of a transcript, with a value for each placeholder.
struct Answers<'a> {
    transcript: &'a Transcript,
    queue: VecDeque<Response<Played>>,
    calls: VecDeque<Vec<Value>>,
}

impl<'a> Answers<'a> {
    fn of(transcript: &'a Transcript) -> Self {
        Self { transcript, queue: VecDeque::new(), calls: VecDeque::new() }
    }

    fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Exchange { response, .. } => self.response(response),
                Step::Wait(wait) => {
                    let (place, value) = &wait.until;
                    let status = if place == "status_code" { value.as_u64().unwrap() } else { 200 };
                    let body =
                        place.rsplit('.').fold(value.clone(), |inner, part| match part.parse::<usize>() {
                            Ok(index) => [vec![Value::Null; index], vec![inner]].concat().into(),
                            Err(_) => json!({part: inner}),
                        });
                    self.push(&plain(u16::try_from(status).unwrap()), &body, true);
                }
                Step::Watch(watch) => {
                    self.response(&watch.response);
                    self.steps(&watch.during);
                }
                Step::Webhook(_) => {}
                Step::WebhookCalls(calls) => {
                    let calls = calls.requests.iter().map(|review| self.fill(&review.to_string()));
                    self.calls
                        .push_back(calls.map(|review| serde_json::from_str(&review).unwrap()).collect());
                }
            }
        }
    }

    fn response(&mut self, response: &transcript::Response) {
        match &response.events {
            Some(events) => {
                let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
                self.push(response, &lines.into(), response.closed);
            }
            None => self.push(response, &response.body, true),
        }
    }

    fn push(&mut self, head: &transcript::Response, body: &Value, ends: bool) {
        let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        let mut answer = Response::builder().status(head.status);
        if let Some(content_type) = &head.content_type {
            answer = answer.header("Content-Type", content_type);
        }
        for warning in &head.warnings {
            // Recorded as Latin-1, like the player reads it: each character is a byte.
            let bytes: Vec<u8> =
                self.fill(warning).chars().map(|character| u8::try_from(character).unwrap()).collect();
            answer = answer.header("Warning", bytes);
        }
        let bytes = Some(self.fill(&text).into());
        self.queue.push_back(answer.body(Played { bytes, ends }).unwrap());
    }

    fn fill(&self, text: &str) -> String {
        let value = |part| match part {
            Part::Literal(literal) => literal.to_owned(),
            Part::Placeholder(placeholder) => self.value(placeholder),
        };
        parts(text).into_iter().map(value).collect()
    }

    fn value(&self, Placeholder { kind, label }: Placeholder<'_>) -> String {
        let number = label.split_once(':').map_or("0", |(_, id)| id);
        match kind {
            "ns" => format!("{}-played", self.transcript.namespace),
            "server" => "host:1".to_owned(),
            "webhookHost" => "hooks:1".to_owned(),
            "caBundle" => "bundle".to_owned(),
            "webhook" => format!("https://hooks:1/{number}"),
            "rv" | "listrv" => match self.transcript.revisions.iter().position(|rising| rising == label) {
                Some(place) => (100 + place).to_string(),
                None => format!("9{number}"),
            },
            "time" | "created" => "2026-01-02T03:04:05Z".to_owned(),
            "microTime" => "2026-01-02T03:04:05.000006Z".to_owned(),
            "ip" => format!("10.96.0.{number}"),
            "nodePort" => format!("3000{number}"),
            _ => format!("{}{number}", kind.to_lowercase()),
        }
    }
}

/// Returns the head of a response that is in no transcript.
fn plain(status: u16) -> transcript::Response {
    serde_json::from_value(json!({"status": status, "contentType": "application/json"})).unwrap()
}
