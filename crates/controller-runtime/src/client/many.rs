//! What requests about many objects have in common.

use std::{borrow::Cow, fmt, marker::PhantomData, time::Duration};

use kube::core::{NamespaceScope, Resource};

use super::{Call, Client};

/// A request about the objects of a kind, or those of them that it selects: a [`List`](super::List), a
/// [`Watch`](super::Watch) or a [`DeleteAll`](super::DeleteAll).
///
/// `V` says which of them it is and so which other options there are.
#[must_use = "it does nothing unless it is awaited or made a stream"]
pub struct Many<K, V> {
    pub(super) client: Client,
    pub(super) call: Call,
    pub(super) verb: V,
    labels: Vec<String>,
    fields: Vec<String>,
    kind: PhantomData<fn() -> K>,
}

impl<K, V> Many<K, V> {
    pub(super) fn about(client: &Client, call: Call, verb: V) -> Self {
        let (labels, fields) = (Vec::new(), Vec::new());
        Self { client: client.clone(), call, verb, labels, fields, kind: PhantomData }
    }

    /// Only objects in this namespace. Default: in all. Most API servers refuse to delete namespaced objects of all
    /// namespaces at once.
    #[doc(alias = "InNamespace")]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self
    where
        K: Resource<Scope: NamespaceScope>,
    {
        self.call.namespace = Some(namespace.into());
        self
    }

    /// Only objects whose labels fit: `app=web,tier in (a,b)`, or a [`kube::core::Selector`]. Several calls must all fit.
    #[doc(alias = "MatchingLabels")]
    #[doc(alias = "HasLabels")]
    pub fn labels(mut self, selector: impl fmt::Display) -> Self {
        self.labels.push(selector.to_string());
        self
    }

    /// Only objects whose fields fit, of those that the API server can select by: `metadata.name=web`, say. Several calls
    /// must all fit.
    #[doc(alias = "MatchingFields")]
    pub fn fields(mut self, selector: impl fmt::Display) -> Self {
        self.fields.push(selector.to_string());
        self
    }

    /// Sets the time that each request may take, as [`ClientBuilder::request_timeout`](super::ClientBuilder::request_timeout)
    /// says: of a watch, the time until its answer begins; of [`List::pages`](super::List::pages), that of each page. Default: the
    /// client's, which is 60 s unless it was built with another.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.call.timeout = Some(timeout);
        self
    }

    /// Adds a query parameter for which there is no option here. One that the client sends itself fails before it is sent.
    ///
    /// ```no_run
    /// # use controller_runtime::{Client, client::Error};
    /// # use futures::TryStreamExt;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # async fn example(client: Client) -> Result<(), Error> {
    /// // What is there comes first, and then what changes.
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

    /// The call with what it selects.
    pub(super) fn selecting(&self) -> Call {
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
