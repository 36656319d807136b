//! Clients that send slowly, or do not read: they are disconnected, and other clients are not affected.
#![expect(clippy::disallowed_methods, reason = "these clients use raw connections on purpose")]

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use kube_apiserver_embedded::{ApiServer, ApiService, Listener, Options};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Duration, Instant};
use tower_service::Service;

use crate::{ALLOCATOR, ALONE};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn start() -> (ApiServer, Listener) {
    let server = ApiServer::start(Options::default());
    let listener = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    (server, listener)
}

/// Sends a text, and reads until the server closes the connection.
async fn answer_to(listener: &Listener, text: &str) -> String {
    let mut stream = TcpStream::connect(listener.local_addr()).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A reset counts as the end.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_head_times_out_after_two_minutes() {
    let _alone = ALONE.lock().await;
    let (_server, listener) = start().await;
    let started = Instant::now();
    answer_to(&listener, "GET /api/v1/namesp").await;
    assert_eq!(started.elapsed().as_secs(), 120);
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_body_times_out_after_a_minute() {
    let _alone = ALONE.lock().await;
    let (_server, listener) = start().await;
    let started = Instant::now();
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\nConnection: close\r\n\r\n"
    );
    let answer = answer_to(&listener, &format!("{head}{{\"metadata\":")).await;
    assert_eq!(started.elapsed().as_secs(), 60);
    assert!(answer.starts_with("HTTP/1.1 504") && answer.contains(r#""reason":"Timeout""#), "{answer}");
}

/// Updates a ConfigMap of 64 KiB.
async fn write(service: &mut ApiService, number: usize) {
    let large = "x".repeat(64 << 10);
    let body = format!(r#"{{"metadata":{{"name":"a"}},"data":{{"k":"{number} {large}"}}}}"#);
    let request = Request::builder()
        .method(if number == 0 { "POST" } else { "PUT" })
        .uri(if number == 0 { MAPS.to_owned() } else { format!("{MAPS}/a") })
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)));
    let answer = service.call(request.unwrap()).await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.status());
}

async fn watch(listener: &Listener) -> TcpStream {
    let mut stream = TcpStream::connect(listener.local_addr()).await.unwrap();
    let head = format!("GET {MAPS}?watch=1&resourceVersion=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_client_that_never_reads_its_watch_is_cut_off_and_others_receive_all_events() {
    let _alone = ALONE.lock().await;
    const EVENTS: usize = 1_200;
    let (server, listener) = start().await;
    let mut service = server.service();
    let unread = watch(&listener).await;
    let mut read = BufReader::new(watch(&listener).await);
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    for number in 0..EVENTS {
        write(&mut service, number).await;
        // An event arrives in several lines, because of the chunked encoding.
        let mut line = String::new();
        while !line.starts_with(r#"{"type":"#) {
            line.clear();
            assert!(read.read_line(&mut line).await.unwrap() > 0, "the other watch goes on");
        }
        assert!(line.contains(&format!(r#""k":"{number} x"#)), "event {number}");
    }
    // 75 MiB of events were sent: the history holds 32 MiB, and encoded events 8 MiB.
    let grown = ALLOCATOR.peak_usage().saturating_sub(before) >> 20;
    assert!(grown < 64, "{grown} MiB more");

    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    // Read the bytes that the operating system has buffered for the client, up to the end of the connection.
    let mut unread = unread;
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(1), unread.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the connection was cut");
    assert!(!String::from_utf8_lossy(&rest).ends_with("0\r\n\r\n"), "in the middle of its watch");
}
