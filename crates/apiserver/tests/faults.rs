//! Faults as a client meets them: one test per action through `kube::Client` in process, and a lost response over TCP.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use expect_test::expect;
use futures::{Stream, StreamExt};
use http_body_util::BodyExt;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    Api, DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::{Client, ResourceExt};
use kube_apiserver_embedded::faults::{
    Action, Answer, ConnectionReset, Failure, Rule, Verb, WatchFault, When,
};
use kube_apiserver_embedded::{ApiServer, ListenOptions, Options, Tokens};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, advance, timeout};

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

/// What a watch says: `+a ~a -a`, `b` for a bookmark, a number for an error.
fn shown(event: kube::Result<WatchEvent<ConfigMap>>) -> String {
    match event.unwrap() {
        WatchEvent::Added(object) => format!("+{}", object.name_any()),
        WatchEvent::Modified(object) => format!("~{}", object.name_any()),
        WatchEvent::Deleted(object) => format!("-{}", object.name_any()),
        WatchEvent::Bookmark(_) => "b".to_owned(),
        WatchEvent::Error(status) => status.code.to_string(),
    }
}

async fn watch(api: &Api<ConfigMap>, version: &str) -> impl Stream<Item = String> + Unpin + use<> {
    api.watch(&WatchParams::default(), version).await.unwrap().map(shown).boxed()
}

#[tokio::test(start_paused = true)]
async fn a_request_delayed_before_is_carried_out_late() {
    let (server, api) = start();
    server.faults().add(Rule::new(Action::DelayBefore(5 * SECOND)).verb(Verb::Create));
    assert!(timeout(SECOND, create(&api, "gave-up")).await.is_err());
    assert!(!exists(&api, "gave-up").await);
    let started = Instant::now();
    create(&api, "patient").await.unwrap();
    assert_eq!(started.elapsed(), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_request_delayed_after_has_happened_when_the_client_gives_up() {
    let (server, api) = start();
    server.faults().add(Rule::new(Action::DelayAfter(5 * SECOND)).verb(Verb::Create));
    assert!(timeout(SECOND, create(&api, "gave-up")).await.is_err());
    assert!(exists(&api, "gave-up").await);
}

#[tokio::test(start_paused = true)]
async fn failures_are_statuses_that_clients_know() {
    let (server, api) = start();
    let faults = server.faults();
    for failure in [
        Failure::Conflict,
        Failure::Expired,
        Failure::TooManyRequests { retry_after: Duration::from_millis(1500) },
        Failure::Internal,
        Failure::Unavailable,
        Failure::Timeout,
    ] {
        let id = faults.add(Rule::new(Action::Fail(failure)).resource("", "configmaps"));
        assert_eq!(code(create(&api, "a").await), failure.code());
        assert!(faults.remove(id).is_some());
    }
    assert!(!exists(&api, "a").await);
    expect![[r#"
        rule 1: create configmaps default/: refused with 409
        rule 2: create configmaps default/: refused with 410
        rule 3: create configmaps default/: refused with 429
        rule 4: create configmaps default/: refused with 500
        rule 5: create configmaps default/: refused with 503
        rule 6: create configmaps default/: refused with 504
    "#]]
    .assert_eq(&faults.journal().to_string());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_when_to_come_back() {
    let (server, api) = start();
    let wait = Failure::TooManyRequests { retry_after: Duration::from_millis(1500) };
    server.faults().add(Rule::new(Action::Fail(wait)).verb(Verb::Get));
    let kube::Error::Api(status) = api.get("a").await.unwrap_err() else { panic!() };
    assert_eq!(status.details.unwrap().retry_after_seconds, 2);
    let request = http::Request::get("/api/v1/namespaces/default/configmaps/a").body(Vec::new()).unwrap();
    let client = Client::new(server.service(), "default");
    let response = client.send(request.map(Into::into)).await.unwrap();
    assert_eq!(response.headers()["retry-after"], "2");
}

#[tokio::test(start_paused = true)]
async fn a_reset_request_has_not_happened_and_a_lost_response_has() {
    let (server, api) = start();
    let faults = server.faults();
    faults.add(Rule::new(Action::Reset).verb(Verb::Create).when(When::Nth(1)));
    faults.add(Rule::new(Action::LoseResponse).verb(Verb::Create).once());
    assert!(is_reset(create(&api, "a").await));
    assert!(!exists(&api, "a").await);
    assert!(is_reset(create(&api, "a").await));
    assert!(exists(&api, "a").await);
    assert_eq!(code(create(&api, "a").await), 409);
    faults.clear();
    assert!(faults.rules().is_empty());
}

#[tokio::test(start_paused = true)]
async fn rules_tell_clients_managers_and_dry_runs_apart() {
    let (server, api) = start();
    let faults = server.faults();
    let fail = || Rule::new(Action::Fail(Failure::Unavailable));
    faults.add(fail().verb(Verb::Patch).field_manager("unlucky").name("a").namespace("default"));
    faults.add(fail().dry_run(true));
    faults.add(fail().user_agent("kubectl/"));
    faults.add(fail().resource("", "configmaps").subresource("status"));
    create(&api, "a").await.unwrap();
    let patch = Patch::Apply(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}),
    );
    assert_eq!(code(api.patch("a", &PatchParams::apply("unlucky"), &patch).await), 503);
    assert_eq!(code(api.patch("a", &PatchParams::apply("lucky").dry_run(), &patch).await), 503);
    api.patch("a", &PatchParams::apply("lucky"), &patch).await.unwrap();
    assert_eq!(faults.journal().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_picks_the_same_requests() {
    let run = |seed: u64| async move {
        let server = ApiServer::start(Options::default().seed(seed));
        let api: Api<ConfigMap> = Api::default_namespaced(Client::new(server.service(), "default"));
        server.faults().add(Rule::new(Action::Reset).when(When::Probability(0.5)));
        let mut picked = Vec::new();
        for _ in 0..64 {
            picked.push(api.get_opt("a").await.is_err());
        }
        picked
    };
    assert_eq!(run(1).await, run(1).await);
    assert_ne!(run(1).await, run(2).await);
}

#[tokio::test(start_paused = true)]
async fn a_watch_closes_expires_or_stalls_after_so_many_events() {
    let (server, api) = start();
    for name in ["a", "b", "c"] {
        create(&api, name).await.unwrap();
    }
    let faults = server.faults();
    let id = faults.add(Rule::new(Action::Watch(WatchFault::CloseAfterEvents(2))));
    // The initial events count as those that follow do.
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
async fn a_compaction_expires_what_is_older_and_leaves_open_watches_alone() {
    let (server, api) = start();
    for name in ["a", "b"] {
        create(&api, name).await.unwrap();
    }
    let page = api.list(&ListParams::default().limit(1)).await.unwrap();
    let version = page.metadata.resource_version.unwrap();
    let token = page.metadata.continue_.unwrap();
    let mut open = watch(&api, &version).await;
    create(&api, "c").await.unwrap();
    server.faults().compact();
    assert_eq!(code(api.list(&ListParams::default().limit(1).continue_token(&token)).await), 410);
    // The refusal has a token with which the rest is listed as it is now.
    let kube::Error::Api(expired) =
        api.list(&ListParams::default().limit(1).continue_token(&token)).await.unwrap_err()
    else {
        panic!("it was refused by the server");
    };
    let fresh = expired.metadata.unwrap().continue_.unwrap();
    let rest = api.list(&ListParams::default().continue_token(&fresh)).await.unwrap();
    assert_eq!(rest.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["b", "c"]);
    let exact = ListParams::default().at(&version).matching(kube::api::VersionMatch::Exact);
    assert_eq!(code(api.list(&exact).await), 410);
    assert_eq!(watch(&api, &version).await.collect::<Vec<_>>().await, ["410"]);
    assert_eq!(open.next().await.as_deref(), Some("+c"));
    // What begins now is not older.
    let now = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut fresh = watch(&api, &now).await;
    create(&api, "d").await.unwrap();
    assert_eq!(fresh.next().await.as_deref(), Some("+d"));
}

#[tokio::test(start_paused = true)]
async fn an_evicted_history_ends_the_watches_that_needed_it() {
    let (server, api) = start();
    create(&api, "a").await.unwrap();
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut behind = watch(&api, &version).await;
    create(&api, "b").await.unwrap();
    let now = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut up_to_date = watch(&api, &now).await;
    let faults = server.faults();
    assert!(faults.evict_history("", "configmaps") && !faults.evict_history("", "nothings"));
    assert_eq!(behind.next().await, None);
    create(&api, "c").await.unwrap();
    assert_eq!(up_to_date.next().await.as_deref(), Some("+c"));
    assert_eq!(faults.journal().to_string(), "history of configmaps evicted\n");
}

/// A request in process, or over a socket; code and body of its answer.
async fn raw(client: &Client, method: &str, path: &str, body: &str) -> kube::Result<(u16, String)> {
    let request =
        http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    let response = client.send(request.body(body.to_owned().into_bytes().into()).unwrap()).await?;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((code, String::from_utf8_lossy(&body).into_owned()))
}

#[tokio::test(start_paused = true)]
async fn any_answer_can_be_given() {
    let (server, api) = start();
    let page = Answer::new(502, "text/html", "<h1>Bad Gateway</h1>");
    server.faults().add(Rule::new(Action::Answer(page)).verb(Verb::Create).once());
    let client = Client::new(server.service(), "default");
    let (code, body) = raw(&client, "POST", "/api/v1/namespaces/default/configmaps", "{}").await.unwrap();
    assert_eq!((code, body.as_str()), (502, "<h1>Bad Gateway</h1>"));
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_cut_in_its_body() {
    let (server, api) = start();
    create(&api, "a").await.unwrap();
    let client = Client::new(server.service(), "default");
    let path = "/api/v1/namespaces/default/configmaps/a";
    let whole = raw(&client, "GET", path, "").await.unwrap().1;
    let faults = server.faults();
    let id = faults.add(Rule::new(Action::Truncate(10)));
    let error = raw(&client, "GET", path, "").await.unwrap_err();
    assert!(format!("{error:?}").contains("ConnectionReset"), "{error:?}");
    faults.remove(id);
    let id = faults.add(Rule::new(Action::Truncate(whole.len() as u64)));
    assert_eq!(raw(&client, "GET", path, "").await.unwrap().1, whole, "as long as it is, it is whole");
    faults.remove(id);
    // A watch breaks off within an event.
    faults.add(Rule::new(Action::Truncate(whole.len() as u64 / 2)).verb(Verb::Watch));
    let mut events = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    assert!(events.next().await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn reads_of_any_state_get_an_old_one_and_others_do_not() {
    let (server, api) = start();
    for name in ["a", "b", "c"] {
        create(&api, name).await.unwrap();
    }
    server.faults().add(Rule::new(Action::StaleRead { behind: 2 }).resource("", "configmaps"));
    let names = async |parameters: &ListParams| {
        let list = api.list(parameters).await.unwrap();
        let version: u64 = list.metadata.resource_version.unwrap().parse().unwrap();
        (list.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>().join(" "), version)
    };
    let (now, latest) = names(&ListParams::default()).await;
    assert_eq!(now, "a b c");
    assert_eq!(names(&ListParams::default().at("0")).await, ("a".to_owned(), latest - 2));
    let get = |version: &'static str| {
        let parameters = GetParams { resource_version: Some(version.to_owned()) };
        let api = api.clone();
        async move { api.get_with("b", &parameters).await.is_ok() }
    };
    assert_eq!((get("0").await, get("").await), (false, true));
    // A watch begins with that state, and goes on with all that happened since.
    let seen: Vec<String> = watch(&api, "0").await.take(3).collect().await;
    assert_eq!(seen, ["+a", "+b", "+c"]);
    assert_eq!(server.faults().journal().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_watch_holds_for_a_while_and_goes_on() {
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
async fn events_are_dropped_doubled_or_overtaken() {
    let (server, api) = start();
    for name in ["a", "b"] {
        create(&api, name).await.unwrap();
    }
    let faults = server.faults();
    let seen = async |fault: WatchFault| {
        let id = faults.add(Rule::new(Action::Watch(fault)));
        let parameters = WatchParams::default().timeout(5);
        let events = api.watch(&parameters, "0").await.unwrap().map(shown).boxed();
        // The initial events count as those that follow do.
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
async fn bookmarks_are_sent_when_told() {
    let (server, api) = start();
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut with = watch(&api, &version).await;
    let without = WatchParams { bookmarks: false, ..WatchParams::default() };
    let mut without = api.watch(&without, &version).await.unwrap().map(shown).boxed();
    // A stream is asked before it is woken, as a client does.
    assert!(timeout(SECOND, with.next()).await.is_err());
    server.faults().bookmark_now("", "configmaps");
    assert_eq!(with.next().await.as_deref(), Some("b"));
    server.faults().bookmark_now("apps", "deployments");
    assert!(timeout(SECOND, with.next()).await.is_err());
    create(&api, "a").await.unwrap();
    assert_eq!(without.next().await.as_deref(), Some("+a"));
}

#[tokio::test(start_paused = true)]
async fn a_compaction_up_to_a_revision_spares_what_came_later() {
    let (server, api) = start();
    let version = |map: &ConfigMap| map.resource_version().unwrap();
    let first = version(&create(&api, "a").await.unwrap());
    let second = version(&create(&api, "b").await.unwrap());
    create(&api, "c").await.unwrap();
    let faults = server.faults();
    faults.compact_to(second.parse().unwrap());
    faults.compact_to(first.parse().unwrap());
    assert_eq!(watch(&api, &first).await.next().await.as_deref(), Some("410"));
    assert_eq!(watch(&api, &second).await.next().await.as_deref(), Some("+c"));
    let line = format!("compacted at revision {second}\n");
    assert_eq!(faults.journal().to_string(), line.repeat(2), "a compaction is not taken back");
}

#[tokio::test(start_paused = true)]
async fn a_rule_holds_for_a_time() {
    let (server, api) = start();
    let rule = Rule::new(Action::Fail(Failure::Unavailable)).verb(Verb::Get);
    server.faults().add(rule.within(10 * SECOND..20 * SECOND));
    let mut codes = Vec::new();
    for _ in 0..6 {
        codes.push(code(api.get("a").await));
        advance(5 * SECOND).await;
    }
    assert_eq!(codes, [404, 404, 503, 503, 404, 404]);
}

#[tokio::test]
async fn faults_are_driven_over_a_socket_where_the_listener_allows_it() {
    let (server, api) = start();
    let address = "127.0.0.1:0".parse().unwrap();
    let connect = |url: String| Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
    let plain = server.listen(address).await.unwrap();
    let (code, _) = raw(&connect(plain.url()), "GET", "/debug/faults/rules", "").await.unwrap();
    assert_eq!(code, 404, "nobody asked for it");
    let any = "0.0.0.0:0".parse().unwrap();
    let tokens = ApiServer::start(Options::default().tokens(Tokens::new()));
    let refused = tokens.listen_with(any, ListenOptions::default().faults()).await.unwrap_err();
    assert!(refused.to_string().contains("use a loopback address"), "{refused}");

    let listener = server.listen_with(address, ListenOptions::default().faults()).await.unwrap();
    let client = connect(listener.url());
    let send = async |method: &str, path: &str, body: &str| {
        raw(&client, method, &format!("/debug/faults/{path}"), body).await.unwrap()
    };
    let rule = r#"{"action": "loseResponse", "verbs": ["create"], "resource": {"plural": "configmaps"}, "atMost": 1}"#;
    assert_eq!(send("POST", "rules", rule).await, (201, r#"{"id":1}"#.to_owned()));
    assert!(is_reset(create(&api, "a").await));
    assert!(exists(&api, "a").await);
    let slow = r#"{"action": {"watch": {"late": "1.5s"}}, "when": {"probability": 0.5}, "within": {"from": "0s", "to": "1h"}}"#;
    assert_eq!(send("POST", "rules", slow).await.0, 201);
    assert_eq!(send("DELETE", "rules/1", "").await.0, 200);
    assert_eq!(send("DELETE", "rules/1", "").await.0, 404);
    let (_, rules) = send("GET", "rules", "").await;
    let within = r#""within":{"from":"0ns","to":"3600s"}"#;
    let expected = format!(
        r#"{{"rules":[{{"id":2,"rule":{{"action":{{"watch":{{"late":"1.5s"}}}},"when":{{"probability":0.5}},{within}}}}}]}}"#
    );
    assert_eq!(rules, expected);
    for command in [
        r#"{"compact": {}}"#,
        r#"{"closeWatches": {"plural": "configmaps"}}"#,
        r#"{"bookmarkNow": {"group": "apps", "plural": "deployments"}}"#,
        r#""stopClock""#,
        r#"{"advanceClock": "-1h"}"#,
    ] {
        assert_eq!(send("POST", "commands", command).await.0, 200, "{command}");
    }
    for (path, body, expected) in [
        ("commands", r#"{"holdWatches": {"plural": "nothings"}}"#, 404),
        ("commands", r#""explode""#, 400),
        ("rules", r#"{"action": {"delayBefore": "soon"}}"#, 400),
        ("rules", r#"{"action": "reset", "verb": "get"}"#, 400),
        ("journal", "", 405),
        ("elsewhere", "", 404),
    ] {
        let (code, answer) = send("POST", path, body).await;
        assert_eq!(code, expected, "{path} {body}: {answer}");
    }
    let (_, journal) = send("GET", "journal", "").await;
    let journal: Value = serde_json::from_str(&journal).unwrap();
    let said: Vec<&str> =
        journal["entries"].as_array().unwrap().iter().filter_map(|entry| entry["what"].as_str()).collect();
    assert_eq!(said[0], "rule 1: create configmaps default/: carried out, response lost");
    assert_eq!(
        said[2..],
        [
            "watches of configmaps closed",
            "bookmarks sent to watches of deployments.apps",
            "clock stopped",
            "clock set back by 1h"
        ]
    );
    listener.shutdown().await;
    plain.shutdown().await;
}

#[tokio::test]
async fn an_answer_cut_over_tcp_is_a_body_that_breaks_off() {
    let (server, api) = start();
    create(&api, "a").await.unwrap();
    let listener = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let config = kube::Config::new(listener.url().parse().unwrap());
    let remote = Client::try_from(config).unwrap();
    server.faults().add(Rule::new(Action::Truncate(50)).once());
    let path = "/api/v1/namespaces/default/configmaps/a";
    assert!(raw(&remote, "GET", path, "").await.is_err());
    assert_eq!(raw(&remote, "GET", path, "").await.unwrap().0, 200);
    listener.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_stopped_or_set_gives_objects_their_times() {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let server = ApiServer::start(Options::default().epoch(epoch));
    let api: Api<ConfigMap> = Api::default_namespaced(Client::new(server.service(), "default"));
    let created = async |name: &str| {
        let map = create(&api, name).await.unwrap();
        map.metadata.creation_timestamp.unwrap().0.to_string()
    };
    let faults = server.faults();
    faults.stop_clock();
    advance(90 * SECOND).await;
    assert_eq!(created("stopped").await, "2026-01-01T00:00:00Z");
    faults.resume_clock();
    advance(5 * SECOND).await;
    assert_eq!(created("resumed").await, "2026-01-01T00:00:05Z");
    faults.advance_clock(SignedDuration::from_hours(-24));
    assert_eq!(created("set-back").await, "2025-12-31T00:00:05Z");
    expect![[r#"
        clock stopped
        clock resumed
        clock set back by 24h
    "#]]
    .assert_eq(&faults.journal().to_string());
}

#[tokio::test]
async fn a_response_lost_over_tcp_is_a_connection_that_closes() {
    let (server, api) = start();
    let listener = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let config = kube::Config::new(listener.url().parse().unwrap());
    let remote: Api<ConfigMap> = Api::namespaced(Client::try_from(config).unwrap(), "default");
    let faults = server.faults();
    faults.add(Rule::new(Action::LoseResponse).verb(Verb::Create).once());
    let error = create(&remote, "a").await.unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "there is no answer: {error}");
    assert!(exists(&api, "a").await);
    assert!(exists(&remote, "a").await, "the next request gets a connection of its own");
    assert_eq!(faults.journal().len(), 1, "the client did not try again by itself");
    listener.shutdown().await;
}
