//! Access control of metrics.

use std::{
    collections::VecDeque,
    fs,
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_runtime::{
    Manager, ManagerOptions,
    serving::{AllowedTo, CertFiles, HttpRequest, HttpResponse, MetricsServerOptions, Serving},
};
use kube_apiserver_embedded::{AuthorizationMode, Tokens, UserInfo};
use kube_envtest::Environment;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, advance};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion,
        crypto::ring,
        version::{TLS12, TLS13},
    },
};

use crate::{
    faults::{Fault, faulty},
    servers::{anywhere, ask, connect, get, serving},
    support::{Running, Widget, environment},
};

const GOOD: &str = "Authorization: Bearer good\r\n";

/// Answers of an API server to reviews, in this order. The last one repeats.
#[derive(Clone)]
pub(crate) struct Reviews {
    tokens: VecDeque<Answer>,
    access: VecDeque<Answer>,
}

#[derive(Clone)]
enum Answer {
    Status(Value),
    Refuse(u16),
}

/// All users are Jane, with access to everything.
impl Default for Reviews {
    fn default() -> Self {
        Self { tokens: [jane(&[])].into(), access: [allowed(true)].into() }
    }
}

fn jane(groups: &[&str]) -> Answer {
    Answer::Status(
        json!({ "authenticated": true, "user": { "username": "jane", "uid": "7", "groups": groups } }),
    )
}

fn allowed(allowed: bool) -> Answer {
    Answer::Status(json!({ "allowed": allowed }))
}

/// Reviews in the order of the requests.
type Asked = Arc<Mutex<Vec<&'static str>>>;

/// Returns a manager that shows its metrics to users that an API server authorizes.
pub(crate) fn guarded_on(env: &Environment, reviews: Reviews) -> Manager {
    counted(env, reviews).0
}

fn counted(env: &Environment, mut reviews: Reviews) -> (Manager, Asked) {
    let asked = Asked::default();
    let count = Arc::clone(&asked);
    let client = faulty(env.client(), move |seen| {
        let (version, kind, answers) = if seen.is_about("tokenreviews") {
            ("authentication.k8s.io/v1", "TokenReview", &mut reviews.tokens)
        } else if seen.is_about("subjectaccessreviews") {
            ("authorization.k8s.io/v1", "SubjectAccessReview", &mut reviews.access)
        } else {
            return Fault::Pass;
        };
        count.lock().unwrap().push(kind);
        let next = answers[0].clone();
        if answers.len() > 1 {
            answers.pop_front();
        }
        match next {
            Answer::Refuse(code) => Fault::Refuse(code, "InternalError"),
            Answer::Status(status) => Fault::Answer(
                json!({ "apiVersion": version, "kind": kind, "metadata": {}, "spec": { "token": "x" }, "status": status })
                    .to_string(),
            ),
        }
    });
    let metrics = MetricsServerOptions::default().allowed_to(AllowedTo::Authorized).bind_address(anywhere());
    (Manager::new(client, ManagerOptions::new("test").seed(1).metrics(metrics)), asked)
}

async fn guarded(reviews: Reviews) -> (Manager, Running, Asked) {
    let (manager, asked) = counted(&environment().await, reviews);
    let running = Running::start(manager.clone()).await;
    (manager, running, asked)
}

#[tokio::test]
async fn metrics_are_served_to_authorized_clients() {
    let (manager, _running, asked) = guarded(Reviews::default()).await;
    let address = manager.metrics_address().unwrap();
    assert_eq!(get(address, "/metrics", "").await.0, 401);
    assert_eq!(get(address, "/metrics", "Authorization: Basic abc\r\n").await.0, 401);
    for _ in 0..3 {
        assert_eq!(get(address, "/metrics", GOOD).await.0, 200);
    }
    assert_eq!(asked.lock().unwrap().len(), 2, "the answers are remembered");
    manager
        .add_metrics_server_extra_handler("/late", async |_: HttpRequest| HttpResponse::new("late".into()));
    assert_eq!(get(address, "/late", "").await.0, 401, "what is added is guarded as well");
    assert_eq!(get(address, "/late", GOOD).await.0, 200);
}

#[tokio::test]
async fn metrics_are_refused_to_unauthorized_clients() {
    let (manager, _running, _) =
        guarded(Reviews { access: [allowed(false)].into(), ..Reviews::default() }).await;
    let (code, text) = get(manager.metrics_address().unwrap(), "/metrics", GOOD).await;
    assert_eq!((code, text.as_str()), (403, "Authorization denied for user jane\n"));
}

#[tokio::test]
async fn permissions_are_cached_per_token() {
    let reviews = Reviews {
        tokens: [jane(&["admins"]), jane(&[])].into(),
        access: [allowed(true), allowed(false)].into(),
    };
    let (manager, _running, _) = guarded(reviews).await;
    let address = manager.metrics_address().unwrap();
    assert_eq!(get(address, "/metrics", "Authorization: Bearer wide\r\n").await.0, 200);
    assert_eq!(get(address, "/metrics", "Authorization: Bearer narrow\r\n").await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn a_review_that_fails_is_tried_five_times() {
    let refuse = |times: usize| vec![Answer::Refuse(500); times];
    let late = refuse(4).into_iter().chain([jane(&[])]).collect();
    let (manager, _running, asked) = guarded(Reviews { tokens: late, ..Reviews::default() }).await;
    let began = Instant::now();
    assert_eq!(get(manager.metrics_address().unwrap(), "/metrics", GOOD).await.0, 200);
    let waited = began.elapsed().as_secs_f64();
    let least = 0.5 * (1.0 + 1.5 + 2.25 + 3.375);
    assert!((least..least * 1.2).contains(&waited), "{waited} s");
    assert_eq!(asked.lock().unwrap().len(), 6);

    let (manager, _running, asked) =
        guarded(Reviews { access: refuse(1).into(), ..Reviews::default() }).await;
    let (code, text) = get(manager.metrics_address().unwrap(), "/metrics", GOOD).await;
    assert_eq!((code, text.as_str()), (500, "Authorization failed\n"));
    assert_eq!(asked.lock().unwrap().len(), 6, "one for the token, five for the permission");
}

#[tokio::test(start_paused = true)]
async fn reviews_are_cached_for_the_documented_times() {
    let (manager, _running, asked) = guarded(Reviews::default()).await;
    let address = manager.metrics_address().unwrap();
    let take = || std::mem::take(&mut *asked.lock().unwrap());
    let (token, access) = ("TokenReview", "SubjectAccessReview");
    assert_eq!(get(address, "/metrics", GOOD).await.0, 200);
    assert_eq!(take(), [token, access]);
    for (after, expected) in [(59, vec![]), (1, vec![token]), (239, vec![token]), (1, vec![access])] {
        advance(Duration::from_secs(after)).await;
        assert_eq!(get(address, "/metrics", GOOD).await.0, 200);
        assert_eq!(take(), expected, "{after} s later");
    }

    let denied = Reviews { access: [allowed(false), allowed(true)].into(), ..Reviews::default() };
    let (manager, _running, _) = guarded(denied).await;
    let address = manager.metrics_address().unwrap();
    for (after, expected) in [(0, 403), (29, 403), (1, 200)] {
        advance(Duration::from_secs(after)).await;
        assert_eq!(get(address, "/metrics", GOOD).await.0, expected, "{after} s later");
    }
}

/// Returns a folder with a certificate and its key, and a store that trusts it.
pub(crate) fn certificate() -> (TempDir, RootCertStore) {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(folder.path().join("tls.crt"), made.cert.pem()).unwrap();
    fs::write(folder.path().join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    (folder, roots)
}

/// Returns a client with these TLS versions, and these protocols in order of preference.
pub(crate) fn speaks_tls(
    roots: RootCertStore,
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&[u8]],
) -> TlsConnector {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_protocol_versions(versions).unwrap().with_root_certificates(roots);
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

#[tokio::test]
async fn metrics_are_shown_over_https_to_users_of_the_cluster() {
    let (folder, roots) = certificate();
    let mut options = kube_apiserver_embedded::Options::default();
    options.tokens = Some(Tokens::new().with("good", UserInfo::new("scraper", "", ["monitoring"])));
    options.authorization = AuthorizationMode::AlwaysAllow;
    let env = Environment::builder().server_options(options).crd::<Widget>().start().await.unwrap();
    let serves = Serving::Files(CertFiles::in_dir(folder.path()));
    let options =
        MetricsServerOptions::default().serving(serves).allowed_to(AllowedTo::Authorized).tls(|config| {
            let builder = ServerConfig::builder_with_provider(Arc::clone(config.crypto_provider()));
            let newest = builder.with_protocol_versions(&[&TLS13]).unwrap().with_no_client_auth();
            *config = newest.with_cert_resolver(Arc::clone(&config.cert_resolver));
        });
    let manager = serving(&env, options);
    let _running = Running::start(manager.clone()).await;

    let tls = speaks_tls(roots.clone(), &[&TLS12, &TLS13], &[]);
    let scrape = async |headers: &str| {
        let stream = connect(manager.metrics_address().unwrap()).await;
        let stream = tls.connect("localhost".try_into().unwrap(), stream).await.unwrap();
        ask(stream, "/metrics", headers).await
    };
    assert_eq!(scrape("").await.0, 401);
    assert_eq!(scrape("Authorization: Bearer bad\r\n").await.0, 401);
    let (code, text) = scrape(GOOD).await;
    assert_eq!(code, 200);
    assert!(text.contains("certwatcher_read_certificate_total "), "{text}");

    // The options require the newest TLS version.
    let old = speaks_tls(roots, &[&TLS12], &[]);
    let stream = connect(manager.metrics_address().unwrap()).await;
    let error = old.connect("localhost".try_into().unwrap(), stream).await.unwrap_err();
    assert!(error.to_string().contains("ProtocolVersion"), "{error}");
}

#[tokio::test]
async fn filters_run_in_order_on_every_path() {
    let env = environment().await;
    let wants = |header: &'static str, code: u16| {
        move |request: HttpRequest| {
            let mut refusal = HttpResponse::new(header.into());
            *refusal.status_mut() = code.try_into().unwrap();
            std::future::ready(if request.headers().contains_key(header) {
                Ok(request)
            } else {
                Err(refusal)
            })
        }
    };
    let hello = async |_: HttpRequest| HttpResponse::new("hello".into());
    let options = MetricsServerOptions::default().filter(wants("x-one", 418)).filter(wants("x-two", 403));
    let manager = serving(&env, options.extra_handler("/hello", hello));
    let _running = Running::start(manager.clone()).await;
    let address = manager.metrics_address().unwrap();
    for path in ["/metrics", "/hello"] {
        assert_eq!(get(address, path, "X-Two: 1\r\n").await, (418, "x-one".to_owned()));
        assert_eq!(get(address, path, "X-One: 1\r\n").await, (403, "x-two".to_owned()));
        assert_eq!(get(address, path, "X-One: 1\r\nX-Two: 1\r\n").await.0, 200);
    }
}

#[tokio::test]
async fn a_filter_that_changes_the_path_does_not_choose_another_handler() {
    let env = environment().await;
    let to_metrics = async |mut request: HttpRequest| {
        *request.uri_mut() = "/metrics".parse().unwrap();
        Ok(request)
    };
    let shown = async |request: HttpRequest| HttpResponse::new(request.uri().path().to_owned().into());
    let options = MetricsServerOptions::default().filter(to_metrics).extra_handler("/hello", shown);
    let manager = serving(&env, options);
    let _running = Running::start(manager.clone()).await;
    let address = manager.metrics_address().unwrap();
    assert_eq!(get(address, "/hello", "").await, (200, "/metrics".to_owned()));
    assert_eq!(get(address, "/other", "").await.0, 404);
}
