//! Tests of certificates and configurations on the embedded API server, in paused time.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::{ConfigMap, Namespace, Secret},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::CustomResource;
use kube_clock::{Clock, Epoch};
use kube_envtest::{Environment, eventually};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::{io::duplex, sync::watch, task::JoinSet, time::sleep};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, UnixTime, pem::PemObject},
        time_provider::TimeProvider,
    },
};

use super::*;
use crate::{
    client::{Client, Patch},
    metrics::Metrics,
    object::ObjectKey,
    serving::{AdaptTls, Certificates, CurrentCertificate},
    webhook::{Registration, Rule, WebhookService, Webhooks},
};

const PATH: &str = "/check-config";
const MINUTE: Duration = Duration::from_secs(60);
/// Time between two connections of an API server.
const BETWEEN_CONNECTIONS: Duration = Duration::from_secs(12 * 60 + 7);

mod v1 {
    use super::*;

    #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1", kind = "Cart", namespaced)]
    pub(super) struct CartSpec {}
}

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v2", kind = "Cart", namespaced)]
struct CartSpec {}

impl From<v1::Cart> for Cart {
    fn from(v1: v1::Cart) -> Self {
        Self { metadata: v1.metadata, spec: CartSpec {} }
    }
}

impl From<Cart> for v1::Cart {
    fn from(hub: Cart) -> Self {
        Self { metadata: hub.metadata, spec: v1::CartSpec {} }
    }
}

fn service() -> WebhookService {
    WebhookService::new("system", "hooks")
}

async fn environment() -> Environment {
    let epoch = Epoch::starting_now("2026-01-01T00:00:00Z".parse().unwrap());
    let env = Environment::builder().epoch(epoch).crd::<Cart>().start().await.unwrap();
    create_namespace(&env, "system").await;
    env
}

async fn create_namespace(env: &Environment, name: &str) {
    let namespace = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
    let _: Namespace = client(env).create(&namespace).await.unwrap();
}

fn client(env: &Environment) -> Client {
    Client::new(env.client(), "test")
}

fn webhooks(metrics: &Metrics) -> Webhooks {
    let webhooks = Webhooks::new(metrics.webhooks(), 1 << 20);
    webhooks.validating(Rule::of::<ConfigMap>().path(PATH), async |_| Ok(())).unwrap();
    webhooks
}

/// A replica of an operator, without sockets.
struct Replica {
    webhooks: Webhooks,
    current: Arc<CurrentCertificate>,
    state: Arc<watch::Sender<KeeperState>>,
    metrics: Metrics,
    /// Dropping it ends the replica.
    _running: JoinSet<()>,
}

impl Replica {
    fn start(env: &Environment, certificates: Option<SelfManagedCertificates>, apply: bool) -> Self {
        let metrics = Metrics::default();
        Self::with(env, certificates, apply, webhooks(&metrics), metrics)
    }

    fn with(
        env: &Environment,
        certificates: Option<SelfManagedCertificates>,
        apply: bool,
        webhooks: Webhooks,
        metrics: Metrics,
    ) -> Self {
        let current = Arc::<CurrentCertificate>::default();
        let state = Arc::new(watch::Sender::new(KeeperState::Pending));
        let context = KeeperContext {
            client: client(env),
            clock: Clock::new(env.epoch()),
            webhooks: webhooks.clone(),
            metrics: metrics.webhooks(),
            current: Arc::clone(&current),
            state: Arc::clone(&state),
            name: "operator".into(),
        };
        let keeper =
            Keeper::new(certificates, apply.then(service), context).expect("there is something to keep");
        let mut running = JoinSet::new();
        running.spawn(keeper.run());
        Self { webhooks, current, state, metrics, _running: running }
    }

    async fn ready(&self) {
        self.state.subscribe().wait_for(|state| *state == KeeperState::Ready).await.unwrap();
    }

    fn is_ready(&self) -> bool {
        *self.state.borrow() == KeeperState::Ready
    }

    /// Value of a metric.
    fn metric(&self, name: &str) -> u64 {
        let text = self.metrics.encode();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.expect("it is registered").parse().unwrap()
    }

    fn changes(&self) -> u64 {
        self.metric("controller_runtime_webhook_certificate_changes_total")
    }
}

/// Time of the test for the validity of certificates.
#[derive(Debug)]
struct TestTime(Clock);

impl TimeProvider for TestTime {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// An API server, which sees a changed `caBundle` only after it has sent its next requests.
struct Caller {
    client: Client,
    clock: Clock,
    bundle: Vec<u8>,
    tls: TlsConnector,
}

impl Caller {
    async fn new(env: &Environment) -> Self {
        let (client, clock) = (client(env), Clock::new(env.epoch()));
        let bundle = bundle(&client).await;
        Self { tls: trusting(&bundle, clock), client, clock, bundle }
    }

    async fn refresh(&mut self) {
        let bundle = bundle(&self.client).await;
        if bundle != self.bundle {
            self.tls = trusting(&bundle, self.clock);
            self.bundle = bundle;
        }
    }

    /// Sends `requests` to the replica over one connection, and returns how many were answered with 200.
    async fn call(&mut self, replica: &Replica, requests: usize) -> Result<usize, crate::BoxError> {
        let (near, far) = duplex(1 << 16);
        let acceptor =
            Certificates::of_current(Arc::clone(&replica.current)).acceptor(false, &AdaptTls::default())?;
        let webhooks = replica.webhooks.clone();
        let mut server = JoinSet::new();
        server.spawn(async move {
            let Ok(stream) = acceptor.accept(far).await else { return };
            let service = service_fn(move |request: http::Request<Incoming>| {
                let webhooks = webhooks.clone();
                async move { Ok::<_, Infallible>(webhooks.serve(request).await.map(Full::new)) }
            });
            // An error means that the client has closed the connection.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        let stream = self.tls.connect("hooks.system.svc".try_into()?, near).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        server.spawn(async move {
            let _ = connection.await;
        });
        let mut answered = 0;
        for _ in 0..requests {
            let review = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "7", "operation": "CREATE", "object": { "metadata": { "name": "a" } },
            } });
            let request = http::Request::post(PATH).header("content-type", "application/json");
            let response =
                sender.send_request(request.body(Full::new(Bytes::from(review.to_string())))?).await?;
            let code = response.status();
            let body: serde_json::Value =
                serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?;
            answered += usize::from(code == 200 && body["response"]["allowed"] == true);
        }
        self.refresh().await;
        Ok(answered)
    }
}

/// A client that trusts the authorities in `bundle` alone.
fn trusting(bundle: &[u8], clock: Clock) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let config =
        ClientConfig::builder_with_details(Arc::new(ring::default_provider()), Arc::new(TestTime(clock)))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

async fn validating(client: &Client) -> Option<ValidatingWebhookConfiguration> {
    client.get(&ObjectKey::new((), "system-hooks")).await.unwrap()
}

/// The `caBundle` of the only validating webhook.
async fn bundle(client: &Client) -> Vec<u8> {
    let configuration = validating(client).await.expect("it is applied");
    let [webhook] = &configuration.webhooks.expect("it has webhooks")[..] else { panic!("there is one") };
    webhook.client_config.ca_bundle.clone().map(|bundle| bundle.0).unwrap_or_default()
}

/// Sends 10,000 requests to two replicas in two days, with a certificate that is replaced every 16 hours. Returns the replicas, or
/// the first failure.
async fn call_for_two_days(env: &Environment, propagation: Duration) -> Result<[Replica; 2], String> {
    let certificates = SelfManagedCertificates::new(&service())
        .valid_for(Duration::from_secs(86_400))
        .propagation(propagation);
    let start = || Replica::start(env, Some(certificates.clone()), true);
    let mut replicas = [start(), start()];
    for replica in &replicas {
        replica.ready().await;
    }
    let mut caller = Caller::new(env).await;
    for connection in 0..250 {
        match connection {
            // A restart before the first rotation, and one after it.
            50 | 90 => {
                let index = usize::from(connection == 90);
                replicas[index] = start();
                replicas[index].ready().await;
            }
            // The Secret is deleted between two rotations.
            125 => {
                let key = ObjectKey::<Secret>::new("system", "hooks-certificates");
                client(env).delete_key(&key).await.unwrap();
            }
            _ => {}
        }
        let replica = &replicas[connection % 2];
        assert!(replica.is_ready(), "connection {connection}: {:?}", *replica.state.borrow());
        match caller.call(replica, 40).await {
            Ok(40) => {}
            failed => return Err(format!("connection {connection}: {failed:?}")),
        }
        sleep(BETWEEN_CONNECTIONS).await;
    }
    Ok(replicas)
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_requests_across_rotations_and_restarts_are_answered() {
    let env = environment().await;
    // Longer than the time between two connections, after which the caller sees a changed bundle.
    let replicas =
        call_for_two_days(&env, BETWEEN_CONNECTIONS + MINUTE).await.expect("each request is answered");
    let expiry = "controller_runtime_webhook_certificate_expiry_timestamp_seconds{secret=\"system/hooks-certificates\"}";
    for replica in &replicas {
        assert!(replica.changes() >= 3, "one at the start, and two rotations: {}", replica.changes());
        assert!(replica.metric(expiry) > 1_767_000_000);
    }
    let secret: Secret = client(&env)
        .get(&ObjectKey::new("system", "hooks-certificates"))
        .await
        .unwrap()
        .expect("it was restored");
    let generations = secret.data.unwrap().keys().filter(|key| key.ends_with(".tls.key")).count();
    assert!((2..=4).contains(&generations), "expired ones are removed: {generations}");
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_is_served_before_its_authority_has_propagated_fails_requests() {
    let failure = call_for_two_days(&environment().await, Duration::ZERO)
        .await
        .err()
        .expect("the caller sees bundles late");
    assert!(failure.contains("UnknownIssuer"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn ca_bundles_of_the_service_alone_are_filled_in_and_restored() {
    let env = environment().await;
    let client = client(&env);
    let entry = |name: &str, service: &str| {
        json!({ "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
            "clientConfig": { "service": { "namespace": "system", "name": service, "path": PATH } } })
    };
    let webhooks = json!([entry("other.example.com", "other"), entry("ours.example.com", "hooks")]);
    let made: MutatingWebhookConfiguration =
        serde_json::from_value(json!({ "metadata": { "name": "from-yaml" }, "webhooks": webhooks })).unwrap();
    client.create(&made).await.unwrap();
    let replica = Replica::start(&env, Some(SelfManagedCertificates::new(&service()).secret("own")), false);
    replica.ready().await;
    let key = ObjectKey::<MutatingWebhookConfiguration>::new((), "from-yaml");
    let bundles = async || {
        let configuration = client.get(&key).await.unwrap().unwrap();
        let bundles =
            configuration.webhooks.unwrap().into_iter().map(|webhook| webhook.client_config.ca_bundle);
        bundles.collect::<Vec<_>>()
    };
    let filled = bundles().await;
    assert_eq!(filled[0], None, "the webhook of another Service");
    let secret: Secret = client.get(&ObjectKey::new("system", "own")).await.unwrap().unwrap();
    assert_eq!(filled[1].as_ref(), secret.data.unwrap().get("ca.crt"));

    let path = "/webhooks/1/clientConfig/caBundle";
    let spoilt = json!([{ "op": "replace", "path": path, "value": ByteString(b"nothing".to_vec()) }]);
    client.patch(&key, Patch::json(&spoilt)).await.unwrap();
    eventually(MINUTE, async || {
        (bundles().await == filled).then_some(()).ok_or("it is not restored yet".to_owned())
    })
    .await
    .unwrap();

    // A configuration that is created later is filled in as well.
    let mut later = made;
    later.metadata.name = Some("later".to_owned());
    client.create(&later).await.unwrap();
    eventually(MINUTE, async || {
        let configuration: MutatingWebhookConfiguration =
            client.get(&ObjectKey::new((), "later")).await.unwrap().unwrap();
        let bundle = configuration.webhooks.unwrap()[1].client_config.ca_bundle.clone();
        (bundle == filled[1]).then_some(()).ok_or("it is not filled in yet".to_owned())
    })
    .await
    .unwrap();
}

#[tokio::test(start_paused = true)]
async fn configurations_are_applied_and_follow_the_registrations() {
    let env = environment().await;
    let client = client(&env);
    let (metrics, set) = (Metrics::default(), Metrics::default());
    let webhooks = webhooks(&metrics);
    webhooks.register(vec![Registration::converter::<Cart, (v1::Cart,)>()]).unwrap();
    let unused = webhooks.register(vec![]).unwrap();
    let replica = Replica::with(&env, None, true, webhooks.clone(), set);
    replica.ready().await;
    let names = async || {
        let configuration = validating(&client).await;
        let webhooks = configuration.and_then(|configuration| configuration.webhooks).unwrap_or_default();
        webhooks.into_iter().map(|webhook| webhook.name).collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["check-config.configmaps.core"]);
    let definition: CustomResourceDefinition =
        client.get(&ObjectKey::new((), "carts.example.com")).await.unwrap().unwrap();
    let conversion = definition.spec.conversion.unwrap();
    let config = conversion.webhook.unwrap().client_config.unwrap();
    assert_eq!(
        (&*conversion.strategy, config.service.unwrap().path.as_deref()),
        ("Webhook", Some("/convert"))
    );
    assert_eq!(definition.spec.names.plural, "carts", "nothing else is changed");

    // Another program, such as cert-manager, sets the caBundle.
    let key = ObjectKey::<ValidatingWebhookConfiguration>::new((), "system-hooks");
    let bundle_set = json!([{ "op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "UEVN" }]);
    client.patch(&key, Patch::json(&bundle_set)).field_manager("cert-manager").await.unwrap();
    webhooks.unregister(unused);
    let rule = Rule::of::<Secret>().path("/check-secrets");
    webhooks.validating(rule, async |_| Ok(())).unwrap();
    let both = ["check-config.configmaps.core", "check-secrets.secrets.core"];
    eventually(MINUTE, async || {
        (names().await == both).then_some(()).ok_or("it is not applied yet".to_owned())
    })
    .await
    .unwrap();
    assert_eq!(
        validating(&client).await.unwrap().webhooks.unwrap()[0].client_config.ca_bundle,
        Some(ByteString(b"PEM".to_vec()))
    );

    // The next version of the operator has fewer webhooks.
    drop(replica);
    let replica = Replica::with(
        &env,
        None,
        true,
        {
            let webhooks = Webhooks::new(metrics.webhooks(), 1 << 20);
            webhooks.validating(Rule::of::<Secret>().path("/check-secrets"), async |_| Ok(())).unwrap();
            webhooks
        },
        Metrics::default(),
    );
    replica.ready().await;
    assert_eq!(names().await, ["check-secrets.secrets.core"]);
    client.delete_key(&key).await.unwrap();
    eventually(MINUTE, async || {
        (names().await == ["check-secrets.secrets.core"]).then_some(()).ok_or("it is missing".to_owned())
    })
    .await
    .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_another_program_is_not_overwritten() {
    let env = environment().await;
    let client = client(&env);
    let mut secret = Secret::default();
    secret.metadata.name = Some("hooks-certificates".to_owned());
    secret.metadata.namespace = Some("system".to_owned());
    secret.data = Some(BTreeMap::from([("password".to_owned(), ByteString(b"1234".to_vec()))]));
    let secret = client.create(&secret).await.unwrap();
    let replica = Replica::start(&env, Some(SelfManagedCertificates::new(&service())), false);
    let mut state = replica.state.subscribe();
    let failing = state.wait_for(|state| matches!(state, KeeperState::Failing(_))).await.unwrap().clone();
    let message = "Secret system/hooks-certificates cannot be used: it holds password, which the operator has not written: \
                   choose another Secret for the webhook certificates, or delete this one";
    assert_eq!(failing, KeeperState::Failing(message.to_owned()));
    assert_eq!(client.get(&ObjectKey::of(&secret).unwrap()).await.unwrap(), Some(secret.clone()));
    // Once the secret is deleted, the operator makes its own, without a restart.
    client.delete(&secret).await.unwrap();
    replica.ready().await;
    assert!(replica.metric("controller_runtime_webhook_certificate_errors_total") >= 1);
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_is_missing_is_reported_until_it_is_installed() {
    let env = Environment::builder().start().await.unwrap();
    let metrics = Metrics::default();
    let webhooks = webhooks(&metrics);
    webhooks.register(vec![Registration::converter::<Cart, (v1::Cart,)>()]).unwrap();
    let replica = Replica::with(&env, None, true, webhooks, metrics);
    let mut state = replica.state.subscribe();
    let failing = state.wait_for(|state| matches!(state, KeeperState::Failing(_))).await.unwrap().clone();
    let message =
        "CustomResourceDefinition carts.example.com, which the operator converts, does not exist: install it";
    assert_eq!(failing, KeeperState::Failing(message.to_owned()));
    client(&env).create(&<Cart as kube::CustomResourceExt>::crd()).await.unwrap();
    replica.ready().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_namespace_of_the_secret_is_reported_until_it_is_created() {
    let env = environment().await;
    let service = WebhookService::new("elsewhere", "hooks");
    let replica = Replica::start(&env, Some(SelfManagedCertificates::new(&service)), false);
    let mut state = replica.state.subscribe();
    let failing = state.wait_for(|state| matches!(state, KeeperState::Failing(_))).await.unwrap().clone();
    let KeeperState::Failing(message) = failing else { panic!("it fails") };
    assert!(message.contains("namespaces \"elsewhere\" not found"), "{message}");
    sleep(10 * MINUTE).await;
    let errors = replica.metric("controller_runtime_webhook_certificate_errors_total");
    assert!((3..60).contains(&errors), "it retries after growing pauses: {errors} errors in ten minutes");
    create_namespace(&env, "elsewhere").await;
    replica.ready().await;
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_its_manifest_replaces_gets_its_conversion_back() {
    let env = environment().await;
    let client = client(&env);
    let key = ObjectKey::<CustomResourceDefinition>::new((), "carts.example.com");
    for certificates in [None, Some(SelfManagedCertificates::new(&service()))] {
        let metrics = Metrics::default();
        let webhooks = webhooks(&metrics);
        webhooks.register(vec![Registration::converter::<Cart, (v1::Cart,)>()]).unwrap();
        let replica = Replica::with(&env, certificates, true, webhooks, metrics);
        replica.ready().await;
        let mut definition = client.get(&key).await.unwrap().unwrap();
        let applied = definition.spec.conversion.take();
        assert!(applied.as_ref().is_some_and(|conversion| conversion.strategy == "Webhook"));
        client.update(&definition).await.unwrap();
        eventually(MINUTE, async || {
            let definition = client.get(&key).await.unwrap().unwrap();
            (definition.spec.conversion == applied).then_some(()).ok_or("it has no conversion yet".to_owned())
        })
        .await
        .unwrap();
    }
}
