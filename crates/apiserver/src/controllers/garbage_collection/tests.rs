//! The collector, one step at a time.

mod interleavings;

use std::collections::BTreeSet;
use std::pin::pin;

use futures::FutureExt;
use serde_json::json;

use super::*;
use crate::controllers::garbage_collection::owners as owners_of;
use crate::testing::{self, DEFINITIONS, Running, THINGS, definition, thing};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn uid(server: &ClusterState, table: &StorageKey, name: &str) -> String {
    let stored = server.read(|store| store.get(table, &Key::new("default", name)).cloned()).unwrap();
    let object = stored.document.to_value(&TypeMeta::new("", ""), stored.revision);
    metadata::text(&object, "uid").to_owned()
}

fn table(group: &str, plural: &str) -> StorageKey {
    StorageKey { group: group.to_owned(), plural: plural.to_owned() }
}

/// A ConfigMap with an owner reference.
fn owned_by(name: &str, api_version: &str, kind: &str, owner: &str, uid: &str) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": [
        {"apiVersion": api_version, "kind": kind, "name": owner, "uid": uid},
    ]}})
}

/// Polls a future until it completes. The future yields, but never waits.
fn finish<T>(future: impl Future<Output = T>) -> T {
    polls(future).0
}

/// Like [`finish`], but also returns the number of polls.
fn polls<T>(future: impl Future<Output = T>) -> (T, usize) {
    let mut future = pin!(future);
    let mut polls = 1;
    loop {
        if let Some(output) = future.as_mut().now_or_never() {
            return (output, polls);
        }
        polls += 1;
    }
}

#[tokio::test]
async fn many_objects_are_examined_in_many_turns() {
    let server = testing::server();
    testing::create(&server, MAPS, &json!({"metadata": {"name": "owner", "finalizers": ["orphan"]}}))
        .unwrap();
    let owner = uid(&server, &table("", "configmaps"), "owner");
    for n in 0..640 {
        let map = owned_by(&format!("owned-{n:03}"), "v1", "ConfigMap", "owner", &owner);
        testing::create(&server, MAPS, &map).unwrap();
    }
    let turns = |polls: usize| assert!(polls >= 640 / 16, "{polls} polls");
    let mut collector = Collector::new();
    turns(polls(collector.catch_up(&server)).1);
    while collector.collect_one(&server) {}
    // Each step orphans some dependents, and the owner waits for the others.
    testing::delete(&server, &format!("{MAPS}/owner")).unwrap();
    settle_in_small_steps(&server, &mut collector);
    assert!(!maps(&server).contains("owner"));
    assert_eq!(maps(&server).len(), 640);
    // The history no longer reaches back, so all objects are read again.
    for n in 0..640 {
        let map = json!({"metadata": {"name": format!("plain-{n:03}")}});
        testing::create(&server, MAPS, &map).unwrap();
    }
    server.evict(&table("", "configmaps"));
    assert!(polls(collector.catch_up(&server)).1 >= 1);
}

/// Collects until nothing changes, and checks that each step changes few objects.
fn settle_in_small_steps(server: &Running, collector: &mut Collector) {
    loop {
        let before = server.read(crate::store::Store::revision);
        finish(collector.catch_up(server));
        let mut last = before;
        while collector.collect_one(server) {
            let now = server.read(crate::store::Store::revision);
            assert!(now - last <= 17, "{} commits in one step", now - last);
            last = now;
        }
        if last == before {
            return;
        }
    }
}

fn maps(server: &ClusterState) -> BTreeSet<String> {
    let snapshot = server.read(|store| store.snapshot(&table("", "configmaps")));
    snapshot.range("default", None).map(|(key, _)| key.name().to_owned()).collect()
}

/// Runs the collector until nothing changes any more.
async fn settle(collector: &mut Collector, server: &Running) {
    loop {
        let before = server.read(crate::store::Store::revision);
        collector.catch_up(server).await;
        while collector.collect_one(server) {}
        if server.read(crate::store::Store::revision) == before {
            return;
        }
    }
}

#[tokio::test]
async fn a_commit_queues_the_objects_that_it_affects() {
    let server = testing::server();
    testing::create(&server, MAPS, &json!({"metadata": {"name": "owner"}})).unwrap();
    let owner = uid(&server, &table("", "configmaps"), "owner");
    for n in 0..20 {
        let map = owned_by(&format!("owned-{n}"), "v1", "ConfigMap", "owner", &owner);
        testing::create(&server, MAPS, &map).unwrap();
    }
    let mut collector = Collector::new();
    collector.catch_up(&server).await;
    assert_eq!(collector.graph.due().len(), 20, "each dependent is due at the start");
    settle(&mut collector, &server).await;

    testing::create(&server, MAPS, &json!({"metadata": {"name": "unrelated"}})).unwrap();
    collector.catch_up(&server).await;
    assert_eq!(collector.graph.due().len(), 0);
    testing::create(&server, MAPS, &owned_by("late", "v1", "ConfigMap", "owner", &owner)).unwrap();
    collector.catch_up(&server).await;
    assert_eq!(collector.graph.due().len(), 1);
    testing::delete(&server, &format!("{MAPS}/owner")).unwrap();
    settle(&mut collector, &server).await;
    assert_eq!(maps(&server), ["unrelated".to_owned()].into());
    assert_eq!(collector.graph.node_in(&table("", "configmaps"), None), None);
}

#[tokio::test]
async fn dependents_of_custom_objects_are_deleted_with_the_definition() {
    for looks_before in [true, false] {
        let server = testing::server();
        let mut collector = Collector::new();
        testing::create(&server, DEFINITIONS, &definition()).unwrap();
        testing::create(&server, THINGS, &thing("owner", &[])).unwrap();
        let owner = uid(&server, &table("example.com", "things"), "owner");
        let map = owned_by("owned", "example.com/v1", "Thing", "owner", &owner);
        testing::create(&server, MAPS, &map).unwrap();
        let stranger = owned_by("unknown", "example.com/v1", "Stranger", "x", "u");
        testing::create(&server, MAPS, &stranger).unwrap();
        if looks_before {
            settle(&mut collector, &server).await;
        }
        let defined = format!("{DEFINITIONS}/things.example.com");
        testing::delete(&server, &defined).unwrap();
        testing::gone(&server, &defined).await;
        settle(&mut collector, &server).await;
        assert_eq!(maps(&server), ["unknown".to_owned()].into(), "seen before: {looks_before}");
    }
}

#[tokio::test]
async fn a_reference_is_followed_once_its_kind_is_defined() {
    let server = testing::server();
    let mut collector = Collector::new();
    testing::create(&server, MAPS, &owned_by("early", "example.com/v1", "Thing", "owner", "u")).unwrap();
    settle(&mut collector, &server).await;
    assert_eq!(maps(&server).len(), 1, "the kind of its owner is unknown");
    testing::create(&server, DEFINITIONS, &definition()).unwrap();
    settle(&mut collector, &server).await;
    assert_eq!(maps(&server), [].into(), "now it is known that its owner is absent");
}

#[tokio::test]
async fn a_collector_that_fell_behind_reads_everything_again() {
    let server = testing::server();
    let mut collector = Collector::new();
    testing::create(&server, MAPS, &json!({"metadata": {"name": "owner"}})).unwrap();
    let owner = uid(&server, &table("", "configmaps"), "owner");
    testing::create(&server, MAPS, &owned_by("owned", "v1", "ConfigMap", "owner", &owner)).unwrap();
    settle(&mut collector, &server).await;
    testing::delete(&server, &format!("{MAPS}/owner")).unwrap();
    server.evict(&table("", "configmaps"));
    settle(&mut collector, &server).await;
    assert_eq!(maps(&server), [].into());
}

#[tokio::test]
async fn orphans_are_those_of_the_owner_in_its_own_namespace() {
    let server = testing::server();
    let mut collector = Collector::new();
    let namespace = json!({"metadata": {"name": "other"}});
    testing::create(&server, "/api/v1/namespaces", &namespace).unwrap();
    testing::create(&server, MAPS, &json!({"metadata": {"name": "owner", "finalizers": ["orphan"]}}))
        .unwrap();
    let owner = uid(&server, &table("", "configmaps"), "owner");
    testing::create(&server, MAPS, &owned_by("owned", "v1", "ConfigMap", "owner", &owner)).unwrap();
    // This object is being deleted already, so the collector could only remove its reference.
    let mut elsewhere = owned_by("owned", "v1", "ConfigMap", "owner", &owner);
    elsewhere["metadata"]["finalizers"] = json!(["example.com/hold"]);
    testing::create(&server, "/api/v1/namespaces/other/configmaps", &elsewhere).unwrap();
    testing::delete(&server, "/api/v1/namespaces/other/configmaps/owned").unwrap();
    testing::delete(&server, &format!("{MAPS}/owner")).unwrap();
    settle(&mut collector, &server).await;
    assert_eq!(maps(&server), ["owned".to_owned()].into());
    let owners = |namespace: &str| {
        let key = Key::new(namespace, "owned");
        let stored = server.read(|store| store.get(&table("", "configmaps"), &key).cloned()).unwrap();
        owners_of(&stored.document.to_value(&TypeMeta::new("", ""), 1)).len()
    };
    assert_eq!((owners("default"), owners("other")), (0, 1));
}
