//! The pool against peers at the other end of a pipe, in paused time.

use std::{
    convert::Infallible,
    future::pending,
    io,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

use futures::{StreamExt, future::join_all, stream};
use http_body_util::{BodyExt, Empty, StreamBody, combinators::BoxBody};
use hyper::{server::conn, service::service_fn};
use hyper_util::{
    client::legacy::connect::Connected,
    rt::{TokioExecutor, TokioIo},
};
use tokio::{
    io::DuplexStream,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// API servers behind one address, one for each connection.
#[derive(Clone)]
struct Peers {
    http2: bool,
    /// Streams that each connection allows.
    streams: u32,
    /// Number of connections requested.
    opened: Arc<AtomicUsize>,
    /// Number of open connections.
    open: Arc<AtomicUsize>,
    /// Time that connecting takes.
    takes: Duration,
    /// Whether connections are refused.
    refuses: Arc<Mutex<bool>>,
    /// Cancelled to silence the current peers: they neither read nor write, but keep their ends open.
    frozen: Arc<Mutex<CancellationToken>>,
    /// Cancelled to make the current peers finish their requests and close.
    leaving: Arc<Mutex<CancellationToken>>,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

impl Peers {
    fn new(http2: bool, streams: u32) -> Self {
        Self {
            http2,
            streams,
            opened: Arc::default(),
            open: Arc::default(),
            takes: Duration::ZERO,
            refuses: Arc::default(),
            frozen: Arc::default(),
            leaving: Arc::default(),
            tasks: Arc::default(),
        }
    }

    fn pool(&self) -> Pool<Self> {
        let server = Uri::from_static("https://peer");
        Pool::new(self.clone(), Self { http2: false, ..self.clone() }, server, KeepAlive::default())
    }

    fn opened(&self) -> usize {
        self.opened.load(SeqCst)
    }

    async fn serve(self, end: DuplexStream) {
        let frozen = self.frozen.lock().clone();
        let leaving = self.leaving.lock().clone();
        let answer = service_fn(|request: Request<Incoming>| async move { answer(&request) });
        let served = async {
            if self.http2 {
                let connection = conn::http2::Builder::new(TokioExecutor::new())
                    .max_concurrent_streams(self.streams)
                    .serve_connection(TokioIo::new(end), answer);
                let mut connection = std::pin::pin!(connection);
                tokio::select! {
                    ended = &mut connection => return drop(ended),
                    () = leaving.cancelled() => connection.as_mut().graceful_shutdown(),
                }
                drop(connection.await);
            } else {
                drop(conn::http1::Builder::new().serve_connection(TokioIo::new(end), answer).await);
            }
        };
        let mut served = std::pin::pin!(served);
        self.open.fetch_add(1, SeqCst);
        tokio::select! {
            () = &mut served => {}
            () = frozen.cancelled() => pending().await, // keeps this end open
        }
        self.open.fetch_sub(1, SeqCst);
    }
}

type Answered = Response<BoxBody<Bytes, Infallible>>;

/// `/endless` sends a line and stays open, `/large` sends 16 MiB, others are empty.
fn answer(request: &Request<Incoming>) -> Result<Answered, Infallible> {
    let line = |_| Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; 64 << 10])));
    Ok(Response::new(match request.uri().path() {
        "/endless" => BodyExt::boxed(StreamBody::new(
            stream::iter([Ok(Frame::data(Bytes::from_static(b"first")))]).chain(stream::pending()),
        )),
        "/large" => BodyExt::boxed(StreamBody::new(stream::iter(0..256).map(line))),
        _ => BodyExt::boxed(Empty::new()),
    }))
}

impl Service<Uri> for Peers {
    type Response = Pipe;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Pipe>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let peers = self.clone();
        Box::pin(async move {
            peers.opened.fetch_add(1, SeqCst);
            sleep(peers.takes).await;
            if *peers.refuses.lock() {
                return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
            }
            let (ours, theirs) = tokio::io::duplex(64 << 10);
            let http2 = peers.http2;
            let tasks = Arc::clone(&peers.tasks);
            tasks.lock().spawn(peers.serve(theirs));
            Ok(Pipe { io: TokioIo::new(ours), http2 })
        })
    }
}

struct Pipe {
    io: TokioIo<DuplexStream>,
    http2: bool,
}

impl Connection for Pipe {
    fn connected(&self) -> Connected {
        let connected = Connected::new();
        if self.http2 { connected.negotiated_h2() } else { connected }
    }
}

impl Read for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl Write for Pipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

async fn get(pool: &Pool<Peers>, path: &str) -> Result<PooledBody<Peers>, BoxError> {
    let request = Request::get(format!("https://peer{path}")).body(Body::empty()).expect("a request");
    let response = pool.clone().call(request).await?;
    assert_eq!(response.status(), 200);
    Ok(response.into_body())
}

/// Starts a response that stays open, and reads its first line.
async fn endless(pool: &Pool<Peers>) -> PooledBody<Peers> {
    let mut body = get(pool, "/endless").await.expect("the peer answers");
    let first = body.frame().await.expect("a frame").expect("no error");
    assert_eq!(first.into_data().expect("data"), "first");
    body
}

#[tokio::test(start_paused = true)]
async fn a_vanished_peer_is_detected_within_45_seconds() {
    let peers = Peers::new(true, 100);
    let pool = peers.pool();
    let mut watch = endless(&pool).await;
    sleep(1000 * SECOND).await; // pings are answered
    peers.frozen.lock().cancel();
    *peers.frozen.lock() = CancellationToken::new();
    let frozen = Instant::now();
    let error = timeout(46 * SECOND, watch.frame()).await.expect("it is found").expect("not the end");
    assert!(error.is_err());
    assert!(frozen.elapsed() >= 15 * SECOND && frozen.elapsed() <= 45 * SECOND, "{:?}", frozen.elapsed());
    endless(&pool).await;
    assert_eq!(peers.opened(), 2, "requests go on with a connection that works");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_watches_share_as_few_connections_as_their_server_allows() {
    for (streams, connections) in [(1000, 1), (250, 4), (100, 10)] {
        let peers = Peers::new(true, streams);
        let pool = peers.pool();
        let watches = join_all((0..1000).map(|_| endless(&pool))).await;
        assert_eq!(peers.opened(), connections, "{streams} streams each");
        // There is still room for other requests.
        get(&pool, "/").await.expect("it is answered");
        drop(watches);
        sleep(SECOND).await;
        assert_eq!(peers.open.load(SeqCst), 1, "idle connections are closed");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unread_answer_does_not_delay_other_answers() {
    let peers = Peers::new(true, 100);
    let pool = peers.pool();
    let mut unread = Vec::new();
    for _ in 0..20 {
        unread.push(get(&pool, "/large").await.expect("it is answered"));
    }
    sleep(SECOND).await; // the window of the stream fills up
    let read = get(&pool, "/large").await.expect("it is answered");
    let read = timeout(SECOND, read.collect()).await.expect("it goes on").expect("it is whole");
    assert_eq!(read.to_bytes().len(), 16 << 20);
    assert_eq!(peers.opened(), 1);
}

#[tokio::test(start_paused = true)]
async fn requests_share_the_wait_for_a_connection_and_its_failure() {
    let peers = Peers { takes: 5 * SECOND, ..Peers::new(true, 100) };
    let pool = peers.pool();
    *peers.refuses.lock() = true;
    let began = Instant::now();
    for outcome in join_all((0..50).map(|_| get(&pool, "/"))).await {
        let error = outcome.err().expect("it is refused");
        assert_eq!(crate::error::text_with_causes(&*error), "cannot connect to peer: connection refused");
    }
    assert_eq!((peers.opened(), began.elapsed()), (1, 5 * SECOND));

    *peers.refuses.lock() = false;
    assert!(timeout(SECOND, get(&pool, "/")).await.is_err(), "the first request is dropped while it waits");
    let (one, other) = tokio::join!(timeout(SECOND, get(&pool, "/")), get(&pool, "/"));
    assert!(one.is_err() && other.is_ok(), "the request that goes on waiting gets the connection");
    assert!(peers.opened() <= 3);
}

#[tokio::test(start_paused = true)]
async fn a_closing_server_finishes_its_requests_and_gets_no_new_ones() {
    let peers = Peers::new(true, 100);
    let pool = peers.pool();
    let mut watch = endless(&pool).await;
    peers.leaving.lock().cancel();
    *peers.leaving.lock() = CancellationToken::new();
    sleep(SECOND).await;
    for _ in 0..10 {
        get(&pool, "/").await.expect("another connection takes it");
    }
    assert_eq!(peers.opened(), 2);
    assert!(timeout(SECOND, watch.frame()).await.is_err(), "the watch is still open");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_http2_gets_a_connection_for_each_request_in_flight() {
    let peers = Peers::new(false, 0);
    let pool = peers.pool();
    for _ in 0..3 {
        let body = get(&pool, "/").await.expect("it is answered");
        body.collect().await.expect("it is whole");
    }
    assert_eq!(peers.opened(), 1, "the connection that showed the protocol is used for all requests");
    let watches = join_all((0..10).map(|_| endless(&pool))).await;
    assert_eq!(peers.opened(), 10);
    drop(watches);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_upgrades_its_connection_uses_http1() {
    let peers = Peers::new(true, 100);
    let pool = peers.pool();
    endless(&pool).await;
    let request = Request::get("https://peer/").header(header::UPGRADE, "websocket");
    let response = pool.clone().call(request.body(Body::empty()).expect("a request")).await;
    assert_eq!(response.expect("it is answered").version(), http::Version::HTTP_11);
    assert_eq!(peers.opened(), 2);
}
