//! The metrics server over HTTP/2.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use bytes::Bytes;
use controller_runtime::{
    Manager,
    serving::{AllowedTo, CertFiles, HttpRequest, HttpResponse, MetricsServerOptions, Serving},
};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube_apiserver_embedded::{AuthorizationMode, Tokens, UserInfo};
use kube_envtest::Environment;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};
use tokio_rustls::{
    client::TlsStream,
    rustls::{
        RootCertStore,
        version::{TLS12, TLS13},
    },
};

use crate::{
    access::{certificate, speaks_tls},
    servers::{ask, connect, serving},
    support::Running,
};

/// Protocols that a client offers, HTTP/2 preferred.
const BOTH: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// A manager that serves metrics over HTTPS.
struct Https {
    manager: Manager,
    running: Running,
    roots: RootCertStore,
    _certificate: TempDir,
    _env: Environment,
}

impl Https {
    async fn serve(options: MetricsServerOptions) -> Self {
        let mut server = kube_apiserver_embedded::Options::default();
        server.tokens = Some(Tokens::new().with("good", UserInfo::new("scraper", "", ["monitoring"])));
        server.authorization = AuthorizationMode::AlwaysAllow;
        let env = Environment::builder().server_options(server).start().await.unwrap();
        let (folder, roots) = certificate();
        let files = Serving::Files(CertFiles::in_dir(folder.path()));
        let manager = serving(&env, options.serving(files));
        let running = Running::start(manager.clone()).await;
        Self { manager, running, roots, _certificate: folder, _env: env }
    }

    async fn connect(&self, protocols: &[&[u8]]) -> TlsStream<TcpStream> {
        let client = speaks_tls(self.roots.clone(), &[&TLS12, &TLS13], protocols);
        let stream = connect(self.manager.metrics_address().unwrap()).await;
        client.connect("localhost".try_into().unwrap(), stream).await.unwrap()
    }

    async fn http2(&self) -> Http2 {
        let stream = self.connect(&BOTH).await;
        assert_eq!(agreed(&stream), Some("h2"));
        let (requests, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        let mut task = JoinSet::new();
        task.spawn(connection);
        Http2 { requests, connection: task }
    }
}

/// Returns the protocol that was negotiated in the handshake.
fn agreed(stream: &TlsStream<TcpStream>) -> Option<&str> {
    stream.get_ref().1.alpn_protocol().map(|name| std::str::from_utf8(name).unwrap())
}

/// An HTTP/2 connection.
struct Http2 {
    requests: SendRequest<Empty<Bytes>>,
    connection: JoinSet<hyper::Result<()>>,
}

impl Http2 {
    /// Returns code and body of the answer.
    async fn get(&mut self, path: &str, token: Option<&str>) -> (u16, String) {
        let mut request = http::Request::get(format!("https://localhost{path}"));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let answer = self.requests.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.into()).unwrap())
    }
}

#[tokio::test]
async fn without_the_option_http2_is_not_offered() {
    let https = Https::serve(MetricsServerOptions::default()).await;
    let stream = https.connect(&BOTH).await;
    assert_eq!(agreed(&stream), Some("http/1.1"));
    assert_eq!(ask(stream, "/metrics", "").await.0, 200);
}

#[tokio::test]
async fn with_the_option_authorized_clients_read_metrics_over_http2() {
    let options = MetricsServerOptions::default().enable_http2(true).allowed_to(AllowedTo::Authorized);
    let https = Https::serve(options).await;
    let mut client = https.http2().await;
    assert_eq!(client.get("/metrics", None).await.0, 401);
    assert_eq!(client.get("/metrics", Some("bad")).await.0, 401);
    let (code, text) = client.get("/metrics", Some("good")).await;
    assert_eq!(code, 200);
    assert!(text.contains("certwatcher_read_certificate_total "), "{text}");
    assert_eq!(client.get("/other", Some("good")).await.0, 404);

    // Clients without HTTP/2 are served as before.
    let stream = https.connect(&[]).await;
    assert_eq!(agreed(&stream), None);
    assert_eq!(ask(stream, "/metrics", "").await.0, 401);

    https.running.stop().await.unwrap();
    client.connection.join_next().await.unwrap().unwrap().expect("a stop says good-bye");
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: u8 = 4;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
const CANCEL: u8 = 8;
const ENHANCE_YOUR_CALM: u8 = 11;
/// Flags `END_STREAM` and `END_HEADERS`.
const WHOLE: u8 = 0x5;

/// A frame of RFC 9113, section 4.1.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    frame.extend(payload);
    frame
}

/// Returns the frames in `bytes` as types and payloads.
fn frames(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let Some((payload, rest)) = rest.split_at_checked(length) else { break };
        frames.push((head[3], payload));
        bytes = rest;
    }
    frames
}

#[tokio::test]
async fn a_client_that_resets_many_requests_is_disconnected_and_others_are_served() {
    let handled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&handled);
    let hello = move |_: HttpRequest| {
        count.fetch_add(1, SeqCst);
        std::future::ready(HttpResponse::new("hello".into()))
    };
    let https =
        Https::serve(MetricsServerOptions::default().enable_http2(true).extra_handler("/", hello)).await;
    let mut other = https.http2().await;
    assert_eq!(other.get("/", None).await, (200, "hello".to_owned()));

    // `GET / https` from the static table of RFC 7541, and an authority.
    let request = [&[0x82, 0x84, 0x87, 0x41, 9][..], b"localhost"].concat();
    let mut flood = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    for stream in (1..20_000).step_by(2) {
        flood.extend(frame(HEADERS, WHOLE, stream, &request));
        flood.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, CANCEL]));
    }
    let stream = https.connect(&BOTH).await;
    assert_eq!(agreed(&stream), Some("h2"));
    let (mut reads, mut writes) = tokio::io::split(stream);
    // The server stops reading before the end.
    let flooding = async { drop(writes.write_all(&flood).await) };
    let mut answer = Vec::new();
    let reading = async { drop(reads.read_to_end(&mut answer).await) };
    tokio::join!(flooding, reading);
    let frames = frames(&answer);
    let farewell = frames.iter().find(|(kind, _)| *kind == GOAWAY).map(|(_, payload)| payload[7]);
    assert!(farewell.is_none_or(|reason| reason == ENHANCE_YOUR_CALM), "{frames:?}");
    assert!(handled.load(SeqCst) < 1000, "{} of 10,000 requests were handled", handled.load(SeqCst));

    assert_eq!(other.get("/", None).await, (200, "hello".to_owned()));
    let mut late = https.http2().await;
    assert_eq!(late.get("/metrics", None).await.0, 200);
}
