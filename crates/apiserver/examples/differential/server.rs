//! The two servers: how they are started and reached.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use http::{Request as HttpRequest, header};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use kube_apimachinery::protobuf;
use kube_apiserver_embedded::{ApiServer, Options};
use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Duration, sleep, timeout};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tower_service::Service;

use super::Result;
use super::request::{Answer, Bindings, Body, PROTOBUF, Request};
use super::responder::{Responder, Side};

/// Time for a response; watches end after a second.
const WITHIN: Duration = Duration::from_secs(60);
/// Number of tenths of a second that the genuine server has to get ready.
const START_POLLS: u32 = 600;
/// Number of tenths of a second that a custom kind has to be ready on the genuine server.
const STORAGE_POLLS: u32 = 100;
/// Range of cluster IPs.
const SERVICE_RANGE: &str = "10.96.0.0/16";
/// Bearer token of the admin.
const TOKEN: &str = "differential";

type Call = dyn Fn(HttpRequest<Full<Bytes>>) -> BoxFuture<'static, Result<Answer>> + Send + Sync;

/// A server that answers requests.
pub(crate) struct Server {
    call: Box<Call>,
    /// URL of the webhooks, in which each server has a path of its own, and their authority in base64.
    webhooks: (String, String),
    processes: Mutex<Processes>,
}

/// Processes and their files; dropping it ends and removes them.
#[derive(Debug, Default)]
struct Processes {
    children: Vec<Child>,
    _files: Option<TempDir>,
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            // Both calls only fail if the process has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Server {
    /// Starts an embedded server in this process.
    pub(crate) fn embedded(responder: &Responder) -> Self {
        let range = SERVICE_RANGE.parse().expect("the constant is a range");
        let service = ApiServer::start(Options::default().service_range(range)).service();
        let call: Box<Call> = Box::new(move |request| {
            let mut service = service.clone();
            async move { collect(service.call(request).await?).await }.boxed()
        });
        Self { call, webhooks: responder.address(Side::Embedded), processes: Mutex::default() }
    }

    /// Starts `etcd` and `kube-apiserver` of a folder and waits until they are ready.
    pub(crate) async fn genuine(binaries: &Path, responder: &Responder) -> Result<Self> {
        let files = tempfile::Builder::new().prefix("differential-").tempdir()?;
        let folder = files.path().to_owned();
        let at = |name: &str| folder.join(name);
        let (etcd_port, peers, port) = free_ports()?;
        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        fs::write(at("tokens"), format!("{TOKEN},system:admin,,\"system:masters\"\n"))?;
        let key = rcgen::KeyPair::generate()?;
        fs::write(at("key"), key.serialize_pem())?;
        fs::write(at("key.pub"), key.public_key_pem())?;
        let mut etcd = Command::new(binaries.join("etcd"));
        etcd.args(["--listen-client-urls", &etcd_url, "--advertise-client-urls", &etcd_url]);
        etcd.args(["--listen-peer-urls", &format!("http://127.0.0.1:{peers}"), "--unsafe-no-fsync"]);
        etcd.arg("--data-dir").arg(at("etcd"));
        let mut server = Command::new(binaries.join("kube-apiserver"));
        server.args(["--etcd-servers", &etcd_url, "--bind-address", "127.0.0.1"]);
        server.args(["--secure-port", &port.to_string(), "--authorization-mode", "RBAC"]);
        server.args(["--service-cluster-ip-range", SERVICE_RANGE, "--allow-privileged=true"]);
        server.args(["--service-account-issuer", "https://kubernetes.default.svc"]);
        server.args(["--disable-admission-plugins", "ServiceAccount"]);
        for (flag, file) in [
            ("--cert-dir", "certificates"),
            ("--token-auth-file", "tokens"),
            ("--service-account-key-file", "key.pub"),
            ("--service-account-signing-key-file", "key"),
        ] {
            server.arg(flag).arg(at(file));
        }
        let children = vec![spawn(&mut etcd, &at("etcd.log"))?];
        let mut processes = Processes { children, _files: Some(files) };
        processes.children.push(spawn(&mut server, &at("kube-apiserver.log"))?);
        let certificate = at("certificates").join("apiserver.crt");
        for _ in 0..START_POLLS {
            sleep(Duration::from_millis(100)).await;
            let Ok(call) = fs::read(&certificate).map_err(Into::into).and_then(|pem| client(&pem, port))
            else {
                continue;
            };
            if is_found(&call, "/readyz").await && is_found(&call, "/api/v1/namespaces/default").await {
                let webhooks = responder.address(Side::Genuine);
                return Ok(Self { call, webhooks, processes: Mutex::new(processes) });
            }
        }
        let log = fs::read_to_string(at("kube-apiserver.log")).unwrap_or_default();
        let end: Vec<&str> = log.lines().rev().take(5).collect();
        Err(format!("kube-apiserver is not ready after a minute; the end of its log: {end:#?}").into())
    }

    /// Returns the values of placeholders for a namespace.
    pub(crate) fn bindings(&self, namespace: &str) -> Bindings {
        let mut bindings = Bindings::new(namespace);
        bindings.set("hook", &self.webhooks.0);
        bindings.set("ca", &self.webhooks.1);
        bindings
    }

    /// Whether the processes of the server run.
    pub(crate) fn is_running(&self) -> bool {
        let is_over = |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_some());
        !self.processes.lock().children.iter_mut().any(is_over)
    }

    /// Sends a request and reads the whole response. A connection that ends before the response is an answer with status 0. The next
    /// request opens a new connection.
    pub(crate) async fn send(&self, request: &Request, bindings: &Bindings) -> Result<Answer> {
        for _ in 0..STORAGE_POLLS {
            let answer = self.send_once(request, bindings).await?;
            // kube-apiserver restarts the watch caches of a custom kind some time after its definition.
            let is_starting = answer.body["message"] == "storage is (re)initializing";
            if answer.status != 429 || !is_starting {
                return Ok(answer);
            }
            sleep(Duration::from_millis(100)).await;
        }
        self.send_once(request, bindings).await
    }

    async fn send_once(&self, request: &Request, bindings: &Bindings) -> Result<Answer> {
        let path = bindings.expand(&request.path);
        let mut message = HttpRequest::builder()
            .method(request.method.clone())
            .uri(&path)
            .header(header::HOST, "localhost")
            .header(header::ACCEPT, request.accept)
            .header(header::USER_AGENT, "differential/1.0")
            .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
        if request.body != Body::None {
            message = message.header(header::CONTENT_TYPE, request.content_type);
        }
        if let Some(user) = request.user {
            message = message.header("Impersonate-User", user);
        }
        let text = bindings.expand(&request.text());
        let encoded = match request.content_type {
            PROTOBUF => serde_json::from_str(&text).ok().and_then(|object| protobuf::encode(&object)),
            _ => None,
        };
        let message = message.body(Full::from(encoded.unwrap_or_else(|| text.into_bytes())))?;
        let mut answer = match timeout(WITHIN, (self.call)(message)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Answer::ended(&causes(&*error)),
            Err(_) => Answer::ended(&format!("no response within {WITHIN:?}")),
        };
        if request.is_watch()
            && let Value::String(lines) = &answer.body
        {
            let event = |line| serde_json::from_str(line).unwrap_or_else(|_| Value::from(line));
            answer.body = lines.lines().map(event).collect();
        } else if request.is_watch() && answer.status == 200 {
            answer.body = Value::Array(vec![answer.body]);
        }
        Ok(answer)
    }
}

/// Returns an error with its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

async fn is_found(call: &Call, path: &str) -> bool {
    let request = HttpRequest::get(path).header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
    match request.body(Full::default()) {
        Ok(request) => call(request).await.is_ok_and(|answer| answer.status == 200),
        Err(_) => false,
    }
}

fn spawn(command: &mut Command, log: &Path) -> Result<Child> {
    let log = fs::File::create(log)?;
    let program = command.get_program().to_owned();
    let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
    child.map_err(|error| format!("cannot start {}: {error}", program.display()).into())
}

/// Three free ports, reserved at the same time so that they differ.
fn free_ports() -> Result<(u16, u16, u16)> {
    let bind = || TcpListener::bind("127.0.0.1:0");
    let listeners = (bind()?, bind()?, bind()?);
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port());
    Ok((port(&listeners.0)?, port(&listeners.1)?, port(&listeners.2)?))
}

/// A client that trusts the authority at the end of this PEM.
fn client(pem: &[u8], port: u16) -> Result<Box<Call>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate?)?;
    }
    if roots.len() < 2 {
        return Err("the certificate is not written yet".into());
    }
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector =
        hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http1().build();
    let client = Client::builder(TokioExecutor::new()).build(connector);
    Ok(Box::new(move |mut request| {
        let client = client.clone();
        let absolute = format!("https://127.0.0.1:{port}{}", request.uri());
        async move {
            request.headers_mut().remove(header::HOST);
            *request.uri_mut() = absolute.parse()?;
            collect(client.request(request).await?).await
        }
        .boxed()
    }))
}

async fn collect<B>(response: http::Response<B>) -> Result<Answer>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let (head, body) = response.into_parts();
    let bytes = body.collect().await?.to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let texts =
        |name| head.headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let content_type = texts(header::CONTENT_TYPE).next().unwrap_or_default().into_owned();
    // Objects without effect in the embedded server have warnings of its own.
    let warnings = texts(header::WARNING).filter(|text| !text.contains("kube-apiserver-embedded: "));
    let warnings = warnings.map(std::borrow::Cow::into_owned).collect();
    let parsed = match content_type.as_str() {
        "application/yaml" => serde_saphyr::from_str(&text).ok(),
        PROTOBUF => protobuf::decode(&bytes).ok(),
        _ => serde_json::from_str(&text).ok(),
    };
    let body = parsed.unwrap_or(Value::String(text));
    Ok(Answer { status: head.status.as_u16(), content_type, warnings, body })
}
