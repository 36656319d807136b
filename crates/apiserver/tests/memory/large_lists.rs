//! Large lists, which are generated while they are read: they are complete in every encoding, and slow clients cost
//! little memory.
#![expect(clippy::disallowed_methods, reason = "these clients use raw connections on purpose")]

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Epoch, Options, ResponseBody};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower_service::Service;

use crate::{ALLOCATOR, ALONE};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const PROTOBUF_METADATA: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

async fn fill(service: &mut ApiService, count: usize, size: usize) {
    let data = "x".repeat(size);
    for number in 0..count {
        let map = json!({
            "metadata": {"name": format!("map-{number:04}"), "labels": {"third": (number % 3 == 0).to_string()}},
            "data": {"k": data},
        });
        let request = Request::post(MAPS).header("content-type", JSON).body(Full::from(map.to_string()));
        assert_eq!(service.call(request.unwrap()).await.unwrap().status(), 201);
    }
}

async fn list(service: &mut ApiService, query: &str, headers: &[(&str, &str)]) -> Response<ResponseBody> {
    let mut request = Request::get(format!("{MAPS}?{query}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = service.call(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    response
}

async fn body(response: Response<ResponseBody>) -> (HeaderMap, Bytes) {
    let (head, body) = response.into_parts();
    (head.headers, body.collect().await.unwrap().to_bytes())
}

/// Parses protobuf: the number of each field, and its bytes.
fn fields(mut message: &[u8]) -> Vec<(u64, Vec<u8>)> {
    fn varint(message: &mut &[u8]) -> u64 {
        let end = message.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        let (number, rest) = message.split_at(end);
        *message = rest;
        number.iter().rev().fold(0, |sum, byte| sum << 7 | u64::from(byte & 0x7f))
    }
    let mut fields = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let length = usize::try_from(varint(&mut message)).unwrap();
        if tag & 7 == 0 {
            // Skip numbers, such as the count of remaining items.
            continue;
        }
        assert_eq!(tag & 7, 2, "all other fields here have a length");
        let (bytes, rest) = message.split_at(length);
        fields.push((tag >> 3, bytes.to_vec()));
        message = rest;
    }
    fields
}

/// Returns the items of a list in any encoding, and the continue token.
fn items(accept: &str, text: &[u8]) -> (Vec<Value>, String) {
    if accept.starts_with(PROTOBUF) {
        let unknown = fields(text.strip_prefix(b"k8s\0").unwrap());
        assert_eq!(unknown.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3, 4]);
        let list = fields(&unknown[1].1);
        let token = fields(&list[0].1).into_iter().find(|(number, _)| *number == 3).unwrap().1;
        let items = list[1..].iter().map(|(number, item)| json!([number, item])).collect();
        return (items, String::from_utf8(token).unwrap());
    }
    let list: Value = if accept == YAML {
        serde_saphyr::from_slice(text).unwrap()
    } else {
        serde_json::from_slice(text).unwrap()
    };
    let items = if accept == TABLE { &list["rows"] } else { &list["items"] };
    // As in kube-apiserver, an empty page of metadata has null for a list.
    assert!(items.is_array() || (items.is_null() && accept == METADATA));
    (
        items.as_array().cloned().unwrap_or_default(),
        list["metadata"]["continue"].as_str().unwrap_or_default().to_owned(),
    )
}

#[tokio::test]
async fn a_large_list_equals_its_pages_in_every_encoding() {
    let _alone = ALONE.lock().await;
    // Stop the clock, because tables contain ages.
    let options = Options::default().epoch(Epoch::starting_now("2026-01-01T00:00:00Z".parse().unwrap()));
    tokio::time::pause();
    let mut service = ApiServer::start(options).service();
    fill(&mut service, 1200, 300).await;
    for accept in [JSON, YAML, PROTOBUF, PROTOBUF_METADATA, TABLE, METADATA] {
        for selector in ["", "labelSelector=third=true"] {
            // Parsing YAML takes long.
            if accept == YAML && !selector.is_empty() {
                continue;
            }
            let mut paged = Vec::new();
            let mut token = String::new();
            loop {
                let query = format!("{selector}&limit=100&continue={token}");
                let (_, page) = body(list(&mut service, &query, &[("accept", accept)]).await).await;
                let (items, next) = items(accept, &page);
                assert!(items.len() <= 100);
                paged.extend(items);
                token = next;
                if token.is_empty() {
                    break;
                }
            }
            assert_eq!(paged.len(), if selector.is_empty() { 1200 } else { 400 });

            let response = list(&mut service, selector, &[("accept", accept)]).await;
            assert_eq!(response.headers()["content-type"], accept.split(';').next().unwrap());
            let (_, whole) = body(response).await;
            assert_eq!(items(accept, &whole), (paged.clone(), String::new()), "{accept} {selector}");

            // A page may be large too.
            let limit = paged.len() - 50;
            let query = format!("{selector}&limit={limit}");
            let (_, page) = body(list(&mut service, &query, &[("accept", accept)]).await).await;
            let (first, token) = items(accept, &page);
            assert_eq!(first, paged[..limit], "{accept} {selector}");
            let query = format!("{selector}&limit={limit}&continue={token}");
            let (_, page) = body(list(&mut service, &query, &[("accept", accept)]).await).await;
            assert_eq!(items(accept, &page), (paged[limit..].to_vec(), String::new()), "{accept} {selector}");

            // A third of the metadata in protobuf is below the limit of large lists.
            let is_large = whole.len() > 128 << 10;
            assert!(is_large || (accept, selector.is_empty()) == (PROTOBUF_METADATA, false));
            if !is_large {
                continue;
            }
            let headers = [("accept", accept), ("accept-encoding", "gzip")];
            let (head, compressed) = body(list(&mut service, selector, &headers).await).await;
            assert_eq!(head["content-encoding"], "gzip");
            let mut text = Vec::new();
            GzDecoder::new(&*compressed).read_to_end(&mut text).unwrap();
            assert!(text == whole, "{accept} {selector}, compressed");
        }
    }
    let (_, whole) = body(list(&mut service, "", &[]).await).await;
    let (_, pretty) = body(list(&mut service, "pretty=1", &[]).await).await;
    assert!(pretty.starts_with(b"{\n  \"kind\": \"ConfigMapList\",\n"));
    assert!(items(JSON, &pretty) == items(JSON, &whole));
}

#[tokio::test]
async fn a_list_shows_the_state_when_it_began() {
    let _alone = ALONE.lock().await;
    let mut service = ApiServer::start(Options::default()).service();
    fill(&mut service, 50, 8 << 10).await;
    let (_, before) = body(list(&mut service, "", &[]).await).await;
    let mut began = list(&mut service, "", &[]).await.into_body();
    let mut read = began.frame().await.unwrap().unwrap().into_data().unwrap().to_vec();
    assert!(read.len() <= 64 << 10);
    let request = Request::delete(MAPS).body(Full::<Bytes>::default()).unwrap();
    assert_eq!(service.call(request).await.unwrap().status(), 200);
    read.extend(began.collect().await.unwrap().to_bytes());
    assert!(read == before);
    let (_, after) = body(list(&mut service, "", &[]).await).await;
    assert_eq!(items(JSON, &after).0.len(), 0);
}

/// Returns the result of a future, and how often another task ran meanwhile.
async fn turns_during<T>(future: impl Future<Output = T>) -> (T, usize) {
    let turns = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&turns);
    let other = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let value = future.await;
    other.abort();
    (value, turns.load(Ordering::Relaxed))
}

#[tokio::test]
async fn other_requests_are_served_while_the_length_of_a_large_list_is_computed() {
    let _alone = ALONE.lock().await;
    let mut service = ApiServer::start(Options::default()).service();
    fill(&mut service, 500, 16 << 10).await;
    // Without and with cached lengths of the objects.
    for _ in 0..2 {
        let (_, given) = turns_during(list(&mut service, "", &[("accept", PROTOBUF)])).await;
        // At least one yield per 64 KiB of 8 MiB.
        assert!(given > 100, "others ran {given} times");
    }
}

#[tokio::test]
async fn other_requests_are_served_while_a_large_list_is_read() {
    let _alone = ALONE.lock().await;
    let mut service = ApiServer::start(Options::default()).service();
    fill(&mut service, 500, 16 << 10).await;
    for accept in [JSON, PROTOBUF] {
        let response = list(&mut service, "", &[("accept", accept)]).await;
        let (_, given) = turns_during(body(response)).await;
        assert!(given > 100, "others ran {given} times, {accept}");
    }
}

/// Returns the peak memory while `clients` have read one chunk each of a list of 8 MiB.
async fn held(service: &mut ApiService, clients: usize, query: &str, headers: &[(&str, &str)]) -> usize {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let mut slow = Vec::new();
    for _ in 0..clients {
        let mut body = list(service, query, headers).await.into_body();
        let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
        slow.push((body, piece));
    }
    ALLOCATOR.peak_usage().saturating_sub(before)
}

#[tokio::test]
async fn clients_that_do_not_read_their_list_hold_little_memory() {
    const CLIENTS: usize = 40;
    let _alone = ALONE.lock().await;
    let server = ApiServer::start(Options::default());
    let mut service = server.service();
    fill(&mut service, 500, 16 << 10).await;
    for (query, headers) in [
        ("", [("accept", JSON), ("accept-encoding", "identity")]),
        ("", [("accept", JSON), ("accept-encoding", "gzip")]),
        ("pretty=1", [("accept", JSON), ("accept-encoding", "identity")]),
        ("", [("accept", YAML), ("accept-encoding", "identity")]),
        ("", [("accept", PROTOBUF), ("accept-encoding", "identity")]),
        ("includeObject=Object", [("accept", TABLE), ("accept-encoding", "gzip")]),
        ("limit=450", [("accept", JSON), ("accept-encoding", "identity")]),
    ] {
        let held = held(&mut service, CLIENTS, query, &headers).await >> 10;
        // Whole lists would take 320 MiB.
        assert!(held < CLIENTS * 800, "{held} KiB for {query} {headers:?}");
    }

    let listener = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let mut slow = Vec::new();
    for _ in 0..CLIENTS {
        let mut stream = TcpStream::connect(listener.local_addr()).await.unwrap();
        stream.write_all(format!("GET {MAPS} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await.unwrap();
        stream.read_exact(&mut [0; 64 << 10]).await.unwrap();
        slow.push(stream);
    }
    let held = ALLOCATOR.peak_usage().saturating_sub(before) >> 10;
    assert!(held < CLIENTS * 800, "{held} KiB over TCP");
    let mut patient = slow.pop().unwrap();
    let mut rest = 64 << 10;
    let mut buffer = vec![0; 256 << 10];
    while rest < 8 << 20 {
        let read = patient.read(&mut buffer).await.unwrap();
        assert!(read > 0, "all of it comes");
        rest += read;
    }
}
