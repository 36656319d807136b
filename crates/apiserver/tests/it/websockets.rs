//! Watches over WebSocket, as the Kubernetes clients for the JVM ask for them. The expected
//! answers were observed on a kube-apiserver 1.36.3.
#![expect(clippy::disallowed_methods, reason = "a client that upgrades its connection")]

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{Request, Response};
use http_body_util::Full;
use kube_apiserver_embedded::{ApiServer, ApiService, Listener, Options};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};
use tower_service::Service;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

type Socket = WebSocketStream<TcpStream>;

async fn server() -> (ApiService, Listener) {
    let server = ApiServer::start(Options::default());
    let listener = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    (server.service(), listener)
}

async fn create(service: &ApiService, name: &str) {
    let map = json!({"metadata": {"name": name}}).to_string();
    let request = Request::post(MAPS).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(map))).unwrap();
    assert_eq!(service.clone().call(request).await.unwrap().status(), 201);
}

async fn connect(
    listener: &Listener,
    path: &str,
    headers: &[(&'static str, &str)],
) -> Result<(Socket, Response<Option<Vec<u8>>>), Error> {
    let mut request = format!("ws://{}{path}", listener.local_addr()).into_client_request().unwrap();
    for (name, value) in headers {
        let value =
            if *value == SERVER { format!("http://{}", listener.local_addr()) } else { (*value).to_owned() };
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let stream = TcpStream::connect(listener.local_addr()).await.unwrap();
    client_async(request, stream).await
}

/// Stands for the URL of the listener.
const SERVER: &str = "the server";
const ORIGIN: (&str, &str) = ("origin", SERVER);

fn event(message: Option<Result<Message, Error>>) -> (String, String) {
    let Some(Ok(Message::Text(text))) = message else {
        panic!("{message:?} is not an event in JSON");
    };
    assert!(text.ends_with('\n'));
    let event: Value = serde_json::from_str(&text).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
}

#[tokio::test]
async fn each_event_of_a_watch_is_a_message() {
    let (service, listener) = server().await;
    create(&service, "a").await;
    create(&service, "b").await;
    let (mut socket, response) = connect(&listener, &format!("{MAPS}?watch=true"), &[ORIGIN]).await.unwrap();
    assert_eq!(response.status(), 101);
    assert_eq!(event(socket.next().await), ("ADDED".to_owned(), "a".to_owned()));
    assert_eq!(event(socket.next().await), ("ADDED".to_owned(), "b".to_owned()));
    create(&service, "c").await;
    assert_eq!(event(socket.next().await), ("ADDED".to_owned(), "c".to_owned()));
    socket.send(Message::Ping(Bytes::from_static(b"hi"))).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Pong(Bytes::from_static(b"hi")));
    socket.send(Message::text("what a client says is not read")).await.unwrap();
    create(&service, "d").await;
    assert_eq!(event(socket.next().await), ("ADDED".to_owned(), "d".to_owned()));
    socket.close(None).await.unwrap();
    assert!(matches!(socket.next().await, Some(Ok(Message::Close(_))) | None));
}

#[tokio::test]
async fn a_watch_that_ends_closes_in_order() {
    let (_service, listener) = server().await;
    let path = format!("{MAPS}?watch=true&timeoutSeconds=1");
    let (mut socket, _) = connect(&listener, &path, &[ORIGIN]).await.unwrap();
    let Some(Ok(Message::Close(Some(close)))) = socket.next().await else {
        panic!("the watch did not close");
    };
    assert_eq!(close.code, CloseCode::Normal);
    assert!(socket.next().await.is_none());
}

#[tokio::test]
async fn a_watch_in_protobuf_is_binary() {
    let (service, listener) = server().await;
    create(&service, "a").await;
    let headers = [ORIGIN, ("accept", "application/vnd.kubernetes.protobuf")];
    let (mut socket, _) = connect(&listener, &format!("{MAPS}?watch=true"), &headers).await.unwrap();
    let Some(Ok(Message::Binary(event))) = socket.next().await else {
        panic!("an event in protobuf is binary");
    };
    assert!(event.starts_with(b"\n\x05ADDED\x12"), "{event:?}");
}

#[tokio::test]
async fn only_watches_with_an_origin_are_upgraded() {
    let (_service, listener) = server().await;
    let watch = format!("{MAPS}?watch=true");
    let protocol = ("sec-websocket-protocol", "binary");
    let (_, response) = connect(&listener, &watch, &[ORIGIN, protocol]).await.unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "binary");
    for (path, headers, status) in [
        (watch.as_str(), &[][..], 403),
        (watch.as_str(), &[("origin", "http://example.com")], 403),
        (MAPS, &[ORIGIN], 200),
        ("/api/v1/namespaces/default/nopes?watch=true", &[ORIGIN], 404),
    ] {
        let Err(Error::Http(response)) = connect(&listener, path, headers).await else {
            panic!("{path} must not be a WebSocket");
        };
        assert_eq!(response.status(), status, "{path}");
    }
}

#[tokio::test]
async fn the_listener_ends_its_watches() {
    let (_service, listener) = server().await;
    let (mut socket, _) = connect(&listener, &format!("{MAPS}?watch=true"), &[ORIGIN]).await.unwrap();
    let (closed, ()) = tokio::join!(socket.next(), listener.shutdown());
    assert!(matches!(closed, Some(Ok(Message::Close(_)))), "{closed:?}");
}
