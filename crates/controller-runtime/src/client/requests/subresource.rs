//! Subresources of objects.

use std::{borrow::Cow, fmt, future::Future, time::Duration};

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    patch::Patch,
    write::{Apply, Change, Create, Update, Write, decode_answer},
};
use crate::client::transport::{
    call::{Call, Verb},
    client::Client,
    error::ClientError,
};

/// A subresource of an object, which is read and written separately: its `status`, `scale`, `eviction`, `token`, …
///
/// Each subresource has its own request and response types, which the caller chooses.
///
/// ```no_run
/// # use controller_runtime::{Client, ClientError, ObjectKey};
/// use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v1::Scale, core::v1::Pod, policy::v1::Eviction};
/// use kube::core::Status;
///
/// # async fn example(client: Client) -> Result<(), ClientError> {
/// let scale = client.subresource(&ObjectKey::<Deployment>::new("demo", "web"), "scale");
/// let mut wanted: Scale = scale.get().await?;
/// wanted.spec.get_or_insert_default().replicas = Some(3);
/// let _: Scale = scale.update(&wanted).await?;
///
/// let eviction = client.subresource(&ObjectKey::<Pod>::new("demo", "web-0"), "eviction");
/// let _: Status = eviction.create(&Eviction::default()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Subresource {
    client: Client,
    /// Call with its object and subresource; each request is a copy.
    call: Call,
}

impl Subresource {
    pub(in crate::client) fn new(client: &Client, mut call: Call, name: &str) -> Self {
        call.subresource = Some(name.to_owned());
        Self { client: client.clone(), call }
    }

    /// Sets the time that each request of this subresource may take; see
    /// [`ClientBuilder::request_timeout`](crate::client::ClientBuilder::request_timeout). Default: the client's, which is 60
    /// s unless it was built with another.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.call.timeout = Some(timeout);
        self
    }

    /// Adds a query parameter to all requests of this subresource. A parameter that the client sets itself makes the request
    /// fail before it is sent.
    #[doc(alias = "Raw")]
    #[must_use]
    pub fn query(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        self.call.push_more(name, value);
        self
    }

    /// Reads the subresource.
    ///
    /// # Errors
    ///
    /// The request failed; [`ClientError::is_not_found`] if there is no such object.
    pub fn get<T: DeserializeOwned>(&self) -> impl Future<Output = Result<T, ClientError>> + Send + use<T> {
        let (client, call) = (self.client.clone(), self.call(Verb::Get));
        async move {
            let answer = client.send(call.clone()).await?;
            decode_answer(&call, &answer.into_bytes())
        }
    }

    /// Creates the subresource from `body`: an eviction, a token, a binding.
    pub fn create<T>(&self, body: &impl Serialize) -> Write<T, Create> {
        Write::new(&self.client, self.with_body(Verb::Create, body))
    }

    /// Replaces the subresource. A `metadata.resourceVersion` in the body is a precondition.
    pub fn update<T>(&self, body: &impl Serialize) -> Write<T, Update> {
        Write::new(&self.client, self.with_body(Verb::Update, body))
    }

    /// Patches the subresource.
    pub fn patch<T>(&self, patch: Patch) -> Write<T, Change> {
        Write::new(
            &self.client,
            crate::client::requests::call_builder::with_patch(self.call(Verb::Patch), patch),
        )
    }

    /// Applies the subresource (server-side apply). The body names the kind (`apiVersion`, `kind`) and holds the desired
    /// fields, such as `status`.
    pub fn apply<T>(&self, body: &impl Serialize) -> Write<T, Apply> {
        let call = self.with_body(Verb::Apply, body).map(|mut call| {
            call.content_type = crate::client::requests::call_builder::APPLY;
            call
        });
        Write::new(&self.client, call).force()
    }

    fn call(&self, verb: Verb) -> Call {
        Call { verb, ..self.call.clone() }
    }

    fn with_body(&self, verb: Verb, body: &impl Serialize) -> Result<Call, ClientError> {
        let mut call = self.call(verb);
        let body =
            serde_json::to_vec(body).map_err(|error| ClientError::not_sent(&call, error.to_string()))?;
        call.body = Bytes::from(body);
        Ok(call)
    }
}

impl fmt::Debug for Subresource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subresource({})", self.call.subject())
    }
}
