//! Faults of requests and their responses.

use expect_test::expect;
use futures::StreamExt;
use http_body_util::BodyExt;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, WatchParams};
use kube_apiserver_embedded::faults::{Action, Answer, Failure, Rule, Verb, When};
use kube_apiserver_embedded::{ApiServer, Epoch, Options};
use serde_json::json;
use tokio::time::{Duration, Instant, advance, timeout};

use super::{SECOND, code, create, exists, is_reset, raw, start};

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
async fn a_request_delayed_after_has_taken_effect_when_the_client_gives_up() {
    let (server, api) = start();
    server.faults().add(Rule::new(Action::DelayAfter(5 * SECOND)).verb(Verb::Create));
    assert!(timeout(SECOND, create(&api, "gave-up")).await.is_err());
    assert!(exists(&api, "gave-up").await);
}

#[tokio::test(start_paused = true)]
async fn silence_does_not_process_a_request_and_a_withheld_response_does() {
    let (server, api) = start();
    let faults = server.faults();
    let id = faults.add(Rule::new(Action::Silence).verb(Verb::Create));
    assert!(timeout(24 * 3600 * SECOND, create(&api, "a")).await.is_err());
    assert!(!exists(&api, "a").await);
    faults.remove(id);
    faults.add(Rule::new(Action::WithholdResponse).verb(Verb::Create));
    assert!(timeout(24 * 3600 * SECOND, create(&api, "a")).await.is_err());
    assert!(exists(&api, "a").await);
    expect![[r#"
        rule 1: create configmaps default/: received, never answered
        rule 2: create configmaps default/: carried out, never answered
    "#]]
    .assert_eq(&faults.journal().to_string());
}

#[tokio::test(start_paused = true)]
async fn an_answer_stalls_in_its_body() {
    let (server, api) = start();
    create(&api, "a").await.unwrap();
    let client = Client::new(server.service(), "default");
    let path = "/api/v1/namespaces/default/configmaps/a";
    let whole = raw(&client, "GET", path, "").await.unwrap().1;
    let faults = server.faults();
    let id = faults.add(Rule::new(Action::Stall(10)));
    let request = http::Request::get(path).body(Vec::new().into()).unwrap();
    let mut body = client.send(request).await.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap().len(), 10);
    assert!(timeout(24 * 3600 * SECOND, body.frame()).await.is_err());
    faults.remove(id);
    faults.add(Rule::new(Action::Stall(whole.len() as u64)));
    assert_eq!(raw(&client, "GET", path, "").await.unwrap().1, whole, "as long as it is, it is whole");
}

#[tokio::test(start_paused = true)]
async fn failures_are_answers_that_clients_know() {
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

/// Returns the response to a GET of a ConfigMap.
async fn answer(server: &ApiServer) -> (http::response::Parts, String) {
    let request = http::Request::get("/api/v1/namespaces/default/configmaps/a").body(Vec::new()).unwrap();
    let client = Client::new(server.service(), "default");
    let (head, body) = client.send(request.map(Into::into)).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_refusal_has_retry_after() {
    let (server, _) = start();
    let wait = Failure::TooManyRequests { retry_after: Duration::from_millis(1500) };
    server.faults().add(Rule::new(Action::Fail(wait)).once());
    let (head, body) = answer(&server).await;
    assert_eq!((head.status.as_u16(), body.as_str()), (429, "Too many requests, please try again later.\n"));
    assert_eq!(head.headers["retry-after"], "2");
    assert_eq!(head.headers["content-type"], "text/plain; charset=utf-8");

    server.faults().add(Rule::new(Action::Fail(Failure::Initializing)).once());
    let (head, body) = answer(&server).await;
    let status: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&head.headers["retry-after"], &status["details"]["retryAfterSeconds"]),
        (&"1".parse().unwrap(), &json!(1))
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_a_status_and_an_answer_is_sent_unchanged() {
    let (server, _) = start();
    let faults = server.faults();
    for failure in [Failure::Unavailable, Failure::TooManyRequests { retry_after: SECOND }] {
        faults.add(Rule::new(Action::Fail(failure)).once());
        assert!(answer(&server).await.0.headers.contains_key("audit-id"), "{failure:?}");
    }
    let page = Answer::new(503, "text/plain", "busy").header("Retry-After", "7").header("no header", "x");
    faults.add(Rule::new(Action::Answer(page)).once());
    let (head, body) = answer(&server).await;
    assert_eq!((head.status.as_u16(), body.as_str()), (503, "busy"));
    let mut names: Vec<&str> = head.headers.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-type", "retry-after"]);
    assert_eq!(head.headers["retry-after"], "7");
}

#[tokio::test(start_paused = true)]
async fn a_reset_request_has_no_effect_and_one_with_a_lost_response_has() {
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
async fn rules_match_by_client_manager_and_dry_run() {
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
async fn a_rule_picks_requests_only_within_its_window() {
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

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_stopped_or_set_gives_objects_their_times() {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let server = ApiServer::start(Options::default().epoch(Epoch::starting_now(epoch)));
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
