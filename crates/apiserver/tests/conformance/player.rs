//! Plays a scenario against a server and collects the differences from the recording.
//!
//! It uses tokio's time: in paused time the polling of `wait` and the timeout of `watch` take no real time.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use http::Request as HttpRequest;
use http_body_util::Full;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::bindings::Bindings;
use crate::comparison::{Comparison, Difference};
use crate::transcript::{
    Auth, OneOrMany, Request, Response, Step, Transcript, Wait, Watch, Webhook, WebhookCalls,
};
use crate::transport::{Answer, Transport, json_or_text, media_type, warning_text};
use crate::webhooks::Hooks;

/// Timeout of a request. In paused time it elapses at once if nothing else can happen.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of requests in a `wait` step.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A difference and its place.
#[derive(Debug)]
pub(crate) struct Failure {
    /// `3`, or `3.1` for the first step during the watch in step 3.
    step: String,
    /// Method and path of the request, or another description.
    request: String,
    difference: Difference,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { path, expected, got } = &self.difference;
        write!(f, "step {}: {}\n  {path}\n", self.step, self.request)?;
        write!(f, "    expected {expected}\n    got      {got}")
    }
}

/// Plays all steps of `transcript`; a step without a response ends the scenario.
///
/// `server` is the host and port that the server reports as its own. `passed` receives the duration of each request that
/// is meant to last, to advance the stopped clock of a server. `hooks` are the webhooks that the server can call.
pub(crate) async fn play(
    transport: &Transport,
    transcript: &Transcript,
    server: &str,
    passed: &dyn Fn(Duration),
    hooks: &dyn Hooks,
) -> Vec<Failure> {
    let namespace = format!("{}-played", transcript.namespace);
    let mut player = Player {
        transport,
        passed,
        hooks,
        bindings: Bindings::new(&[("ns", &namespace), ("server", server)]),
        failures: Vec::new(),
    };
    if player.create_namespace(&namespace).await && player.steps(&transcript.steps, "").await {
        player.revisions(&transcript.revisions);
    }
    player.failures
}

struct Player<'a> {
    transport: &'a Transport,
    passed: &'a dyn Fn(Duration),
    hooks: &'a dyn Hooks,
    bindings: Bindings,
    failures: Vec<Failure>,
}

/// Number and request of a step.
struct Context<'a> {
    step: &'a str,
    method: &'a str,
    path: &'a str,
}

impl Player<'_> {
    async fn create_namespace(&mut self, name: &str) -> bool {
        let path = "/api/v1/namespaces";
        let context = Context { step: "0", method: "POST", path };
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let request = HttpRequest::post(path).header("Content-Type", "application/json");
        let request = self.identified(request, &BTreeMap::new(), None);
        let Some(answer) = self.send(&context, request, body.to_string()).await else {
            return false;
        };
        let status = answer.status;
        let Some(text) = self.text(&context, answer).await else {
            return false;
        };
        if status != 201 {
            self.note(&context, vec![difference("$", "a new namespace", &format!("{status} {text}"))]);
        }
        status == 201
    }

    /// Plays steps and returns whether each got a response. `parent` is the number of the surrounding watch, followed by
    /// a dot.
    async fn steps(&mut self, steps: &[Step], parent: &str) -> bool {
        for (index, step) in steps.iter().enumerate() {
            let number = format!("{parent}{}", index + 1);
            let answered = match step {
                Step::Exchange { request, response } => self.exchange(&number, request, response).await,
                Step::Wait(wait) => {
                    // The number of calls depends on how often the player polls.
                    self.hooks.record(false);
                    let waited = self.wait(&number, wait).await;
                    self.hooks.record(true);
                    waited
                }
                Step::Watch(watch) => Box::pin(self.watch(&number, watch)).await,
                Step::Webhook(webhook) => {
                    self.webhook(webhook);
                    Some(())
                }
                Step::WebhookCalls(calls) => {
                    self.webhook_calls(&number, calls);
                    Some(())
                }
            };
            if answered.is_none() {
                return false;
            }
        }
        true
    }

    async fn exchange(&mut self, step: &str, request: &Request, response: &Response) -> Option<()> {
        let context = Context { step, method: &request.method, path: &request.path };
        let answer = self.request(&context, request).await?;
        let compared = self.compare_whole(&context, response, answer).await;
        // Recordings wait by reading a watch to its end.
        let lasted = request.path.split(['?', '&']).find_map(|part| part.strip_prefix("timeoutSeconds="));
        if let Some(seconds) = lasted.and_then(|seconds| seconds.parse().ok()) {
            (self.passed)(Duration::from_secs(seconds));
        }
        compared
    }

    async fn wait(&mut self, step: &str, wait: &Wait) -> Option<()> {
        let context = Context { step, method: &wait.method, path: &wait.path };
        let (place, wanted) = &wait.until;
        let deadline = Instant::now() + Duration::from_secs(wait.seconds);
        loop {
            let mut request = HttpRequest::builder()
                .method(&*wait.method)
                .uri(self.path(&wait.path))
                .header("Accept", "application/json");
            request = self.identified(request, &wait.headers, wait.auth.as_ref());
            if let Some(content_type) = &wait.content_type {
                request = request.header("Content-Type", content_type);
            }
            let body = wait.body.as_ref().map_or_else(String::new, |body| self.body(body.get()));
            let answer = self.send(&context, request, body).await?;
            let status = answer.status;
            let text = self.text(&context, answer).await?;
            let present = match &**place {
                "status_code" => Value::from(status),
                dotted => look_up(&json_or_text(&text), dotted),
            };
            let mut comparison = Comparison::new(&mut self.bindings, &wait.path);
            comparison.values(place, wanted, &present);
            let differences = comparison.into_differences();
            if differences.is_empty() {
                return Some(());
            }
            if Instant::now() >= deadline {
                self.note(&context, differences);
                return Some(());
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn watch(&mut self, step: &str, watch: &Watch) -> Option<()> {
        let Watch { request, during, count, seconds, response } = watch;
        let context = Context { step, method: &request.method, path: &request.path };
        let answer = self.request(&context, request).await?;
        let inner = format!("{step}.");
        let Some(expected) = response.events.as_ref().filter(|_| answer.status == 200) else {
            let answered = self.steps(during, &inner).await;
            self.compare_whole(&context, response, answer).await?;
            return answered.then_some(());
        };
        let head = self.compare_head(&context, response, &answer);
        self.note(&context, head);
        if !self.steps(during, &inner).await {
            return None;
        }
        let (events, closed) = answer.events(*count, Duration::from_secs(*seconds)).await;
        let mut comparison = Comparison::new(&mut self.bindings, &request.path);
        if closed != response.closed && events.len() < *count {
            let path = "stream ended by the server";
            comparison.differ(path, Some(&response.closed.into()), Some(&closed.into()));
        }
        comparison.values("events", &Value::from(expected.clone()), &Value::from(events));
        let differences = comparison.into_differences();
        self.note(&context, differences);
        Some(())
    }

    /// Changes the answers of a webhook.
    fn webhook(&mut self, Webhook { name, respond }: &Webhook) {
        let host = self.hooks.host();
        self.bindings.bind("webhookHost", &host);
        self.bindings.bind("caBundle", &self.hooks.ca_bundle());
        self.bindings.bind(&format!("webhook:{name}"), &format!("https://{host}/{name}"));
        let respond = json_or_text(&self.body(respond.get()));
        self.hooks.respond(name, respond);
    }

    /// Compares the reviews that a webhook received.
    fn webhook_calls(&mut self, step: &str, WebhookCalls { name, requests }: &WebhookCalls) {
        let calls = self.hooks.take_calls(name);
        let mut comparison = Comparison::new(&mut self.bindings, "");
        comparison.values("calls", &Value::from(requests.clone()), &Value::from(calls));
        let differences = comparison.into_differences();
        self.note(&Context { step, method: "calls of webhook", path: name }, differences);
    }

    /// Checks that resource versions increase in the recorded order.
    fn revisions(&mut self, rising: &[String]) {
        let falls = self.bindings.disorder(rising).into_iter();
        let falls = falls.map(|[(low, low_value), (high, high_value)]| {
            let expected = format!("{{{{{high}}}}} not below {{{{{low}}}}}, which is {low_value}");
            difference("resource versions", &expected, &high_value.to_string())
        });
        let falls = falls.collect();
        self.note(&Context { step: "end", method: "order of", path: "resource versions" }, falls);
    }

    fn compare_head(
        &mut self,
        context: &Context<'_>,
        expected: &Response,
        answer: &Answer,
    ) -> Vec<Difference> {
        let mut comparison = Comparison::new(&mut self.bindings, context.path);
        comparison.values("status", &expected.status.into(), &answer.status.into());
        comparison.texts(
            "content type",
            &media_type(expected.content_type.as_deref().unwrap_or_default()),
            &answer.content_type(),
        );
        let warnings: Vec<String> = expected.warnings.iter().map(|header| warning_text(header)).collect();
        comparison.values("warnings", &warnings.into(), &answer.warnings().into());
        comparison.into_differences()
    }

    async fn compare_whole(
        &mut self,
        context: &Context<'_>,
        expected: &Response,
        answer: Answer,
    ) -> Option<()> {
        let head = self.compare_head(context, expected, &answer);
        self.note(context, head);
        let text = self.text(context, answer).await?;
        let mut comparison = Comparison::new(&mut self.bindings, context.path);
        match &expected.body {
            Value::String(body) => comparison.texts("$", body, &text),
            body => comparison.values("$", body, &json_or_text(&text)),
        }
        let differences = comparison.into_differences();
        self.note(context, differences);
        Some(())
    }

    async fn request(&mut self, context: &Context<'_>, request: &Request) -> Option<Answer> {
        let mut builder = HttpRequest::builder().method(&*request.method).uri(self.path(&request.path));
        if !request.headers.contains_key("Accept") {
            builder = builder.header("Accept", "application/json");
        }
        builder = self.identified(builder, &request.headers, request.auth.as_ref());
        if let Some(content_type) = &request.content_type {
            builder = builder.header("Content-Type", content_type);
        }
        let body = request.body.as_ref().map_or_else(String::new, |body| self.body(body.get()));
        self.send(context, builder, body).await
    }

    /// Adds the headers and the credentials of a request.
    fn identified(
        &self,
        mut request: http::request::Builder,
        headers: &BTreeMap<String, OneOrMany>,
        auth: Option<&Auth>,
    ) -> http::request::Builder {
        for (name, values) in headers {
            for value in values.values() {
                request = request.header(name, self.bindings.expand(value));
            }
        }
        let token = match auth {
            Some(Auth { token, .. }) => token.as_ref().map(|token| self.bindings.expand(token)),
            None => self.transport.token().map(str::to_owned),
        };
        match token {
            Some(token) => request.header("Authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    /// Returns the path with bound values percent-encoded.
    fn path(&self, path: &str) -> String {
        const UNRESERVED: &percent_encoding::AsciiSet =
            &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
        self.bindings.expand_with(path, |value| utf8_percent_encode(value, UNRESERVED).to_string())
    }

    /// Returns a body. In the transcript it is JSON to be sent, or a JSON string with the body.
    fn body(&self, json: &str) -> String {
        if json.starts_with('"')
            && let Value::String(literal) = json_or_text(json)
        {
            return self.bindings.expand(&literal);
        }
        self.bindings.expand_with(json, |value| {
            let quoted = Value::from(value).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        })
    }

    async fn send(
        &mut self,
        context: &Context<'_>,
        request: http::request::Builder,
        body: String,
    ) -> Option<Answer> {
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string());
        let transport = self.transport;
        self.answered(context, async { transport.send(request?).await }).await
    }

    async fn text(&mut self, context: &Context<'_>, answer: Answer) -> Option<String> {
        self.answered(context, answer.text()).await
    }

    /// Waits for a response, and records the reason if there is none.
    async fn answered<T>(
        &mut self,
        context: &Context<'_>,
        answer: impl Future<Output = Result<T, String>>,
    ) -> Option<T> {
        let error = match timeout(TIMEOUT, answer).await {
            Ok(Ok(answer)) => return Some(answer),
            Ok(Err(error)) => error,
            Err(_elapsed) => format!("nothing within {} s", TIMEOUT.as_secs()),
        };
        self.note(context, vec![difference("$", "an answer", &error)]);
        None
    }

    fn note(&mut self, context: &Context<'_>, differences: Vec<Difference>) {
        let request = format!("{} {}", context.method, self.bindings.expand(context.path));
        for difference in differences {
            let (step, request) = (context.step.to_owned(), request.clone());
            self.failures.push(Failure { step, request, difference });
        }
    }
}

fn difference(path: &str, expected: &str, got: &str) -> Difference {
    Difference { path: path.to_owned(), expected: expected.to_owned(), got: got.to_owned() }
}

/// Returns the value at a dotted path, in which numbers index lists; null if there is none.
fn look_up(body: &Value, dotted: &str) -> Value {
    let step = |value: &Value, part: &str| match value {
        Value::Array(list) => list.get(part.parse::<usize>().ok()?).cloned(),
        Value::Object(object) => object.get(part).cloned(),
        _ => None,
    };
    let found = dotted.split('.').try_fold(body.clone(), |value, part| step(&value, part));
    found.unwrap_or(Value::Null)
}
