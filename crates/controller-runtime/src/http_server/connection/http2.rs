//! Connections of HTTP/2, which are few and of those who scrape.

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
use crate::http_server::{BoxHandler, patience::Patience};

/// How many requests a client may have in work on a connection of HTTP/2: who scrapes asks for one thing at a time.
const STREAMS: u32 = 16;
/// How many requests a client may take back before we have seen them (CVE-2023-44487), and in how many it may break the
/// protocol (RUSTSEC-2024-0003), until its connection of HTTP/2 ends. Those in good order do neither.
const RESETS: usize = 20;
/// How long a client that took too long to ask may take to hear of it.
const FAREWELL: Duration = Duration::from_secs(5);
/// How much of bodies, which are not read, a client may send ahead over HTTP/2: the least that there is.
const WINDOW: u32 = (1 << 16) - 1;

/// Serves the requests of a connection of HTTP/2, as [`super::serve`].
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    handler: BoxHandler,
    closing: CancellationToken,
) {
    let (patience, requests) = (Patience::new(), Requests::default());
    let mut builder = http2::Builder::new(requests.executor());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_pending_accept_reset_streams(RESETS)
        .max_local_error_reset_streams(RESETS)
        .max_header_list_size(MAX_HEADER_BYTES)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    let asked = patience.clone();
    let service = service_fn(move |request| answer(request, Arc::clone(&handler), asked.clone()));
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    finish(connection, http2::Connection::graceful_shutdown, &closing, &patience, FAREWELL).await;
}

/// The requests of a connection of HTTP/2, each a task. Dropping this aborts them.
#[derive(Debug, Default)]
struct Requests(Arc<Mutex<JoinSet<()>>>);

impl Requests {
    fn executor(&self) -> RequestExecutor {
        RequestExecutor(Arc::downgrade(&self.0))
    }
}

/// Spawns tasks for as long as their owner is there, which a strong reference in one of them would keep alive.
#[derive(Debug, Clone)]
struct RequestExecutor(Weak<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for RequestExecutor {
    fn execute(&self, task: F) {
        let Some(requests) = self.0.upgrade() else { return };
        let mut requests = requests.lock();
        // Those that are done would be kept until the connection ends.
        while requests.try_join_next().is_some() {}
        requests.spawn(task.in_current_span());
    }
}

#[cfg(test)]
mod tests;
