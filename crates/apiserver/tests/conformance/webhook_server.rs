//! Calls of webhooks, in process and over TLS.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube_apiserver_embedded::WebhookTransport;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::webhooks::{Hooks, Webhooks};

/// Answers calls in the process. Other hosts refuse the connection, because paused time must not wait for sockets.
#[derive(Clone)]
pub(crate) struct InProcess(pub(crate) Arc<Webhooks>);

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcess").finish_non_exhaustive()
    }
}

impl WebhookTransport for InProcess {
    fn call(&self, request: &Request<Bytes>) -> Option<BoxFuture<'static, Result<Response<Bytes>, String>>> {
        let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        if host != self.0.host() {
            return Some(async move { Err(format!("dial tcp {host}: connect: connection refused")) }.boxed());
        }
        let (webhooks, path, body) =
            (Arc::clone(&self.0), request.uri().path().to_owned(), request.body().clone());
        let answer = async move {
            match webhooks.answer(&path, &body).await {
                Some((status, body)) => json(status, body).map_err(|error| error.to_string()),
                None => Err("EOF".to_owned()),
            }
        };
        Some(answer.boxed())
    }
}

fn json(status: u16, body: Bytes) -> Result<Response<Bytes>, http::Error> {
    Response::builder().status(status).header("Content-Type", "application/json").body(body)
}

/// Serves webhooks over TLS until it is dropped.
pub(crate) struct WebhookServer {
    pub(crate) webhooks: Arc<Webhooks>,
    _connections: JoinSet<()>,
}

impl WebhookServer {
    /// Listens on a free port of 127.0.0.1 with a certificate of an authority of its own.
    pub(crate) async fn start() -> io::Result<Self> {
        let (acceptor, authority) = certificate().map_err(io::Error::other)?;
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let host = listener.local_addr()?.to_string();
        let webhooks = Arc::new(Webhooks::new(&host, &authority));
        let served = Arc::clone(&webhooks);
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, webhooks) = (acceptor.clone(), Arc::clone(&served));
                open.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| serve(Arc::clone(&webhooks), request));
                    // A webhook that closes its connection ends with an error.
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
                while open.try_join_next().is_some() {}
            }
        });
        Ok(Self { webhooks, _connections: connections })
    }
}

async fn serve(webhooks: Arc<Webhooks>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, String> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    let (status, body) = webhooks.answer(&path, &body).await.ok_or("closed")?;
    Ok(json(status, body).map_err(|error| error.to_string())?.map(Full::new))
}

/// Returns a certificate for 127.0.0.1, and its authority as PEM.
fn certificate() -> Result<(TlsAcceptor, String), Box<dyn std::error::Error + Send + Sync>> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let server = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, &authority)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![server.der().clone()], key)?;
    Ok((TlsAcceptor::from(Arc::new(config)), authority.pem()))
}
