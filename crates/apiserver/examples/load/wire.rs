//! TLS connections with little overhead on the client.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::Result;
use super::objects::Form;
use super::process::ServerProcess;

/// HTTP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
        }
    }

    fn id(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        }
    }
}

/// TLS configuration that trusts one server.
pub(crate) struct Tls(ClientConfig);

impl Tls {
    /// Trusts the certificate in this PEM.
    pub(crate) fn trusting(authority: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(config))
    }

    fn connector(&self, protocol: Protocol) -> TlsConnector {
        let mut config = self.0.clone();
        config.alpn_protocols = vec![protocol.id().to_vec()];
        TlsConnector::from(Arc::new(config))
    }
}

/// A connection with one request at a time. It is opened again if it ended between two requests, as the server may close it at any time:
/// a client that gets no CPU for 20 s misses the server's ping.
pub(crate) struct Connection {
    sender: Sender,
    address: SocketAddr,
    connector: TlsConnector,
    protocol: Protocol,
    authorization: Option<HeaderValue>,
    /// Drives the connection; aborted with it.
    driver: JoinSet<hyper::Result<()>>,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    async fn ready(&mut self) -> hyper::Result<()> {
        match self {
            Self::Http1(sender) => sender.ready().await,
            Self::Http2(sender) => sender.ready().await,
        }
    }
}

impl Connection {
    pub(crate) async fn open(server: &ServerProcess, protocol: Protocol) -> Result<Self> {
        let (address, connector) = (server.address, server.tls.connector(protocol));
        let (sender, driver) = connect(address, &connector, protocol).await?;
        let authorization = server.authorization.clone();
        Ok(Self { sender, address, connector, protocol, authorization, driver })
    }

    /// Waits until a request can be sent, on a new connection if this one has ended.
    async fn ready(&mut self) -> Result<()> {
        let Err(error) = self.sender.ready().await else { return Ok(()) };
        // The error only says that the driver ended; the driver knows the reason.
        let reason = match self.driver.join_next().await {
            Some(Ok(Err(error))) => error.to_string(),
            Some(Ok(Ok(()))) => "closed by the server".to_owned(),
            Some(Err(failed)) => failed.to_string(),
            None => error.to_string(),
        };
        eprintln!("a connection ended between two requests and is opened again: {reason}");
        let again = connect(self.address, &self.connector, self.protocol).await;
        (self.sender, self.driver) = again.map_err(|error| format!("{reason}; then {error}"))?;
        Ok(self.sender.ready().await?)
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn send(&mut self, method: Method, path: &str, form: Form, body: Bytes) -> Result<()> {
        let answer = self.start(method, path, form, body).await?;
        let status = answer.status();
        let mut body = answer.into_body();
        let mut start = Bytes::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data()
                && start.is_empty()
            {
                start = data;
            }
        }
        if status.is_success() {
            return Ok(());
        }
        Err(format!("{path}: {status}: {}", String::from_utf8_lossy(&start)).into())
    }

    /// Sends a request and reads the head of the response.
    pub(crate) async fn start(
        &mut self,
        method: Method,
        path: &str,
        form: Form,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .header(header::USER_AGENT, "load/1.0")
            .header(header::ACCEPT, form.media_type())
            .header(header::CONTENT_TYPE, form.media_type());
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = match self.protocol {
            Protocol::Http1 => request.uri(path).header(header::HOST, "localhost"),
            Protocol::Http2 => request.uri(format!("https://{}{path}", self.address)),
        };
        let request = request.body(Full::new(body))?;
        self.ready().await?;
        Ok(match &mut self.sender {
            Sender::Http1(sender) => sender.send_request(request).await?,
            Sender::Http2(sender) => sender.send_request(request).await?,
        })
    }
}

async fn connect(
    address: SocketAddr,
    connector: &TlsConnector,
    protocol: Protocol,
) -> Result<(Sender, JoinSet<hyper::Result<()>>)> {
    #[expect(clippy::disallowed_methods, reason = "this client is not a part of the framework")]
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::IpAddress(address.ip().into());
    let stream = TokioIo::new(connector.connect(name, stream).await?);
    let mut driver = JoinSet::new();
    let sender = match protocol {
        Protocol::Http1 => {
            let (sender, connection) = http1::handshake(stream).await?;
            driver.spawn(connection);
            Sender::Http1(sender)
        }
        Protocol::Http2 => {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
            driver.spawn(connection);
            Sender::Http2(sender)
        }
    };
    Ok((sender, driver))
}
