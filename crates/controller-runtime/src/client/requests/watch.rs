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
                Ok(answer) => lines(call.clone(), answer.body),
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

/// Non-empty lines of a body.
fn lines(call: Call, content: Content) -> BoxStream<'static, Result<Bytes, ClientError>> {
    let body = match content {
        Content::Stream(body) => body.into_data_stream().boxed(),
        // An interceptor answered.
        Content::Whole(bytes) => stream::iter([Ok(bytes)]).boxed(),
    };
    let state = (body, BytesMut::new(), call);
    stream::unfold(state, async |(mut body, mut buffer, call)| {
        loop {
            if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line = buffer.split_to(end + 1).freeze().slice(..end);
                if !line.is_empty() {
                    return Some((Ok(line), (body, buffer, call)));
                }
                continue;
            }
            match body.next().await {
                Some(Ok(chunk)) => buffer.extend_from_slice(&chunk),
                Some(Err(error)) => {
                    let error = ClientError::make(&call, ErrorKind::NoAnswer(describe(&error)), None)
                        .caused_by(error);
                    return Some((Err(error), (body, BytesMut::new(), call)));
                }
                // A complete line of a watch ends with a line feed. A rest without one was cut off, and is dropped.
                None => return None,
            }
        }
    })
    .boxed()
}
