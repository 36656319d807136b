//! Admission: plugins that can change or refuse a write, between its decoding and its commit.
//!
//! A write passes the stages of kube-apiserver, in this order:
//!
//! 1. [`authentication`](crate::authentication): the user of the request;
//! 2. [`authorization`](crate::authorization): whether the user may send it;
//! 3. decoding, with the defaults of the kind (`Call::decode`, a patch, or an apply);
//! 4. mutating admission: [`Admission::mutate`];
//! 5. fields that the kind itself sets, and validation against its schema and rules (`prepare` in [`verbs`](crate::verbs));
//! 6. validating admission: [`Admission::validate`];
//! 7. the commit, with a guard that repeats the checks that concurrent writes may have invalidated.
//!
//! A write that is repeated, because its object changed meanwhile, starts again at stage 3. Deletions are not decoded and
//! have no object of their own. Plugins may wait; the timeout of the request covers all stages.

mod namespace_lifecycle;
pub(crate) mod priority;

use kube_apimachinery::status::ApiError;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use serde_json::Value;

use namespace_lifecycle::NamespaceLifecycle;
pub(crate) use namespace_lifecycle::check_namespace;

use crate::verbs::Call;

/// Operation on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

/// Attributes of a write.
pub(crate) struct Request<'a> {
    /// The request, with its path, options, user and kind.
    pub(crate) call: &'a Call,
    pub(crate) operation: Operation,
}

/// Result of a plugin: warnings for the client, or the error.
pub(crate) type Verdict<'a> = BoxFuture<'a, Result<Vec<String>, ApiError>>;

/// An admission plugin. By default each method admits the write unchanged.
pub(crate) trait Plugin: Send + Sync {
    /// Changes or refuses the object; a deletion has none.
    fn mutate<'a>(&'a self, request: &'a Request<'a>, object: Option<&'a mut Value>) -> Verdict<'a> {
        let _ = (request, object);
        ready(Ok(Vec::new())).boxed()
    }

    /// Checks the object in its final form.
    fn validate<'a>(&'a self, request: &'a Request<'a>, object: Option<&'a Value>) -> Verdict<'a> {
        let _ = (request, object);
        ready(Ok(Vec::new())).boxed()
    }
}

/// Admission plugins in the order in which they are called. The first error ends the request.
pub(crate) struct Admission {
    plugins: Vec<Box<dyn Plugin>>,
}

impl Admission {
    /// Returns the plugins of every server.
    pub(crate) fn standard() -> Self {
        Self { plugins: vec![Box::new(NamespaceLifecycle), Box::new(priority::Priority)] }
    }

    /// Adds a plugin at the end.
    #[cfg(test)]
    pub(crate) fn with(mut self, plugin: impl Plugin + 'static) -> Self {
        self.plugins.push(Box::new(plugin));
        self
    }

    /// Runs the mutating plugins: stage 4.
    ///
    /// # Errors
    /// The error of the first plugin that refuses.
    pub(crate) async fn mutate(
        &self,
        call: &mut Call,
        operation: Operation,
        mut object: Option<&mut Value>,
    ) -> Result<(), ApiError> {
        for plugin in &self.plugins {
            let warnings = plugin.mutate(&Request { call, operation }, object.as_deref_mut()).await?;
            warnings.into_iter().for_each(|warning| call.warn(warning));
        }
        Ok(())
    }

    /// Runs the validating plugins: stage 6.
    ///
    /// # Errors
    /// The error of the first plugin that refuses.
    pub(crate) async fn validate(
        &self,
        call: &mut Call,
        operation: Operation,
        object: Option<&Value>,
    ) -> Result<(), ApiError> {
        for plugin in &self.plugins {
            let warnings = plugin.validate(&Request { call, operation }, object).await?;
            warnings.into_iter().for_each(|warning| call.warn(warning));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
