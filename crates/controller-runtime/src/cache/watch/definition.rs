//! Waiting for the CustomResourceDefinition of a kind that is not served yet.

use futures::StreamExt;
use http_body_util::BodyExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Resource,
    client::Body,
    core::{
        ApiResource, Request as ApiRequest,
        params::{ListParams, WatchParams},
    },
};
use serde::Deserialize;
use tokio::time::{Duration, Instant, sleep_until, timeout, timeout_at};

use super::{
    list_decoder::ListDecoder,
    watch_decoder::{self, WatchLine, WatchLines},
};
use crate::client::{transport::read_body::read_body, uncompressed};

/// Longest wait for a definition that exists but does not serve the version.
const LONGEST: Duration = Duration::from_secs(300);

/// Duration of one watch of a definition, short enough to detect a lost connection within 45 s without probes.
const WATCH: Duration = Duration::from_secs(30);

/// Time after which a watch that the API server should have ended counts as dead.
const OVERDUE: Duration = Duration::from_secs(10);

/// Longest wait for an answer about the definition.
const ANSWER_WITHIN: Duration = Duration::from_secs(45);

/// Waits for `delay`, or until the resource's CustomResourceDefinition is established if that is sooner. If the
/// definition exists but does not serve the version, waits up to 5 minutes instead of `delay`.
///
/// A group with a dot may have no definition: it may belong to an aggregated API server, or be a builtin group that
/// this API server is too old for.
pub(in crate::cache) async fn await_served(client: &kube::Client, resource: &ApiResource, delay: Duration) {
    let delayed = Instant::now() + delay;
    // Groups without a dot are builtin: no definition can add them.
    if resource.group.contains('.') && becomes_established(client, resource, delayed).await {
        return;
    }
    sleep_until(delayed).await;
}

/// Waits until the definition is established, with a sequence of short watches. `false` if it cannot be watched, or is
/// not established in time.
async fn becomes_established(client: &kube::Client, resource: &ApiResource, delayed: Instant) -> bool {
    let longest = Instant::now() + LONGEST;
    loop {
        let found = timeout(ANSWER_WITHIN, find(client, resource)).await;
        let Ok(Some(Found { version, exists })) = found else { return false };
        // A definition that does not exist may never come, so it is awaited for the usual delay only.
        let until = if exists { longest } else { delayed };
        tracing::debug!(
            resource = format!("{}.{}", resource.plural, resource.group),
            exists,
            "the API server does not serve version {} yet; waiting for its CustomResourceDefinition",
            resource.version
        );
        let began = Instant::now();
        match timeout_at(
            until.min(began + WATCH + OVERDUE),
            watch_until_established(client, resource, &version),
        )
        .await
        {
            Ok(Some(())) => return true,
            // Do not loop tightly when a watch ends early.
            Ok(None) if began.elapsed() < WATCH => return false,
            Ok(None) | Err(_) => {}
        }
        if Instant::now() >= until {
            return false;
        }
    }
}

/// Largest answer to the search for a definition: etcd stores no object of more than 3 MiB.
const MAX_DEFINITION: usize = 8 << 20;

/// Result of the search for a definition.
struct Found {
    /// The version from which it can be watched.
    version: String,
    exists: bool,
}

/// Searches for the definition. `None` if the search fails, or the definition is established and serves the version.
async fn find(client: &kube::Client, resource: &ApiResource) -> Option<Found> {
    // A list instead of a get: without a definition it is empty, and still has a version to watch from.
    let list = definitions().list(&ListParams::default().fields(&name(resource))).ok()?;
    let (mut items, mut exists) = (ListDecoder::default(), false);
    items.push(read_body(open(client, list).await?, MAX_DEFINITION).await.ok()?);
    while let Some(definition) = items.next().ok()? {
        if serves(&definition, resource) {
            return None;
        }
        exists = true;
    }
    Some(Found { version: items.finish().ok()?.resource_version, exists })
}

/// Watches until the definition is established. `None` if it cannot be watched, or the watch ends before.
async fn watch_until_established(client: &kube::Client, resource: &ApiResource, from: &str) -> Option<()> {
    let params = WatchParams {
        field_selector: Some(name(resource)),
        timeout: u32::try_from(WATCH.as_secs()).ok(),
        ..WatchParams::default()
    };
    let watch = definitions().watch(&params, from).ok()?;
    let mut body = open(client, watch).await?.into_data_stream();
    let mut lines = WatchLines::default();
    while let Some(chunk) = body.next().await {
        lines.push(chunk.ok()?);
        while let Some(line) = lines.next().ok()? {
            match watch_decoder::decode_line(&line).ok()? {
                WatchLine::Added(definition) | WatchLine::Modified(definition)
                    if serves(definition.json(), resource) =>
                {
                    return Some(());
                }
                WatchLine::Error(_) => return None,
                _ => {}
            }
        }
    }
    None
}

fn definitions() -> ApiRequest {
    ApiRequest::new(CustomResourceDefinition::url_path(&(), None))
}

/// Returns a field selector for the definition.
fn name(resource: &ApiResource) -> String {
    format!("metadata.name={}.{}", resource.plural, resource.group)
}

async fn open(client: &kube::Client, mut request: http::Request<Vec<u8>>) -> Option<Body> {
    uncompressed(&mut request);
    let response = client.send(request.map(Body::from)).await.ok()?;
    response.status().is_success().then(|| response.into_body())
}

/// Whether the definition is established and serves the version of the resource.
fn serves(definition: &[u8], resource: &ApiResource) -> bool {
    #[derive(Deserialize)]
    struct Definition {
        spec: DefinitionSpec,
        #[serde(default)]
        status: DefinitionStatus,
    }
    #[derive(Deserialize)]
    struct DefinitionSpec {
        versions: Vec<Version>,
    }
    #[derive(Deserialize)]
    struct Version {
        name: String,
        served: bool,
    }
    #[derive(Deserialize, Default)]
    struct DefinitionStatus {
        #[serde(default)]
        conditions: Vec<Condition>,
    }
    #[derive(Deserialize)]
    struct Condition {
        #[serde(rename = "type")]
        kind: String,
        status: String,
    }
    serde_json::from_slice::<Definition>(definition).is_ok_and(|Definition { spec, status }| {
        let is_established =
            |condition: &Condition| condition.kind == "Established" && condition.status == "True";
        status.conditions.iter().any(is_established)
            && spec.versions.iter().any(|version| version.served && version.name == resource.version)
    })
}
