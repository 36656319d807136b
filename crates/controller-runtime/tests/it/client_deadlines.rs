//! Requests without an answer.

use std::{collections::BTreeMap, future::IntoFuture, time::Duration};

use controller_runtime::{
    Action, Builder, Client, ClientError, Context, ObjectKey, ReconcileError, Reconciler,
    client::{self, ErrorKind},
};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::WatchEvent;
use kube_apiserver_embedded::faults::{Action as Fault, Failure, Rule, Verb};
use kube_envtest::{Environment, Transport};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{Running, Widget, config_map, environment, key, manager, widget};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// Returns the outcome of a request, which must come within an hour, and how long it took.
async fn outcome<T>(
    request: impl IntoFuture<Output = Result<T, ClientError>>,
) -> (Result<T, ClientError>, Duration) {
    let began = Instant::now();
    let outcome = timeout(HOUR, request.into_future()).await.expect("a request ends");
    (outcome, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_request_fails_after_a_minute() {
    let env = environment().await;
    let client = Client::builder(env.client(), "test").host("10.96.0.1:443").build();
    env.server().faults().add(Rule::new(Fault::Silence));
    let (read, took) = outcome(client.get(&key("a"))).await;
    assert_eq!(took, MINUTE);
    let error = read.unwrap_err();
    let message =
        "get widgets.example.com default/a: no answer from the API server at 10.96.0.1:443 within 60s";
    assert_eq!(error.to_string(), message);
    assert!(error.is_timeout() && !error.is_outcome_unknown(), "a read changes nothing");
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_write_that_timed_out_is_unknown() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let faults = env.server().faults();
    faults.add(Rule::new(Fault::Silence).verb(Verb::Create).once());
    faults.add(Rule::new(Fault::WithholdResponse).verb(Verb::Create));
    for was_carried_out in [false, true] {
        let (created, took) = outcome(client.create(&widget("a", 1))).await;
        assert_eq!(took, MINUTE);
        let error = created.unwrap_err();
        let message = "create widgets.example.com default/a: no answer from the API server within 60s; \
                    it may or may not have been carried out";
        assert_eq!(error.to_string(), message);
        assert!(error.is_timeout() && error.is_outcome_unknown());
        assert_eq!(error.kind(), &ErrorKind::DeadlineExceeded { timeout: MINUTE });
        assert_eq!(client.get(&key("a")).await.unwrap().is_some(), was_carried_out);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stops_within_its_body_times_out() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 1)).await.unwrap();
    env.server().faults().add(Rule::new(Fault::Stall(10)));
    let (read, took) = outcome(client.list::<Widget>()).await;
    assert!(read.unwrap_err().is_timeout());
    assert_eq!(took, MINUTE);
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_request_overrides_that_of_its_client() {
    let env = environment().await;
    let built = Client::builder(env.client(), "test").request_timeout(30 * SECOND).build();
    let stored = built.create(&widget("a", 1)).await.unwrap();
    env.server().faults().add(Rule::new(Fault::Silence));
    let of_client = built.request_timeout(7 * SECOND);
    assert_eq!(outcome(built.get(&key("a"))).await.1, 30 * SECOND);
    assert_eq!(outcome(of_client.get(&key("a"))).await.1, 7 * SECOND);
    assert_eq!(outcome(of_client.get(&key("a")).request_timeout(SECOND)).await.1, SECOND);
    assert_eq!(outcome(of_client.list::<Widget>().request_timeout(SECOND)).await.1, SECOND);
    assert_eq!(outcome(of_client.apply(&config_map("a")).request_timeout(SECOND)).await.1, SECOND);
    assert_eq!(outcome(of_client.delete(&stored).request_timeout(SECOND)).await.1, SECOND);
    let all = of_client.delete_all::<Widget>().in_namespace("default").request_timeout(SECOND);
    assert_eq!(outcome(all).await.1, SECOND);
    let status = of_client.subresource(&key("a"), "status").request_timeout(SECOND);
    assert_eq!(outcome(status.get::<Widget>()).await.1, SECOND);
    let endless = of_client.get(&key("a")).request_timeout(Duration::MAX).into_future();
    assert!(timeout(10 * MINUTE, endless).await.is_err(), "a time beyond all clocks is no deadline");
}

#[tokio::test(start_paused = true)]
async fn a_watch_must_begin_within_the_timeout_and_may_then_be_silent() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let faults = env.server().faults();
    let silence = faults.add(Rule::new(Fault::Silence).verb(Verb::Watch));
    let (begun, took) = outcome(client.watch::<Widget>("").stream().try_next()).await;
    assert!(begun.unwrap_err().is_timeout());
    assert_eq!(took, MINUTE);

    faults.remove(silence);
    let mut events = client.watch::<Widget>("").timeout(4 * HOUR).stream();
    client.create(&widget("a", 1)).await.unwrap();
    assert!(matches!(events.try_next().await.unwrap(), Some(WatchEvent::Added(_))));
    faults.add(Rule::new(Fault::Silence).verb(Verb::List));
    let silent = timeout(2 * HOUR, async {
        while let Some(event) = events.try_next().await.unwrap() {
            assert!(matches!(event, WatchEvent::Bookmark(_)));
        }
    });
    assert!(silent.await.is_err(), "it is open");
    client.create(&widget("b", 1)).await.unwrap();
    let next = events.try_filter(|event| std::future::ready(!matches!(event, WatchEvent::Bookmark(_))));
    let next = std::pin::pin!(next).try_next().await.unwrap();
    assert!(matches!(next, Some(WatchEvent::Added(_))));
}

#[tokio::test(start_paused = true)]
async fn requested_repetitions_share_the_timeout_of_one_request() {
    let env = environment().await;
    let client = Client::new(env.client(), "test");
    let busy = Failure::TooManyRequests { retry_after: 25 * SECOND };
    let faults = env.server().faults();
    faults.add(Rule::new(Fault::Fail(busy)));
    let (refused, took) = outcome(client.get(&key("a"))).await;
    let error = refused.unwrap_err();
    assert!(error.is_too_many_requests(), "the answer is passed on, not the end of the time: {error}");
    assert_eq!((took, error.retry_after()), (50 * SECOND, Some(25 * SECOND)));

    faults.clear();
    faults.add(Rule::new(Fault::Fail(busy)).at_most(2));
    faults.add(Rule::new(Fault::Silence));
    let (silent, took) = outcome(client.get(&key("a"))).await;
    assert!(silent.unwrap_err().is_timeout());
    assert_eq!(took, MINUTE, "the third attempt has what the first two left");
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_the_clients_own_rate_limit_is_not_counted() {
    let env = environment().await;
    let client = Client::builder(env.client(), "test").rate_limit(0.01, 1).unwrap().build();
    client.get(&key("a")).await.unwrap();
    let (read, took) = outcome(client.get(&key("a"))).await;
    assert!(read.is_ok());
    assert_eq!(took, 100 * SECOND);
}

/// A reconciler that writes a ConfigMap for each Widget.
struct Writes(Client);

impl Reconciler for Writes {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, key: &ObjectKey<Widget>, _: &Context) -> Result<Action, ReconcileError> {
        let mut map = config_map(key.name());
        map.data = Some(BTreeMap::from([("of".to_owned(), key.name().to_owned())]));
        self.0.apply(&map).await?;
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_with_an_unanswered_write_is_retried_and_sees_the_write() {
    let env = environment().await;
    let faults = env.server().faults();
    faults.add(Rule::new(Fault::Silence).verb(Verb::Patch).resource("", "configmaps").at_most(2));
    faults.add(Rule::new(Fault::WithholdResponse).verb(Verb::Patch).resource("", "configmaps").once());
    let manager = manager(&env);
    manager.metrics().register_rest_client_metrics();
    let maps = manager.cached::<ConfigMap>();
    Builder::managed_by(&manager).for_kind::<Widget>().complete(Writes(manager.client())).unwrap();
    let running = Running::start(manager.clone()).await;
    let began = Instant::now();
    Client::new(env.client(), "user").create(&widget("a", 1)).await.unwrap();
    let map = ObjectKey::<ConfigMap>::new("default", "a");
    // The third attempt succeeds without an answer: only the watch reports it.
    while maps.get(&map).unwrap().is_none() {
        sleep(SECOND).await;
    }
    assert!(began.elapsed() < 2 * MINUTE + 10 * SECOND, "{:?}", began.elapsed());
    sleep(2 * MINUTE).await;
    assert_eq!(faults.journal().len(), 3);
    let metrics = manager.metrics().encode();
    for line in [
        r#"rest_client_requests_total{code="<error>",method="PATCH",host=""} 3"#,
        r#"rest_client_requests_total{code="200",method="PATCH",host=""} 1"#,
        r#"controller_runtime_reconcile_errors_total{controller="widget"} 3"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_connection_that_closes_before_the_answer_fails_the_request_at_once() {
    let transport = Transport::Tcp(([127, 0, 0, 1], 0).into());
    let env = Environment::builder().transport(transport).crd::<Widget>().start().await.unwrap();
    let host = env.listener().unwrap().local_addr().to_string();
    let config = kube::Config::new(env.listener().unwrap().url().parse().unwrap());
    let connection = client::connect(config).unwrap();
    let client = Client::builder(connection, "test").host(&*host).build();
    let faults = env.server().faults();
    faults.add(Rule::new(Fault::LoseResponse).verb(Verb::Create).once());
    let error = client.create(&widget("a", 1)).await.unwrap_err();
    assert!(error.is_outcome_unknown() && !error.is_timeout(), "{error}");
    let message = format!("create widgets.example.com default/a: the API server at {host} did not answer: ");
    assert!(error.to_string().starts_with(&message), "{error}");
    assert!(client.get(&key("a")).await.unwrap().is_some());
    assert_eq!(faults.journal().len(), 1, "it was not sent again");
}
