//! Admission: who else has a say in a write, between its decoding and its commit.
//!
//! A request goes through the server in the order of kube-apiserver:
//!
//! 1. [`authentication`](crate::authentication): who asks;
//! 2. [`authorization`](crate::authorization): whether they may;
//! 3. decoding, with the defaults of the kind (`Call::decode`, a patch, or an apply);
//! 4. mutating admission: [`Admission::mutate`];
//! 5. what the kind itself sets, and validation against its schema and rules (`prepare` in [`verbs`](crate::verbs));
//! 6. validating admission: [`Admission::validate`];
//! 7. the commit, whose guard looks once more at what others may have changed meanwhile.
//!
//! A write that starts over, because its object changed meanwhile, starts over with 3. Deletions are not decoded and have no
//! object of their own. Plugins may wait; the whole of it is bounded like the request.

mod namespace_lifecycle;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use serde_json::Value;

use namespace_lifecycle::NamespaceLifecycle;
pub(crate) use namespace_lifecycle::check_namespace;

use crate::status::ApiError;
use crate::verbs::Call;

/// What is to be done with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

/// What plugins know of a write.
pub(crate) struct Request<'a> {
    /// The request: its path, options, user and kind.
    pub(crate) call: &'a Call,
    pub(crate) operation: Operation,
}

/// What a plugin says: warnings for the client, or why not.
pub(crate) type Verdict<'a> = BoxFuture<'a, Result<Vec<String>, ApiError>>;

/// One of those who have a say. What it does not implement, it has nothing to say about.
pub(crate) trait Plugin: Send + Sync {
    /// May change the object, which is not there in a deletion.
    fn mutate<'a>(&'a self, request: &'a Request<'a>, object: Option<&'a mut Value>) -> Verdict<'a> {
        let _ = (request, object);
        ready(Ok(Vec::new())).boxed()
    }

    /// Sees the object as it will be stored.
    fn validate<'a>(&'a self, request: &'a Request<'a>, object: Option<&'a Value>) -> Verdict<'a> {
        let _ = (request, object);
        ready(Ok(Vec::new())).boxed()
    }
}

/// All of them, in the order in which they are asked. The first that refuses ends the request.
pub(crate) struct Admission {
    plugins: Vec<Box<dyn Plugin>>,
}

impl Admission {
    /// What every server has.
    pub(crate) fn standard() -> Self {
        Self { plugins: vec![Box::new(NamespaceLifecycle)] }
    }

    /// The same with one more, which is asked last.
    #[cfg(test)]
    pub(crate) fn with(mut self, plugin: impl Plugin + 'static) -> Self {
        self.plugins.push(Box::new(plugin));
        self
    }

    /// Stage 4.
    ///
    /// # Errors
    /// What a plugin says.
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

    /// Stage 6.
    ///
    /// # Errors
    /// What a plugin says.
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
