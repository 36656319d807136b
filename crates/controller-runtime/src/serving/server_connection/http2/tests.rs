//! Tests of HTTP/2 connections in memory.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::TokioExecutor;
use tokio::{
    io::duplex,
    time::{Instant, sleep},
};

use super::*;
use crate::serving::server_connection::tests::{served_unread, slow};

/// A connection of HTTP/2 in memory.
struct Http2 {
    requests: SendRequest<Empty<Bytes>>,
    client: JoinSet<hyper::Result<()>>,
    server: JoinSet<()>,
}

async fn over_http2(closing: &CancellationToken) -> Http2 {
    let (near, far) = duplex(1 << 16);
    let (mut client, mut server) = (JoinSet::new(), JoinSet::new());
    server.spawn(serve(far, slow(), closing.clone()));
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(near));
    let (requests, connection) = handshake.await.expect("the server speaks HTTP/2");
    client.spawn(connection);
    Http2 { requests, client, server }
}

impl Http2 {
    async fn get(&mut self, path: &str) -> hyper::Result<Bytes> {
        let request = Request::get(format!("https://test{path}")).body(Empty::new());
        let answer = self.requests.send_request(request.expect("a request")).await?;
        Ok(answer.into_body().collect().await?.to_bytes())
    }

    /// Result of the connection for the client.
    async fn end(&mut self) -> hyper::Result<()> {
        self.client.join_next().await.expect("one task").expect("no panic")
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_http2_client_is_disconnected() {
    let closing = CancellationToken::new();
    let (began, mut silent) = (Instant::now(), over_http2(&closing).await);
    silent.end().await.expect("it receives GOAWAY");
    assert_eq!(began.elapsed().as_secs(), 32);

    let mut client = over_http2(&closing).await;
    for _ in 0..2 {
        assert_eq!(client.get("/1000").await.expect("an answer"), "late");
        sleep(Duration::from_secs(80)).await;
    }
    let began = Instant::now();
    client.end().await.expect("it receives GOAWAY");
    assert_eq!(began.elapsed().as_secs(), 10);

    // A client that does not send anything.
    let (_near, far) = duplex(1 << 16);
    let began = Instant::now();
    serve(far, slow(), closing).await;
    assert_eq!(began.elapsed(), Duration::from_secs(32) + FAREWELL);
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_requests_over_http2() {
    let closing = CancellationToken::new();
    let mut client = over_http2(&closing).await;
    let stop = async {
        sleep(Duration::from_secs(1)).await;
        closing.cancel();
    };
    let (answer, ()) = tokio::join!(client.get("/3"), stop);
    assert_eq!(answer.expect("an answer"), "late");
    client.end().await.expect("it receives GOAWAY");
    client.server.join_next().await.expect("one task").expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn dropping_a_connection_of_http2_drops_its_requests() {
    let closing = CancellationToken::new();
    let mut client = over_http2(&closing).await;
    let mut server = std::mem::take(&mut client.server);
    let dropped = async {
        sleep(Duration::from_secs(1)).await;
        server.shutdown().await;
    };
    let (began, (answer, ())) = (Instant::now(), tokio::join!(client.get("/1000"), dropped));
    answer.expect_err("the server has closed the connection");
    assert_eq!(began.elapsed().as_secs(), 1);
    let _ = client.end().await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_sixteen_requests_of_a_connection_are_in_work() {
    let closing = CancellationToken::new();
    let client = over_http2(&closing).await;
    let began = Instant::now();
    let requests = (0..MAX_STREAMS * 2).map(|_| {
        let mut client = client.requests.clone();
        async move {
            let request = Request::get("https://test/10").body(Empty::<Bytes>::new());
            client.send_request(request.expect("a request")).await.map(drop)
        }
    });
    for answered in futures::future::join_all(requests).await {
        answered.expect("an answer");
    }
    assert_eq!(began.elapsed().as_secs(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_answer_is_disconnected() {
    // A preface, no settings, and `GET / https` of the static table of RFC 7541 on the first stream.
    let request = [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
        &[0, 0, 0, 4, 0, 0, 0, 0, 0],
        &[0, 0, 3, 1, 5, 0, 0, 0, 1, 0x82, 0x84, 0x87],
    ];
    assert_eq!(served_unread(serve, &request.concat()).await, 90 + FAREWELL.as_secs());
}
