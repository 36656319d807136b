//! Plain watches of the API server.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt, stream, stream::BoxStream};
use http_body_util::BodyExt;
use kube::core::{Status, WatchEvent};
use serde::de::DeserializeOwned;

use super::{many::Many, write::decode_answer};
use crate::client::transport::{
    call::{Call, Content},
    client::Client,
    error::{ClientError, ErrorKind, describe},
};

/// Largest event, ten times the largest object that etcd stores.
const MAX_EVENT: usize = 32 << 20;

/// Changes of the objects of a kind, as the API server sends them.
///
/// This is the plain watch: it ends when the API server ends it, after 30 to 60 minutes, and the caller must start another one from
/// the last version that it received. [`Cached`](crate::Cached) does this, and handles expired versions and dead connections.
///
/// ```no_run
/// # use controller_runtime::{Client, ClientError};
/// # use futures::{TryStreamExt};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::core::WatchEvent;
///
/// # async fn example(client: Client) -> Result<(), ClientError> {
/// let page = client.list::<ConfigMap>().in_namespace("default").await?;
/// let mut changes = client.watch::<ConfigMap>(&page.resource_version).in_namespace("default").stream();
/// while let Some(event) = changes.try_next().await? {
///     if let WatchEvent::Added(map) = event {
///         println!("{:?}", map.metadata.name);
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub type Watch<K> = Many<K, Watching>;

/// Marks a [`Many`] as a [`Watch`].
#[derive(Debug)]
pub struct Watching {}

impl<K> Watch<K> {
    pub(in crate::client) fn new(client: &Client, mut call: Call, resource_version: &str) -> Self {
        call.push("watch", "true");
        call.push("resourceVersion", resource_version);
        // Bookmarks advance the version of a quiet watch, so that it can be resumed.
        call.push("allowWatchBookmarks", "true");
        Self::about(client, call, Watching {})
    }

    /// Sets how long the API server keeps the watch open, in whole seconds. Default: the server's choice, 30 to 60 minutes.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.call.push("timeoutSeconds", timeout.as_secs().to_string());
        self
    }
}

impl<K: DeserializeOwned + Send + 'static> Watch<K> {
    /// Returns a stream of changes, including bookmarks. It ends with the watch, and after an error.
    ///
    /// An error event becomes an error; if it [`is_expired`](ClientError::is_expired), list again.
    pub fn stream(self) -> impl Stream<Item = Result<WatchEvent<K>, ClientError>> + Send + Unpin {
        let call = self.selecting();
        let client = self.client;
        let events = async move {
            let lines = match client.send(call.clone()).await {
                Ok(answer) => lines(call.clone(), chunks(answer.body)),
                Err(error) => stream::iter([Err(error)]).boxed(),
            };
            lines.map(move |line| event(&call, &line?))
        };
        // Pass the first error on, and end the stream after it.
        let mut failed = false;
        stream::once(events)
            .flatten()
            .take_while(move |event| {
                let goes_on = !failed;
                failed |= event.is_err();
                std::future::ready(goes_on)
            })
            .boxed()
    }
}

fn event<K: DeserializeOwned>(call: &Call, line: &[u8]) -> Result<WatchEvent<K>, ClientError> {
    #[derive(serde::Deserialize)]
    struct Failed {
        object: Status,
    }
    let event = decode_answer(call, line)?;
    if let WatchEvent::Error(_) = &event {
        // Decode it again as a `Status`, from which the error takes code and reason.
        let Failed { object } = decode_answer(call, line)?;
        return Err(ClientError::refused(call, object, None));
    }
    Ok(event)
}

/// Chunks of a body.
fn chunks(content: Content) -> BoxStream<'static, Result<Bytes, kube::Error>> {
    match content {
        Content::Stream(body) => body.into_data_stream().boxed(),
        // An interceptor answered.
        Content::Whole(bytes) => stream::iter([Ok(bytes)]).boxed(),
    }
}

/// Non-empty lines of a body.
fn lines(
    call: Call,
    body: BoxStream<'static, Result<Bytes, kube::Error>>,
) -> BoxStream<'static, Result<Bytes, ClientError>> {
    // Bytes at the start of the buffer that are known to contain no line feed: a long line is not searched again with each chunk.
    let searched = 0;
    let state = (body, BytesMut::new(), searched, call);
    stream::unfold(state, async |(mut body, mut buffer, mut searched, call)| {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &buffer[searched..]) {
                let end = searched + end;
                let line = buffer.split_to(end + 1).freeze().slice(..end);
                searched = 0;
                if !line.is_empty() {
                    return Some((Ok(line), (body, buffer, searched, call)));
                }
                continue;
            }
            searched = buffer.len();
            if searched > MAX_EVENT {
                let reason = format!("an event is longer than {} MiB", MAX_EVENT >> 20);
                let error = ClientError::make(&call, ErrorKind::NoAnswer(reason), None);
                return Some((Err(error), (body, BytesMut::new(), 0, call)));
            }
            match body.next().await {
                Some(Ok(chunk)) => buffer.extend_from_slice(&chunk),
                Some(Err(error)) => {
                    let error = ClientError::make(&call, ErrorKind::NoAnswer(describe(&error)), None)
                        .caused_by(error);
                    return Some((Err(error), (body, BytesMut::new(), 0, call)));
                }
                // A complete line of a watch ends with a line feed. A rest without one was cut off, and is dropped.
                None => return None,
            }
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::{client::transport::call::Verb, object::DynamicKind};

    fn lines_of(
        chunks: impl IntoIterator<Item = Bytes, IntoIter: Send + 'static>,
    ) -> Vec<Result<Bytes, ClientError>> {
        let call = Call::new(Verb::Watch, Arc::new(DynamicKind::of::<ConfigMap>()));
        let lines = lines(call, stream::iter(chunks).map(Ok).boxed());
        // Up to the first error, after which the reader of a watch ends it.
        let mut is_broken = false;
        let lines = lines.take_while(move |line| {
            let goes_on = !is_broken;
            is_broken |= line.is_err();
            std::future::ready(goes_on)
        });
        lines.collect::<Vec<_>>().now_or_never().expect("all chunks are there")
    }

    #[test]
    fn lines_begin_and_end_anywhere_in_a_chunk() {
        for length in 1..20 {
            let text = "first\n\nsecond line\n\nthird\ncut";
            let chunks = text.as_bytes().chunks(length).map(Bytes::from_static);
            let lines: Vec<_> =
                lines_of(chunks.collect::<Vec<_>>()).into_iter().map(Result::unwrap).collect();
            assert_eq!(lines, ["first", "second line", "third"], "chunks of {length} bytes");
        }
    }

    #[test]
    fn an_event_without_end_is_an_error() {
        let chunk = Bytes::from(vec![b'x'; 1 << 20]);
        let lines = lines_of(std::iter::repeat(chunk));
        let error = lines[0].as_ref().expect_err("the event is too long").to_string();
        assert!(error.contains("an event is longer than 32 MiB"), "{error}");
    }
}
