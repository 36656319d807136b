//! Connections to the embedded API server over sockets.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{
    Client, Manager, ManagerOptions,
    client::{Patch, connect},
};
use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{PostParams, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use kube_apiserver_embedded::{
    ListenOptions, Listener,
    faults::{Action as Fault, Failure, Rule, Verb},
};
use kube_envtest::Environment;
use serde_json::json;
use tokio::{io::copy_bidirectional, net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    servers::connect as connect_tcp,
    support::{Widget, config_map, environment, key, widget},
};

/// A load balancer in front of a listener.
struct Relay {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    /// Ends the forwarding on existing connections, both ends of which stay open.
    lost: Arc<Mutex<CancellationToken>>,
    _task: JoinSet<()>,
}

impl Relay {
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (accepted, lost) = (Arc::new(AtomicUsize::new(0)), Arc::<Mutex<CancellationToken>>::default());
        let (count, losing) = (Arc::clone(&accepted), Arc::clone(&lost));
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                count.fetch_add(1, SeqCst);
                let lost = losing.lock().unwrap().clone();
                connections.spawn(async move {
                    let mut server = connect_tcp(server).await;
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => {}
                        () = lost.cancelled() => std::future::pending().await,
                    }
                });
            }
        });
        Self { address, accepted, lost, _task: task }
    }

    fn accepted(&self) -> usize {
        self.accepted.load(SeqCst)
    }

    /// Loses existing connections silently on both sides.
    fn lose(&self) {
        let mut lost = self.lost.lock().unwrap();
        std::mem::take(&mut *lost).cancel();
    }
}

/// Returns the configuration of a client that reaches `listener` through `relay`.
async fn config(listener: &Listener, relay: &Relay) -> kube::Config {
    let kubeconfig = Kubeconfig::from_yaml(&listener.kubeconfig()).unwrap();
    let mut config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let url = listener.url().replace(&listener.local_addr().to_string(), &relay.address.to_string());
    config.cluster_url = url.parse().unwrap();
    config
}

async fn listen(env: &Environment, options: ListenOptions) -> (Listener, Relay) {
    let listener = env.server().listen_with("127.0.0.1:0".parse().unwrap(), options).await.unwrap();
    let relay = Relay::to(listener.local_addr()).await;
    (listener, relay)
}

#[tokio::test]
async fn a_thousand_watches_over_tls_share_one_connection() {
    let env = environment().await;
    let (listener, relay) = listen(&env, ListenOptions::default().tls()).await;
    let connection = connect(config(&listener, &relay).await).unwrap();
    let maps: Api<ConfigMap> = Api::all(connection.clone());
    let parameters = WatchParams::default().timeout(290);
    let watches = join_all((0..1000).map(|_| maps.watch(&parameters, "0"))).await;
    assert!(watches.iter().all(Result::is_ok));
    assert_eq!(relay.accepted(), 1);
    let client = Client::new(connection, "test");
    client.create(&config_map("a")).await.unwrap();
    assert_eq!(relay.accepted(), 2, "the first one has all the streams that the server allows");
}

#[tokio::test]
async fn large_answers_arrive_completely_over_tls() {
    let env = environment().await;
    let (listener, relay) = listen(&env, ListenOptions::default().tls()).await;
    for disable_compression in [false, true] {
        let mut config = config(&listener, &relay).await;
        config.disable_compression = disable_compression;
        let client = Client::new(connect(config).unwrap(), "test");
        for number in 0..5 {
            let mut map = config_map(&format!("map-{number}"));
            map.metadata.labels = Some([("size".to_owned(), "large".to_owned())].into());
            map.data = Some([("text".to_owned(), "0123456789abcdef".repeat(4096))].into());
            client.apply(&map).await.unwrap();
        }
        let maps = client.list::<ConfigMap>().labels("size=large").await.unwrap().items;
        let lengths: Vec<usize> = maps.iter().map(|map| map.data.as_ref().unwrap()["text"].len()).collect();
        assert_eq!(lengths, [65536; 5]);
    }
}

#[tokio::test]
async fn a_request_on_a_half_open_connection_times_out_and_the_next_one_succeeds() {
    let env = environment().await;
    let short = Duration::from_millis(200);
    for options in [ListenOptions::default(), ListenOptions::default().tls()] {
        let (listener, relay) = listen(&env, options).await;
        let connection = connect(config(&listener, &relay).await).unwrap();
        let client = Client::new(connection, "test");
        assert!(client.get(&key("a")).await.unwrap().is_none());
        relay.lose();
        let size = Patch::merge(&json!({ "spec": { "size": 2 } }));
        let error = client.patch(&key("a"), size).request_timeout(short).await.unwrap_err();
        assert!(error.is_timeout() && error.is_outcome_unknown(), "{error}");
        if listener.certificate_authority().is_none() {
            assert!(client.get(&key("a")).await.unwrap().is_none());
            assert_eq!(relay.accepted(), 2);
        }
    }
}

#[tokio::test]
async fn an_unreachable_server_is_named_once_with_the_reason() {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket); // the port is closed now
    for scheme in ["http", "https"] {
        let mut config = kube::Config::new(format!("{scheme}://{address}").parse().unwrap());
        config.accept_invalid_certs = true;
        let client = Client::new(connect(config).unwrap(), "test");
        let error = client.get(&key("a")).await.unwrap_err();
        let reason = std::io::Error::from_raw_os_error(111); // ECONNREFUSED
        let message = format!(
            "get widgets.example.com default/a: the API server at {address} did not answer: {reason}"
        );
        assert_eq!(error.to_string(), message);
        assert!(std::error::Error::source(&error).is_none(), "what would be said twice");
    }
}

#[tokio::test]
async fn a_kube_client_with_retries_does_not_repeat_requests() {
    let env = environment().await;
    let (listener, relay) = listen(&env, ListenOptions::default()).await;
    let config = config(&listener, &relay).await;
    assert!(config.default_retry, "as kube::Client::try_default has it");
    let repeats = kube::Client::try_from(config).unwrap();
    let faults = env.server().faults();
    faults.add(Rule::new(Fault::Fail(Failure::Timeout)).verb(Verb::Create));
    let manager = Manager::new(repeats.clone(), ManagerOptions::new("test"));
    for client in [Client::new(repeats, "test"), manager.client(), manager.ungated_client()] {
        let before = faults.journal().len();
        let error = client.create(&widget("a", 1)).await.unwrap_err();
        assert!(error.is_timeout() && error.is_outcome_unknown(), "{error}");
        assert_eq!(faults.journal().len(), before + 1);
        let widgets: Api<Widget> = Api::default_namespaced(client.kube().clone());
        widgets.create(&PostParams::default(), &widget("a", 1)).await.unwrap_err();
        assert_eq!(faults.journal().len(), before + 2);
    }
}
