//! Calls of webhooks over TLS and HTTP/1.1, with connections that are kept open.
//!
//! Like kube-apiserver, the client does not offer HTTP/2, so that concurrent calls are spread over the webhook's replicas.
//!
//! A connection has no task of its own: each call drives the connection that it uses. If the peer has closed a kept connection, the next
//! call notices that and opens another one.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::Fuse;
use http::{Request, Response, Uri};
use http_body::Body;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Duration, Instant};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::ServerName;

use super::webhook_response::ExchangeFailure;
use super::{ClientConfig, webhook_tls};

/// Maximum size of a response, in bytes. kube-apiserver has no maximum.
const RESPONSE_LIMIT: usize = 64 << 20;
/// Maximum number of connections that are kept open without a call, to all webhooks together.
const MAX_IDLE: usize = 64;
/// Time after which a kept connection is not used again, as in Go's HTTP client.
const IDLE_TIME: Duration = Duration::from_secs(90);
/// Maximum number of addresses of a host that are tried.
const MAX_ADDRESSES: usize = 8;

/// Connections to the webhook of one configuration.
#[derive(Default)]
pub(super) struct Connections {
    /// Built by the first call.
    tls: OnceLock<Result<Arc<rustls::ClientConfig>, String>>,
    idle: Mutex<Vec<Idle>>,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections").field("idle", &self.idle.lock().len()).finish_non_exhaustive()
    }
}

/// A connection without a call.
struct Idle {
    connection: Connection,
    since: Instant,
    /// Permit out of [`MAX_IDLE`].
    _permit: OwnedSemaphorePermit,
}

impl Connections {
    /// Takes the connection that was used last, and drops connections that were idle for too long.
    fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.lock();
        idle.retain(|kept| kept.since.elapsed() < IDLE_TIME);
        // The webhook is least likely to have closed the newest one.
        idle.pop().map(|kept| kept.connection)
    }

    /// Keeps a connection for the next call, unless it is closed or too many are kept.
    fn keep(&self, connection: Connection, permits: &Arc<Semaphore>) {
        if connection.sender.is_closed() {
            return;
        }
        if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
            self.idle.lock().push(Idle { connection, since: Instant::now(), _permit: permit });
        }
    }
}

/// Sockets of all webhooks of a server.
pub(super) struct Sockets {
    permits: Arc<Semaphore>,
}

impl Default for Sockets {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_IDLE)) }
    }
}

impl Sockets {
    /// Sends a request and reads its response. `address` is the `host:port` of the connection, if it differs from that of the URL.
    ///
    /// Dropping the future closes the connection.
    pub(super) async fn exchange(
        &self,
        config: &ClientConfig,
        address: Option<String>,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, ExchangeFailure> {
        let connections = &config.connections;
        let tls = connections.tls.get_or_init(|| webhook_tls::client(config.ca_bundle()));
        let tls = tls.as_ref().map_err(|why| ExchangeFailure::Settings(why.clone()))?;
        if request.uri().scheme_str() != Some("https") {
            return Err(ExchangeFailure::Exchange("webhooks are only called over HTTPS".to_owned()));
        }
        let mut request = in_origin_form(request).map_err(ExchangeFailure::Exchange)?;
        // Bounded by the number of idle connections: each is taken at most once.
        while let Some(mut connection) = connections.take() {
            match connection.exchange(request).await {
                Ok(response) => {
                    connections.keep(connection, &self.permits);
                    return Ok(response);
                }
                // The webhook closed the connection while it was idle and has not seen the request, so that
                // it can be sent again.
                Err(Broken::Unsent(unsent)) => request = *unsent,
                // The webhook may have processed the request. A second call could repeat its side effects.
                Err(Broken::Failed(why)) => return Err(ExchangeFailure::Exchange(why)),
            }
        }
        let mut connection =
            connect(config, address, Arc::clone(tls)).await.map_err(ExchangeFailure::Exchange)?;
        match connection.exchange(request).await {
            Ok(response) => {
                connections.keep(connection, &self.permits);
                Ok(response)
            }
            // The connection is new, so the webhook refuses it. Another attempt would have the same result.
            Err(Broken::Unsent(_)) => Err(ExchangeFailure::Exchange("EOF".to_owned())),
            Err(Broken::Failed(why)) => Err(ExchangeFailure::Exchange(why)),
        }
    }
}

/// Replaces the absolute URI by its path and query, which HTTP/1.1 sends.
fn in_origin_form(request: Request<Bytes>) -> Result<Request<Full<Bytes>>, String> {
    let (mut head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    head.uri = path.parse::<Uri>().map_err(|error| error.to_string())?;
    Ok(Request::from_parts(head, Full::new(body)))
}

/// Reason why a connection gave no response.
enum Broken {
    /// The connection was closed before the request was sent, so the request can be sent over another connection.
    Unsent(Box<Request<Full<Bytes>>>),
    /// The call failed, after the webhook may have received the request.
    Failed(String),
}

/// An HTTP/1.1 connection.
struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// Reads and writes the socket. Ends when the connection is closed.
    driver: Fuse<Pin<Box<dyn Future<Output = ()> + Send>>>,
    peer: String,
}

impl Connection {
    /// Sends a request and reads its response.
    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, Broken> {
        let Self { sender, driver, peer } = self;
        if driven(driver, sender.ready()).await.is_err() {
            return Err(Broken::Unsent(Box::new(request)));
        }
        let failed = |error: &hyper::Error| Broken::Failed(text_of_http(error, peer));
        let response = match driven(driver, sender.try_send_request(request)).await {
            Ok(response) => response,
            Err(mut error) => {
                return Err(match error.take_message() {
                    Some(unsent) => Broken::Unsent(Box::new(unsent)),
                    None => failed(error.error()),
                });
            }
        };
        let (head, body) = response.into_parts();
        let too_large = || Broken::Failed(format!("the response is larger than {RESPONSE_LIMIT} bytes"));
        // A length that is announced is checked before the body is read.
        if usize::try_from(body.size_hint().lower()).is_ok_and(|announced| announced > RESPONSE_LIMIT) {
            return Err(too_large());
        }
        match driven(driver, Limited::new(body, RESPONSE_LIMIT).collect()).await {
            Ok(body) => Ok(Response::from_parts(head, body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
            Err(error) => Err(match error.downcast_ref::<hyper::Error>() {
                Some(error) => failed(error),
                None => Broken::Failed(error.to_string()),
            }),
        }
    }
}

/// Waits for `work` while `driver` moves its bytes.
async fn driven<T>(driver: &mut (impl Future<Output = ()> + Unpin), work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(done);
        }
        // The end of the driver fails `work`, which is therefore polled once more.
        let _ = driver.poll_unpin(context);
        work.as_mut().poll(context)
    })
    .await
}

/// Opens a connection.
///
/// # Errors
/// The text that Go's HTTP client has for the error.
async fn connect(
    config: &ClientConfig,
    address: Option<String>,
    tls: Arc<rustls::ClientConfig>,
) -> Result<Connection, String> {
    let url: Uri = config.url().parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    let host = url.host().unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| format!("tls: {host} is not the name of a server"))?;
    let (dialed, port) = match &address {
        Some(address) => split(address)?,
        None => (host, url.port_u16().unwrap_or(443)),
    };
    let stream = dial(dialed, port).await?;
    // Calls are small and wait for their response.
    let _ = stream.set_nodelay(true);
    let peer = match (stream.local_addr(), stream.peer_addr()) {
        (Ok(local), Ok(peer)) => format!("{local}->{peer}"),
        _ => String::new(),
    };
    let stream = TlsConnector::from(tls).connect(name, stream).await;
    let stream: TlsStream<TcpStream> = stream.map_err(|error| text_of_io(&error, &peer, host))?;
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| text_of_http(&error, &peer))?;
    // The driver's error can be dropped: a request in progress receives it too, and an idle connection needs none.
    let driver: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(connection.map(drop));
    Ok(Connection { sender, driver: driver.fuse(), peer })
}

fn split(address: &str) -> Result<(&str, u16), String> {
    let parsed = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = parsed.ok_or_else(|| format!("address {address}: missing port in address"))?;
    Ok((host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host), port))
}

/// Connects to the first address of the host that accepts.
///
/// # Errors
/// Go's text for the first address.
async fn dial(host: &str, port: u16) -> Result<TcpStream, String> {
    let addresses: Vec<SocketAddr> = match host.parse() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        Err(_) => {
            let found = tokio::net::lookup_host((host, port)).await;
            found.map_or_else(|_| Vec::new(), |found| found.take(MAX_ADDRESSES).collect())
        }
    };
    let mut first = None;
    for address in addresses {
        #[expect(
            clippy::disallowed_methods,
            reason = "the calls of webhooks, which do not go through a kube::Client"
        )]
        let stream = TcpStream::connect(address).await;
        match stream {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                first.get_or_insert_with(|| format!("dial tcp {address}: {}", text_of_dial(&error)));
            }
        }
    }
    Err(first.unwrap_or_else(|| format!("dial tcp: lookup {host}: no such host")))
}

fn text_of_dial(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::TimedOut => "i/o timeout".to_owned(),
        _ => format!("connect: {error}"),
    }
}

/// Returns Go's text for an error of hyper.
fn text_of_http(error: &hyper::Error, peer: &str) -> String {
    if let Some(error) = error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
        return text_of_io(error, peer, "");
    }
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        return "EOF".to_owned();
    }
    if error.is_parse() {
        return "net/http: HTTP/1.x transport connection broken: malformed HTTP response".to_owned();
    }
    error.to_string()
}

/// Returns Go's text for an I/O error of the connection to a host.
fn text_of_io(error: &io::Error, peer: &str, host: &str) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match (tls, error.kind()) {
        (Some(error), _) => webhook_tls::text_of(error, host),
        (None, io::ErrorKind::UnexpectedEof) => "EOF".to_owned(),
        (None, io::ErrorKind::ConnectionReset) => format!("read tcp {peer}: read: connection reset by peer"),
        (None, io::ErrorKind::BrokenPipe) => format!("write tcp {peer}: write: broken pipe"),
        (None, _) => error.to_string(),
    }
}
