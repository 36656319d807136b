//! Plays requests against both servers.

use futures::future::try_join;
use http::Method;
use serde_json::json;

use super::Result;
use super::comparison::{Difference, Pairs};
use super::request::{Answer, Bindings, Body, Request};
use super::server::Server;

/// Both servers.
pub(crate) struct Twins {
    pub(crate) genuine: Server,
    pub(crate) ours: Server,
}

/// A namespace on each server, and the values of placeholders for its objects.
pub(crate) struct Stage<'a> {
    twins: &'a Twins,
    genuine: Bindings,
    ours: Bindings,
    pairs: Pairs,
}

/// Two responses and their differences.
pub(crate) struct Outcome {
    pub(crate) genuine: Answer,
    pub(crate) differences: Vec<Difference>,
}

impl<'a> Stage<'a> {
    /// Creates a namespace on both servers.
    pub(crate) async fn open(twins: &'a Twins, namespace: &str) -> Result<Self> {
        let body = json!({"metadata": {"name": namespace}});
        let create = Request::new(Method::POST, "/api/v1/namespaces", "").body(body);
        let none = Bindings::new(namespace);
        for server in [&twins.genuine, &twins.ours] {
            let answer = server.send(&create, &none).await?;
            if answer.status != 201 {
                return Err(format!("namespace {namespace}: {}", answer.body).into());
            }
        }
        let bindings = || Bindings::new(namespace);
        Ok(Self { twins, genuine: bindings(), ours: bindings(), pairs: Pairs::default() })
    }

    /// Sends a request to both servers and compares their responses.
    pub(crate) async fn play(&mut self, request: &Request) -> Result<Outcome> {
        let genuine = self.twins.genuine.send(request, &self.genuine);
        let ours = self.twins.ours.send(request, &self.ours);
        let (genuine, ours) = try_join(genuine, ours).await?;
        self.genuine.learn(&genuine.body);
        self.ours.learn(&ours.body);
        let differences = self.pairs.compare(&genuine, &ours);
        Ok(Outcome { genuine, differences })
    }
}

/// Names of further namespaces.
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
const REPLAYS: usize = 120;

/// Removes requests, and parts of the last request's body, without which the same difference appears.
pub(crate) async fn shrink(
    twins: &Twins,
    namespaces: &mut Namespaces,
    mut story: Vec<Request>,
    signature: &str,
) -> Result<Vec<Request>> {
    let mut replays = 0;
    let mut index = story.len().saturating_sub(1);
    while index > 0 && replays < REPLAYS {
        index -= 1;
        let mut shorter = story.clone();
        shorter.remove(index);
        replays += 1;
        if shows(twins, namespaces, &shorter, signature).await? {
            story = shorter;
        }
    }
    let Some(last) = story.len().checked_sub(1) else { return Ok(story) };
    for request in (0..=last).rev() {
        let Body::Json(body) = &story[request].body else { continue };
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
    Ok(outcome.differences.first().is_some_and(|found| super::report::signature(last, found) == signature))
}
