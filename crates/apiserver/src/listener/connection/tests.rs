//! Streams of a connection in memory, in paused time.

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::*;
use crate::ApiServer;
use crate::Options;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Connects a client with a flow control window of `window` bytes, by which responses may be ahead of its reads. The tasks end when `tasks`
/// is dropped.
async fn connect(server: &ApiServer, window: u32, tasks: &mut JoinSet<()>) -> SendRequest<Full<Bytes>> {
    let (near, far) = tokio::io::duplex(64 << 10);
    let service = server.service();
    tasks.spawn(async move {
        let closing = watch::Sender::new(false);
        speak(far, Protocol::Http2, service, None, false, closing.subscribe()).await;
    });
    let (client, connection) = http2_client(window).handshake(TokioIo::new(near)).await.unwrap();
    tasks.spawn(async move { drop(connection.await) });
    client
}

fn http2_client(window: u32) -> hyper::client::conn::http2::Builder<TokioExecutor> {
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window).initial_connection_window_size(1 << 20);
    builder
}

async fn send(
    client: &mut SendRequest<Full<Bytes>>,
    method: &str,
    path: &str,
    body: &Value,
) -> Response<Incoming> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(format!("http://localhost{path}"));
    let request = request.header("content-type", "application/json").body(Full::from(body)).unwrap();
    client.send_request(request).await.unwrap()
}

/// Creates an object larger than the client's window.
async fn create(client: &mut SendRequest<Full<Bytes>>, name: &str) {
    let map = json!({"metadata": {"name": name}, "data": {"k": "x".repeat(200_000)}});
    assert_eq!(send(client, "POST", MAPS, &map).await.status(), 201);
}

/// Returns the name in the next event, or the error of the stream.
async fn next(watch: &mut Response<Incoming>) -> Result<String, hyper::Error> {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let frame = watch.body_mut().frame().await.expect("no watch ends by itself here")?;
        line.extend(frame.into_data().unwrap());
    }
    let event: Value = serde_json::from_slice(&line).unwrap();
    Ok(event["object"]["metadata"]["name"].as_str().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_read_is_cancelled_and_the_others_are_not() {
    let server = ApiServer::start(Options::default());
    let mut tasks = JoinSet::new();
    let mut client = connect(&server, 1000, &mut tasks).await;
    let path = format!("{MAPS}?watch=1&resourceVersion=5&timeoutSeconds=3600");
    let mut read = send(&mut client, "GET", &path, &Value::Null).await;
    let mut late = send(&mut client, "GET", &path, &Value::Null).await;
    let mut never = send(&mut client, "GET", &path, &Value::Null).await;
    let selected = format!("{path}&fieldSelector=metadata.name=map-1");
    let mut idle = send(&mut client, "GET", &selected, &Value::Null).await;

    // The first event fits into the window; the second waits until the first is read.
    for name in ["map-0", "map-1"] {
        create(&mut client, name).await;
        assert_eq!(next(&mut read).await.unwrap(), name);
    }
    assert_eq!(next(&mut idle).await.unwrap(), "map-1");
    sleep(UNREAD_TIMEOUT - Duration::from_secs(1)).await;
    assert_eq!(next(&mut late).await.unwrap(), "map-0", "not too late yet");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(next(&mut late).await.unwrap(), "map-1");
    let error = next(&mut never).await.unwrap_err();
    assert!(format!("{error:?}").contains("CANCEL"), "{error:?}");
    create(&mut client, "map-2").await;
    assert_eq!(next(&mut read).await.unwrap(), "map-2", "the connection goes on");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_not_read_is_cancelled() {
    let server = ApiServer::start(Options::default());
    let mut tasks = JoinSet::new();
    let mut client = connect(&server, 1000, &mut tasks).await;
    for number in 0..3 {
        create(&mut client, &format!("map-{number}")).await;
    }
    let mut answers = Vec::new();
    for _ in 0..2 {
        answers.push(send(&mut client, "GET", MAPS, &Value::Null).await);
    }
    let mut answers = answers.into_iter();
    let (at_once, late) = (answers.next().unwrap(), answers.next().unwrap());
    assert!(at_once.into_body().collect().await.unwrap().to_bytes().len() > 400_000);
    sleep(UNREAD_TIMEOUT + Duration::from_secs(1)).await;
    let error = late.into_body().collect().await.unwrap_err();
    assert!(format!("{error:?}").contains("CANCEL"), "{error:?}");
}
