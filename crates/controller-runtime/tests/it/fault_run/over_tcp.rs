//! Faults over TCP, in a separate process in which all sockets are counted.

use std::{sync::Arc, time::Duration};

use controller_runtime::{Client, cache::Retain};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube_apiserver_embedded::faults::{Action as Fault, Failure, Faults, Rule, Verb, WatchFault, When};
use kube_envtest::{Environment, Transport, eventually};
use tokio::time::sleep;

use super::{MINUTE, OPERATOR, act, converged, name, start};
use crate::support::{Widget, alone_in_real_time, sockets, widget};

/// Both ends of each connection are in this process.
#[test]
fn a_storm_over_tcp_leaves_no_socket() {
    alone_in_real_time("fault_run::over_tcp::a_storm_over_tcp_leaves_no_socket", async || {
        let env = Environment::builder()
            .transport(Transport::Tcp(([127, 0, 0, 1], 0).into()))
            .crd::<Widget>()
            .start()
            .await
            .unwrap();
        let idle = sockets();
        storm_over_tcp(&env, idle).await;
        let gone = eventually(Duration::from_secs(20), async || match sockets() {
            now if now <= idle => Ok(()),
            now => Err(format!("{now} sockets, and {idle} before the storm")),
        });
        gone.await.unwrap();
    });
}

async fn storm_over_tcp(env: &Environment, idle: usize) {
    const OBJECTS: usize = 12;
    let (operator, connection) = (connection(env).await, connection(env).await);
    let user = Client::builder(connection.clone(), "user").seed(1).build();
    for number in 0..OBJECTS {
        user.create(&widget(&name(number), 1)).await.unwrap();
    }
    let in_work = Arc::default();
    let (manager, _, running) = start(operator, 1, Retain::default(), &in_work).await;
    converged(&connection, OBJECTS, MINUTE, 1).await;
    let (now, at_least) = (sockets(), idle + 2 * 3);
    assert!(now >= at_least, "{now} sockets: two watches of the manager, and a connection of the user");

    let faults = env.server().faults();
    misbehave_over_tcp(&faults);
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..200 {
        act(&user, &name(rng.usize(..OBJECTS)), &mut rng).await;
        sleep(Duration::from_millis(10)).await;
    }
    faults.clear();
    let injected = faults.journal().len();
    converged(&connection, OBJECTS, 2 * MINUTE, 1).await;
    running.stop().await.unwrap();
    drop(manager);
    assert!(injected > 20, "only {injected} faults");
    let state = in_work.lock().unwrap();
    assert_eq!((&state.twice, state.now.len()), (&Vec::new(), 0));
}

/// Returns a separate connection to the environment's socket.
async fn connection(env: &Environment) -> kube::Client {
    let kubeconfig = Kubeconfig::from_yaml(env.kubeconfig().unwrap()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    kube::Client::try_from(config.unwrap()).unwrap()
}

/// Injects faults that end soon, because time is real: none for which a client waits long.
fn misbehave_over_tcp(faults: &Faults) {
    let all = [
        Fault::Fail(Failure::Conflict),
        Fault::Fail(Failure::Internal),
        Fault::Reset,
        Fault::LoseResponse,
        Fault::Truncate(100),
    ];
    for action in all {
        let write = Rule::new(action.clone()).field_manager(OPERATOR).when(When::Probability(0.05));
        let list = Rule::new(action).verb(Verb::List).when(When::Probability(0.02));
        for rule in [write, list] {
            faults.add(rule);
        }
    }
    let watches = [WatchFault::CloseAfterEvents(5), WatchFault::ExpireAfterEvents(11)];
    let watches = watches.map(Fault::Watch).into_iter().chain([Fault::Reset, Fault::Truncate(3000)]);
    for action in watches {
        faults.add(Rule::new(action).verb(Verb::Watch).when(When::Probability(0.2)));
    }
}
