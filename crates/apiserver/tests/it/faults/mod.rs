//! Faults from the view of a client: one test per action through `kube::Client` in process, and the differences over a
//! socket.

mod history;
mod requests;
mod sockets;
mod watches;

use futures::{Stream, StreamExt};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use kube_apiserver_embedded::faults::ConnectionReset;
use kube_apiserver_embedded::{ApiServer, Options};
use serde_json::json;
use tokio::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn start() -> (ApiServer, Api<ConfigMap>) {
    let server = ApiServer::start(Options::default());
    let api = Api::default_namespaced(Client::new(server.service(), "default"));
    (server, api)
}

async fn create(api: &Api<ConfigMap>, name: &str) -> kube::Result<ConfigMap> {
    let map = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    api.create(&PostParams::default(), &map).await
}

async fn exists(api: &Api<ConfigMap>, name: &str) -> bool {
    api.get_opt(name).await.unwrap().is_some()
}

fn code<T: std::fmt::Debug>(outcome: kube::Result<T>) -> u16 {
    match outcome.unwrap_err() {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    }
}

fn is_reset<T: std::fmt::Debug>(outcome: kube::Result<T>) -> bool {
    matches!(outcome.unwrap_err(), kube::Error::Service(error) if error.is::<ConnectionReset>())
}

/// Formats an event: `+a ~a -a`, `b` for a bookmark, a number for an error.
fn shown(event: kube::Result<WatchEvent<ConfigMap>>) -> String {
    match event.unwrap() {
        WatchEvent::Added(object) => format!("+{}", object.name_any()),
        WatchEvent::Modified(object) => format!("~{}", object.name_any()),
        WatchEvent::Deleted(object) => format!("-{}", object.name_any()),
        WatchEvent::Bookmark(_) => "b".to_owned(),
        WatchEvent::Error(status) => status.code.to_string(),
    }
}

/// Events of a watch, without the bookmark that marks the end of the initial events.
async fn watch(api: &Api<ConfigMap>, version: &str) -> impl Stream<Item = String> + Unpin + use<> {
    let marks_end = |event: &kube::Result<WatchEvent<ConfigMap>>| matches!(event, Ok(WatchEvent::Bookmark(bookmark)) if bookmark.metadata.annotations.contains_key("k8s.io/initial-events-end"));
    let events = api.watch(&WatchParams::default(), version).await.unwrap();
    events.filter(move |event| std::future::ready(!marks_end(event))).map(shown).boxed()
}

/// Sends a request, in process or over a socket; returns code and body of the response.
async fn raw(client: &Client, method: &str, path: &str, body: &str) -> kube::Result<(u16, String)> {
    let request =
        http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    let response = client.send(request.body(body.to_owned().into_bytes().into()).unwrap()).await?;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((code, String::from_utf8_lossy(&body).into_owned()))
}
