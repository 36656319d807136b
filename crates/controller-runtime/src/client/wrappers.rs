//! Clients that do the same as another one under a restriction.

use std::{sync::Arc, time::Duration};

use super::{Call, Client, Error, FieldValidation, Interceptor, builder::Settings};

impl Client {
    /// A client whose writes store nothing.
    #[doc(alias = "NewDryRunClient")]
    #[must_use]
    pub fn dry_run(&self) -> Self {
        self.with(|settings| settings.dry_run = true)
    }

    /// A client that reaches namespaced objects in `namespace` alone.
    ///
    /// A request for another namespace is not sent; one for all namespaces is for this one; an object without a namespace
    /// gets it. Cluster-scoped kinds are as reachable as before.
    #[doc(alias = "NewNamespacedClient")]
    #[must_use]
    pub fn confined_to(&self, namespace: impl Into<Arc<str>>) -> Self {
        self.with(|settings| settings.namespace = Some(namespace.into()))
    }

    /// A client that writes in another name.
    #[doc(alias = "WithFieldOwner")]
    #[must_use]
    pub fn field_manager(&self, manager: impl Into<Arc<str>>) -> Self {
        self.with(|settings| settings.field_manager = manager.into())
    }

    /// A client whose writes say what to do with unknown fields.
    #[doc(alias = "WithFieldValidation")]
    #[must_use]
    pub fn field_validation(&self, validation: FieldValidation) -> Self {
        self.with(|settings| settings.field_validation = Some(validation))
    }

    /// A client each of whose requests may take this long, as [`ClientBuilder::request_timeout`](super::ClientBuilder::request_timeout)
    /// says.
    #[must_use]
    pub fn request_timeout(&self, timeout: Duration) -> Self {
        self.with(|settings| settings.timeout = timeout)
    }

    /// A client whose calls pass `interceptor` first, and then those that were added before.
    #[must_use]
    pub fn intercepted(&self, interceptor: impl Interceptor) -> Self {
        self.with(|settings| settings.interceptors.push(Arc::new(interceptor)))
    }

    fn with(&self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = self.settings().clone();
        change(&mut settings);
        Self { settings: Arc::new(settings) }
    }

    /// Keeps a call within the namespace that the client is confined to.
    pub(super) fn confine(&self, call: &mut Call) -> Result<(), Error> {
        let Some(own) = self.settings().namespace.as_deref().filter(|_| call.kind.is_namespaced) else {
            return Ok(());
        };
        match &call.namespace {
            None => call.namespace = Some(own.to_owned()),
            Some(namespace) if namespace == own => {}
            Some(_) => {
                return Err(Error::not_sent(call, format!("this client is confined to namespace {own}")));
            }
        }
        Ok(())
    }
}
