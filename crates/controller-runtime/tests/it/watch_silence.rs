//! Watches that are lost silently: time and cost of their detection.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{Cached, Client, Manager, ManagerOptions};
use kube_apiserver_embedded::faults::{Action, Rule, WatchFault};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    faults::{Fault, Seen, faulty},
    support::{Running, Widget, config_map, environment, key, settle, widget},
};

const SECOND: Duration = Duration::from_secs(1);

fn manager(client: kube::Client) -> Manager {
    Manager::new(client, ManagerOptions::new("test").seed(1))
}

/// Probes are watches from a version that last 8 s.
fn is_probe(seen: &Seen) -> bool {
    seen.path.contains("timeoutSeconds=8&")
}

fn count(manager: &Manager, counter: &str) -> u64 {
    let name = format!("controller_runtime_cache_{counter}_total{{resource=\"widgets.example.com\"}} ");
    let metrics = manager.metrics().encode();
    let value = metrics.lines().find_map(|line| line.strip_prefix(&name));
    value.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
}

/// Returns the time until the cache has this many objects.
async fn until_len(widgets: &Cached<Widget>, len: usize) -> Duration {
    let start = Instant::now();
    while widgets.len().unwrap() != len {
        assert!(start.elapsed() < SECOND * 1200, "there are {} widgets", widgets.len().unwrap());
        sleep(SECOND / 10).await;
    }
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_change_that_a_silent_watch_misses_is_seen_within_45_seconds_and_nothing_is_listed_again() {
    for silent_after in [0, 10, 26, 29, 33, 40, 59, 61, 75, 100] {
        let env = environment().await;
        let client = Client::new(env.client(), "test");
        let silent = CancellationToken::new();
        let silenced = silent.clone();
        let connection = faulty(env.client(), move |seen| match seen.is_stream() {
            true => Fault::SilentFrom(silenced.clone()),
            false => Fault::Pass,
        });
        let manager = manager(connection);
        let widgets = manager.cached::<Widget>();
        let _running = Running::start(manager.clone()).await;
        sleep(SECOND * silent_after).await;
        silent.cancel();
        client.create(&widget("missed", 1)).await.unwrap();
        let took = until_len(&widgets, 1).await;
        assert!(took <= SECOND * 45 + SECOND / 5, "silent after {silent_after} s: seen after {took:?}");
        assert_eq!((count(&manager, "dead_watches"), count(&manager, "lists")), (1, 1));

        // The reopened watch works.
        client.create(&widget("next", 1)).await.unwrap();
        settle().await;
        assert_eq!(widgets.len().unwrap(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_vanished_server_is_asked_again_45_seconds_after_its_last_data() {
    let env = environment().await;
    let gone = CancellationToken::new();
    let (is_gone, asked) = (gone.clone(), Arc::new(Mutex::new(Vec::new())));
    let noted = Arc::clone(&asked);
    let connection = faulty(env.client(), move |seen| {
        if seen.is_about("widgets") && !is_probe(seen) {
            noted.lock().unwrap().push(Instant::now());
        }
        match is_gone.is_cancelled() {
            true => Fault::Hang,
            false if seen.is_watch() => Fault::SilentFrom(is_gone.clone()),
            false => Fault::Pass,
        }
    });
    let manager = manager(connection);
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager.clone()).await;
    sleep(SECOND * 5).await;
    let vanished = Instant::now();
    gone.cancel();
    sleep(SECOND * 100).await;
    let asked = asked.lock().unwrap().clone();
    let again = asked[1].duration_since(vanished);
    assert!((SECOND * 30..=SECOND * 45).contains(&again), "{again:?}");
    let once_more = asked[2].duration_since(asked[1]);
    assert!((SECOND * 45..=SECOND * 47).contains(&once_more), "{once_more:?}");
    assert!(widgets.trouble().unwrap().contains("did not answer within 45 s"), "{:?}", widgets.trouble());
}

#[tokio::test(start_paused = true)]
async fn a_server_without_bookmarks_keeps_its_watches_which_are_probed_twice_a_minute_at_most() {
    let env = environment().await;
    env.server().faults().add(Rule::new(Action::Watch(WatchFault::NoBookmarks)));
    let manager = manager(env.client());
    let widgets = manager.cached::<Widget>();
    let start = Instant::now();
    let _running = Running::start(manager.clone()).await;
    assert!(start.elapsed() <= SECOND * 46, "streaming was given up after {:?}", start.elapsed());
    sleep(SECOND * 3600).await;
    let (watches, lists) = (count(&manager, "watches"), count(&manager, "lists"));
    assert!((7..=14).contains(&watches), "{watches} watches of 5 to 10 minutes in an hour");
    assert_eq!((lists, count(&manager, "dead_watches"), widgets.trouble()), (2, 0, None));
    let probes = count(&manager, "probes");
    assert!((80..=100).contains(&probes), "{probes} probes in an hour");
}

#[tokio::test(start_paused = true)]
async fn refused_probes_leave_the_watch_open_until_the_third() {
    let env = environment().await;
    let connection = faulty(env.client(), move |seen| match is_probe(seen) {
        true => Fault::Refuse(403, "Forbidden"),
        false => Fault::Pass,
    });
    env.server().faults().add(Rule::new(Action::Watch(WatchFault::NoBookmarks)));
    let manager = manager(connection);
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager.clone()).await;
    let watches = count(&manager, "watches");
    sleep(SECOND * 80).await;
    assert_eq!((count(&manager, "probes"), count(&manager, "watches")), (2, watches));
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    settle().await;
    assert_eq!(widgets.len().unwrap(), 1, "the first watch is still there");
    sleep(SECOND * 95).await;
    assert_eq!((count(&manager, "probes"), count(&manager, "watches")), (5, watches + 1));
    assert_eq!((count(&manager, "dead_watches"), count(&manager, "lists")), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn the_version_of_an_idle_watch_moves_on_by_probes() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let manager = manager(env.client());
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager).await;
    let written = client.create(&config_map("other")).await.unwrap();
    sleep(SECOND * 45).await;
    assert_eq!(
        widgets.resource_version().map(|version| version.to_string()),
        written.metadata.resource_version
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_with_an_expired_version_is_replaced_by_a_list() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 1)).await.unwrap();
    let connection = faulty(env.client(), move |seen| match is_probe(seen) {
        true => Fault::Refuse(410, "Expired"),
        false => Fault::Pass,
    });
    let manager = manager(connection);
    let widgets = manager.cached::<Widget>();
    let _running = Running::start(manager.clone()).await;
    sleep(SECOND * 40).await;
    assert_eq!((count(&manager, "lists"), widgets.trouble(), widgets.len().unwrap()), (2, None, 1));
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_that_never_marks_the_end_of_the_initial_events_is_asked_for_lists_within_45_seconds() {
    let env = environment().await;
    env.server().faults().add(Rule::new(Action::Watch(WatchFault::NoBookmarks)));
    let client = Client::new(env.client(), "test");
    client.create(&widget("busy", 0)).await.unwrap();
    let mut busy = tokio::task::JoinSet::new();
    busy.spawn(async move {
        for size in 1.. {
            sleep(SECOND * 5).await;
            client.merge_patch(&key("busy"), &json!({ "spec": { "size": size } })).await.unwrap();
        }
    });
    let manager = manager(env.client());
    let widgets = manager.cached::<Widget>();
    let start = Instant::now();
    let _running = Running::start(manager).await;
    let took = start.elapsed();
    assert!((SECOND * 45..=SECOND * 51).contains(&took), "{took:?}");
    assert_eq!((widgets.len().unwrap(), busy.len()), (1, 1));
}
