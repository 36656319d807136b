//! The webhook server of a manager, over HTTPS on the loopback interface, and webhooks in the builder.

use std::{
    fs,
    io::{Read, Seek},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use controller_runtime::{
    Builder, Client, Manager, ManagerOptions, ObjectKey,
    manager::{AddError, State},
    operator::Operator,
    serving::{CertFiles, Endpoint, Serving},
    webhook::{
        Admission, Defaulter, RegisterError, Rule, SelfManagedCertificates, Validator, Verdict,
        WebhookOptions, WebhookService,
    },
};
use k8s_openapi::api::{
    admissionregistration::v1::MutatingWebhookConfiguration,
    core::v1::{ConfigMap, Secret},
};
use kube::CustomResource;
use kube_envtest::{Environment, Transport, eventually};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::Notify,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject},
        version::{TLS12, TLS13},
    },
};

use crate::{
    access::{certificate, speaks_tls},
    servers::{anywhere, connect, get},
    support::{Notes, Running, Widget, alone_in_real_time, environment, manager, widget},
};

impl Defaulter for Widget {
    async fn set_defaults(&mut self, _: &Admission) -> Verdict {
        self.spec.size = self.spec.size.max(1);
        Ok(())
    }
}

impl Validator for Widget {}

const MUTATE: &str = "/mutate-example-com-v1-widget";

fn review() -> String {
    let widget = json!({ "metadata": { "name": "a" }, "spec": { "size": 0 } });
    let request = json!({ "uid": "7", "operation": "CREATE", "object": widget });
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request }).to_string()
}

/// Sends a request, and returns code and body.
async fn post(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str, body: &str) -> (u16, Value) {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Type: application/json\r\n"
    );
    stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
}

fn with_webhooks(env: &Environment, options: WebhookOptions) -> Manager {
    let options = ManagerOptions::new("test").webhooks(options.bind_address(anywhere()));
    Manager::new(env.client(), options.health_probe_bind_address(anywhere()))
}

fn plain() -> WebhookOptions {
    WebhookOptions::default().serving(Serving::Plain)
}

#[tokio::test]
async fn webhooks_are_served_over_https_while_the_manager_runs() {
    let env = environment().await;
    let (folder, roots) = certificate();
    let serving = Serving::Files(CertFiles::in_dir(folder.path()));
    let manager = with_webhooks(&env, WebhookOptions::default().serving(serving));
    Builder::managed_by(&manager)
        .for_kind::<Widget>()
        .defaulted()
        .validated()
        .complete(Notes::done())
        .unwrap();
    let running = Running::start(manager.clone()).await;

    let address = manager.webhook_address().expect("ready means listening");
    // HTTP/2 is off, although the client prefers it.
    let tls = speaks_tls(roots, &[&TLS12, &TLS13], &[b"h2", b"http/1.1"]);
    let stream = tls.connect("localhost".try_into().unwrap(), connect(address).await).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let (code, answer) = post(stream, MUTATE, &review()).await;
    assert_eq!((code, &answer["response"]["patchType"]), (200, &json!("JSONPatch")), "{answer}");
    let counted =
        format!("controller_runtime_webhook_requests_total{{webhook=\"{MUTATE}\",code=\"200\"}} 1\n");
    assert!(manager.metrics().encode_prometheus().contains(&counted));
    let ready = get(manager.health_probe_address().unwrap(), "/readyz?verbose", "").await;
    assert!(ready.1.contains("[+]webhooks ok\n"), "{ready:?}");

    running.stop().await.unwrap();
    assert_eq!(manager.webhook_address(), None);
}

#[tokio::test]
async fn a_missing_certificate_fails_the_start_of_a_manager_with_webhooks_only() {
    let env = environment().await;
    let missing = || {
        let files = CertFiles::in_dir("/nowhere/at-all");
        with_webhooks(&env, WebhookOptions::default().serving(Serving::Files(files)))
    };
    let without = missing();
    assert_eq!(without.webhooks().configurations(&WebhookService::new("a", "b")).mutating, None);
    Running::start(without).await.stop().await.unwrap();

    let with = missing();
    with.webhooks().validating(Rule::of::<ConfigMap>(), async |_| Ok(())).unwrap();
    let error = Running::begin(with).end().await.unwrap_err();
    assert_eq!(
        format!("{error:?}").lines().next(),
        Some(
            "webhooks failed: /nowhere/at-all/tls.crt cannot be read: No such file or directory (os error 2)"
        )
    );
}

#[tokio::test]
async fn the_server_begins_to_listen_when_a_webhook_is_registered_later() {
    let env = environment().await;
    let manager = with_webhooks(&env, plain());
    let _ = manager.webhooks();
    let running = Running::start(manager.clone()).await;
    assert_eq!(manager.webhook_address(), None, "there is nothing to serve");
    manager.webhooks().validating(Rule::of::<ConfigMap>(), async |_| Ok(())).unwrap();
    let address = listening(&manager).await;
    assert_eq!(post(connect(address).await, "/validate--v1-configmap", &review()).await.0, 200);
    running.stop().await.unwrap();
}

/// Waits until the webhook server listens.
async fn listening(manager: &Manager) -> SocketAddr {
    eventually(Duration::from_secs(10), async || {
        manager.webhook_address().ok_or_else(|| "it does not listen".to_owned())
    })
    .await
    .unwrap()
}

/// A kind without a definition, so that its cache does not become ready.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Missing", namespaced)]
struct MissingSpec {}

#[tokio::test]
async fn webhooks_answer_before_caches_are_ready_and_until_reconciles_have_ended() {
    let env = environment().await;
    let manager = with_webhooks(&env, plain());
    let _waiting = manager.cached::<Missing>();
    Builder::managed_by(&manager).for_kind::<Widget>().defaulted().complete(Notes::done()).unwrap();
    let running = Running::begin(manager.clone());
    let address = listening(&manager).await;
    assert_eq!(post(connect(address).await, MUTATE, &review()).await.0, 200);
    assert_eq!(*manager.state().borrow(), State::Starting);
    drop(running);

    let manager = with_webhooks(&env, plain());
    let (began, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, waits) = (Arc::clone(&began), Arc::clone(&go_on));
    let reconcile = controller_runtime::reconcile::from_fn_with(
        (begins, waits),
        async |(begins, waits): &(Arc<Notify>, Arc<Notify>),
               _: &ObjectKey<Widget>,
               _: &controller_runtime::Context| {
            begins.notify_one();
            waits.notified().await;
            Ok(controller_runtime::Action::done())
        },
    );
    Builder::managed_by(&manager).for_kind::<Widget>().defaulted().complete(reconcile).unwrap();
    let running = Running::start(manager.clone()).await;
    Client::new(env.client(), "test").create(&widget("a", 1)).await.unwrap();
    began.notified().await;
    let address = manager.webhook_address().unwrap();
    let mut state = manager.state();
    let asked = async {
        state.wait_for(|state| *state == State::Draining).await.unwrap();
        let code = post(connect(address).await, MUTATE, &review()).await.0;
        go_on.notify_one();
        code
    };
    let (stopped, code) = tokio::join!(running.stop(), asked);
    stopped.unwrap();
    assert_eq!(code, 200, "the reconcile still ran");
}

#[tokio::test]
async fn clients_need_a_certificate_of_the_client_authority() {
    let env = environment().await;
    let (folder, roots) = certificate();
    let made = rcgen::generate_simple_self_signed(["apiserver".to_owned()]).unwrap();
    let ca = folder.path().join("ca.crt");
    fs::write(&ca, made.cert.pem()).unwrap();
    let serving = Serving::Files(CertFiles::in_dir(folder.path()));
    let manager = with_webhooks(&env, WebhookOptions::default().serving(serving).client_ca(ca));
    Builder::managed_by(&manager).for_kind::<Widget>().defaulted().complete(Notes::done()).unwrap();
    let _running = Running::start(manager.clone()).await;
    let address = manager.webhook_address().unwrap();

    let stranger = speaks_tls(roots.clone(), &[&TLS12], &[]);
    let refused = stranger.connect("localhost".try_into().unwrap(), connect(address).await).await;
    assert!(refused.is_err(), "it has no certificate");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let known = client(roots, made.cert.der().clone(), key);
    let stream = known.connect("localhost".try_into().unwrap(), connect(address).await).await.unwrap();
    assert_eq!(post(stream, MUTATE, &review()).await.0, 200);
}

fn client(
    roots: RootCertStore,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> TlsConnector {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    TlsConnector::from(Arc::new(config.with_client_auth_cert(vec![certificate], key).unwrap()))
}

#[tokio::test]
async fn a_refused_controller_leaves_no_webhook_behind() {
    let env = environment().await;
    let manager = manager(&env);
    let builder = || Builder::managed_by(&manager).for_kind::<Widget>();
    builder().complete(Notes::done()).unwrap();
    let refused = builder().defaulted().complete(Notes::done()).unwrap_err();
    assert!(matches!(refused, AddError::DuplicateName { .. }), "{refused}");
    builder()
        .named("other")
        .defaulted()
        .complete(Notes::done())
        .expect("the defaulter is not registered yet");
    let twice = builder().named("third").validated().defaulted().complete(Notes::done()).unwrap_err();
    let expected = RegisterError::Duplicate { kind: "widgets.example.com".to_owned(), role: "defaulter" };
    assert_eq!(twice, AddError::Webhook(expected));
    builder()
        .named("third")
        .validated()
        .complete(Notes::done())
        .expect("neither validator nor name are taken");
}

#[tokio::test]
async fn a_disabled_server_leaves_webhooks_usable_in_process() {
    let env = environment().await;
    let options = WebhookOptions::default().bind_address(Endpoint::Disabled);
    let manager = Manager::new(env.client(), ManagerOptions::new("test").webhooks(options));
    Builder::managed_by(&manager).for_kind::<Widget>().defaulted().complete(Notes::done()).unwrap();
    let running = Running::start(manager.clone()).await;
    let request = http::Request::post(MUTATE).header("content-type", "application/json");
    let response = manager.webhooks().answer(request.body(review().into()).unwrap()).await;
    assert_eq!(response.status(), 200);
    running.stop().await.unwrap();
}

/// Runs the program of an operator with webhooks outside of a pod, with this flag, until it has reconciled a Widget. Then looks at the cluster,
/// and returns the program's log.
async fn run_outside_of_a_pod(flag: Option<&str>, look: impl AsyncFnOnce(&Client)) -> String {
    let log = Arc::new(tempfile::tempfile().unwrap());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(Arc::clone(&log)).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let transport = Transport::Tcp(([127, 0, 0, 1], 0).into());
    let env = Environment::builder().crd::<Widget>().transport(transport).start().await.unwrap();
    let client = Client::new(env.client(), "test");
    client.create(&widget("a", 1)).await.unwrap();
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    fs::write(kubeconfig.path(), env.kubeconfig().expect("the server listens")).unwrap();
    let notes = Notes::done();
    let reconciler = notes.clone();
    let operator = Operator::new("test", "test.example.com").setup(move |manager: &Manager| {
        let builder = Builder::managed_by(manager).for_kind::<Widget>().defaulted().validated();
        builder.complete(reconciler.clone())?;
        Ok::<_, AddError>(())
    });
    let mut words = vec!["run".to_owned(), format!("--kubeconfig={}", kubeconfig.path().display())];
    words.extend(["--webhook-bind-address=127.0.0.1:0", "--health-probe-bind-address=0"].map(str::to_owned));
    words.extend(flag.map(str::to_owned));
    let looked = async {
        let reconciled = eventually(Duration::from_secs(10), async || {
            if notes.names().is_empty() { Err("nothing was reconciled") } else { Ok(()) }
        });
        reconciled.await.unwrap();
        look(&client).await;
    };
    tokio::select! {
        biased;
        ended = operator.answer(words) => panic!("the program ended: {ended:?}"),
        () = looked => {}
    }
    let mut text = String::new();
    (&*log).rewind().unwrap();
    (&*log).read_to_string(&mut text).unwrap();
    text
}

/// Configuration and Secret that a program named `test` keeps.
async fn kept_by_the_program(client: &Client) -> (Option<MutatingWebhookConfiguration>, Option<Secret>) {
    let configuration = ObjectKey::<MutatingWebhookConfiguration>::new((), "default-test-webhooks");
    let secret = ObjectKey::<Secret>::new("default", "test-webhooks-certificates");
    (client.get(&configuration).await.unwrap(), client.get(&secret).await.unwrap())
}

/// A program with webhooks starts to reconcile only after it has stored its certificate.
#[test]
fn a_program_outside_of_a_pod_installs_no_webhooks() {
    alone_in_real_time("webhooks::a_program_outside_of_a_pod_installs_no_webhooks", async || {
        let log = run_outside_of_a_pod(None, async |client| {
            assert_eq!(kept_by_the_program(client).await, (None, None));
            client.create(&widget("b", 1)).await.expect("no webhook is called");
        });
        let log = log.await;
        let lines: Vec<_> = log.lines().filter(|line| line.contains("webhooks are off")).collect();
        assert_eq!(lines.len(), 1, "{log}");
        for part in ["WARN", "Service default/test-webhooks", "--enable-webhooks turns them on"] {
            assert!(lines[0].contains(part), "{part} is not in {log}");
        }
    });
}

#[test]
fn a_flag_silences_the_line_about_webhooks_that_are_off() {
    alone_in_real_time("webhooks::a_flag_silences_the_line_about_webhooks_that_are_off", async || {
        let log = run_outside_of_a_pod(Some("--enable-webhooks=false"), async |client| {
            assert_eq!(kept_by_the_program(client).await, (None, None));
        });
        let log = log.await;
        assert!(!log.contains("webhooks are off"), "{log}");
    });
}

#[test]
fn a_program_outside_of_a_pod_installs_webhooks_on_request() {
    alone_in_real_time("webhooks::a_program_outside_of_a_pod_installs_webhooks_on_request", async || {
        let log = run_outside_of_a_pod(Some("--enable-webhooks"), async |client| {
            let applied =
                eventually(Duration::from_secs(10), async || match kept_by_the_program(client).await {
                    (Some(_), Some(_)) => Ok(()),
                    kept => Err(format!("{kept:?}")),
                });
            applied.await.unwrap();
            let refused = client.create(&widget("b", 1)).await.expect_err("no Service leads to the program");
            assert!(refused.to_string().contains("service \"test-webhooks\" not found"), "{refused}");
        });
        let log = log.await;
        assert!(!log.contains("webhooks are off"), "{log}");
    });
}

#[tokio::test]
async fn managers_make_one_certificate_and_apply_their_configurations() {
    let env = environment().await;
    let service = WebhookService::new("default", "hooks");
    let certificates = SelfManagedCertificates::new(&service).dns_name("localhost");
    let start = async || {
        let options =
            WebhookOptions::default().certificates(certificates.clone()).apply_configurations(&service);
        let manager = with_webhooks(&env, options);
        Builder::managed_by(&manager)
            .for_kind::<Widget>()
            .defaulted()
            .validated()
            .complete(Notes::done())
            .unwrap();
        let running = Running::start(manager.clone()).await;
        let probes = manager.health_probe_address().unwrap();
        eventually(Duration::from_secs(10), async || {
            let answer = get(probes, "/readyz?verbose", "").await;
            answer.1.contains("[+]webhooks ok\n").then_some(()).ok_or(answer.1)
        })
        .await
        .unwrap();
        (manager, running)
    };
    let (first, second) = (start().await, start().await);
    let client = Client::new(env.client(), "test");
    let key = ObjectKey::<MutatingWebhookConfiguration>::new((), "default-hooks");
    let configuration = client.get(&key).await.unwrap().expect("it is applied");
    let owners = configuration.metadata.managed_fields.unwrap();
    assert_eq!(owners[0].manager.as_deref(), Some("test-webhooks"), "{owners:?}");
    let bundle = configuration.webhooks.unwrap()[0].client_config.ca_bundle.clone().unwrap().0;
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(&bundle) {
        roots.add(authority.unwrap()).unwrap();
    }
    assert_eq!(roots.len(), 1, "the second manager uses the certificate of the first");
    for (manager, _) in [&first, &second] {
        for name in ["hooks.default.svc", "hooks.default.svc.cluster.local", "localhost"] {
            let tls = speaks_tls(roots.clone(), &[&TLS13], &[]);
            let stream = connect(manager.webhook_address().unwrap()).await;
            let stream = tls.connect(name.try_into().unwrap(), stream).await.unwrap();
            assert_eq!(post(stream, MUTATE, &review()).await.0, 200);
        }
        let metrics = manager.metrics().encode_prometheus();
        assert!(metrics.contains("controller_runtime_webhook_certificate_changes_total 1\n"), "{metrics}");
    }
    first.1.stop().await.unwrap();
    second.1.stop().await.unwrap();
}
