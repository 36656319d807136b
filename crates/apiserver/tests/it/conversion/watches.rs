//! Watches in a version that is not stored.

use futures::FutureExt;
use http_body_util::BodyExt;
use kube_apiserver_embedded::ResponseBody;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use super::{Cluster, V1, V2};

/// A watch, and the events that have arrived and have not been taken.
struct Watch {
    body: ResponseBody,
    lines: std::collections::VecDeque<Value>,
}

impl Watch {
    async fn open(cluster: &Cluster, path: &str) -> Self {
        let response = cluster.response("GET", path, "application/json", &Value::Null).await;
        assert_eq!(response.status(), 200);
        Self { body: response.into_body(), lines: Default::default() }
    }

    /// Returns the next event as `TYPE name spec`; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        while self.lines.is_empty() {
            let chunk = self.body.frame().await?.unwrap().into_data().unwrap();
            let text = std::str::from_utf8(&chunk).unwrap();
            self.lines.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
        let event = self.lines.pop_front()?;
        let (kind, object) = (event["type"].as_str().unwrap(), &event["object"]);
        Some(match kind {
            "ERROR" => format!("ERROR {}", object["message"].as_str().unwrap()),
            _ => format!("{kind} {} {}", object["metadata"]["name"].as_str().unwrap(), object["spec"]),
        })
    }
}

#[tokio::test]
async fn events_are_converted_in_order_and_once_for_all_watches() {
    let cluster = Cluster::start().await;
    for number in 0..700 {
        cluster.create(&format!("t{number:03}"), number).await;
    }
    let mut watch = Watch::open(&cluster, &format!("{V2}?watch=1")).await;
    for number in 0..700 {
        let expected = format!("ADDED t{number:03} {{\"amount\":{number}}}");
        assert_eq!(watch.next().await.unwrap(), expected);
    }
    assert_eq!(cluster.hook.calls(), [500, 200]);
    let mut second = Watch::open(&cluster, &format!("{V2}?watch=1&fieldSelector=metadata.name%3Dt003")).await;
    assert_eq!(second.next().await.unwrap(), "ADDED t003 {\"amount\":3}");
    assert!(cluster.hook.calls().is_empty(), "kept from the first watch");

    cluster.send("PATCH", &format!("{V1}/t003"), &json!({"spec": {"size": 33}})).await;
    cluster.send("DELETE", &format!("{V1}/t004"), &Value::Null).await;
    cluster.send("DELETE", &format!("{V1}/t003"), &Value::Null).await;
    for expected in
        ["MODIFIED t003 {\"amount\":33}", "DELETED t004 {\"amount\":4}", "DELETED t003 {\"amount\":33}"]
    {
        assert_eq!(watch.next().await.unwrap(), expected);
    }
    for expected in ["MODIFIED t003 {\"amount\":33}", "DELETED t003 {\"amount\":33}"] {
        assert_eq!(second.next().await.unwrap(), expected);
    }
    assert_eq!(cluster.hook.calls(), [1], "the changed state: the others are known");
}

#[tokio::test]
async fn selectors_of_a_watch_see_converted_objects() {
    let cluster = Cluster::start().await;
    cluster.hook.change(|response| {
        for object in response["convertedObjects"].as_array_mut().unwrap() {
            let big = object["spec"]["amount"].as_u64().is_some_and(|amount| amount > 9);
            object["metadata"]["labels"] = json!({"big": big.to_string()});
        }
    });
    cluster.create("a", 1).await;
    let mut watch = Watch::open(&cluster, &format!("{V2}?watch=1&labelSelector=big%3Dtrue")).await;
    for size in [2, 10, 11, 3] {
        cluster.send("PATCH", &format!("{V1}/a"), &json!({"spec": {"size": size}})).await;
    }
    for expected in ["ADDED a {\"amount\":10}", "MODIFIED a {\"amount\":11}", "DELETED a {\"amount\":11}"] {
        assert_eq!(watch.next().await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_failed_conversion_ends_the_watch_with_an_error() {
    let cluster = Cluster::start().await;
    let mut watch = Watch::open(&cluster, &format!("{V2}?watch=1")).await;
    let mut stored = Watch::open(&cluster, &format!("{V1}?watch=1")).await;
    cluster.hook.fail("not today");
    cluster.create("a", 1).await;
    assert_eq!(
        watch.next().await.unwrap(),
        "ERROR conversion webhook for example.com/v1, Kind=Thing failed: not today"
    );
    assert_eq!(watch.next().await, None);
    assert_eq!(stored.next().await.unwrap(), "ADDED a {\"size\":1}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_watch_ends_its_call() {
    let cluster = Cluster::start().await;
    cluster.create("a", 1).await;
    cluster.hook.delay(Duration::from_secs(20));
    let begun = Instant::now();
    let mut watch = Watch::open(&cluster, &format!("{V2}?watch=1&timeoutSeconds=5")).await;
    assert_eq!(watch.next().await, None);
    assert_eq!(begun.elapsed().as_secs(), 5);
    // Another watch begins its own call, which the first one did not finish.
    let mut watch = Watch::open(&cluster, &format!("{V2}?watch=1&timeoutSeconds=60")).await;
    assert_eq!(watch.next().await.unwrap(), "ADDED a {\"amount\":1}");
    assert_eq!(cluster.hook.calls(), [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_not_read_does_not_block_other_clients() {
    let cluster = Cluster::start().await;
    cluster.create("a", 1).await;
    cluster.hook.delay(Duration::from_secs(1));
    let mut watch = Watch::open(&cluster, &format!("{V2}?watch=1")).await;
    assert!(watch.next().now_or_never().is_none(), "its call has begun");
    let begun = Instant::now();
    assert_eq!(cluster.get(V2).await.1["items"][0]["spec"], json!({"amount": 1}));
    assert_eq!(
        (begun.elapsed().as_secs(), cluster.hook.calls()),
        (1, vec![1]),
        "the list waited for that call"
    );
    assert_eq!(watch.next().await.unwrap(), "ADDED a {\"amount\":1}");
}
