//! Rotations of self-managed certificates under load, in real time over sockets: no write fails.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use controller_runtime::{
    Client, Manager, ManagerOptions,
    serving::Endpoint,
    webhook::{Rule, SelfManagedCertificates, WebhookOptions, WebhookService},
};
use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::{Api, api::PostParams};
use kube_clock::{Clock, Epoch};
use kube_envtest::eventually;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    servers::anywhere,
    support::{Running, Widget, widget},
};

/// Requests that pass the webhook.
const REQUESTS: usize = 10_000;
/// Clients that send requests at the start, and as many more after each rotation: they need connections of their own, which are shown
/// the new certificate.
const CLIENTS: usize = 8;
/// Age of the first certificate, which is replaced after two thirds of a day.
const AGE: Duration = Duration::from_secs(17 * 60 * 60);
/// Time limit of a rotation.
const ROTATION: Duration = Duration::from_secs(60);

/// Sends requests to a cluster while the certificate of a webhook is replaced because of its age, and again because another replica wants
/// a further name in it.
pub(crate) async fn rotate_twice(kube: kube::Client, namespace: &str) {
    let port = free_port();
    // The API server reaches the webhook by the name that it looks up, and verifies that of the Service.
    let service: Service = serde_json::from_value(json!({
        "metadata": { "name": "hooks", "namespace": namespace },
        "spec": { "type": "ExternalName", "externalName": "localhost", "ports": [{ "port": port }] },
    }))
    .unwrap();
    Api::namespaced(kube.clone(), namespace).create(&PostParams::default(), &service).await.unwrap();
    let service = WebhookService::new(namespace, "hooks").port(port);
    let certificates = SelfManagedCertificates::new(&service)
        .valid_for(Duration::from_secs(24 * 60 * 60))
        .propagation(Duration::from_secs(3));
    let reviewed = Arc::new(AtomicUsize::new(0));
    let replica = |epoch: Option<Epoch>, address: Endpoint, certificates: SelfManagedCertificates| {
        let webhooks = WebhookOptions::default()
            .certificates(certificates)
            .apply_configurations(&service)
            .bind_address(address);
        let options = ManagerOptions::new("test").webhooks(webhooks).epoch(epoch);
        let manager = Manager::new(kube.clone(), options);
        let selector = LabelSelector {
            match_labels: Some([("kubernetes.io/metadata.name".to_owned(), namespace.to_owned())].into()),
            ..LabelSelector::default()
        };
        let reviewed = Arc::clone(&reviewed);
        let check = move |_| {
            reviewed.fetch_add(1, Ordering::Relaxed);
            async { Ok(()) }
        };
        manager.webhooks().validating(Rule::of::<Widget>().namespace_selector(selector), check).unwrap();
        manager
    };
    let serving = async |manager: &Manager, least: u64| {
        eventually(ROTATION, async || {
            let metrics = manager.metrics().encode_prometheus();
            let changes = metrics.lines().find_map(|line| {
                line.strip_prefix("controller_runtime_webhook_certificate_changes_total ")?
                    .parse::<u64>()
                    .ok()
            });
            changes
                .filter(|changes| *changes >= least)
                .map(drop)
                .ok_or_else(|| format!("{changes:?} changes"))
        })
        .await
        .expect("the certificate is replaced");
    };

    // The first certificate is of a replica whose clock is late.
    let past = Epoch::starting_now(Clock::new(None).now() - AGE);
    let first = replica(Some(past), anywhere(), certificates.clone());
    let running = Running::start(first.clone()).await;
    serving(&first, 1).await;
    running.stop().await.unwrap();

    let address = Endpoint::At(([127, 0, 0, 1], port).into());
    let second = replica(None, address, certificates.clone());
    let _second = Running::start(second.clone()).await;
    serving(&second, 1).await;
    let load = Load::new(Client::new(kube.clone(), "load"), namespace);
    let mut clients = JoinSet::new();
    load.add_clients(&mut clients);
    serving(&second, 2).await;
    load.add_clients(&mut clients);
    let _third = Running::start(replica(None, anywhere(), certificates.dns_name("hooks.example.com"))).await;
    serving(&second, 3).await;
    load.add_clients(&mut clients);
    load.rotated.cancel();
    let failures: Vec<String> = clients.join_all().await.into_iter().filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{failures:?}");
    let sent = load.sent.load(Ordering::Relaxed);
    assert!(sent >= REQUESTS, "{sent}");
    assert!(reviewed.load(Ordering::Relaxed) >= sent, "every write was reviewed");
}

/// Clients that create Widgets without storing them.
struct Load {
    client: Client,
    widget: Widget,
    sent: Arc<AtomicUsize>,
    /// Ends the clients, as soon as all requests are sent.
    rotated: CancellationToken,
}

impl Load {
    fn new(client: Client, namespace: &str) -> Self {
        let mut widget = widget("a", 1);
        widget.metadata.namespace = Some(namespace.to_owned());
        Self { client, widget, sent: Arc::default(), rotated: CancellationToken::new() }
    }

    fn add_clients(&self, clients: &mut JoinSet<Result<(), String>>) {
        for _ in 0..CLIENTS {
            let (client, widget) = (self.client.clone(), self.widget.clone());
            let (sent, rotated) = (Arc::clone(&self.sent), self.rotated.clone());
            clients.spawn(async move {
                while !rotated.is_cancelled() || sent.load(Ordering::Relaxed) < REQUESTS {
                    let created = client.create(&widget).dry_run().await;
                    created.map_err(|error| format!("{error:?}"))?;
                    sent.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
        }
    }
}

/// Returns a port that is free now.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}
