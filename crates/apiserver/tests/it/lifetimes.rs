//! Effects of time: Events expire, old resource versions expire, and requests time out. Time is paused.

use std::convert::Infallible;

use bytes::Bytes;
use futures::StreamExt;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, VersionMatch, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use kube_apiserver_embedded::{ApiServer, Options};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, advance};
use tower_service::Service;

const MINUTE: Duration = Duration::from_secs(60);

fn events(server: &ApiServer) -> Api<Event> {
    Api::default_namespaced(Client::new(server.service(), "default"))
}

async fn report(api: &Api<Event>, name: &str) -> Event {
    let event = json!({
        "metadata": {"name": name}, "reason": "Tested", "type": "Normal",
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "x"},
    });
    api.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await.unwrap()
}

async fn names(api: &Api<Event>) -> Vec<String> {
    api.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect()
}

#[tokio::test(start_paused = true)]
async fn an_event_is_deleted_an_hour_after_its_last_write_and_watches_receive_that() {
    let server = ApiServer::start(Options::default());
    let api = events(&server);
    let started = Instant::now();
    report(&api, "once").await;
    let repeated = report(&api, "repeated").await;
    advance(30 * MINUTE).await;
    let patch = Patch::Merge(json!({"count": 2}));
    api.patch("repeated", &PatchParams::default(), &patch).await.unwrap();

    let parameters = WatchParams::default().timeout(24 * 3600);
    let mut watch = api.watch(&parameters, &repeated.resource_version().unwrap()).await.unwrap().boxed();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let (kind, event) = match watch.next().await.unwrap().unwrap() {
            WatchEvent::Modified(event) => ("modified", event),
            WatchEvent::Deleted(event) => ("deleted", event),
            WatchEvent::Bookmark(_) => continue,
            other => panic!("{other:?}"),
        };
        seen.push((kind, event.name_any(), started.elapsed() / 60));
    }
    let minutes = |minutes: u64| Duration::from_secs(minutes);
    assert_eq!(
        seen,
        [
            ("modified", "repeated".to_owned(), minutes(30)),
            ("deleted", "once".to_owned(), minutes(60)),
            ("deleted", "repeated".to_owned(), minutes(90)),
        ]
    );
    assert_eq!(names(&api).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_ttl_of_events_is_an_option_and_other_kinds_have_none() {
    let server = ApiServer::start(Options::default().event_ttl(MINUTE));
    let api = events(&server);
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::new(server.service(), "default"));
    let map = serde_json::from_value(json!({"metadata": {"name": "stays"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    report(&api, "a").await;
    tokio::time::sleep(MINUTE - Duration::from_millis(1)).await;
    assert_eq!(names(&api).await, ["a"]);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(names(&api).await, Vec::<String>::new());
    tokio::time::sleep(1000 * MINUTE).await;
    assert!(maps.get_opt("stays").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn revisions_older_than_five_minutes_are_410() {
    let server = ApiServer::start(Options::default());
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::new(server.service(), "default"));
    let create = async |name: &str| {
        let map = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap().resource_version().unwrap()
    };
    let first = create("a").await;
    let second = create("b").await;
    let page = maps.list(&ListParams::default().limit(1)).await.unwrap();
    let token = page.metadata.continue_.unwrap();
    create("c").await;
    let code = |outcome: Result<kube::core::ObjectList<ConfigMap>, kube::Error>| match outcome {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(other) => panic!("{other}"),
    };
    let exact = ListParams::default().at(&first).matching(VersionMatch::Exact);
    let next_page = ListParams::default().limit(1).continue_token(&token);
    let watch = async |version: &str| {
        let mut watch = maps.watch(&WatchParams::default(), version).await.unwrap().boxed();
        match watch.next().await.unwrap().unwrap() {
            WatchEvent::Added(map) => format!("added {}", map.name_any()),
            WatchEvent::Error(status) => format!("{} {}", status.code, status.message),
            other => panic!("{other:?}"),
        }
    };
    advance(5 * MINUTE).await;
    assert_eq!((code(maps.list(&exact).await), code(maps.list(&next_page).await)), (200, 200));
    assert_eq!(watch(&first).await, "added b");
    advance(Duration::from_secs(1)).await;
    assert_eq!((code(maps.list(&exact).await), code(maps.list(&next_page).await)), (410, 410));
    let version: u64 = second.parse().unwrap();
    assert_eq!(watch(&first).await, format!("410 too old resource version: {first} ({})", version + 1));
    // The current revision does not expire.
    let now = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    advance(1000 * MINUTE).await;
    let mut fresh = maps.watch(&WatchParams::default(), &now).await.unwrap().boxed();
    create("d").await;
    assert!(matches!(fresh.next().await, Some(Ok(WatchEvent::Added(map))) if map.name_any() == "d"));
}

/// Sends a request with a body that never ends; returns code, message and duration.
async fn ask(server: &ApiServer, path_and_query: &str) -> (u16, String, Duration) {
    let body = StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, Infallible>>());
    let request =
        Request::post(path_and_query).header("content-type", "application/json").body(body).unwrap();
    let started = Instant::now();
    let response = server.service().call(request).await.unwrap();
    let (took, code) = (started.elapsed(), response.status().as_u16());
    let status: Value =
        serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(status["code"], code);
    (code, status["message"].as_str().unwrap().to_owned(), took)
}

#[tokio::test(start_paused = true)]
async fn a_request_ends_after_a_minute_or_the_shorter_time_it_asks_for() {
    let server = ApiServer::start(Options::default());
    let message = "Timeout: request did not complete within the allotted timeout".to_owned();
    for (query, milliseconds) in [
        ("", 60_000),
        ("?timeout=", 60_000),
        ("?timeout=1500ms", 1_500),
        ("?timeout=1m10s", 60_000),
        ("?timeout=0s", 60_000),
        ("?timeout=-5s", 60_000),
    ] {
        let (code, said, took) = ask(&server, &format!("/api/v1/namespaces/default/configmaps{query}")).await;
        assert_eq!((code, &said, took), (504, &message, Duration::from_millis(milliseconds)), "{query}");
    }
    let (code, said, took) = ask(&server, "/api/v1/namespaces/default/configmaps?timeout=invalid").await;
    let expected =
        "invalid timeout specified in the request URL - time: invalid duration \"invalid\"".to_owned();
    assert_eq!((code, said, took), (400, expected, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_of_requests_does_not_apply_to_watches() {
    let server = ApiServer::start(Options::default());
    for query in ["timeout=1s", "timeout=invalid", ""] {
        let path = format!("/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=900&{query}");
        let request = Request::get(path).body(String::new()).unwrap();
        let started = Instant::now();
        let response = server.service().call(request).await.unwrap();
        assert_eq!(response.status(), 200, "{query}");
        response.into_body().collect().await.unwrap();
        assert_eq!(started.elapsed(), Duration::from_secs(900), "{query}");
    }
}
