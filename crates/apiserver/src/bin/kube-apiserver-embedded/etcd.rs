//! The program in place of `etcd`: a health endpoint, for test environments that wait for etcd to be healthy.
//!
//! It stores no objects: the `kube-apiserver` beside it is the same program, which keeps its objects in memory.

use std::convert::Infallible;
use std::ffi::OsString;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Duration;
use tracing_subscriber::filter::LevelFilter;

use crate::flags::Program;
use crate::signals::terminated;
use crate::{log_from, print};

const PROGRAM: Program = Program {
    name: "etcd",
    table: include_str!("etcd-flags.txt"),
    meanings: &[
        ("help", "print this help"),
        ("listen-client-urls", "URLs of the health endpoint; by default http://localhost:2379"),
        ("version", "print the version"),
    ],
    about: "kube-apiserver-embedded in place of etcd, for test environments: it serves /health and stores nothing. The kube-apiserver\n\
            beside it needs none.",
};

/// Pause after a failed `accept`, for example when the process is out of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Serves the health endpoint until a signal arrives.
///
/// # Errors
/// One line that names the flag or address.
pub(crate) async fn run(arguments: Vec<OsString>) -> Result<(), String> {
    let flags = PROGRAM.read(arguments.into_iter().map(two_dashes).collect())?;
    if flags.is_on("help") {
        print(&PROGRAM.help());
        return Ok(());
    }
    if flags.is_on("version") {
        print(concat!("kube-apiserver-embedded ", env!("CARGO_PKG_VERSION"), " in place of etcd\n"));
        return Ok(());
    }
    log_from(LevelFilter::WARN);
    let terminated = terminated()?;
    let given: Vec<&str> = flags.list("listen-client-urls").collect();
    let urls = if given.is_empty() { vec!["http://localhost:2379"] } else { given };
    let mut listening = JoinSet::new();
    for url in urls {
        let address = authority(url)?;
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| format!("cannot listen on {url}: {error}"))?;
        listening.spawn(serve(listener));
        eprintln!(
            "kube-apiserver-embedded in place of etcd: it answers {url}/health and stores nothing; kube-apiserver keeps its objects in memory"
        );
    }
    terminated.await;
    Ok(())
}

/// Replaces one dash by two, because Go's own flag library accepts both.
fn two_dashes(argument: OsString) -> OsString {
    match argument.to_str() {
        Some(text) if text.len() > 2 && text.starts_with('-') && !text.starts_with("--") => {
            format!("-{text}").into()
        }
        _ => argument,
    }
}

/// Returns the host and port of a URL.
fn authority(url: &str) -> Result<&str, String> {
    let authority = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
    authority
        .filter(|authority| authority.contains(':'))
        .ok_or_else(|| format!("--listen-client-urls {url:?} is not supported: use http://HOST:PORT"))
}

async fn serve(listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // New connections take precedence over removing ended ones.
            biased;
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(connection(TokioIo::new(stream), peer));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection; retrying");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TokioIo<tokio::net::TcpStream>, peer: SocketAddr) {
    if let Err(error) = http1::Builder::new().serve_connection(stream, service_fn(answer)).await {
        tracing::warn!(%peer, %error, "a request cannot be parsed: this program replaces etcd in tests, and only answers GET /health");
    }
}

async fn answer<B>(request: Request<B>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, body) = match request.uri().path() {
        "/health" => (200, r#"{"health":"true","reason":""}"#),
        "/livez" | "/readyz" => (200, "ok\n"),
        _ => (404, "kube-apiserver-embedded in place of etcd answers /health only\n"),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    let kind = if body.starts_with('{') { "application/json" } else { "text/plain; charset=utf-8" };
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    Ok(response)
}
