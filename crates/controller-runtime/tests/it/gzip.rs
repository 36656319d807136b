//! Compressed answers: with its feature `gzip`, `kube` asks for them unless the request says otherwise.

use std::{
    future::Future,
    io::Write,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use controller_runtime::{Client, Manager, ManagerOptions};
use flate2::write::GzDecoder;
use futures::{FutureExt, StreamExt};
use http::{
    HeaderValue, Request, Response,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING},
};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;

use crate::{
    faults::{Fault, faulty},
    support::{Running, Widget, config_map, environment, widget},
};

/// The decompression that `kube` adds to a connection, without buffering between the answer's chunks and the reader.
struct Unzips {
    client: kube::Client,
    /// Number of chunks of each compressed answer.
    pieces: Arc<Mutex<Vec<usize>>>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl tower_service::Service<Request<Body>> for Unzips {
    type Response = Response<UnsyncBoxBody<Bytes, Failure>>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.headers_mut().entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("gzip"));
        let (client, pieces) = (self.client.clone(), Arc::clone(&self.pieces));
        Box::pin(async move {
            let response = client.send(request).await?;
            if response.headers().get(CONTENT_ENCODING).is_none_or(|encoding| encoding != "gzip") {
                return Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()));
            }
            let answer = {
                let mut pieces = pieces.lock().unwrap();
                pieces.push(0);
                pieces.len() - 1
            };
            let mut decoder = GzDecoder::new(Vec::new());
            let expand = move |piece: Result<Bytes, kube::Error>| {
                pieces.lock().unwrap()[answer] += 1;
                decoder.write_all(&piece?)?;
                decoder.flush()?;
                Ok(Frame::data(Bytes::from(std::mem::take(decoder.get_mut()))))
            };
            Ok(response.map(|body| StreamBody::new(body.into_data_stream().map(expand)).boxed_unsync()))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_compressed_list_is_read_piece_by_piece_and_watches_are_asked_for_plain() {
    let env = environment().await;
    let other = Client::new(env.client(), "other-client");
    for number in 0..60 {
        let mut map = config_map(&format!("m{number:03}"));
        map.data = Some([("text".to_owned(), format!("{number}-").repeat(3000))].into());
        other.create(&map).await.unwrap();
    }
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let client = faulty(env.client(), move |seen| {
        noted.lock().unwrap().push((seen.is_watch(), seen.accept_encoding.clone()));
        // So the initial list is a list request.
        if seen.is_stream() { Fault::Refuse(422, "Invalid") } else { Fault::Pass }
    });
    let pieces = Arc::new(Mutex::new(Vec::new()));
    let client = kube::Client::new(Unzips { client, pieces: Arc::clone(&pieces) }, "default");
    let manager = Manager::new(client, ManagerOptions::new("test").seed(1));
    let (maps, _widgets) = (manager.cached::<ConfigMap>(), manager.cached::<Widget>());
    let client = manager.client();
    let _running = Running::start(manager).await;
    assert_eq!(maps.len().unwrap(), 60);
    assert_eq!(maps.list().unwrap()[59].data.as_ref().unwrap()["text"], "59-".repeat(3000));
    let listed = pieces.lock().unwrap().clone();
    assert!(listed.len() == 1 && listed[0] > 1, "a compressed list came in {listed:?} pieces");

    // Also a watch of the client.
    let page = client.list::<Widget>().await.unwrap();
    let mut watch = client.watch::<Widget>(&page.resource_version).stream();
    assert!(watch.next().now_or_never().is_none(), "nothing has happened");
    other.create(&widget("new", 1)).await.unwrap();
    watch.next().await.unwrap().unwrap();
    let asked = asked.lock().unwrap();
    let of =
        |watch: bool| asked.iter().filter(move |(is_watch, _)| *is_watch == watch).map(|(_, how)| &**how);
    assert!(of(false).all(|how| how == "gzip"), "{asked:?}");
    assert!(of(true).count() >= 3 && of(true).all(|how| how == "identity"), "{asked:?}");
}
