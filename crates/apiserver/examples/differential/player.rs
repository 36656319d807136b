//! Plays requests against both servers.

use futures::future::try_join;
use http::Method;
use serde_json::{Value, json};

use super::Result;
use super::comparison::{Difference, Pairs};
use super::request::{Answer, Bindings, Body, Request};
use super::responder::{Responder, Side};
use super::server::Server;

/// Both servers, and the webhooks that they call.
pub(crate) struct Twins {
    pub(crate) genuine: Server,
    pub(crate) ours: Server,
    pub(crate) responder: Responder,
}

/// Path of the configurations of admission webhooks.
pub(crate) const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/";
/// Maximum number of tries until a new configuration is in effect, a tenth of a second apart. A configuration that was shortened may
/// lack the webhook that shows it.
const TRIES: usize = 50;

/// A namespace on each server, and the values of placeholders for its objects.
pub(crate) struct Stage<'a> {
    twins: &'a Twins,
    genuine: Bindings,
    ours: Bindings,
    pairs: Pairs,
    namespace: String,
    /// Paths of the webhook configurations that exist.
    configurations: Vec<String>,
}

/// Two responses and their differences.
pub(crate) struct Outcome {
    pub(crate) genuine: Answer,
    pub(crate) ours: Answer,
    pub(crate) differences: Vec<Difference>,
}

impl<'a> Stage<'a> {
    /// Creates a namespace on both servers.
    pub(crate) async fn open(twins: &'a Twins, namespace: &str) -> Result<Self> {
        let body = json!({"metadata": {"name": namespace}});
        let create = Request::new(Method::POST, "/api/v1/namespaces", "").body(body);
        let (genuine, ours) = (twins.genuine.bindings(namespace), twins.ours.bindings(namespace));
        for (server, bindings) in [(&twins.genuine, &genuine), (&twins.ours, &ours)] {
            // A connection that ends is no reason to give up: the namespace exists then, or the next try creates it.
            let mut answer = server.send(&create, bindings).await?;
            if answer.is_ended() {
                answer = server.send(&create, bindings).await?;
            }
            if !matches!(answer.status, 201 | 409) {
                return Err(format!("namespace {namespace}: {}", answer.body).into());
            }
        }
        let mut pairs = Pairs::default();
        pairs.bind(&genuine.expand("{{hook}}"), &ours.expand("{{hook}}"));
        let namespace = namespace.to_owned();
        Ok(Self { twins, genuine, ours, pairs, namespace, configurations: Vec::new() })
    }

    /// Sends a request to both servers and compares their responses, and their calls of webhooks.
    pub(crate) async fn play(&mut self, request: &Request) -> Result<Outcome> {
        let genuine = self.twins.genuine.send(request, &self.genuine);
        let ours = self.twins.ours.send(request, &self.ours);
        let (mut genuine, ours) = try_join(genuine, ours).await?;
        for _ in 0..TRIES {
            if !may_be_stale(request, &genuine, &ours) {
                break;
            }
            tokio::time::sleep(tokio::time::Duration::from_millis(100)).await;
            genuine = self.twins.genuine.send(request, &self.genuine).await?;
        }
        if genuine.is_ended() || ours.is_ended() {
            if !self.twins.genuine.is_running() {
                return Err("the genuine server has ended".into());
            }
            let differences = self.pairs.compare(&genuine, &ours);
            return Ok(Outcome { genuine, ours, differences });
        }
        self.genuine.learn(&genuine.body);
        self.ours.learn(&ours.body);
        self.rename(&genuine.body, &ours.body);
        let prefix = request.generate_name();
        let mut differences =
            self.pairs.compare(&genuine.with_masked_name(prefix), &ours.with_masked_name(prefix));
        let calls = |side| self.twins.responder.take(side, &self.namespace);
        let calls = (calls(Side::Genuine), calls(Side::Embedded));
        // A request that one server refuses early reaches fewer webhooks.
        if genuine.status == ours.status {
            self.pairs.compare_calls(&calls.0, &calls.1, &mut differences);
        }
        if request.method == Method::POST && genuine.status == 201 && ours.status == 201 {
            self.await_configuration(request, &genuine.body).await?;
        }
        Ok(Outcome { genuine, ours, differences })
    }

    /// Learns values that the servers have chosen by themselves and that later requests repeat: a generated name, and node ports.
    fn rename(&mut self, genuine: &Value, ours: &Value) {
        let name = |body: &Value| body["metadata"]["name"].as_str().map(str::to_owned);
        // A LimitRange without a name gets one without a prefix.
        let is_generated = genuine["metadata"]["generateName"].is_string() || genuine["kind"] == "LimitRange";
        if is_generated && let (Some(genuine), Some(ours)) = (name(genuine), name(ours)) {
            self.ours.rename(genuine, ours);
        }
        let ports = |body: &Value| -> Vec<String> {
            let ports = body["spec"]["ports"].as_array().into_iter().flatten();
            let checked = format!("\"healthCheckNodePort\":{}", body["spec"]["healthCheckNodePort"]);
            ports.map(|port| format!("\"nodePort\":{}", port["nodePort"])).chain([checked]).collect()
        };
        for (genuine, ours) in ports(genuine).into_iter().zip(ports(ours)) {
            self.ours.rename(genuine, ours);
        }
    }

    /// Waits until a new configuration of webhooks is in effect on the genuine server: its first webhook refuses ConfigMaps with a label.
    async fn await_configuration(&mut self, request: &Request, body: &Value) -> Result<()> {
        if !request.path.starts_with(CONFIGURATIONS) || request.path.contains("dryRun") {
            return Ok(());
        }
        let Some(name) = body["metadata"]["name"].as_str() else { return Ok(()) };
        let path = request.path.split('?').next().unwrap_or_default();
        self.configurations.push(format!("{path}/{name}"));
        let metadata = json!({"name": "ready", "labels": {"ready": name}});
        let path = "/api/v1/namespaces/{{ns}}/configmaps?dryRun=All";
        let probe = Request::new(Method::POST, path, "").body(json!({"metadata": metadata}));
        for _ in 0..TRIES {
            let answer = self.twins.genuine.send(&probe, &self.genuine).await?;
            if answer.body["message"].as_str().is_some_and(|message| message.contains("\"ready.")) {
                return Ok(());
            }
            tokio::time::sleep(tokio::time::Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Deletes the configurations of webhooks.
    pub(crate) async fn close(self) -> Result<()> {
        for path in &self.configurations {
            let delete = Request::new(Method::DELETE, path, "");
            try_join(
                self.twins.genuine.send(&delete, &self.genuine),
                self.twins.ours.send(&delete, &self.ours),
            )
            .await?;
        }
        Ok(())
    }
}

/// Names of other namespaces.
pub(crate) struct Namespaces {
    prefix: String,
    number: usize,
}

impl Namespaces {
    pub(crate) fn new(prefix: String) -> Self {
        Self { prefix, number: 0 }
    }

    pub(crate) fn next(&mut self) -> String {
        self.number += 1;
        format!("{}-{}", self.prefix, self.number)
    }
}

/// Maximum number of replays that shorten one story.
const REPLAYS: usize = 60;

/// Removes requests, and parts of the last request's body, without which the same difference appears.
pub(crate) async fn shrink(
    twins: &Twins,
    namespaces: &mut Namespaces,
    mut story: Vec<Request>,
    signature: &str,
) -> Result<Vec<Request>> {
    let mut replays = 0;
    // Long stretches first: most requests of a story have nothing to do with its end.
    let mut stretch = story.len().saturating_sub(1);
    while stretch > 0 {
        let mut end = story.len().saturating_sub(1);
        while end > 0 && replays < REPLAYS {
            let start = end.saturating_sub(stretch);
            let mut shorter = story.clone();
            shorter.drain(start..end);
            replays += 1;
            if shows(twins, namespaces, &shorter, signature).await? {
                story = shorter;
            }
            end = start;
        }
        stretch /= 2;
    }
    let Some(last) = story.len().checked_sub(1) else { return Ok(story) };
    for request in (0..=last).rev() {
        let Body::Json(body) = &story[request].body else { continue };
        if story[request].path.starts_with(CONFIGURATIONS) {
            continue;
        }
        for pointer in super::mutation::pointers(body) {
            if replays >= REPLAYS || pointer.is_empty() {
                continue;
            }
            let mut simpler = story.clone();
            if let Body::Json(body) = &mut simpler[request].body {
                if body.pointer(&pointer).is_none() {
                    continue;
                }
                super::mutation::remove(body, &pointer);
            }
            replays += 1;
            if shows(twins, namespaces, &simpler, signature).await? {
                story = simpler;
            }
        }
    }
    Ok(story)
}

/// Whether the last request of a story has a difference of this signature.
async fn shows(
    twins: &Twins,
    namespaces: &mut Namespaces,
    story: &[Request],
    signature: &str,
) -> Result<bool> {
    let mut stage = Stage::open(twins, &namespaces.next()).await?;
    let Some((last, before)) = story.split_last() else { return Ok(false) };
    for request in before {
        stage.play(request).await?;
    }
    let outcome = stage.play(last).await?;
    stage.close().await?;
    Ok(outcome.differences.first().is_some_and(|found| super::report::signature(last, found) == signature))
}

/// Whether the watch cache of the genuine server may lack the last writes.
fn may_be_stale(request: &Request, genuine: &Answer, ours: &Answer) -> bool {
    let count = |answer: &Answer| {
        let list = ["items", "rows"].iter().find_map(|name| answer.body[name].as_array());
        list.map(Vec::len)
    };
    request.method == Method::GET
        && request.path.contains("resourceVersion=0")
        && (matches!((genuine.status, ours.status), (404, 200) | (200, 404)) || count(genuine) != count(ours))
}
