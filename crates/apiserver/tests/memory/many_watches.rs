//! Ten thousand idle watches.
#![expect(clippy::disallowed_methods, reason = "these clients use raw connections on purpose")]

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower_service::Service;

use crate::{ALLOCATOR, ALONE};

const WATCHES: usize = 10_000;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn send(
    service: &mut ApiService,
    request: Request<Full<Bytes>>,
) -> kube_apiserver_embedded::ResponseBody {
    let answer = service.call(request).await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.status());
    answer.into_body()
}

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(path).body(Full::default()).unwrap()
}

fn create(name: &str) -> Request<Full<Bytes>> {
    let body = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
    Request::post(MAPS).header("content-type", "application/json").body(Full::new(body.into())).unwrap()
}

/// Returns the bytes per watch beyond `before`.
fn each(before: usize, watches: usize) -> usize {
    ALLOCATOR.current_usage().saturating_sub(before) / watches
}

/// Returns half of the process's limit of open files, minus a reserve: each connection here takes two files.
fn connections() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    let files = line.split_ascii_whitespace().nth(3).and_then(|soft| soft.parse().ok()).unwrap_or(1024_usize);
    (files.saturating_sub(200) / 2).min(WATCHES)
}

// A single test, because it measures the memory of the whole process.
#[tokio::test]
async fn idle_watches_need_little_memory_and_each_receives_events() {
    let _alone = ALONE.lock().await;
    let server = ApiServer::start(Options::default());
    let mut service = server.service();
    send(&mut service, get(MAPS)).await;

    let before = ALLOCATOR.current_usage();
    let mut watches = Vec::with_capacity(WATCHES);
    for _ in 0..WATCHES {
        watches.push(send(&mut service, get(&format!("{MAPS}?watch=1&resourceVersion=1"))).await);
    }
    let bytes = each(before, WATCHES);
    assert!(bytes < 8 << 10, "{bytes} bytes for a watch in process");
    send(&mut service, create("a")).await;
    for watch in &mut watches {
        let event = watch.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(event.starts_with(br#"{"type":"ADDED""#));
    }
    drop(watches);

    let wanted = connections();
    if wanted < WATCHES {
        eprintln!(
            "only {wanted} watches over sockets: raise the limit of open files (`ulimit -n`) for {WATCHES}"
        );
    }
    let listener = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let before = ALLOCATOR.current_usage();
    let request = format!("GET {MAPS}?watch=1&resourceVersion=2 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut streams = Vec::with_capacity(wanted);
    for _ in 0..wanted {
        let mut stream = TcpStream::connect(listener.local_addr()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        streams.push(stream);
    }
    send(&mut service, create("b")).await;
    for stream in &mut streams {
        let mut answer = Vec::new();
        while !answer.ends_with(b"}\n\r\n") {
            assert!(
                stream.read_buf(&mut answer).await.unwrap() > 0,
                "{:?}",
                String::from_utf8_lossy(&answer)
            );
        }
    }
    let bytes = each(before, wanted);
    assert!(bytes < 32 << 10, "{bytes} bytes for a watch over a socket");
    // Other requests still work.
    send(&mut service, get(MAPS)).await;
}
