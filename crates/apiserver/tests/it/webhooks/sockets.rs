//! Connections to webhooks: certificates, kept connections, services.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube_apiserver_embedded::{ApiServer, Options};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::cluster::{Kind, configure, create, respond};

type Answering = BoxFuture<'static, Result<Response<Full<Bytes>>, hyper::Error>>;

/// A webhook that allows everything, over TLS.
struct Allowing {
    address: SocketAddr,
    /// Authority of its certificate, as in a `caBundle`.
    bundle: String,
    /// Number of connections so far.
    connections: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Allowing {
    /// Starts a webhook with a certificate for these names.
    async fn start(names: &[&str]) -> Self {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
        Self::serve(certificate.der().clone(), &key, &authority.pem()).await
    }

    /// Starts a webhook with a self-signed certificate that is marked as an authority.
    async fn self_signed(names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self::serve(certificate.der().clone(), &key, &certificate.pem()).await
    }

    async fn serve(certificate: CertificateDer<'static>, key: &KeyPair, authority: &str) -> Self {
        Self::serve_with(certificate, key, authority, |request| allow(request).boxed()).await
    }

    async fn serve_with(
        certificate: CertificateDer<'static>,
        key: &KeyPair,
        authority: &str,
        answer: fn(Request<Incoming>) -> Answering,
    ) -> Self {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, count) = (acceptor.clone(), Arc::clone(&count));
                open.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    count.fetch_add(1, Ordering::Relaxed);
                    let service = service_fn(answer);
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        let bundle = BASE64_STANDARD.encode(authority);
        Self { address, bundle, connections, _tasks: tasks }
    }

    fn client(&self) -> Value {
        json!({"url": format!("https://{}/", self.address), "caBundle": self.bundle})
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// Answers with 65 MiB.
async fn flood(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    Ok(Response::new(Full::new(Bytes::from(vec![b' '; 65 << 20]))))
}

async fn allow(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    Ok(respond(&review, &json!({"allowed": true})).map(Full::new))
}

/// Returns the reason why a call with this `clientConfig` fails.
async fn failure(server: &ApiServer, client: &Value) -> String {
    configure(server, Kind::Validating, client, &json!({"timeoutSeconds": 5})).await;
    let (code, message) = create(server, "a").await;
    assert_eq!(code, 500, "{message}");
    let message = message.as_str().unwrap_or_default();
    message.rsplit_once("?timeout=5s\": ").map_or(message, |(_, why)| why).to_owned()
}

#[tokio::test]
async fn a_connection_is_kept_until_its_configuration_changes() {
    let (server, hook) = (ApiServer::start(Options::default()), Allowing::start(&["127.0.0.1"]).await);
    configure(&server, Kind::Validating, &hook.client(), &json!({})).await;
    for name in ["a", "b", "c"] {
        assert_eq!(create(&server, name).await.0, 201);
    }
    assert_eq!(hook.connections(), 1);
    let other = Allowing::start(&["127.0.0.1"]).await;
    let mut client = hook.client();
    client["caBundle"] = json!(other.bundle);
    let why = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    assert_eq!(failure(&server, &client).await, why);
    configure(&server, Kind::Validating, &hook.client(), &json!({})).await;
    assert_eq!(create(&server, "d").await.0, 201);
    assert_eq!(hook.connections(), 2);
}

#[tokio::test]
async fn the_certificate_must_be_valid_for_the_host() {
    let server = ApiServer::start(Options::default());
    let hook = Allowing::start(&["hooks.example.com"]).await;
    assert_eq!(
        failure(&server, &hook.client()).await,
        "tls: failed to verify certificate: x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP \
         SANs"
    );
    let hook = Allowing::start(&["127.0.0.2", "hooks.example.com"]).await;
    assert_eq!(
        failure(&server, &hook.client()).await,
        "tls: failed to verify certificate: x509: certificate is valid for 127.0.0.2, not 127.0.0.1"
    );
    let mut client = hook.client();
    client["caBundle"] = json!(BASE64_STANDARD.encode("no certificate"));
    assert_eq!(
        failure(&server, &client).await,
        "Internal error occurred: failed calling webhook \"hook.example.com\": could not get REST client: unable to load root \
         certificates: unable to parse bytes as PEM block"
    );
}

#[tokio::test]
async fn a_self_signed_certificate_can_be_its_own_authority() {
    let server = ApiServer::start(Options::default());
    let hook = Allowing::self_signed(&["127.0.0.1"]).await;
    configure(&server, Kind::Validating, &hook.client(), &json!({})).await;
    assert_eq!(create(&server, "a").await.0, 201);
    let hook = Allowing::self_signed(&["127.0.0.2"]).await;
    assert_eq!(
        failure(&server, &hook.client()).await,
        "tls: failed to verify certificate: x509: certificate is valid for 127.0.0.2, not 127.0.0.1"
    );
}

#[tokio::test]
async fn a_response_above_64_mib_is_refused() {
    let server = ApiServer::start(Options::default());
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    let hook = Allowing::serve_with(certificate.der().clone(), &key, &certificate.pem(), |request| {
        flood(request).boxed()
    })
    .await;
    assert_eq!(failure(&server, &hook.client()).await, "the response is larger than 67108864 bytes");
}

#[tokio::test]
async fn a_webhook_behind_a_service_is_reached_at_the_given_address_under_the_name_of_the_service() {
    let hook = Allowing::start(&["hooks.default.svc"]).await;
    let options = Options::default().service_address("default", "hooks", hook.address);
    let server = ApiServer::start(options);
    let client = json!({"service": {"namespace": "default", "name": "hooks"}, "caBundle": hook.bundle});
    configure(&server, Kind::Validating, &client, &json!({})).await;
    assert_eq!(create(&server, "a").await.0, 201);
}

/// A server for development learns the services of a program that gets its first webhook while the server runs.
#[tokio::test]
async fn addresses_of_services_can_be_replaced_while_the_server_runs() {
    let hook = Allowing::start(&["hooks.default.svc"]).await;
    let server = ApiServer::start(Options::default());
    let client = json!({"service": {"namespace": "default", "name": "hooks"}, "caBundle": hook.bundle});
    assert_eq!(failure(&server, &client).await, "service \"hooks\" not found");
    server.set_service_addresses([(("default".to_owned(), "hooks".to_owned()), hook.address)].into());
    assert_eq!(create(&server, "b").await.0, 201);
    server.set_service_addresses(std::collections::BTreeMap::new());
    assert_eq!(failure(&server, &client).await, "service \"hooks\" not found");
}

#[tokio::test]
async fn a_service_without_an_address_is_an_error() {
    let server = ApiServer::start(Options::default());
    let client = |name: &str| json!({"service": {"namespace": "default", "name": name}});
    assert_eq!(failure(&server, &client("none")).await, "service \"none\" not found");
    let services = "/api/v1/namespaces/default/services";
    for (name, spec, why) in [
        ("headless", json!({"clusterIP": "None"}), "cannot route to service with ClusterIP \"None\""),
        (
            "other-port",
            json!({"ports": [{"port": 80}]}),
            "no service port 443 found for service \"other-port\"",
        ),
        (
            "lonely",
            json!({"ports": [{"port": 443}]}),
            "service \"lonely\" has no ready endpoint, and nothing routes cluster IPs here",
        ),
    ] {
        let service = json!({"metadata": {"name": name}, "spec": spec});
        let (code, body) = super::cluster::send(&server, http::Method::POST, services, &service).await;
        assert_eq!(code, 201, "{body}");
        assert_eq!(failure(&server, &client(name)).await, why);
    }
}

#[tokio::test]
async fn the_endpoint_of_a_service_is_called() {
    let hook = Allowing::start(&["lonely.default.svc"]).await;
    let server = ApiServer::start(Options::default());
    let service = json!({
        "metadata": {"name": "lonely"}, "spec": {"ports": [{"name": "https", "port": 443}]},
    });
    let slice = json!({
        "metadata": {"name": "lonely-1", "labels": {"kubernetes.io/service-name": "lonely"}}, "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["127.0.0.9"], "conditions": {"ready": false}}, {"addresses": ["127.0.0.1"]},
        ],
        "ports": [{"name": "https", "port": hook.address.port()}],
    });
    for (path, object) in [
        ("/api/v1/namespaces/default/services", service),
        ("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice),
    ] {
        let (code, body) = super::cluster::send(&server, http::Method::POST, path, &object).await;
        assert_eq!(code, 201, "{body}");
    }
    let client = json!({"service": {"namespace": "default", "name": "lonely"}, "caBundle": hook.bundle});
    configure(&server, Kind::Validating, &client, &json!({})).await;
    assert_eq!(create(&server, "a").await.0, 201);
}

#[tokio::test]
async fn a_server_without_tls_is_named_as_in_go() {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
        }
    });
    let server = ApiServer::start(Options::default());
    let client = json!({"url": format!("https://{address}/")});
    assert_eq!(failure(&server, &client).await, "http: server gave HTTP response to HTTPS client");
}

#[tokio::test]
async fn a_port_without_a_server_refuses_the_connection() {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let server = ApiServer::start(Options::default());
    let client = json!({"url": format!("https://{address}/")});
    let why = format!("dial tcp {address}: connect: connection refused");
    assert_eq!(failure(&server, &client).await, why);
}
