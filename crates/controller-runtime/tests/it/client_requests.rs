//! Steps of a request: interceptors, permit, throttling, answer, and metrics.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{
    Client, Verb,
    client::{
        Answer, Call, ClientMetrics, Deletion, ErrorKind, FieldValidation, Next, PermitError, Propagation,
        Warnings, WriteGate, WritePermit,
    },
};
use kube_apiserver_embedded::faults::{self, Failure, Rule};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::support::{Widget, config_map, environment, key, widget};

fn busy(retry_after: u64) -> Rule {
    let retry_after = Duration::from_secs(retry_after);
    Rule::new(faults::Action::Fail(Failure::TooManyRequests { retry_after }))
}

#[tokio::test(start_paused = true)]
async fn retry_after_of_a_busy_server_is_respected() {
    let env = environment().await;
    env.server().faults().add(busy(2).at_most(3));
    let started = Instant::now();
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(6));
}

#[tokio::test(start_paused = true)]
async fn retries_of_a_busy_server_end_and_the_error_has_its_retry_after() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    env.server().faults().add(busy(2));
    let started = Instant::now();
    let error = client.create(&widget("a", 1)).await.unwrap_err();
    assert!(error.is_too_many_requests(), "{error}");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
    assert_eq!(started.elapsed(), Duration::from_secs(20), "ten retries");
    assert_eq!(env.server().faults().journal().len(), 11);

    env.server().faults().clear();
    env.server().faults().add(busy(90));
    let started = Instant::now();
    let error = client.get(&key("a")).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(90)));
    assert_eq!(started.elapsed(), Duration::ZERO, "the client does not wait that long for one request");
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_spreads_requests_and_a_dropped_one_frees_its_place() {
    let env = environment().await;
    let client = Client::builder(env.client(), "test").rate_limit(10.0, 2).unwrap().build();
    let started = Instant::now();
    let read = async || client.get(&key("a")).await.map(|_| started.elapsed().as_millis());
    assert_eq!((read().await.unwrap(), read().await.unwrap()), (0, 0));

    let impatient = tokio::time::timeout(Duration::from_millis(50), client.get(&key("a")).into_future());
    assert!(impatient.await.is_err());
    assert_eq!(read().await.unwrap(), 100, "the place of the one that was given up");
    assert_eq!(read().await.unwrap(), 200);
}

/// A permit that can be revoked.
struct Lease(CancellationToken);

impl WriteGate for Lease {
    fn permit(&self, _: &Call) -> Result<WritePermit, PermitError> {
        let lost = || PermitError::new("the lease is lost");
        if self.0.is_cancelled() {
            return Err(lost());
        }
        let ended = self.0.clone().cancelled_owned();
        Ok(WritePermit::until(async move {
            ended.await;
            lost()
        }))
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_permit_nothing_is_written_and_reads_go_on() {
    let env = environment().await;
    let lease = CancellationToken::new();
    let gate = Arc::new(Lease(lease.clone()));
    let client = Client::builder(env.client(), "test").write_gate(gate).build();
    client.create(&widget("a", 1)).await.unwrap();

    lease.cancel();
    let error = client.create(&widget("b", 1)).await.unwrap_err();
    assert_eq!(error.to_string(), "create widgets.example.com default/b: not sent: the lease is lost");
    assert!(!error.is_outcome_unknown());
    for refused in [
        client.apply(&widget("a", 2)).await.map(drop).unwrap_err(),
        client.merge_patch(&key("a"), &json!({})).await.map(drop).unwrap_err(),
        client.delete_key(&key("a")).await.map(drop).unwrap_err(),
        client.delete_all::<Widget>().in_namespace("default").await.unwrap_err(),
    ] {
        assert!(matches!(refused.kind(), ErrorKind::NotPermitted(_)), "{refused}");
    }
    client.apply(&widget("a", 2)).dry_run().await.expect("a dry run writes nothing");
    assert_eq!(client.get(&key("a")).await.unwrap().unwrap().spec.size, 1);
}

#[tokio::test(start_paused = true)]
async fn a_write_in_flight_is_cut_when_the_permit_ends() {
    let env = environment().await;
    let lease = CancellationToken::new();
    let gate = Arc::new(Lease(lease.clone()));
    let client = Client::builder(env.client(), "test").write_gate(gate).build();
    env.server().faults().add(Rule::new(faults::Action::DelayBefore(Duration::from_secs(60))));

    let started = Instant::now();
    let lost = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        lease.cancel();
    };
    let (outcome, ()) = tokio::join!(client.create(&widget("a", 1)).into_future(), lost);
    let error = outcome.unwrap_err();
    assert_eq!(started.elapsed(), Duration::from_secs(3));
    assert!(matches!(error.kind(), ErrorKind::Interrupted(_)) && error.is_outcome_unknown());
    assert_eq!(
        error.to_string(),
        "create widgets.example.com default/a: interrupted while in flight, so it may or may not have been carried out: the lease is lost"
    );
}

#[tokio::test]
async fn interceptors_see_calls_and_outcomes_from_the_last_to_the_first() {
    let env = environment().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let seen = Arc::clone(&seen);
        move |call: Call, next: Next| {
            let seen = Arc::clone(&seen);
            async move {
                let text = format!("{name}: {} {}", call.verb(), call.subject());
                seen.lock().unwrap().push(text.clone());
                let answer = next.run(call).await;
                let code = answer
                    .as_ref()
                    .map_or_else(controller_runtime::ClientError::code, |answer| Some(answer.code()));
                seen.lock().unwrap().push(format!("{text} -> {}", code.unwrap_or_default()));
                answer
            }
        }
    };
    let client = Client::new(env.client(), "test").intercepted(note("inner")).intercepted(note("outer"));
    client.create(&widget("a", 1)).await.unwrap();
    assert!(client.get(&key("b")).await.unwrap().is_none());
    let expected = [
        "outer: create widgets.example.com default/a",
        "inner: create widgets.example.com default/a",
        "inner: create widgets.example.com default/a -> 201",
        "outer: create widgets.example.com default/a -> 201",
        "outer: get widgets.example.com default/b",
        "inner: get widgets.example.com default/b",
        "inner: get widgets.example.com default/b -> 404",
        "outer: get widgets.example.com default/b -> 404",
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test]
async fn an_interceptor_may_fail_change_or_answer_a_call() {
    let env = environment().await;
    let plain = Client::new(env.client(), "test");
    let failing = plain.intercepted(|call: Call, next: Next| async move {
        match call.verb() {
            Verb::Update => Err(call.refusal(409, "Conflict", "another client was faster")),
            Verb::Delete => Ok(Answer::new(json!({ "kind": "Status" }).to_string())),
            _ => next.run(call).await,
        }
    });
    let created = failing.create(&widget("a", 1)).await.unwrap();
    assert!(failing.update(&created).await.unwrap_err().is_conflict());
    assert_eq!(failing.delete(&created).await.unwrap(), Deletion::Done);
    assert!(plain.get(&key("a")).await.unwrap().is_some(), "the server was not asked");

    let doubling = plain.intercepted(|mut call: Call, next: Next| async move {
        let body = String::from_utf8_lossy(call.body()).replace("\"size\":1", "\"size\":2");
        call.set_body(body);
        next.run(call).await
    });
    assert_eq!(doubling.create(&widget("b", 1)).await.unwrap().spec.size, 2);
}

#[derive(Default)]
struct Counts(Mutex<Vec<String>>);

impl ClientMetrics for Counts {
    fn request(&self, code: &str, method: &str, host: &str) {
        self.0.lock().unwrap().push(format!("{method} {host} {code}"));
    }

    fn request_size(&self, verb: &str, _: &str, bytes: u64) {
        self.0.lock().unwrap().push(format!("{verb} sent {}", if bytes > 0 { "some" } else { "nothing" }));
    }

    fn response_size(&self, verb: &str, _: &str, bytes: u64) {
        self.0.lock().unwrap().push(format!("{verb} got {}", if bytes > 0 { "some" } else { "nothing" }));
    }

    fn retry(&self, code: &str, verb: &str, _: &str) {
        self.0.lock().unwrap().push(format!("{verb} again after {code}"));
    }
}

#[tokio::test(start_paused = true)]
async fn every_request_and_retry_is_measured() {
    let env = environment().await;
    let counts = Arc::new(Counts::default());
    let client = Client::builder(env.client(), "test").metrics(counts.clone()).host("embedded").build();
    env.server().faults().add(busy(1).once());
    client.create(&widget("a", 1)).await.unwrap();
    env.server().faults().add(Rule::new(faults::Action::Reset).once());
    client.get(&key("a")).await.unwrap_err();
    let expected = [
        "POST sent some",
        "POST embedded 429",
        "POST got some",
        "POST again after 429",
        "POST sent some",
        "POST embedded 201",
        "POST got some",
        "GET sent nothing",
        "GET embedded <error>",
    ];
    assert_eq!(*counts.0.lock().unwrap(), expected);
}

/// Records the duration of requests, and their wait for the rate limiter.
#[derive(Default)]
struct Times(Mutex<Vec<String>>);

impl ClientMetrics for Times {
    fn request(&self, _: &str, _: &str, _: &str) {}

    fn request_duration(&self, verb: &str, host: &str, took: Duration) {
        self.0.lock().unwrap().push(format!("{verb} {host} took {took:?}"));
    }

    fn rate_limiter_duration(&self, verb: &str, host: &str, waited: Duration) {
        self.0.lock().unwrap().push(format!("{verb} {host} waited {waited:?}"));
    }
}

#[tokio::test(start_paused = true)]
async fn durations_and_rate_limiter_waits_are_measured() {
    let env = environment().await;
    let times = Arc::new(Times::default());
    let client = Client::builder(env.client(), "test").metrics(times.clone()).host("embedded");
    let client = client.rate_limit(2.0, 1).unwrap().build();
    env.server().faults().add(Rule::new(faults::Action::DelayBefore(Duration::from_secs(3))).once());
    client.create(&widget("a", 1)).await.unwrap();
    client.get(&key("a")).await.unwrap();
    client.get(&key("a")).await.unwrap();
    let expected = [
        "POST embedded waited 0ns",
        "POST embedded took 3s",
        "GET embedded waited 0ns",
        "GET embedded took 0ns",
        "GET embedded waited 500ms",
        "GET embedded took 0ns",
    ];
    assert_eq!(*times.0.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_confined_client_refuses_other_namespaces_and_fills_in_its_own() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let confined = client.confined_to("default");
    let mut homeless = widget("a", 1);
    homeless.metadata.namespace = None;
    confined.create(&homeless).await.unwrap();
    let mut abroad = widget("b", 1);
    abroad.metadata.namespace = Some("kube-system".to_owned());
    let error = confined.create(&abroad).await.unwrap_err();
    let message =
        "create widgets.example.com kube-system/b: not sent: this client is confined to namespace default";
    assert_eq!(error.to_string(), message);

    client.create(&abroad).await.unwrap();
    assert_eq!(client.list::<Widget>().await.unwrap().items.len(), 2);
    assert_eq!(confined.list::<Widget>().await.unwrap().items.len(), 1, "all of the only namespace");
    assert_eq!(confined.list::<k8s_openapi::api::core::v1::Node>().await.unwrap().items.len(), 0);
}

#[tokio::test]
async fn dry_runs_store_nothing() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let trial = client.dry_run();
    assert_eq!(trial.create(&widget("a", 1)).await.unwrap().spec.size, 1);
    assert!(client.get(&key("a")).await.unwrap().is_none());
    let created = client.create(&widget("a", 1)).await.unwrap();
    trial.delete(&created).await.unwrap();
    trial.delete_all::<Widget>().in_namespace("default").await.unwrap();
    trial.merge_patch(&key("a"), &json!({ "spec": { "size": 2 } })).await.unwrap();
    assert_eq!(client.get(&key("a")).await.unwrap().unwrap().spec.size, 1);
}

#[tokio::test]
async fn unknown_fields_warn_or_are_refused() {
    let env = environment().await;
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&warnings);
    let handle = Warnings::Handle(Arc::new(move |warning| {
        noted.lock().unwrap().push(format!("{}: {}", warning.call.verb(), warning.text));
    }));
    let client = Client::builder(env.client(), "test").warnings(handle).build();
    client.create(&widget("a", 1)).await.unwrap();
    let odd = json!({ "spec": { "colour": "red" } });
    client.merge_patch(&key("a"), &odd).await.unwrap();
    assert_eq!(*warnings.lock().unwrap(), [r#"patch: unknown field "spec.colour""#]);
    let strict = client.field_validation(FieldValidation::Strict);
    let error = strict.merge_patch(&key("a"), &odd).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::BadRequest | ErrorKind::Invalid), "{error}");
    strict.merge_patch(&key("a"), &odd).field_validation(FieldValidation::Ignore).await.unwrap();
    assert_eq!(warnings.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn writes_are_in_the_name_of_the_field_manager() {
    let env = environment().await;
    let client = Client::new(env.client(), "one").field_manager("two");
    let managers = |map: &k8s_openapi::api::core::v1::ConfigMap| -> Vec<String> {
        map.metadata.managed_fields.iter().flatten().filter_map(|entry| entry.manager.clone()).collect()
    };
    let mut map = config_map("a");
    map.immutable = Some(true);
    assert_eq!(managers(&client.create(&map).await.unwrap()), ["two"]);
    map.metadata.name = Some("b".to_owned());
    let third = client.create(&map).field_manager("three").await.unwrap();
    assert_eq!(managers(&third), ["three"]);
}

#[tokio::test]
async fn invalid_names_are_not_sent() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let error = client.get(&key("../../secrets")).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NotSent);
    assert!(client.delete_key(&key("")).await.is_err(), "that would delete all");
}

#[tokio::test]
async fn a_delete_reports_the_state_of_the_deletion() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let created = client.create(&widget("a", 1)).await.unwrap();
    client.merge_patch(&key("a"), &json!({ "metadata": { "labels": { "x": "y" } } })).await.unwrap();
    let error = client.delete(&created).await.unwrap_err();
    assert!(
        error.to_string().ends_with("read the object again and repeat the change, as retry_on_conflict does"),
        "{error}"
    );
    let delete = client.delete(&created).any_version().propagation(Propagation::Foreground);
    assert_eq!(delete.await.unwrap(), Deletion::Begun, "it waits for its dependents");
    crate::support::gone(&client, &key("a")).await;
    assert_eq!(client.delete(&created).await.unwrap(), Deletion::NotFound);
}
