//! Pods of 6 to 7 KB of JSON, created by one client and given a status by another, as in a real cluster.

#[path = "../../../crates/controller-runtime/examples/cache-memory/pods.rs"]
mod generator;

use std::collections::BTreeSet;

use anyhow::Context as _;
use bench_peer::Reply;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use self::generator::Pods;
use crate::each;

/// Number of objects that the index returns for one value.
const SLICE: usize = 10_000;

/// Creates `count` pods and their namespaces, and returns the size of a pod.
pub(crate) async fn create(client: Client, count: usize) -> anyhow::Result<Reply> {
    let pods = pods(count).collect::<anyhow::Result<Vec<Pod>>>()?;
    let namespaces: BTreeSet<_> = pods.iter().filter_map(Pod::namespace).collect();
    for name in namespaces {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name);
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    }
    let write = async |number: usize| {
        let mut pod = pods[number].clone();
        let (api, name) = (api(&client, &pod), pod.name_any());
        let status = json!({"status": pod.status.take()});
        let controller =
            PostParams { field_manager: Some("kube-controller-manager".to_owned()), ..PostParams::default() };
        api.create(&controller, &pod).await?;
        let kubelet = PatchParams { field_manager: Some("kubelet".to_owned()), ..PatchParams::default() };
        api.patch_status(&name, &kubelet, &Patch::Merge(status)).await.map(drop)
    };
    each(0..count, write).await?;
    let mut bytes = 0;
    let sample = count.min(200);
    for pod in pods.iter().step_by(count / sample.max(1)).take(sample) {
        let url = api(&client, pod).resource_url().to_owned();
        let path = format!("{url}/{}", pod.name_any());
        bytes += client.request_text(http::Request::get(path).body(Vec::new())?).await?.len();
    }
    Ok(Reply::figures([("bytes_per_pod", bytes / sample.max(1))]))
}

/// Changes the status of `count` pods, and returns the last resource version.
pub(crate) async fn touch(client: Client, count: usize) -> anyhow::Result<Reply> {
    let pods = pods(count).collect::<anyhow::Result<Vec<Pod>>>()?;
    let kubelet = PatchParams { field_manager: Some("kubelet".to_owned()), ..PatchParams::default() };
    // The message contains the current version, so that every call changes the status.
    let version = api(&client, &pods[0]).get(&pods[0].name_any()).await?.resource_version();
    let status =
        Patch::Merge(json!({"status": {"message": format!("seen after {}", version.unwrap_or_default())}}));
    let patch = async |number: usize| {
        api(&client, &pods[number]).patch_status(&pods[number].name_any(), &kubelet, &status).await.map(drop)
    };
    each(0..count - 1, patch).await?;
    let last = &pods[count - 1];
    let last = api(&client, last).patch_status(&last.name_any(), &kubelet, &status).await?;
    let version = last.resource_version().context("what is stored has a version")?;
    Ok(Reply::figures([
        ("namespace", last.namespace().unwrap_or_default()),
        ("name", last.name_any()),
        ("resource_version", version),
    ]))
}

/// Generates the pods, without fields that the server sets.
fn pods(count: usize) -> impl Iterator<Item = anyhow::Result<Pod>> {
    let mut generator = Pods::new(1);
    (0..count).map(move |number| {
        let mut pod: Pod = serde_json::from_str(&generator.next())?;
        let metadata = &mut pod.metadata;
        metadata.managed_fields = None;
        metadata.uid = None;
        metadata.resource_version = None;
        metadata.creation_timestamp = None;
        slim(&mut pod);
        let metadata = &mut pod.metadata;
        let slice = if number < SLICE { "front" } else { "rest" };
        metadata.labels.get_or_insert_default().insert("slice".to_owned(), slice.to_owned());
        Ok(pod)
    })
}

/// Removes some fields. The generator's pods have 6 to 7 KB with shorter managed fields than a server writes; without these
/// fields the stored size is the same.
fn slim(pod: &mut Pod) {
    if let Some(spec) = &mut pod.spec {
        spec.containers.truncate(1);
        for container in &mut spec.containers {
            container.liveness_probe = None;
            container.env.get_or_insert_default().truncate(1);
        }
    }
    if let Some(statuses) = pod.status.as_mut().and_then(|status| status.container_statuses.as_mut()) {
        statuses.truncate(1);
    }
}

fn api(client: &Client, pod: &Pod) -> Api<Pod> {
    Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default())
}
