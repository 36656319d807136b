//! [`Client`]: its settings, and the way of every call.

use std::{fmt, sync::Arc};

use super::{
    call::{Answer, Call},
    client_builder::{ClientBuilder, ClientSettings},
    error::ClientError,
    interceptor::Next,
};

/// Client that reads objects from the API server, and writes them as one field manager.
///
/// Reads go to the API server; [`Cached`](crate::Cached) reads caches. Cheap to clone. Methods such as [`Client::confined_to`] return
/// a client with an additional restriction. Reconcilers get a client from [`Context::client`](crate::Context::client).
///
/// # Example
///
/// ```no_run
/// # async fn example(client: controller_runtime::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use controller_runtime::ObjectKey;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let mut settings = ConfigMap::default();
/// settings.metadata.namespace = Some("default".to_owned());
/// settings.metadata.name = Some("settings".to_owned());
/// client.apply(&settings).await?; // creates or updates it
///
/// assert!(client.get(&ObjectKey::<ConfigMap>::new("default", "settings")).await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    pub(in crate::client) settings: Arc<ClientSettings>,
}

impl Client {
    /// Makes a client that writes as `field_manager`, the name that the API server records as owner of the fields it sets.
    pub fn new(kube: kube::Client, field_manager: impl Into<Arc<str>>) -> Self {
        Self::builder(kube, field_manager).build()
    }

    /// Starts a client that writes as `field_manager` and has other options than the defaults.
    pub fn builder(kube: kube::Client, field_manager: impl Into<Arc<str>>) -> ClientBuilder {
        ClientBuilder::new(kube, field_manager.into())
    }

    /// The underlying client, for requests that this one does not offer. Write gates, rate limit and interceptors do not apply
    /// to it.
    #[must_use]
    pub fn kube(&self) -> &kube::Client {
        &self.settings.kube
    }

    pub(in crate::client) fn settings(&self) -> &ClientSettings {
        &self.settings
    }

    /// Sends a call through the interceptors.
    pub(in crate::client) async fn send(&self, mut call: Call) -> Result<Answer, ClientError> {
        self.confine(&mut call)?;
        Next { client: self.clone(), passed: 0 }.run(call).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("field_manager", &self.settings.field_manager).finish_non_exhaustive()
    }
}
