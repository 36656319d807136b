//! Deletion of definitions concurrently with writes of their objects.

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::api::verbs::{create, read, update};
use crate::testing::{self, DEFINITIONS, THINGS, definition, thing};
use kube_apimachinery::metadata;

const THE_DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";

fn things() -> StorageKey {
    StorageKey { group: "example.com".to_owned(), plural: "things".to_owned() }
}

fn count(server: &ClusterState) -> usize {
    server.read(|store| store.snapshot(&things()).len())
}

fn is_defined(server: &testing::Running) -> bool {
    testing::now(read::get(&testing::call(server, THE_DEFINITION))).is_ok()
}

/// Waits until the task has removed the definition.
async fn gone(server: &testing::Running) {
    testing::gone(server, THE_DEFINITION).await;
}

/// Waits until the task has deleted the objects that it can delete.
async fn marked(server: &testing::Running) {
    let mut commits = server.commits();
    let is_living = || {
        let snapshot = server.read(|store| store.snapshot(&things()));
        snapshot.range("", None).any(|(_, stored)| !stored.document.is_terminating())
    };
    while is_living() {
        commits.changed().await;
    }
}

#[tokio::test]
async fn a_create_that_began_before_its_definition_was_deleted_stores_nothing() {
    let server = testing::server();
    testing::create(&server, DEFINITIONS, &definition()).unwrap();
    let late = testing::call(&server, THINGS);
    testing::delete(&server, THE_DEFINITION).unwrap();
    gone(&server).await;
    let body = Bytes::from(thing("ghost", &[]).to_string());
    let error = testing::now(create::run(&late, &body)).unwrap_err();
    assert_eq!((error.code(), error.reason()), (404, "NotFound"));
    assert_eq!(count(&server), 0);
    // No object exists under a later definition of the same name either.
    testing::create(&server, DEFINITIONS, &definition()).unwrap();
    assert_eq!(testing::now(create::run(&late, &body)).unwrap_err().code(), 404);
    assert_eq!(count(&server), 0);
}

#[tokio::test]
async fn nothing_is_created_while_a_definition_is_being_deleted() {
    let server = testing::server();
    testing::create(&server, DEFINITIONS, &definition()).unwrap();
    testing::create(&server, THINGS, &thing("held", &["example.com/hold"])).unwrap();
    let late = testing::call(&server, THINGS);
    testing::delete(&server, THE_DEFINITION).unwrap();
    let error = testing::now(create::run(&late, &Bytes::from(thing("late", &[]).to_string()))).unwrap_err();
    assert_eq!(error.code(), 403, "{}", error.message());
    assert_eq!(count(&server), 1);
}

#[tokio::test]
async fn objects_that_changed_during_their_deletion_are_deleted_in_the_next_pass() {
    let server = testing::server();
    testing::create(&server, DEFINITIONS, &definition()).unwrap();
    testing::create(&server, THINGS, &thing("held", &["example.com/hold"])).unwrap();
    testing::delete(&server, THE_DEFINITION).unwrap();
    marked(&server).await;
    // This object was missed by the first pass: it has no finalizer and is not marked as deleted.
    let served = testing::call(&server, THINGS).served;
    let escaped = served.document(&thing("escaped", &[]));
    let key = Key::new("default", "escaped");
    server.commit_unguarded(&things(), &key, None, Change::Put(escaped)).unwrap();
    marked(&server).await;
    assert_eq!(count(&server), 1, "the held one");
    let release = testing::call(&server, &format!("{THINGS}/held"));
    let held = server.read(|store| store.get(&things(), &Key::new("default", "held")).cloned()).unwrap();
    let mut held = served.value(&held);
    metadata::set_finalizers(&mut held, &[]);
    testing::now(update::run(&release, &Bytes::from(held.to_string()))).unwrap();
    gone(&server).await;
}

#[tokio::test]
async fn a_definition_is_removed_even_if_none_of_its_versions_is_served() {
    let server = testing::server();
    testing::create(&server, DEFINITIONS, &definition()).unwrap();
    testing::create(&server, THINGS, &thing("a", &[])).unwrap();
    let mut call = testing::call(&server, THE_DEFINITION);
    let unserved = json!([{"op": "replace", "path": "/spec/versions/0/served", "value": false}]);
    call.content_type = Some("application/json-patch+json".to_owned());
    testing::now(crate::api::verbs::patch::run(&call, &Bytes::from(unserved.to_string()))).unwrap();
    assert_eq!(count(&server), 1, "objects of a version that is not served are kept");
    testing::delete(&server, THE_DEFINITION).unwrap();
    gone(&server).await;
    assert_eq!(count(&server), 0);
    testing::create(&server, DEFINITIONS, &definition()).unwrap();
    testing::create(&server, THINGS, &thing("a", &[])).unwrap();
}

#[tokio::test]
async fn watches_receive_deletions_before_they_end() {
    use futures::StreamExt;
    use http_body_util::BodyExt;

    let server = testing::server();
    testing::create(&server, DEFINITIONS, &definition()).unwrap();
    testing::create(&server, THINGS, &thing("a", &[])).unwrap();
    let reply = crate::api::verbs::watch::run(testing::call(&server, THINGS), None, None, None).unwrap();
    testing::delete(&server, THE_DEFINITION).unwrap();
    let mut lines = String::new();
    let mut chunks = reply.body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        lines.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
    }
    let events: Vec<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|event| format!("{} {}", event["type"], event["object"]["metadata"]["name"]))
        .collect();
    assert_eq!(events, [r#""ADDED" "a""#, r#""DELETED" "a""#]);
}

#[tokio::test]
async fn a_definition_with_the_name_of_a_builtin_kind_does_not_affect_it() {
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    const DEFINED: &str =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/leases.coordination.k8s.io";
    let server = testing::server();
    testing::create(&server, LEASES, &json!({"metadata": {"name": "leader"}})).unwrap();
    let before = server.registry();
    let mut leases = definition();
    leases["metadata"] = json!({
        "name": "leases.coordination.k8s.io", "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
    });
    leases["spec"]["group"] = json!("coordination.k8s.io");
    leases["spec"]["names"] = json!({"plural": "leases", "kind": "Lease"});
    let mut later = leases["spec"]["versions"][0].clone();
    later["name"] = json!("v9");
    later["storage"] = json!(false);
    leases["spec"]["versions"].as_array_mut().unwrap().push(later);
    testing::create(&server, DEFINITIONS, &leases).unwrap();
    assert!(Arc::ptr_eq(&before, &server.registry()), "nothing else is served than before");
    assert!(!testing::call(&server, LEASES).served.is_custom());

    testing::delete(&server, DEFINED).unwrap();
    testing::gone(&server, DEFINED).await;
    assert!(testing::now(read::get(&testing::call(&server, &format!("{LEASES}/leader")))).is_ok());
    testing::create(&server, LEASES, &json!({"metadata": {"name": "other"}})).unwrap();
}

#[tokio::test]
async fn a_write_parses_only_the_definitions_that_changed() {
    let server = testing::server();
    testing::create(&server, DEFINITIONS, &definition()).unwrap();
    // A second instance, because the state of the server's own one is not accessible.
    let definitions = Definitions::default();
    let known = || {
        definitions.restore(&server);
        definitions.known.lock().borrow().values()
    };
    let before = known();
    let mut other = definition();
    other["metadata"]["name"] = json!("others.example.com");
    other["spec"]["names"] = json!({"plural": "others", "kind": "Other"});
    testing::create(&server, DEFINITIONS, &other).unwrap();
    let after = known();
    assert_eq!((before.len(), after.len()), (1, 2));
    assert!(Arc::ptr_eq(&before[0], &after[1]), "things.example.com is as it was");
}

#[tokio::test]
async fn a_definition_waits_for_the_finalizers_of_its_objects() {
    let server = testing::server();
    testing::create(&server, DEFINITIONS, &definition()).unwrap();
    for name in ["a", "b"] {
        testing::create(&server, THINGS, &thing(name, &["example.com/hold"])).unwrap();
    }
    testing::delete(&server, THE_DEFINITION).unwrap();
    marked(&server).await;
    for name in ["a", "b"] {
        assert!(is_defined(&server));
        let mut call = testing::call(&server, &format!("{THINGS}/{name}"));
        call.content_type = Some("application/merge-patch+json".to_owned());
        let release = Bytes::from_static(br#"{"metadata":{"finalizers":null}}"#);
        testing::now(crate::api::verbs::patch::run(&call, &release)).unwrap();
    }
    assert_eq!(count(&server), 0);
    gone(&server).await;
}

#[tokio::test]
async fn the_deletion_of_many_objects_yields_to_other_tasks() {
    let server = testing::server();
    testing::create(&server, DEFINITIONS, &definition()).unwrap();
    for n in 0..600 {
        testing::create(&server, THINGS, &thing(&format!("t{n}"), &[])).unwrap();
    }
    testing::delete(&server, THE_DEFINITION).unwrap();
    assert_eq!(count(&server), 600, "nothing is deleted within the request");
    let mut turns = 0;
    while count(&server) > 0 {
        turns += 1;
        tokio::task::yield_now().await;
    }
    assert!(turns > 600 / 32, "{turns} turns");
    gone(&server).await;
}
