//! Options that all requests for many objects share.

use std::{borrow::Cow, fmt, marker::PhantomData, time::Duration};

use kube::core::{NamespaceScope, Resource};

use crate::client::transport::{call::Call, client::Client};

/// A request for all or some objects of a kind: a [`List`](crate::client::List), a [`Watch`](crate::client::Watch) or a
/// [`DeleteAll`](crate::client::DeleteAll).
///
/// The type `V` distinguishes them and determines the other options.
#[must_use = "a request does nothing unless it is awaited or turned into a stream"]
pub struct Many<K, V> {
    pub(in crate::client) client: Client,
    pub(in crate::client) call: Call,
    pub(in crate::client) verb: V,
    labels: Vec<String>,
    fields: Vec<String>,
    kind: PhantomData<fn() -> K>,
}

impl<K, V> Many<K, V> {
    pub(in crate::client) fn about(client: &Client, call: Call, verb: V) -> Self {
        let (labels, fields) = (Vec::new(), Vec::new());
        Self { client: client.clone(), call, verb, labels, fields, kind: PhantomData }
    }

    /// Selects objects in this namespace. Default: all namespaces. Most API servers refuse to delete namespaced objects of all
    /// namespaces at once.
    #[doc(alias = "InNamespace")]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self
    where
        K: Resource<Scope: NamespaceScope>,
    {
        self.call.namespace = Some(namespace.into());
        self
    }

    /// Selects objects by labels: `app=web,tier in (a,b)`, or a [`kube::core::Selector`]. Selectors of several calls must all
    /// match.
    #[doc(alias = "MatchingLabels")]
    #[doc(alias = "HasLabels")]
    pub fn labels(mut self, selector: impl fmt::Display) -> Self {
        self.labels.push(selector.to_string());
        self
    }

    /// Selects objects by fields that the API server supports for the kind, such as `metadata.name=web`. Selectors of several
    /// calls must all match.
    #[doc(alias = "MatchingFields")]
    pub fn fields(mut self, selector: impl fmt::Display) -> Self {
        self.fields.push(selector.to_string());
        self
    }

    /// Sets the time that each request may take; see
    /// [`ClientBuilder::request_timeout`](crate::client::ClientBuilder::request_timeout). For a watch it is the time until
    /// the response begins; for [`List::pages`](crate::client::List::pages), the time of each page. Default: the client's,
    /// which is 60 s unless it was built with another.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.call.timeout = Some(timeout);
        self
    }

    /// Adds a query parameter for which there is no option here. A parameter that the client sets itself makes the request fail
    /// before it is sent.
    ///
    /// ```no_run
    /// # use controller_runtime::{Client, ClientError};
    /// # use futures::TryStreamExt;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # async fn example(client: Client) -> Result<(), ClientError> {
    /// // The initial objects come first, then changes.
    /// let pods = client.watch::<Pod>("").query("sendInitialEvents", "true");
    /// let mut pods = pods.query("resourceVersionMatch", "NotOlderThan").stream();
    /// while let Some(event) = pods.try_next().await? {
    ///     println!("{event:?}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "Raw")]
    pub fn query(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        self.call.push_more(name, value);
        self
    }

    /// The call with its selectors.
    pub(in crate::client) fn selecting(&self) -> Call {
        let mut call = self.call.clone();
        for (name, terms) in [("labelSelector", &self.labels), ("fieldSelector", &self.fields)] {
            let terms: Vec<&str> = terms.iter().map(String::as_str).filter(|term| !term.is_empty()).collect();
            if !terms.is_empty() {
                call.push(name, terms.join(","));
            }
        }
        call
    }
}

impl<K, V> fmt::Debug for Many<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, labels, fields, .. } = self;
        f.debug_struct("Many")
            .field("call", call)
            .field("labels", labels)
            .field("fields", fields)
            .finish_non_exhaustive()
    }
}
