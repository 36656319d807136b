//! Connections of HTTP/2, used by a few scrapers.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use hyper::{rt::Executor, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{MAX_HEADER_BYTES, answer, finish};
use crate::serving::{http_handler::ServerHandler, read_timeout::ReadTimeout};

/// Largest number of concurrent requests on an HTTP/2 connection: a scraper sends one at a time.
const MAX_STREAMS: u32 = 16;
/// Number of requests that a client may cancel before they are processed (CVE-2023-44487), and number of requests with protocol
/// errors (RUSTSEC-2024-0003), after which an HTTP/2 connection is closed. Well-behaved clients do neither.
const RESETS: usize = 20;
/// Time for notifying a client that it took too long to send a request.
const FAREWELL: Duration = Duration::from_secs(5);
/// Bytes of bodies, which are not read, that a client may send ahead over HTTP/2: the smallest window allowed.
const WINDOW: u32 = (1 << 16) - 1;

/// Serves the requests of an HTTP/2 connection, like [`crate::serving::server_connection::serve`].
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    handler: impl Into<ServerHandler>,
    closing: CancellationToken,
) {
    let handler = handler.into();
    let (read_timeout, requests) = (ReadTimeout::new(), ConnectionRequests::default());
    let mut builder = http2::Builder::new(requests.executor());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(RESETS)
        .max_local_error_reset_streams(RESETS)
        .max_header_list_size(MAX_HEADER_BYTES)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    let (timeout, ending) = (read_timeout.clone(), closing.clone());
    let service =
        service_fn(move |request| answer(request, handler.clone(), timeout.clone(), ending.clone()));
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    finish(connection, http2::Connection::graceful_shutdown, &closing, &read_timeout, FAREWELL).await;
}

/// The requests of an HTTP/2 connection, one task each. Dropping this aborts them.
#[derive(Debug, Default)]
struct ConnectionRequests(Arc<Mutex<JoinSet<()>>>);

impl ConnectionRequests {
    fn executor(&self) -> RequestExecutor {
        RequestExecutor(Arc::downgrade(&self.0))
    }
}

/// Spawns tasks while their owner exists. Weak, because a strong reference in a task would keep the owner alive.
#[derive(Debug, Clone)]
struct RequestExecutor(Weak<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for RequestExecutor {
    fn execute(&self, task: F) {
        let Some(requests) = self.0.upgrade() else { return };
        let mut requests = requests.lock();
        // Drop finished tasks, or the set would grow until the connection ends.
        while requests.try_join_next().is_some() {}
        requests.spawn(task.in_current_span());
    }
}

#[cfg(test)]
mod tests;
