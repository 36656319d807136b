//! Copies of a client with other settings.

use std::{sync::Arc, time::Duration};

use super::{
    call::{Call, FieldValidation},
    client::Client,
    client_builder::ClientSettings,
    error::ClientError,
    interceptor::Interceptor,
};

impl Client {
    /// Returns a client that makes only dry runs of writes, which store nothing.
    #[doc(alias = "NewDryRunClient")]
    #[must_use]
    pub fn dry_run(&self) -> Self {
        self.with(|settings| settings.dry_run = true)
    }

    /// Returns a client that reaches namespaced objects only in `namespace`.
    ///
    /// Requests for another namespace fail before they are sent; requests for all namespaces are narrowed to `namespace`;
    /// objects without a namespace get it. Cluster-scoped kinds are not restricted.
    #[doc(alias = "NewNamespacedClient")]
    #[must_use]
    pub fn confined_to(&self, namespace: impl Into<Arc<str>>) -> Self {
        self.with(|settings| settings.namespace = Some(namespace.into()))
    }

    /// Returns a client that writes as another field manager.
    #[doc(alias = "WithFieldOwner")]
    #[must_use]
    pub fn field_manager(&self, manager: impl Into<Arc<str>>) -> Self {
        self.with(|settings| settings.field_manager = manager.into())
    }

    /// Returns a client with this handling of unknown fields in writes.
    #[doc(alias = "WithFieldValidation")]
    #[must_use]
    pub fn field_validation(&self, validation: FieldValidation) -> Self {
        self.with(|settings| settings.field_validation = Some(validation))
    }

    /// Returns a client that gives each request this much time; see
    /// [`ClientBuilder::request_timeout`](crate::client::ClientBuilder::request_timeout).
    #[must_use]
    pub fn request_timeout(&self, timeout: Duration) -> Self {
        self.with(|settings| settings.timeout = timeout)
    }

    /// Returns a client that passes calls to `interceptor` first, and then those that were added before.
    #[must_use]
    pub fn intercepted(&self, interceptor: impl Interceptor) -> Self {
        self.with(|settings| settings.interceptors.push(Arc::new(interceptor)))
    }

    fn with(&self, change: impl FnOnce(&mut ClientSettings)) -> Self {
        let mut settings = self.settings().clone();
        change(&mut settings);
        Self { settings: Arc::new(settings) }
    }

    /// Applies the restriction to one namespace to a call.
    pub(in crate::client) fn confine(&self, call: &mut Call) -> Result<(), ClientError> {
        let Some(own) = self.settings().namespace.as_deref().filter(|_| call.kind.is_namespaced) else {
            return Ok(());
        };
        match &call.namespace {
            None => call.namespace = Some(own.to_owned()),
            Some(namespace) if namespace == own => {}
            Some(_) => {
                return Err(ClientError::not_sent(
                    call,
                    format!("this client is confined to namespace {own}"),
                ));
            }
        }
        Ok(())
    }
}
