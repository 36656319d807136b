//! Admission: plugins that can change or refuse a write, between its decoding and its commit.
//!
//! A write passes the stages of kube-apiserver, in this order:
//!
//! 1. [`authentication`](crate::api::authentication): the user of the request;
//! 2. [`authorization`](crate::api::authorization): whether the user may send it;
//! 3. decoding, with the defaults of the kind (`Call::decode`, a patch, or an apply);
//! 4. mutating admission: [`Admission::mutate`];
//! 5. fields that the kind itself sets, and validation against its schema and rules (`prepare` in [`verbs`](crate::api::verbs));
//! 6. validating admission: [`Admission::validate`];
//! 7. the commit, with a guard that repeats the checks that concurrent writes may have invalidated.
//!
//! A write that is repeated, because its object changed meanwhile, starts again at stage 3. Deletions are not decoded and
//! have no object of their own. Plugins may wait; the timeout of the request covers all stages.

mod namespace_lifecycle;
pub(crate) mod priority;

use kube_apimachinery::status::ApiError;

use futures::future::BoxFuture;
use serde_json::Value;

use namespace_lifecycle::NamespaceLifecycle;
pub(crate) use namespace_lifecycle::check_namespace;

use crate::kind::registry::Served;
use crate::state::ClusterState;
use crate::user::UserInfo;

/// Operation on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

/// Attributes of a write.
pub(crate) struct Attributes<'a> {
    pub(crate) cluster: &'a ClusterState,
    pub(crate) operation: Operation,
    /// Kind and resource in the version of the request.
    pub(crate) served: &'a Served,
    /// Subresource that is written; empty for the object itself.
    pub(crate) subresource: &'a str,
    /// Name in the path; empty for a create.
    pub(crate) name: &'a str,
    /// User of the request.
    pub(crate) user: &'a UserInfo,
    /// Whether the write is not committed.
    pub(crate) dry_run: bool,
}

/// Result of a plugin: warnings for the client, or the error.
pub(crate) type Verdict<'a> = BoxFuture<'a, Result<Vec<String>, ApiError>>;

/// A plugin that can change the object of a write.
pub(crate) trait MutatingPlugin: Send + Sync {
    /// Changes or refuses the object; a deletion has none.
    fn mutate<'a>(&'a self, attributes: &'a Attributes<'a>, object: Option<&'a mut Value>) -> Verdict<'a>;
}

/// A plugin that can refuse a write.
pub(crate) trait ValidatingPlugin: Send + Sync {
    /// Checks the object in its final form; a deletion has none.
    fn validate<'a>(&'a self, attributes: &'a Attributes<'a>, object: Option<&'a Value>) -> Verdict<'a>;
}

/// Chains of admission plugins in the order in which they are called. The first error ends the request.
pub(crate) struct Admission {
    mutating: Vec<Box<dyn MutatingPlugin>>,
    validating: Vec<Box<dyn ValidatingPlugin>>,
}

impl Admission {
    /// Returns the plugins of every server.
    pub(crate) fn standard() -> Self {
        Self { mutating: vec![Box::new(NamespaceLifecycle)], validating: vec![Box::new(priority::Priority)] }
    }

    /// Adds a plugin at the end of both chains.
    #[cfg(test)]
    pub(crate) fn with(mut self, plugin: impl MutatingPlugin + ValidatingPlugin + Clone + 'static) -> Self {
        self.mutating.push(Box::new(plugin.clone()));
        self.validating.push(Box::new(plugin));
        self
    }

    /// Runs the mutating chain: stage 4. Returns the warnings for the client.
    ///
    /// # Errors
    /// The error of the first plugin that refuses.
    pub(crate) async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
    ) -> Result<Vec<String>, ApiError> {
        let mut warnings = Vec::new();
        for plugin in &self.mutating {
            let verdict = plugin.mutate(attributes, object.as_deref_mut()).await;
            warnings.extend(verdict.inspect_err(|error| attributes.log_refusal(error))?);
        }
        Ok(warnings)
    }

    /// Runs the validating chain: stage 6. Returns the warnings for the client.
    ///
    /// # Errors
    /// The error of the first plugin that refuses.
    pub(crate) async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<Vec<String>, ApiError> {
        let mut warnings = Vec::new();
        for plugin in &self.validating {
            let verdict = plugin.validate(attributes, object).await;
            warnings.extend(verdict.inspect_err(|error| attributes.log_refusal(error))?);
        }
        Ok(warnings)
    }
}

impl Attributes<'_> {
    fn log_refusal(&self, error: &ApiError) {
        tracing::debug!(
            operation = ?self.operation,
            resource = self.served.resource.plural,
            subresource = self.subresource,
            name = self.name,
            user = self.user.name,
            dry_run = self.dry_run,
            reason = error.message(),
            "write refused by admission"
        );
    }
}

#[cfg(test)]
mod tests;
