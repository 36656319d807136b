//! The clients of a manager.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{
    Manager, ManagerOptions, Verb as CallVerb,
    client::{Call, ErrorKind, Next, PermitError, WriteGate, WritePermit},
    leader_election::LeaderElectionOptions,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube_apiserver_embedded::faults::{Action, Injected, Rule, Verb};
use kube_envtest::{Environment, Transport};
use tokio::time::Instant;

use crate::{
    faults::{Fault, faulty},
    support::{Running, Widget, environment, key, widget},
};

/// An interceptor that refuses writes of objects with the name `forbidden`.
struct Forbids;

impl WriteGate for Forbids {
    fn permit(&self, call: &Call) -> Result<WritePermit, PermitError> {
        match call.name() {
            Some("forbidden") => Err(PermitError::new("it is forbidden")),
            _ => Ok(WritePermit::unlimited()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn client_options_apply_in_addition_to_those_of_the_manager() {
    let env = environment().await;
    let options = ManagerOptions::new("test")
        .seed(1)
        .leader_election(LeaderElectionOptions::new("the-lease").identity("one"))
        .client(|client| client.rate_limit(1.0, 1).unwrap().write_gate(Arc::new(Forbids)));
    let manager = Manager::new(env.client(), options);
    let cached = manager.cached::<Widget>();
    let (client, ungated) = (manager.client(), manager.ungated_client());
    let refused = client.create(&widget("early", 1)).await.unwrap_err();
    assert!(refused.to_string().contains("does not hold the lease"), "{refused}");

    let _running = Running::start(manager.clone()).await;
    manager.leads().wait_for(|leads| *leads).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let began = Instant::now();
    client.create(&widget("a", 1)).await.unwrap();
    ungated.create(&widget("b", 1)).await.unwrap();
    let c = client.create(&widget("c", 1)).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(2), "both have one limit");
    let seen = cached.get(&key("c")).unwrap().expect("an own write is seen at once");
    assert_eq!(seen.metadata.resource_version, c.metadata.resource_version);
    for client in [client, ungated] {
        let refused = client.create(&widget("forbidden", 1)).await.unwrap_err();
        assert!(
            matches!(refused.kind(), ErrorKind::NotPermitted(why) if why.to_string() == "it is forbidden")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn interceptors_of_the_options_see_the_calls_of_both_clients_and_of_no_cache() {
    let env = environment().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let options = ManagerOptions::new("test").seed(1).client(move |client| {
        let notes = Arc::clone(&notes);
        client.interceptor(move |call: Call, next: Next| {
            notes.lock().unwrap().push(format!("{} {}", call.verb(), call.subject()));
            async move {
                match call.verb() {
                    CallVerb::Delete => Err(call.refusal(403, "Forbidden", "the test refuses it")),
                    _ => next.run(call).await,
                }
            }
        })
    });
    let manager = Manager::new(env.client(), options);
    let cached = manager.cached::<Widget>();
    let _running = Running::start(manager.clone()).await;
    let created = manager.client().create(&widget("a", 1)).await.unwrap();
    assert!(cached.get(&key("a")).unwrap().is_some(), "an own write is seen at once");
    let refused = manager.ungated_client().delete(&created).await.unwrap_err();
    assert!(refused.is_forbidden(), "{refused}");
    let expected = ["create widgets.example.com default/a", "delete widgets.example.com default/a"];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn an_election_with_a_client_of_its_own_does_not_wait_for_that_of_the_manager() {
    let env = environment().await;
    let stuck = faulty(env.client(), |seen| if seen.is_about("leases") { Fault::Hang } else { Fault::Pass });
    let election = LeaderElectionOptions::new("the-lease").identity("one").client(env.client());
    let manager = Manager::new(stuck, ManagerOptions::new("test").seed(1).leader_election(election));
    let _running = Running::start(manager.clone()).await;
    let mut leads = manager.leads();
    let elected = leads.wait_for(|leads| *leads);
    assert!(tokio::time::timeout(Duration::from_secs(1), elected).await.is_ok());
    let metrics = manager.metrics().encode();
    assert!(metrics.contains("rest_client_requests_total{code=\"201\",method=\"POST\""), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn the_metrics_of_a_manager_measure_its_requests() {
    let env = environment().await;
    let options = ManagerOptions::new("test").host("api:443");
    let manager = Manager::new(env.client(), options.client(|client| client.rate_limit(2.0, 1).unwrap()));
    manager.metrics().register_rest_client_metrics();
    env.server().faults().add(Rule::new(Action::DelayBefore(Duration::from_secs(3))).verb(Verb::Create));
    manager.client().create(&widget("a", 1)).await.unwrap();
    for _ in 0..2 {
        manager.client().get(&key("a")).await.unwrap();
    }
    let metrics = manager.metrics().encode();
    for line in [
        r#"rest_client_request_duration_seconds_sum{verb="POST",host="api:443"} 3.0"#,
        r#"rest_client_request_duration_seconds_bucket{le="2.0",verb="POST",host="api:443"} 0"#,
        r#"rest_client_request_duration_seconds_bucket{le="4.0",verb="POST",host="api:443"} 1"#,
        r#"rest_client_request_duration_seconds_count{verb="GET",host="api:443"} 2"#,
        r#"rest_client_rate_limiter_duration_seconds_sum{verb="GET",host="api:443"} 0.5"#,
        r#"rest_client_rate_limiter_duration_seconds_count{verb="POST",host="api:443"} 1"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn a_manager_of_a_configuration_has_a_connection_for_its_work_and_one_for_the_election() {
    let transport = Transport::Tcp(([127, 0, 0, 1], 0).into());
    let env = Environment::builder().transport(transport).crd::<Widget>().start().await.unwrap();
    let faults = env.server().faults();
    faults.add(Rule::new(Action::DelayBefore(Duration::ZERO))); // only records requests
    let kubeconfig = Kubeconfig::from_yaml(env.kubeconfig().unwrap()).unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let election = LeaderElectionOptions::new("the-lease");
    let renamed = Manager::from_config(config.clone(), ManagerOptions::new("renamed").host("prod")).unwrap();
    let manager =
        Manager::from_config(config, ManagerOptions::new("test").leader_election(election)).unwrap();
    let _cached = manager.cached::<Widget>();
    let running = Running::start(manager.clone()).await;
    manager.leads().wait_for(|leads| *leads).await.unwrap();
    manager.client().create(&widget("a", 1)).await.unwrap();
    running.stop().await.unwrap();
    let metrics = manager.metrics().encode();
    let host = format!("host=\"{}\"", env.listener().unwrap().local_addr());
    let requests: Vec<_> =
        metrics.lines().filter(|line| line.starts_with("rest_client_requests_total{")).collect();
    assert!(!requests.is_empty() && requests.iter().all(|line| line.contains(&host)), "{requests:?}");

    let journal = faults.journal();
    let asked: BTreeSet<_> = journal
        .iter()
        .filter_map(|entry| match &entry.what {
            Injected::Rule { request, .. } => Some((&*request.user_agent, &*request.resource)),
            _ => None,
        })
        .collect();
    let expected = [("test", "events"), ("test", "widgets"), ("test/leader-election", "leases")];
    assert_eq!(asked, expected.into());

    renamed.client().get(&key("a")).await.unwrap();
    assert!(renamed.metrics().encode().contains("host=\"prod\""), "the metrics have its name");
}
