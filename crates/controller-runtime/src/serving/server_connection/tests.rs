//! Tests of HTTP/1.1 connections in memory.

use http::Request;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    task::JoinSet,
    time::{Instant, sleep},
};

use super::*;
use crate::serving::{BoxHandler, HttpResponse, boxed};

const WHOLE: &str = "GET /0 HTTP/1.1\r\nHost: test\r\n\r\n";
const HALF: &str = "GET /0 HTTP/1.1\r\nHost:";

/// Answers after the number of seconds in the path.
pub(super) fn slow() -> BoxHandler {
    boxed(async |request: Request<()>| {
        let seconds = request.uri().path()[1..].parse().expect("a number of seconds");
        sleep(Duration::from_secs(seconds)).await;
        HttpResponse::new("late".into())
    })
}

/// A connection of HTTP/1.1 in memory.
struct Http1 {
    client: DuplexStream,
    _server: JoinSet<()>,
}

fn over_http1(closing: &CancellationToken) -> Http1 {
    let ((client, far), mut server) = (duplex(1 << 16), JoinSet::new());
    server.spawn(http1(far, slow(), closing.clone()));
    Http1 { client, _server: server }
}

impl Http1 {
    async fn send(&mut self, text: &str) {
        self.client.write_all(text.as_bytes()).await.expect("the server reads");
    }

    /// Sends a text. Returns after how many seconds the connection ends, and whether a request was answered until then.
    async fn cut_off(&mut self, text: &str) -> (u64, bool) {
        let (began, mut answer) = (Instant::now(), String::new());
        self.send(text).await;
        self.client.read_to_string(&mut answer).await.expect("the server closes");
        (began.elapsed().as_secs(), answer.contains("200 OK"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_its_request_too_slowly_is_disconnected() {
    let closing = CancellationToken::new();
    for (text, expected) in [("", (32, false)), (HALF, (32, false)), (WHOLE, (90, true))] {
        assert_eq!(over_http1(&closing).cut_off(text).await, expected, "{text:?}");
    }
    let mut client = over_http1(&closing);
    client.send(WHOLE).await;
    sleep(Duration::from_secs(80)).await;
    assert_eq!(client.cut_off(HALF).await, (32, true), "half of a second request");
    let mut client = over_http1(&closing);
    client.send(WHOLE).await;
    sleep(Duration::from_secs(80)).await;
    assert_eq!(client.cut_off(WHOLE).await, (90, true), "a second request");
}

#[tokio::test(start_paused = true)]
async fn a_request_may_take_its_time_and_ends_with_the_stop() {
    let closing = CancellationToken::new();
    let mut client = over_http1(&closing);
    let request = WHOLE.replace("/0", "/1000");
    let stop = async {
        sleep(Duration::from_secs(500)).await;
        closing.cancel();
    };
    let (ended, ()) = tokio::join!(client.cut_off(&request), stop);
    assert_eq!(ended, (1000, true));
}

#[tokio::test(start_paused = true)]
async fn at_a_stop_incomplete_requests_have_five_seconds() {
    for (text, later, expected) in [
        ("", "", (0, false)),
        (HALF, "", (5, false)),
        (HALF, &WHOLE[HALF.len()..], (3, true)),
        (&*WHOLE.replace("/0", "/40"), "", (39, true)),
    ] {
        let closing = CancellationToken::new();
        let mut client = over_http1(&closing);
        client.send(text).await;
        sleep(Duration::from_secs(1)).await;
        closing.cancel();
        let (began, mut answer) = (Instant::now(), String::new());
        if !later.is_empty() {
            sleep(Duration::from_secs(3)).await;
            client.send(later).await;
        }
        client.client.read_to_string(&mut answer).await.expect("the server closes");
        let ended = (began.elapsed().as_secs(), answer.contains("200 OK"));
        assert_eq!(ended, expected, "{text:?}, {later:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_head_of_a_request_may_be_a_mebibyte_long() {
    let closing = CancellationToken::new();
    let with_head_of = |bytes: usize| {
        let (before, after) = ("GET /0 HTTP/1.1\r\nConnection: close\r\nPadding: ", "\r\n\r\n");
        format!("{before}{}{after}", "x".repeat(bytes - before.len() - after.len()))
    };
    for (bytes, expected) in [(MAX_HEADER_BYTES as usize - 1, "200"), (MAX_HEADER_BYTES as usize + 1, "431")]
    {
        let Http1 { client, _server } = over_http1(&closing);
        let (mut reader, mut writer) = tokio::io::split(client);
        let (head, mut answer) = (with_head_of(bytes), String::new());
        // The server closes before the client has sent everything.
        let sent = async { drop(writer.write_all(head.as_bytes()).await) };
        let (_, read) = tokio::join!(sent, reader.read_to_string(&mut answer));
        read.expect("the server closes");
        assert_eq!(answer.split(' ').nth(1), Some(expected), "{bytes} bytes: {answer}");
    }
}

/// Seconds for which a server serves a client that sends `request` and does not read its long response.
pub(super) async fn served_unread<S: Future<Output = ()>>(
    serve: impl FnOnce(DuplexStream, BoxHandler, CancellationToken) -> S,
    request: &[u8],
) -> u64 {
    let (mut client, far) = duplex(1 << 10);
    let long = boxed(async |_: Request<()>| HttpResponse::new(vec![b'x'; 1 << 20].into()));
    let began = Instant::now();
    let served = serve(far, long, CancellationToken::new());
    let (sent, ()) = tokio::join!(client.write_all(request), served);
    sent.expect("the server reads");
    began.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_answer_is_disconnected() {
    assert_eq!(served_unread(http1, WHOLE.as_bytes()).await, 90);
}
