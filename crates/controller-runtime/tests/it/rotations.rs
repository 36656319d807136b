//! Rotations of self-managed certificates under load, in real time over sockets: no write fails. On the embedded API server, and on a
//! genuine one if `KUBEBUILDER_ASSETS` is set.

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
use k8s_openapi::{
    api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Service},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{Api, api::PostParams};
use kube_clock::{Clock, Epoch};
use kube_envtest::{eventually, eventually_object};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    servers::anywhere,
    support::{Running, Widget, environment, widget},
};

/// Clients that send requests at the start, and as many more after each rotation: they need connections of their own, which are shown
/// the new certificate.
const CLIENTS: usize = 8;
/// Age of the first certificate, which is replaced after two thirds of a day.
const AGE: Duration = Duration::from_secs(17 * 60 * 60);
/// Time limit of a rotation.
const ROTATION: Duration = Duration::from_secs(60);

#[tokio::test]
async fn no_write_fails_while_certificates_rotate_twice() {
    let env = environment().await;
    // Fewer than on the genuine server, because server, operator and clients share a thread without optimisation.
    rotate_twice(env.client(), "default", 2_000).await;
}

/// Sends at least `requests` to a cluster while the certificate of a webhook is replaced because of its age, and again because another
/// replica wants another name in it.
pub(crate) async fn rotate_twice(kube: kube::Client, namespace: &str, requests: usize) {
    let port = free_port();
    // The API server connects to the external name of the Service, and verifies the certificate for the Service's own name.
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

    // The first certificate comes from a replica with a slow clock.
    let past = Epoch::starting_now(Clock::new(None).now() - AGE);
    let first = replica(Some(past), anywhere(), certificates.clone());
    let running = Running::start(first.clone()).await;
    serving(&first, 1).await;
    running.stop().await.unwrap();

    let address = Endpoint::At(([127, 0, 0, 1], port).into());
    let second = replica(None, address, certificates.clone());
    let _second = Running::start(second.clone()).await;
    serving(&second, 1).await;
    // A write before the webhook is configured is not reviewed.
    let configurations = Api::<ValidatingWebhookConfiguration>::all(kube.clone());
    let is_trusted = |configuration: &ValidatingWebhookConfiguration| {
        let webhooks = configuration.webhooks.iter().flatten();
        let mut bundles = webhooks.map(|webhook| webhook.client_config.ca_bundle.as_ref());
        if bundles.all(|bundle| bundle.is_some()) { Ok(()) } else { Err("no caBundle".to_owned()) }
    };
    let name = format!("{namespace}-hooks");
    eventually_object(&configurations, &name, ROTATION, is_trusted).await.expect("it is applied");
    eventually(ROTATION, async || {
        let before = reviewed.load(Ordering::Relaxed);
        let mut widget = widget("a", 1);
        widget.metadata.namespace = Some(namespace.to_owned());
        let created = Client::new(kube.clone(), "load").create(&widget).dry_run().await;
        created.map_err(|error| error.to_string())?;
        let is_reviewed = reviewed.load(Ordering::Relaxed) > before;
        is_reviewed.then_some(()).ok_or_else(|| "the API server does not know the webhook".to_owned())
    })
    .await
    .expect("the webhook is called");
    reviewed.store(0, Ordering::Relaxed);
    let load = Load::new(Client::new(kube.clone(), "load"), namespace, requests);
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
    assert!(sent >= requests, "{sent}");
    assert!(reviewed.load(Ordering::Relaxed) >= sent, "every write was reviewed");
}

/// Clients that create Widgets without storing them.
struct Load {
    client: Client,
    widget: Widget,
    sent: Arc<AtomicUsize>,
    /// Least number of requests.
    requests: usize,
    /// Ends the clients, as soon as all requests are sent.
    rotated: CancellationToken,
}

impl Load {
    fn new(client: Client, namespace: &str, requests: usize) -> Self {
        let mut widget = widget("a", 1);
        widget.metadata.namespace = Some(namespace.to_owned());
        Self { client, widget, sent: Arc::default(), requests, rotated: CancellationToken::new() }
    }

    fn add_clients(&self, clients: &mut JoinSet<Result<(), String>>) {
        for _ in 0..CLIENTS {
            let (client, widget) = (self.client.clone(), self.widget.clone());
            let (sent, requests, rotated) = (Arc::clone(&self.sent), self.requests, self.rotated.clone());
            clients.spawn(async move {
                while !rotated.is_cancelled() || sent.load(Ordering::Relaxed) < requests {
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
