//! Faults of watches, and orders to open watches.

use expect_test::expect;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, WatchParams};
use kube_apiserver_embedded::faults::{Action, Rule, Verb, WatchFault, When};
use tokio::time::{Duration, Instant, timeout};

use super::{SECOND, create, shown, start, watch};

#[tokio::test(start_paused = true)]
async fn a_watch_closes_expires_or_stalls_after_so_many_events() {
    let (server, api) = start();
    for name in ["a", "b", "c"] {
        create(&api, name).await.unwrap();
    }
    let faults = server.faults();
    let id = faults.add(Rule::new(Action::Watch(WatchFault::CloseAfterEvents(2))));
    // Initial events count like later ones.
    assert_eq!(watch(&api, "0").await.collect::<Vec<_>>().await, ["+a", "+b"]);
    faults.remove(id);
    let id = faults.add(Rule::new(Action::Watch(WatchFault::ExpireAfterEvents(1))));
    assert_eq!(watch(&api, "0").await.collect::<Vec<_>>().await, ["+a", "410"]);
    faults.remove(id);
    faults.add(Rule::new(Action::Watch(WatchFault::StallAfterEvents(4))));
    let mut stalled = watch(&api, "0").await;
    api.delete("a", &DeleteParams::default()).await.unwrap();
    api.delete("b", &DeleteParams::default()).await.unwrap();
    let seen: Vec<String> = stalled.by_ref().take(4).collect().await;
    assert_eq!(seen, ["+a", "+b", "+c", "-a"]);
    let silence = timeout(Duration::from_secs(24 * 3600), stalled.next()).await;
    assert!(silence.is_err(), "open and silent, past its deadline");
}

#[tokio::test(start_paused = true)]
async fn a_watch_closes_after_a_time() {
    let (server, api) = start();
    server.faults().add(Rule::new(Action::Watch(WatchFault::CloseAfter(7 * SECOND))).verb(Verb::Watch));
    let started = Instant::now();
    let mut events = watch(&api, "0").await;
    create(&api, "a").await.unwrap();
    assert_eq!(events.next().await.as_deref(), Some("+a"));
    assert_eq!(events.next().await, None);
    assert_eq!(started.elapsed(), 7 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_watch_stalls_after_a_time() {
    let (server, api) = start();
    server.faults().add(Rule::new(Action::Watch(WatchFault::StallAfter(90 * SECOND))).once());
    let mut stalled = watch(&api, "0").await;
    create(&api, "a").await.unwrap();
    assert_eq!(stalled.next().await.as_deref(), Some("+a"));
    let elsewhere: Api<ConfigMap> = Api::namespaced(Client::new(server.service(), "default"), "kube-system");
    create(&elsewhere, "moves-the-revision").await.unwrap();
    assert_eq!(stalled.next().await.as_deref(), Some("b"), "the bookmark after the first minute");
    create(&api, "b").await.unwrap();
    assert_eq!(stalled.next().await.as_deref(), Some("+b"));
    tokio::time::sleep(30 * SECOND).await;
    create(&api, "c").await.unwrap();
    assert!(timeout(24 * 3600 * SECOND, stalled.next()).await.is_err(), "open and silent, past its deadline");
    assert_eq!(watch(&api, "0").await.next().await.as_deref(), Some("+a"), "the rule was for one watch");
}

#[tokio::test(start_paused = true)]
async fn open_watches_are_stalled_and_new_ones_are_not() {
    let (server, api) = start();
    let mut open = watch(&api, "0").await;
    create(&api, "a").await.unwrap();
    assert_eq!(open.next().await.as_deref(), Some("+a"));
    let faults = server.faults();
    assert!(faults.stall_watches("", "configmaps") && !faults.stall_watches("", "nothings"));
    let mut begun_later = watch(&api, "0").await;
    create(&api, "b").await.unwrap();
    faults.bookmark_now("", "configmaps");
    assert_eq!(begun_later.next().await.as_deref(), Some("+a"));
    assert_eq!(begun_later.next().await.as_deref(), Some("+b"));
    assert!(timeout(24 * 3600 * SECOND, open.next()).await.is_err(), "neither events nor bookmarks");
    assert!(faults.journal().to_string().starts_with("watches of configmaps stalled\n"));
}

#[tokio::test(start_paused = true)]
async fn a_stale_watch_delivers_late_and_in_order() {
    let (server, api) = start();
    create(&api, "a").await.unwrap();
    server.faults().add(Rule::new(Action::Watch(WatchFault::Late(10 * SECOND))));
    let started = Instant::now();
    let mut events = watch(&api, "0").await;
    assert_eq!(events.next().await.as_deref(), Some("+a"));
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(events.next().await.as_deref(), Some("-a"));
    assert_eq!(started.elapsed(), 20 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_bookmarks_ends_without_one() {
    let (server, api) = start();
    let elsewhere: Api<ConfigMap> = Api::namespaced(Client::new(server.service(), "default"), "kube-system");
    server.faults().add(Rule::new(Action::Watch(WatchFault::NoBookmarks)));
    let parameters = WatchParams::default().timeout(90);
    let events = api.watch(&parameters, "5").await.unwrap().map(shown).boxed();
    create(&elsewhere, "moves-the-revision").await.unwrap();
    assert_eq!(events.collect::<Vec<_>>().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_watch_holds_for_a_while_and_continues() {
    let (server, api) = start();
    let hold = WatchFault::HoldAfterEvents { events: 1, time: 30 * SECOND };
    server.faults().add(Rule::new(Action::Watch(hold)));
    let mut events = watch(&api, "0").await;
    create(&api, "a").await.unwrap();
    create(&api, "b").await.unwrap();
    let started = Instant::now();
    assert_eq!(events.next().await.as_deref(), Some("+a"));
    assert_eq!((events.next().await.as_deref(), started.elapsed()), (Some("+b"), 30 * SECOND));
    create(&api, "c").await.unwrap();
    assert_eq!((events.next().await.as_deref(), started.elapsed()), (Some("+c"), 30 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn events_are_dropped_duplicated_or_reordered() {
    let (server, api) = start();
    for name in ["a", "b"] {
        create(&api, name).await.unwrap();
    }
    let faults = server.faults();
    let seen = async |fault: WatchFault| {
        let id = faults.add(Rule::new(Action::Watch(fault)));
        let parameters = WatchParams::default().timeout(5);
        let events = api.watch(&parameters, "0").await.unwrap().map(shown).boxed();
        // Initial events count like later ones.
        create(&api, "c").await.unwrap();
        api.delete("c", &DeleteParams::default()).await.unwrap();
        faults.remove(id);
        events.filter(|event| std::future::ready(event != "b")).collect::<Vec<_>>().await.join(" ")
    };
    assert_eq!(seen(WatchFault::Drop(When::Nth(3))).await, "+a +b -c");
    assert_eq!(seen(WatchFault::Duplicate(When::Every(2))).await, "+a +b +b +c -c -c");
    assert_eq!(seen(WatchFault::Reorder(When::Nth(1))).await, "+b +a +c -c");
    assert_eq!(seen(WatchFault::Reorder(When::Nth(3))).await, "+a +b -c +c");
}

#[tokio::test(start_paused = true)]
async fn open_watches_are_held_released_and_closed() {
    let (server, api) = start();
    let mut open = watch(&api, "0").await;
    create(&api, "a").await.unwrap();
    assert_eq!(open.next().await.as_deref(), Some("+a"));
    let faults = server.faults();
    assert!(faults.hold_watches("", "configmaps") && !faults.hold_watches("", "nothings"));
    let mut begun_later = watch(&api, "0").await;
    create(&api, "b").await.unwrap();
    assert!(timeout(100 * SECOND, open.next()).await.is_err());
    assert!(timeout(SECOND, begun_later.next()).await.is_err());
    faults.release_watches("", "configmaps");
    assert_eq!(open.next().await.as_deref(), Some("+b"));
    assert_eq!(begun_later.next().await.as_deref(), Some("+a"));
    faults.close_watches("", "configmaps");
    assert_eq!(open.next().await, None);
    let mut fresh = watch(&api, "0").await;
    assert_eq!(fresh.next().await.as_deref(), Some("+a"));
    expect![[r#"
        watches of configmaps held
        watches of configmaps released
        watches of configmaps closed
    "#]]
    .assert_eq(&faults.journal().to_string());
}

#[tokio::test(start_paused = true)]
async fn a_frozen_resource_closes_its_watches_and_refuses_new_ones() {
    let (server, api) = start();
    let mut open = watch(&api, "0").await;
    assert!(timeout(SECOND, open.next()).await.is_err(), "it is open");
    let faults = server.faults();
    let frozen = faults.freeze("", "configmaps").unwrap();
    assert_eq!(open.next().await, None);
    let kube::Error::Api(status) = api.list(&ListParams::default()).await.unwrap_err() else { panic!() };
    assert_eq!((status.code, status.message.as_str()), (429, "storage is (re)initializing"));
    assert_eq!(status.details.unwrap().retry_after_seconds, 1);
    create(&api, "a").await.unwrap();
    faults.remove(frozen);
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
    assert!(faults.freeze("", "nothings").is_none());
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_sent_on_command() {
    let (server, api) = start();
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut with = watch(&api, &version).await;
    let without = WatchParams { bookmarks: false, ..WatchParams::default() };
    let mut without = api.watch(&without, &version).await.unwrap().map(shown).boxed();
    // Poll the stream before it is woken, like a client.
    assert!(timeout(SECOND, with.next()).await.is_err());
    server.faults().bookmark_now("", "configmaps");
    assert_eq!(with.next().await.as_deref(), Some("b"));
    server.faults().bookmark_now("apps", "deployments");
    assert!(timeout(SECOND, with.next()).await.is_err());
    create(&api, "a").await.unwrap();
    assert_eq!(without.next().await.as_deref(), Some("+a"));
}
