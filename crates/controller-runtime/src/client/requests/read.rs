//! Reads from the API server: one object, or a list.

use std::{
    borrow::Cow,
    fmt,
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
    time::Duration,
};

use futures::{Stream, StreamExt, stream};
use kube::core::ListMeta;
use serde::{Deserialize, de::DeserializeOwned};

use super::{many::Many, write::decode_answer};
use crate::client::transport::{
    call::{Call, METADATA},
    client::Client,
    error::ClientError,
    own_writes::Extent,
};

/// `Accept` of a list of metadata alone.
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Default page size of [`List::pages`], as in client-go's pager.
const PAGE: u32 = 500;

type Sent<T> = Pin<Box<dyn Future<Output = Result<T, ClientError>> + Send>>;

/// A read of one object, sent when it is awaited; `None` if the object does not exist.
#[must_use = "a request is sent when it is awaited"]
pub struct Get<K> {
    client: Client,
    call: Call,
    kind: PhantomData<fn() -> K>,
}

impl<K> Get<K> {
    pub(in crate::client) fn new(client: &Client, mut call: Call, extent: Extent) -> Self {
        if extent == Extent::Metadata {
            call.accept = METADATA;
        }
        Self { client: client.clone(), call, kind: PhantomData }
    }

    /// Allows the API server to answer from its cache, with this version or a later one; with `0`, any version. Default: the
    /// latest version.
    pub fn not_older_than(mut self, resource_version: impl Into<String>) -> Self {
        self.call.set("resourceVersion", resource_version);
        self
    }

    /// Sets the time that this request may take; see
    /// [`ClientBuilder::request_timeout`](crate::client::ClientBuilder::request_timeout). Default: the client's, which is 60
    /// s unless it was built with another.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.call.timeout = Some(timeout);
        self
    }

    /// Adds a query parameter for which there is no option here. A parameter that the client sets itself makes the request fail
    /// before it is sent.
    #[doc(alias = "Raw")]
    pub fn query(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        self.call.push_more(name, value);
        self
    }
}

impl<K: DeserializeOwned + 'static> IntoFuture for Get<K> {
    type Output = Result<Option<K>, ClientError>;
    type IntoFuture = Sent<Option<K>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { client, call, .. } = self;
        Box::pin(async move {
            match client.send(call.clone()).await {
                Ok(answer) => decode_answer(&call, &answer.into_bytes()).map(Some),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(error),
            }
        })
    }
}

/// A read of many objects. Awaiting it sends one request, which returns one [`Page`] with all objects, unless there is a
/// [`limit`](List::limit). [`List::pages`] reads them page by page.
pub type List<K> = Many<K, Listing<K>>;

/// Options that only a [`List`] has.
pub struct Listing<K> {
    limit: Option<u32>,
    continue_token: Option<String>,
    complete: Complete<K>,
}

/// Sets fields that an item of a list lacks because they stand in the list: apiVersion and kind.
pub(in crate::client) type Complete<K> = fn(&mut K, &Call);

impl<K> List<K> {
    pub(in crate::client) fn new(client: &Client, mut call: Call, extent: Extent) -> Self {
        if extent == Extent::Metadata {
            call.accept = METADATA_LIST;
        }
        Self::about(client, call, Listing { limit: None, continue_token: None, complete: |_, _| {} })
    }

    pub(in crate::client) fn completed_by(mut self, complete: Complete<K>) -> Self {
        self.verb.complete = complete;
        self
    }

    /// Sets the largest number of objects in one response. Default: unlimited; 500 for [`List::pages`].
    pub fn limit(mut self, objects: u32) -> Self {
        self.verb.limit = Some(objects);
        self
    }

    /// Continues after the page with this [`Page::continue_token`].
    pub fn continue_from(mut self, token: impl Into<String>) -> Self {
        self.verb.continue_token = Some(token.into());
        self
    }

    /// Allows the API server to answer from its cache, with this version or a later one; with `0`, any version. Default: the
    /// latest version.
    pub fn not_older_than(self, resource_version: &str) -> Self {
        self.at(resource_version, "NotOlderThan")
    }

    /// Requests the state at exactly this version. The API server keeps old versions for some minutes. Replaces
    /// [`List::not_older_than`], and the other way round.
    pub fn exactly(self, resource_version: &str) -> Self {
        self.at(resource_version, "Exact")
    }

    fn at(mut self, resource_version: &str, mode: &str) -> Self {
        self.call.set("resourceVersion", resource_version);
        self.call.set("resourceVersionMatch", mode);
        self
    }
}

impl<K: DeserializeOwned + Send + 'static> List<K> {
    /// Returns a stream of pages. Each page is requested when the previous one has been consumed. The stream ends after
    /// the last page, and after an error.
    ///
    /// All pages show the state at the time of the first. If reading them takes so long that the API server no longer has that
    /// state, the stream ends with an error that [`is_expired`](ClientError::is_expired).
    pub fn pages(mut self) -> impl Stream<Item = Result<Page<K>, ClientError>> + Send + Unpin {
        self.verb.limit = self.verb.limit.or(Some(PAGE));
        stream::unfold(Some(self), async |rest: Option<Self>| {
            let list = rest?;
            let page = list.page().await;
            // After an error there is no token, and the stream ends.
            let token = page.as_ref().ok().and_then(|page| page.continue_token.clone());
            let rest = token.map(|token| list.next(token));
            Some((page, rest))
        })
        .boxed()
    }

    fn next(mut self, token: String) -> Self {
        self.verb.continue_token = Some(token);
        // The token contains the version and match rule, and the API server refuses a request that repeats them.
        self.call.query.clear();
        self
    }

    async fn page(&self) -> Result<Page<K>, ClientError> {
        let mut call = self.selecting();
        let Listing { limit, continue_token, complete } = &self.verb;
        if let Some(limit) = limit {
            call.push("limit", limit.to_string());
        }
        if let Some(token) = continue_token {
            call.push("continue", token);
        }
        let answer = self.client.send(call.clone()).await?;
        let ListBody { metadata, items } = decode_answer::<ListBody<K>>(&call, &answer.into_bytes())?;
        let mut items = items.unwrap_or_default();
        items.iter_mut().for_each(|item| complete(item, &call));
        Ok(Page {
            items,
            // The API server may send an empty token on the last page.
            continue_token: metadata.continue_.filter(|token| !token.is_empty()),
            remaining: metadata.remaining_item_count.and_then(|count| u64::try_from(count).ok()),
            resource_version: metadata.resource_version.unwrap_or_default(),
        })
    }
}

impl<K: DeserializeOwned + Send + 'static> IntoFuture for List<K> {
    type Output = Result<Page<K>, ClientError>;
    type IntoFuture = Sent<Page<K>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.page().await })
    }
}

/// One response to a [`List`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Page<K> {
    /// The objects, ordered by namespace and name.
    pub items: Vec<K>,
    /// Token for [`List::continue_from`]; `None` on the last page.
    pub continue_token: Option<String>,
    /// Number of objects on later pages, if the API server reports it.
    pub remaining: Option<u64>,
    /// Version of the whole list, from which a watch can start.
    pub resource_version: String,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "K: Deserialize<'de>"))]
struct ListBody<K> {
    #[serde(default)]
    metadata: ListMeta,
    /// Go writes an empty list as null.
    items: Option<Vec<K>>,
}

impl<K> fmt::Debug for Get<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Get").field("call", &self.call).finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for Listing<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing").field("limit", &self.limit).finish_non_exhaustive()
    }
}
