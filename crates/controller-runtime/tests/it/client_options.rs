//! Options of single requests, as sent and in effect.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{
    Client, ClientError, DynamicKind, ObjectKey, Verb,
    client::{Call, Deletion, ErrorKind, Expected, Next},
};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::{autoscaling::v1::Scale, core::v1::Pod};
use kube::core::{DynamicObject, PartialObjectMeta, WatchEvent};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    faults::{Fault, faulty},
    support::{Widget, environment, key, widget},
};

/// Creates a running pod, which needs a grace period to end.
fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "namespace": "default", "name": name, "labels": { "name": name } },
        "spec": { "nodeName": "node", "containers": [{ "name": "web", "image": "web" }] },
    }))
    .unwrap()
}

/// Returns the grace period of a deleted pod in seconds; `None` if the pod does not exist.
async fn grace_of(client: &Client, name: &str) -> Option<Option<i64>> {
    let found = client.get(&ObjectKey::<Pod>::new("default", name)).await.unwrap();
    found.map(|pod| pod.metadata.deletion_grace_period_seconds)
}

#[tokio::test]
async fn a_delete_sets_the_grace_period() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    for name in ["a", "b", "c"] {
        client.create(&pod(name)).await.unwrap();
    }
    let key = |name: &str| ObjectKey::<Pod>::new("default", name);
    assert_eq!(client.delete_key(&key("a")).await.unwrap(), Deletion::Begun);
    assert_eq!(grace_of(&client, "a").await, Some(Some(30)), "what the pod says");
    let shorter = client.delete_key(&key("a")).grace_period(Duration::from_secs(5));
    assert_eq!(shorter.await.unwrap(), Deletion::Begun);
    assert_eq!(grace_of(&client, "a").await, Some(Some(5)));
    let at_once = client.delete_key(&key("a")).grace_period(Duration::ZERO);
    assert_eq!(at_once.await.unwrap(), Deletion::Done);
    assert_eq!(grace_of(&client, "a").await, None);

    let all = || client.delete_all::<Pod>().in_namespace("default");
    all().labels("name=b").grace_period(Duration::from_secs(7)).await.unwrap();
    assert_eq!((grace_of(&client, "b").await, grace_of(&client, "c").await), (Some(Some(7)), Some(None)));
    all().grace_period(Duration::ZERO).await.unwrap();
    assert_eq!((grace_of(&client, "b").await, grace_of(&client, "c").await), (None, None));
}

#[tokio::test]
async fn a_delete_by_name_may_be_of_one_uid_or_one_version() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let first = client.create(&widget("a", 1)).await.unwrap();
    let (uid, version) = (first.metadata.uid.unwrap(), first.metadata.resource_version.unwrap());
    let second = client.merge_patch(&key("a"), &json!({ "spec": { "size": 2 } })).await.unwrap();
    let expected = |error: ClientError| error.conflict().map(|conflict| conflict.expected.clone());
    let stale = client.delete_key(&key("a")).only_version(&version).await.unwrap_err();
    assert_eq!(expected(stale), Some(Expected::Version(version)));
    let other = client.delete_key(&key("a")).only_uid("another").await.unwrap_err();
    assert_eq!(expected(other), Some(Expected::Uid("another".to_owned())));

    let version = second.metadata.resource_version.unwrap();
    let trial = client.delete_key(&key("a")).only_uid(&uid).only_version(version).dry_run();
    assert_eq!(trial.await.unwrap(), Deletion::Done);
    let widgets = client.of(DynamicKind::of::<Widget>());
    let gone = widgets.delete_key(&ObjectKey::new("default", "a")).only_uid(&uid).await.unwrap();
    assert_eq!(gone, Deletion::Done);
    assert!(client.get(&key("a")).await.unwrap().is_none());
    assert_eq!(client.delete_key(&key("a")).only_uid(&uid).await.unwrap(), Deletion::NotFound);
}

#[tokio::test]
async fn custom_options_are_sent_with_a_delete() {
    let env = environment().await;
    let sent = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&sent);
    let client = Client::new(env.client(), "test").intercepted(move |call: Call, next: Next| {
        noted.lock().unwrap().push(serde_json::from_slice::<Value>(call.body()).unwrap());
        next.run(call)
    });
    client.delete_key(&key("a")).option("someday", true).await.unwrap();
    client.delete_all::<Widget>().in_namespace("default").option("someday", "x").await.unwrap();
    assert_eq!(
        *sent.lock().unwrap(),
        [
            json!({ "propagationPolicy": "Background", "someday": true }),
            json!({ "propagationPolicy": "Background", "someday": "x" })
        ]
    );
    let error = client.delete_key(&key("a")).option("dryRun", json!(["All"])).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "delete widgets.example.com default/a: not sent: option dryRun is reserved by the client: set it with the method of the request"
    );
    let all = client.delete_all::<Widget>().in_namespace("default").option("preconditions", json!({}));
    assert_eq!(all.await.unwrap_err().kind(), &ErrorKind::NotSent);
    assert_eq!(sent.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn custom_query_parameters_are_sent_and_reserved_ones_refused() {
    let env = environment().await;
    let paths = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&paths);
    let kube = faulty(env.client(), move |seen| {
        noted.lock().unwrap().push(format!("{} {}", seen.method, seen.path));
        Fault::Pass
    });
    let client = Client::new(kube, "test");
    client.create(&widget("a", 1)).query("one", "a b").await.unwrap();
    client.get(&key("a")).query("two", "&x=y").await.unwrap();
    client.list::<Widget>().in_namespace("default").limit(5).query("timeoutSeconds", "9").await.unwrap();
    client.delete_all::<Widget>().in_namespace("default").query("four".to_owned(), "4").await.unwrap();
    let scale = client.subresource(&key("a"), "scale").query("five", "5");
    scale.get::<Scale>().await.unwrap_err();
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let expected = [
        format!("POST {widgets}?fieldManager=test&one=a+b"),
        format!("GET {widgets}/a?two=%26x%3Dy"),
        format!("GET {widgets}?limit=5&timeoutSeconds=9"),
        format!("DELETE {widgets}?four=4"),
        format!("GET {widgets}/a/scale?five=5"),
    ];
    assert_eq!(*paths.lock().unwrap(), expected);

    let message = "get widgets.example.com default/a: not sent: query parameter watch is reserved by the client: set it with the option of the request";
    assert_eq!(client.get(&key("a")).query("watch", "true").await.unwrap_err().to_string(), message);
    for refused in [
        client.create(&widget("b", 1)).query("dryRun", "All").await.map(drop),
        client.create(&widget("b", 1)).query("fieldManager", "other").await.map(drop),
        client.list::<Widget>().labels("a=b").query("labelSelector", "").await.map(drop),
    ] {
        assert_eq!(refused.unwrap_err().kind(), &ErrorKind::NotSent);
    }
    assert_eq!(paths.lock().unwrap().len(), expected.len(), "none of these was sent");
}

#[tokio::test]
async fn an_interceptor_sees_the_parameters_of_the_caller() {
    let env = environment().await;
    let seen = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&seen);
    let client = Client::new(env.client(), "test").intercepted(move |call: Call, next: Next| {
        *noted.lock().unwrap() = Some((call.verb(), call.query("pretty").map(ToOwned::to_owned)));
        next.run(call)
    });
    client.get(&key("a")).query("pretty", "true").await.unwrap();
    assert_eq!(*seen.lock().unwrap(), Some((Verb::Get, Some("true".to_owned()))));
}

#[tokio::test]
async fn a_watch_may_begin_with_the_existing_objects() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 1)).await.unwrap();
    let watch = client.watch::<Widget>("").query("sendInitialEvents", "true");
    let mut events = watch.query("resourceVersionMatch", "NotOlderThan").stream();
    let first = events.try_next().await.unwrap();
    assert!(matches!(first, Some(WatchEvent::Added(widget)) if widget.metadata.name.as_deref() == Some("a")));
    assert!(matches!(events.try_next().await.unwrap(), Some(WatchEvent::Bookmark(_))), "all were message");
}

#[tokio::test(start_paused = true)]
async fn a_read_of_a_future_version_waits_for_it() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let first = client.create(&widget("a", 1)).await.unwrap();
    let now: u64 = first.metadata.resource_version.unwrap().parse().unwrap();
    let next = (now + 1).to_string();
    let started = Instant::now();
    let changes = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.merge_patch(&key("a"), &json!({ "spec": { "size": 2 } })).await.unwrap();
    };
    let (found, listed, ()) = tokio::join!(
        client.get(&key("a")).not_older_than(&*next).into_future(),
        client.list::<Widget>().not_older_than(&next).into_future(),
        changes
    );
    assert_eq!(found.unwrap().unwrap().spec.size, 2);
    assert_eq!(listed.unwrap().items[0].spec.size, 2);
    assert_eq!(started.elapsed(), Duration::from_secs(1));
    assert_eq!(client.get(&key("a")).not_older_than("0").await.unwrap().unwrap().spec.size, 2);
}

#[tokio::test]
async fn a_list_may_request_a_past_version_until_it_is_compacted() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let first = client.create(&widget("a", 1)).await.unwrap().metadata.resource_version.unwrap();
    client.create(&widget("b", 2)).await.unwrap();
    let past = client.list::<Widget>().in_namespace("default").exactly(&first).await.unwrap();
    let names: Vec<_> = past.items.iter().filter_map(|widget| widget.metadata.name.as_deref()).collect();
    assert_eq!((names, past.resource_version), (vec!["a"], first.clone()));
    let later = client.list::<Widget>().in_namespace("default").not_older_than(&first).await.unwrap();
    assert_eq!(later.items.len(), 2);

    env.server().faults().compact();
    assert!(client.list::<Widget>().exactly(&first).await.unwrap_err().is_expired());
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_after_its_timeout() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let version = client.list::<Widget>().await.unwrap().resource_version;
    let started = Instant::now();
    let watch = client.watch::<Widget>(&version).timeout(Duration::from_secs(7));
    let events = watch.stream().filter(|event| {
        let is_bookmark = matches!(event, Ok(WatchEvent::Bookmark(_)));
        std::future::ready(!is_bookmark)
    });
    assert_eq!(events.count().await, 0);
    assert_eq!(started.elapsed(), Duration::from_secs(7));
}

#[tokio::test]
async fn metadata_of_dynamic_kinds_are_read_listed_and_watched() {
    let env = environment().await;
    let client = Client::new(env.client(), "test").of(DynamicKind::of::<Widget>());
    let begin = client.list_metadata().await.unwrap();
    let object = DynamicObject::new("a", client.kind().resource()).within("default");
    let created = client.create(&object.data(json!({ "spec": { "size": 1 } }))).await.unwrap();
    let is_it = |found: &PartialObjectMeta<DynamicObject>| {
        let kind = found.types.as_ref().map(|types| types.kind.as_str());
        assert_eq!(kind, Some("PartialObjectMetadata"), "no more was sent");
        found.metadata.uid == created.metadata.uid
    };
    let key = ObjectKey::<DynamicObject>::new("default", "a");
    assert!(is_it(&client.get_metadata(&key).await.unwrap().unwrap()));
    assert!(client.get_metadata(&ObjectKey::new("default", "b")).await.unwrap().is_none());
    let listed = client.list_metadata().in_namespace("default").await.unwrap();
    assert!(begin.items.is_empty() && listed.items.len() == 1 && is_it(&listed.items[0]));
    let mut events = client.watch_metadata(&begin.resource_version).in_namespace("default").stream();
    let Some(WatchEvent::Added(added)) = events.try_next().await.unwrap() else { panic!("it was created") };
    assert!(is_it(&added));
    client.delete(&created).await.unwrap();
    let Some(WatchEvent::Deleted(deleted)) = events.try_next().await.unwrap() else {
        panic!("it was deleted")
    };
    assert!(is_it(&deleted));
}
