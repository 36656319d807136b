//! Defects of kube-runtime 5.0.0 that must not occur here, by the letters of their list.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{
    Builder, Client, Manager, ManagerOptions, cache::EventStream, set_controller_reference,
};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_apiserver_embedded::faults::{Action, Rule, Verb, WatchFault};
use kube_envtest::eventually;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    faults::{Fault, faulty},
    support::{Notes, Running, Widget, config_map, environment, key, manager as manager_of, settle, widget},
};

fn manager(client: kube::Client) -> Manager {
    Manager::new(client, ManagerOptions::new("test").seed(1))
}

/// In kube-runtime a subscriber that had not read an object before its deletion was never woken again.
#[tokio::test(start_paused = true)]
async fn kube_runtime_a_a_subscriber_is_woken_after_an_object_that_was_deleted_before_it_was_read() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let manager = manager_of(&env);
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager).await;
    let mut events = widgets.events();
    let mut reader = JoinSet::new();
    reader.spawn(async move {
        seen(&mut events, "b").await;
        events
    });
    settle().await; // the reader waits
    client.create(&widget("a", 1)).await.unwrap();
    client.delete_key(&key("a")).await.unwrap();
    client.create(&widget("b", 1)).await.unwrap();
    let mut events = reader.join_next().await.unwrap().unwrap();

    // All changes happen before the reader is polled.
    client.create(&widget("c", 1)).await.unwrap();
    client.delete_key(&key("c")).await.unwrap();
    client.create(&widget("d", 1)).await.unwrap();
    settle().await;
    seen(&mut events, "d").await;
}

/// Waits until the stream delivers the object.
async fn seen(events: &mut EventStream<Widget>, name: &str) {
    let delivered = async { while events.next().await.expect("it goes on").meta().name() != name {} };
    timeout(Duration::from_secs(3), delivered)
        .await
        .unwrap_or_else(|_| panic!("no reader was woken for {name}"));
}

/// In kube-runtime the same expired version was requested again and again.
#[tokio::test(start_paused = true)]
async fn kube_runtime_b_http_410_at_the_start_of_a_watch_leads_to_a_new_list() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let doomed = client.create(&widget("doomed", 1)).await.unwrap();
    client.create(&widget("kept", 1)).await.unwrap();
    // No watch succeeds before a change; afterwards the version of the first one is too old.
    let happened = Arc::new(AtomicUsize::new(0));
    let changes = Arc::clone(&happened);
    let faulty = faulty(env.client(), move |seen| match seen.is_watch() {
        true if changes.load(SeqCst) == 0 => Fault::Refuse(503, "ServiceUnavailable"),
        true if changes.fetch_add(1, SeqCst) == 1 => Fault::Refuse(410, "Expired"),
        _ => Fault::Pass,
    });
    let manager = manager(faulty);
    let notes = Notes::done();
    Builder::managed_by(&manager).for_kind::<Widget>().complete(notes.clone()).unwrap();
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager).await;
    settle().await;
    assert_eq!(notes.names(), ["doomed", "kept"]);
    notes.clear();

    client.delete(&doomed).await.unwrap();
    client.create(&widget("new", 1)).await.unwrap();
    happened.store(1, SeqCst);
    eventually(Duration::from_secs(120), async || {
        let names: Vec<_> =
            widgets.list_lazy().unwrap().iter().map(|widget| widget.meta().name().to_owned()).collect();
        if names == ["kept", "new"] { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await
    .unwrap();
    settle().await;
    let mut names = notes.names();
    names.sort();
    assert_eq!(names, ["doomed", "new"], "what did not change is left alone");
}

/// In kube-runtime all watches of a controller shared one back-off.
#[tokio::test(start_paused = true)]
async fn kube_runtime_c_a_failing_kind_does_not_hold_up_the_others() {
    let env = environment().await;
    let mut listed = false;
    // After the first list, all requests about ConfigMaps fail.
    let faulty = faulty(env.client(), move |seen| {
        if !seen.is_about("configmaps") || !std::mem::replace(&mut listed, true) {
            return Fault::Pass;
        }
        Fault::Refuse(403, "Forbidden")
    });
    let manager = manager(faulty);
    let notes = Notes::done();
    Builder::managed_by(&manager).for_kind::<Widget>().owns::<ConfigMap>().complete(notes.clone()).unwrap();
    let _running = Running::start(manager).await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 0)).await.unwrap();
    for size in 1..=200 {
        client.merge_patch(&key("a"), &json!({ "spec": { "size": size } })).await.unwrap();
        sleep(Duration::from_millis(200)).await;
    }
    assert!(notes.names().len() >= 200, "{} reconciles in 40 s", notes.names().len());
}

/// kube-runtime did not report an owned object that was deleted between two watches.
#[tokio::test(start_paused = true)]
async fn kube_runtime_d_an_owned_object_deleted_while_no_watch_is_open_reconciles_its_owner() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let owner = client.create(&widget("owner", 1)).await.unwrap();
    let mut child = config_map("child");
    set_controller_reference(&owner, &mut child).unwrap();
    let child = client.create(&child).await.unwrap();

    // The watch of children ends after 1 s, and none succeeds for a while. By then its version is too old.
    let watches = |action| Rule::new(action).resource("", "configmaps").verb(Verb::Watch);
    env.server().faults().add(watches(Action::Watch(WatchFault::CloseAfter(Duration::from_secs(1)))).once());
    let broken = env.server().faults().add(watches(Action::Reset));
    let (manager, notes) = (manager_of(&env), Notes::done());
    Builder::managed_by(&manager).for_kind::<Widget>().owns::<ConfigMap>().complete(notes.clone()).unwrap();
    let _running = Running::start(manager).await;
    sleep(Duration::from_secs(5)).await;
    notes.clear();
    client.delete(&child).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    assert!(notes.names().is_empty(), "the watch is broken and has not delivered the deletion");
    env.server().faults().compact();
    env.server().faults().remove(broken);
    sleep(Duration::from_secs(90)).await;
    assert_eq!(notes.names(), ["owner"]);
}
