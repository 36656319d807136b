//! The connections to one API server, shared by all requests.
//!
//! Over HTTP/2, requests share a connection up to the server's limit (`SETTINGS_MAX_CONCURRENT_STREAMS`, 100 for
//! kube-apiserver); then another connection is opened, as in Go's client. A client that queued requests instead would never
//! send the 101st, because watches keep their streams. Over HTTP/1.1 each request in flight has a connection of its own, pooled
//! by [`hyper_util`]'s client.
//!
//! The first connection determines the protocol. Connections are opened one at a time, and all requests that need one wait
//! for it: a process that starts a thousand watches makes a handful of TLS handshakes.

use std::{
    collections::BTreeMap,
    error::Error as StdError,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use http::{Request, Response, Uri, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::{
    body::Incoming,
    client::conn::http2::{self, SendRequest},
    rt::{Executor, Read, Write},
};
use hyper_util::{
    client::legacy::{self, connect::Connection},
    rt::TokioTimer,
};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::{task::JoinSet, time::sleep};
use tower_service::Service;
use tracing::Instrument;

use super::streams::{ConnectionId, Streams};
use crate::error::BoxError;

/// Number of times a request is sent again if its connection closed before it was sent.
const RESENDS: u32 = 3;

/// Unread bytes of one response that the server may send: Go's value.
const STREAM_WINDOW: u32 = 4 << 20;

/// Unread bytes of all responses on one connection that the server may send: Go's value. It exceeds the total of the streams on
/// a connection ([`STREAM_WINDOW`] × 100), so that a watch that is read slowly does not block the others.
const CONNECTION_WINDOW: u32 = 1 << 30;

/// Largest accepted header list, in bytes.
const HEADERS: u32 = 64 << 10;

/// Limit of a connection before its server has announced one in its first settings. No server announces this number.
const UNKNOWN_LIMIT: usize = usize::MAX - 1;

/// Interval at which a new connection is checked for the server's settings, because hyper does not report their arrival.
const SETTINGS_POLL: Duration = Duration::from_millis(1);

/// Time after which an HTTP/2 connection counts as dead.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeepAlive {
    /// Silence of the peer after which it is sent a ping.
    pub(super) interval: Duration,
    /// Time for the answer to the ping. After it the connection is closed, and its requests and watches fail.
    pub(super) timeout: Duration,
}

impl Default for KeepAlive {
    /// The values of client-go: a dead peer is detected within 45 s.
    fn default() -> Self {
        Self { interval: Duration::from_secs(30), timeout: Duration::from_secs(15) }
    }
}

/// Connector of streams that report the negotiated protocol.
pub(super) trait Connect:
    Service<Uri, Error: Into<BoxError>, Future: Send + Unpin, Response: Io> + Clone + Send + Sync + 'static
{
}

impl<C> Connect for C where
    C: Service<Uri, Error: Into<BoxError>, Future: Send + Unpin, Response: Io>
        + Clone
        + Send
        + Sync
        + 'static
{
}

pub(super) trait Io: Read + Write + Connection + Unpin + Send + 'static {}

impl<T: Read + Write + Connection + Unpin + Send + 'static> Io for T {}

/// The connections as a service for requests with absolute URIs. Clones share them.
pub(super) struct Pool<C: Connect> {
    shared: Arc<PoolInner<C>>,
}

struct PoolInner<C: Connect> {
    /// Offers HTTP/2 and HTTP/1.1.
    connector: C,
    server: Uri,
    keep_alive: KeepAlive,
    http1: legacy::Client<Http1Connector<C>, Body>,
    /// Tasks that drive the connections. Aborted when the pool is dropped; every request in flight and every open response
    /// keeps the pool.
    tasks: Arc<Mutex<JoinSet<()>>>,
    state: Mutex<OpenConnections<C::Response>>,
}

/// Open connections, and the server's protocol once known.
struct OpenConnections<T> {
    protocol: Option<Protocol>,
    streams: Streams,
    requests: BTreeMap<ConnectionId, SendRequest<Body>>,
    /// The connection that is being opened. The reference is weak, so that the attempt is dropped when no request waits
    /// for it any more.
    opening: Option<WeakShared<Opening>>,
    /// The first connection, if it turned out to use HTTP/1.1, until a request takes it.
    first: Option<T>,
}

type Opening = BoxFuture<'static, Result<(), Unreachable>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// Reason why no connection could be opened, shared by all requests that waited for it.
#[derive(Debug, Clone)]
pub(in crate::client) struct Unreachable {
    /// Host and port.
    server: Arc<str>,
    source: Arc<BoxError>,
}

impl Unreachable {
    fn new(server: &Uri, source: impl Into<BoxError>) -> Self {
        let server = server.authority().map_or_else(|| server.to_string(), ToString::to_string);
        Self { server: server.into(), source: Arc::new(source.into()) }
    }

    /// Host and port of the server.
    pub(in crate::client) fn server(&self) -> &Arc<str> {
        &self.server
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot connect to {}", self.server)
    }
}

impl StdError for Unreachable {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&**self.source)
    }
}

impl<C: Connect> Clone for Pool<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<C: Connect> Pool<C> {
    /// Creates a pool of connections to `server`. `connector` offers both protocols, `http1` only HTTP/1.1.
    pub(super) fn new(connector: C, http1: C, server: Uri, keep_alive: KeepAlive) -> Self {
        let tasks = Arc::<Mutex<JoinSet<()>>>::default();
        let shared = Arc::new_cyclic(|inner| {
            let http1 = Http1Connector { connector: http1, pool: Weak::clone(inner) };
            let http1 = legacy::Client::builder(TaskExecutor(Arc::downgrade(&tasks)))
                .pool_timer(TokioTimer::new())
                .build(http1);
            let state = OpenConnections {
                protocol: None,
                streams: Streams::default(),
                requests: BTreeMap::new(),
                opening: None,
                first: None,
            };
            PoolInner { connector, server, keep_alive, http1, tasks, state: Mutex::new(state) }
        });
        Self { shared }
    }
}

impl<C: Connect> PoolInner<C> {
    async fn send(self: Arc<Self>, mut request: Request<Body>) -> Result<Response<PooledBody<C>>, BoxError> {
        // An HTTP/2 connection cannot switch protocols, as `exec` needs.
        let upgrades = request.headers().contains_key(header::UPGRADE);
        for _ in 0..=RESENDS {
            let Some((stream, mut requests)) = (if upgrades { None } else { self.stream().await? }) else {
                let response = self.http1.request(request).await?;
                return Ok(response.map(|body| PooledBody { body, stream: None, _pool: self }));
            };
            match requests.try_send_request(request).await {
                Ok(response) => {
                    return Ok(response.map(|body| PooledBody { body, stream: Some(stream), _pool: self }));
                }
                // hyper returns the request if the connection closed before sending it; then another attempt is safe.
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(error.into_error().into()),
                },
            }
        }
        Err("the connection closed before the request was sent, several times in succession".into())
    }

    /// Returns a stream of an HTTP/2 connection, opening one if none has room; `None` if the server speaks only HTTP/1.1.
    async fn stream(self: &Arc<Self>) -> Result<Option<(Stream<C>, SendRequest<Body>)>, BoxError> {
        loop {
            // A block, so that the lock is released before the wait.
            let opening = {
                let mut state = self.state.lock();
                if state.protocol == Some(Protocol::Http1) {
                    return Ok(None);
                }
                if let Some((id, requests)) = state.place() {
                    return Ok(Some((Stream { pool: Arc::clone(self), id }, requests)));
                }
                match state.opening.as_ref().and_then(WeakShared::upgrade) {
                    Some(opening) => opening,
                    None => {
                        let opening = self.open();
                        state.opening = opening.downgrade();
                        opening
                    }
                }
            };
            // Checked again after the wait: other waiting requests may have filled the new connection.
            opening.await?;
        }
    }

    /// Opens a connection.
    fn open(self: &Arc<Self>) -> Shared<Opening> {
        let pool = Arc::clone(self);
        let opening = async move {
            let opened = pool.connect().await;
            // Before the waiting requests wake, so that none of them joins this attempt again.
            pool.state.lock().opening = None;
            opened.map_err(|error| Unreachable::new(&pool.server, error))
        };
        opening.boxed().shared()
    }

    fn executor(&self) -> TaskExecutor {
        TaskExecutor(Arc::downgrade(&self.tasks))
    }

    async fn connect(&self) -> Result<(), BoxError> {
        let mut connector = self.connector.clone();
        std::future::poll_fn(|context| connector.poll_ready(context)).await.map_err(Into::into)?;
        let stream = connector.call(self.server.clone()).await.map_err(Into::into)?;
        if !stream.connected().is_negotiated_h2() {
            let mut state = self.state.lock();
            // All later requests go to the HTTP/1.1 client, without another attempt to negotiate.
            state.protocol = Some(Protocol::Http1);
            state.first = Some(stream);
            return Ok(());
        }
        let (requests, mut connection) = http2::Builder::new(self.executor())
            .timer(TokioTimer::new())
            // Until the server's settings arrive, hyper reports this value as the limit.
            .initial_max_send_streams(UNKNOWN_LIMIT)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADERS)
            .keep_alive_interval(self.keep_alive.interval)
            .keep_alive_timeout(self.keep_alive.timeout)
            // Pings are sent even while no request is running, so that the next request does not go to a dead
            // connection.
            .keep_alive_while_idle(true)
            .handshake(stream)
            .await?;
        // Requests wait for the settings: hyper would assume a limit, and exceed the server's.
        let limit = loop {
            tokio::select! {
                biased;
                ended = &mut connection => {
                    ended?;
                    return Err("the server closed the connection before its first request".into());
                }
                () = sleep(SETTINGS_POLL) => {}
            }
            match connection.current_max_send_streams() {
                UNKNOWN_LIMIT => {} // each waiting request is bounded by its deadline
                limit => break limit,
            }
        };
        // Ends when the pool has dropped the connection and no request is left on it.
        self.executor().execute(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = %crate::error::text_with_causes(&error), "a connection to the API server ended");
            }
        });
        let mut state = self.state.lock();
        state.protocol = Some(Protocol::Http2);
        let id = state.streams.add(limit);
        state.requests.insert(id, requests);
        Ok(())
    }
}

impl<T> OpenConnections<T> {
    /// Places a request on an open connection.
    fn place(&mut self) -> Option<(ConnectionId, SendRequest<Body>)> {
        let Self { streams, requests, .. } = self;
        // Connections that closed since the last request leave no event, so look for them here.
        requests.retain(|id, requests| {
            let is_open = !requests.is_closed();
            if !is_open {
                streams.remove(*id);
            }
            is_open
        });
        let id = streams.place()?;
        Some((id, requests.get(&id)?.clone()))
    }
}

/// A stream of an HTTP/2 connection, held by a request from its head to the end of its response.
struct Stream<C: Connect> {
    pool: Arc<PoolInner<C>>,
    id: ConnectionId,
}

impl<C: Connect> Drop for Stream<C> {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        if state.streams.finish(self.id) {
            state.requests.remove(&self.id);
        }
    }
}

/// Spawns the tasks of connections while the pool exists. Weak, because the tasks themselves hold executors.
#[derive(Clone)]
struct TaskExecutor(Weak<Mutex<JoinSet<()>>>);

impl<F: Future<Output: Send + 'static> + Send + 'static> Executor<F> for TaskExecutor {
    fn execute(&self, task: F) {
        let Some(tasks) = self.0.upgrade() else { return };
        let mut tasks = tasks.lock();
        while tasks.try_join_next().is_some() {} // drop finished tasks, or the set would grow
        tasks.spawn(task.map(drop));
    }
}

/// Connector for HTTP/1.1, which hands out the first connection before it makes others.
struct Http1Connector<C: Connect> {
    connector: C,
    pool: Weak<PoolInner<C>>,
}

impl<C: Connect> Clone for Http1Connector<C> {
    fn clone(&self) -> Self {
        Self { connector: self.connector.clone(), pool: Weak::clone(&self.pool) }
    }
}

impl<C: Connect> Service<Uri> for Http1Connector<C> {
    type Response = C::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let first = self.pool.upgrade().and_then(|pool| pool.state.lock().first.take());
        if let Some(first) = first {
            return Box::pin(std::future::ready(Ok(first)));
        }
        let connecting = self.connector.call(server.clone());
        Box::pin(async move { connecting.await.map_err(|error| Unreachable::new(&server, error).into()) })
    }
}

/// Body of a response. Its stream is freed when it has been read or dropped.
pub(super) struct PooledBody<C: Connect> {
    body: Incoming,
    stream: Option<Stream<C>>,
    /// Keeps the tasks that deliver the body.
    _pool: Arc<PoolInner<C>>,
}

impl<C: Connect> HttpBody for PooledBody<C> {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            // The end or an error frees the stream at once, even if the caller keeps the body.
            self.stream = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<C: Connect> Service<Request<Body>> for Pool<C> {
    type Response = Response<PooledBody<C>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(())) // a request waits for its connection in `call`, where its deadline applies
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The attributes of OpenTelemetry's conventions for HTTP clients.
        let span = tracing::debug_span!(
            "HTTP",
            http.method = %request.method(),
            http.url = %request.uri(),
            http.status_code = tracing::field::Empty,
            otel.kind = "client",
        );
        let pool = Arc::clone(&self.shared);
        let sent = async move {
            let response = pool.send(request).await?;
            tracing::Span::current().record("http.status_code", response.status().as_u16());
            Ok(response)
        };
        Box::pin(sent.instrument(span))
    }
}

#[cfg(test)]
mod tests;
