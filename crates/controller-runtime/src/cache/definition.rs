//! Waiting for a kind that is not served yet.

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
use tokio::time::{Duration, sleep, timeout};

use super::{
    items::Items,
    wire::{self, Line, Lines},
};
use crate::client::uncompressed;

/// How long the definitions are watched in one go.
const WATCH: Duration = Duration::from_secs(300);

/// Waits until the resource's CustomResourceDefinition is established. If that cannot be told, or it is already, waits
/// for `delay`.
pub(super) async fn served(client: &kube::Client, resource: &ApiResource, delay: Duration) {
    // Groups without a dot are the API server's own: no definition will ever make them.
    if !resource.group.contains('.') {
        return sleep(delay).await;
    }
    tracing::info!(
        resource = format!("{}.{}", resource.plural, resource.group),
        "the API server does not serve version {} yet; waiting for its CustomResourceDefinition",
        resource.version
    );
    loop {
        match timeout(WATCH + Duration::from_secs(10), established(client, resource)).await {
            Ok(Some(true)) => return,
            Ok(Some(false)) | Err(_) => {} // the watch ended, as watches do
            Ok(None) => return sleep(delay).await,
        }
    }
}

/// Watches until the definition becomes established (`true`) or the watch ends. `None` if that cannot be watched, or it
/// was so before.
async fn established(client: &kube::Client, resource: &ApiResource) -> Option<bool> {
    let definitions = ApiRequest::new(CustomResourceDefinition::url_path(&(), None));
    let name = format!("metadata.name={}.{}", resource.plural, resource.group);
    let list = definitions.list(&ListParams::default().fields(&name)).ok()?;
    let mut items = Items::default();
    items.push(open(client, list).await?.collect().await.ok()?.to_bytes());
    while let Some(definition) = items.next().ok()? {
        if serves(&definition, resource) {
            return None;
        }
    }
    let list = items.finish().ok()?;
    let params = WatchParams {
        field_selector: Some(name),
        timeout: u32::try_from(WATCH.as_secs()).ok(),
        ..WatchParams::default()
    };
    let watch = definitions.watch(&params, &list.resource_version).ok()?;
    let mut body = open(client, watch).await?.into_data_stream();
    let mut lines = Lines::default();
    while let Some(chunk) = body.next().await {
        lines.push(chunk.ok()?);
        while let Some(line) = lines.next().ok()? {
            match wire::line(&line).ok()? {
                Line::Applied(definition) if serves(definition.json(), resource) => return Some(true),
                Line::Error(_) => return None,
                _ => {}
            }
        }
    }
    Some(false)
}

async fn open(client: &kube::Client, mut request: http::Request<Vec<u8>>) -> Option<Body> {
    uncompressed(&mut request);
    let response = client.send(request.map(Body::from)).await.ok()?;
    response.status().is_success().then(|| response.into_body())
}

/// Whether the API server serves the version of the resource that the definition makes.
fn serves(definition: &[u8], resource: &ApiResource) -> bool {
    #[derive(Deserialize)]
    struct Definition {
        spec: Spec,
        #[serde(default)]
        status: Status,
    }
    #[derive(Deserialize)]
    struct Spec {
        versions: Vec<Version>,
    }
    #[derive(Deserialize)]
    struct Version {
        name: String,
        served: bool,
    }
    #[derive(Deserialize, Default)]
    struct Status {
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
