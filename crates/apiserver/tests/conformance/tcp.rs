//! A client of a server on a port, as a service.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube_apiserver_embedded::Listener;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tower_service::Service;

/// Sends requests over HTTP; with TLS if the listener has it, and then over HTTP/2. Connections are reused.
#[derive(Clone)]
pub(crate) struct Tcp {
    server: String,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Tcp {
    /// Creates a client that only trusts this listener.
    pub(crate) fn new(listener: &Listener) -> Self {
        let mut roots = RootCertStore::empty();
        if let Some(pem) = listener.certificate_authority() {
            let authority = CertificateDer::from_pem_slice(pem.as_bytes()).expect("the authority is PEM");
            roots.add(authority).expect("the authority is a certificate");
        }
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has the protocols")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_all_versions().build();
        Self { server: listener.url(), client: Client::builder(TokioExecutor::new()).build(connector) }
    }
}

impl Service<Request<Full<Bytes>>> for Tcp {
    type Response = Response<Incoming>;
    type Error = String;
    type Future = BoxFuture<'static, Result<Self::Response, String>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Full<Bytes>>) -> Self::Future {
        let client = self.client.clone();
        let absolute = format!("{}{}", self.server, request.uri());
        async move {
            *request.uri_mut() = absolute.parse().map_err(|error| format!("{absolute}: {error}"))?;
            client.request(request).await.map_err(|error| error.to_string())
        }
        .boxed()
    }
}
