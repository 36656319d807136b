//! A watch of ConfigMaps that only records when each line arrives: the time of an event before any framework processes it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bench_peer::messages::{NAMESPACE, number};
use bench_peer::{Requests, clock};
use futures::TryStreamExt as _;
use futures::io::AsyncBufReadExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::runtime;
use tokio::sync::oneshot;

/// Number, round, and time of arrival in nanoseconds of the monotonic clock.
pub(crate) type Arrival = [u64; 3];

/// A running watch. It has a thread of its own, so that nothing else in this process delays it.
pub(crate) struct BareWatch(oneshot::Receiver<anyhow::Result<Vec<Arrival>>>);

impl BareWatch {
    /// Starts a watch of the next `count` events on a connection of its own, and returns when the server has answered.
    pub(crate) async fn start(client: Client, kubeconfig: &Path, count: usize) -> anyhow::Result<Self> {
        let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
        let version = maps.list(&ListParams::default().limit(1)).await?.metadata.resource_version;
        let version = version.context("a list has a version")?;
        let kubeconfig = kubeconfig.to_owned();
        let (begin, begun) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let url = format!(
            "/api/v1/namespaces/{NAMESPACE}/configmaps?watch=1&resourceVersion={version}&timeoutSeconds=600"
        );
        std::thread::spawn(move || {
            let watched = runtime::Builder::new_current_thread().enable_all().build();
            let watched = watched
                .map_err(Into::into)
                .and_then(|runtime| runtime.block_on(watch(kubeconfig, url, count, begin)));
            // Fails if the step has failed or the driver has exited, when no one waits for the result.
            let _ = end.send(watched);
        });
        if begun.await.is_err() {
            ended.await.context("the bare watch")??;
            anyhow::bail!("the bare watch ended before it began");
        }
        Ok(Self(ended))
    }

    /// Waits for the last event.
    pub(crate) async fn arrivals(self) -> anyhow::Result<Vec<Arrival>> {
        self.0.await.context("the bare watch has ended")?
    }
}

async fn watch(
    kubeconfig: PathBuf,
    url: String,
    count: usize,
    begin: oneshot::Sender<()>,
) -> anyhow::Result<Vec<Arrival>> {
    let client = Requests::default().client(&kubeconfig).await?;
    let request = http::Request::get(url).body(Vec::new())?;
    let mut lines = client.request_stream(request).await?.lines();
    // Fails only if the starter was dropped; then the result is not needed.
    let _ = begin.send(());
    let mut arrivals = Vec::with_capacity(count);
    while arrivals.len() < count {
        let line = lines.try_next().await?.context("the bare watch was ended by the server")?;
        let now = clock::monotonic_nanoseconds();
        let (number, round) = find(&line).with_context(|| format!("no event of a message: {line}"))?;
        arrivals.push([number, round, now]);
    }
    Ok(arrivals)
}

/// Finds number and round in the line of an event, without decoding it.
fn find(line: &str) -> Option<(u64, u64)> {
    let text = |before: &str| line.split_once(before)?.1.split('"').next();
    let number = number(text(r#""name":""#)?)?;
    Some((number as u64, text(r#""round":""#)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use bench_peer::messages::message;

    use super::*;

    #[test]
    fn number_and_round_are_found_in_an_event() -> serde_json::Result<()> {
        let object = serde_json::to_value(message(7, 12))?;
        let event = serde_json::json!({"type": "MODIFIED", "object": object}).to_string();
        assert_eq!(find(&event), Some((7, 12)));
        assert_eq!(find(r#"{"type":"ERROR","object":{"kind":"Status"}}"#), None);
        Ok(())
    }
}
