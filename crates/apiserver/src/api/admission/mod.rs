//! Admission: plugins that can change or refuse a write, between its decoding and its commit.
//!
//! A write passes the stages of kube-apiserver, in this order:
//!
//! 1. [`authentication`](crate::api::authentication): the user of the request;
//! 2. [`authorization`](crate::api::authorization): whether the user may send it;
//! 3. decoding, with the defaults of the kind (`Call::decode`, a patch, or an apply);
//! 4. ownership of the changed fields, in `metadata.managedFields`;
//! 5. mutating admission: [`Admission::mutate`]. Fields that a plugin sets have no owner;
//! 6. fields that the kind itself sets, and validation against its schema and rules (`prepare` in [`verbs`](crate::api::verbs));
//! 7. validating admission: [`Admission::validate`];
//! 8. the commit, with a guard that repeats the checks that concurrent writes may have invalidated.
//!
//! [`authorization`](crate::api::authorization) has a part in the middle, too: after stage 5, a role or binding may grant no more than
//! its writer has; after stage 6, a PUT or PATCH that creates its object needs the permission to create it; and after its review, a
//! stream to a pod needs the permission to create that.
//!
//! A write that is repeated, because its object changed meanwhile, starts again at stage 3. Plugins see the object of the
//! request, which is not always that of the resource: a `Scale`, a `Binding`, an `Eviction`, a `TokenRequest`, the parameters of a
//! connection, or a review that is answered and not stored. What a binding or an eviction then does to its pod is not reviewed
//! again. A deletion has no object of its own; it is reviewed with the object that it deletes, each object of a collection alone.
//!
//! Not reviewed are writes of the server itself: garbage collection, the deletion of the contents of a namespace, and the objects of a
//! new cluster. A webhook for deletions does therefore not see those of dependents, which the controllers of a genuine cluster send
//! as requests.
//!
//! Plugins may wait; the timeout of the request covers all stages.

mod attributes;
mod namespace_lifecycle;
mod priority;

use futures::future::BoxFuture;
use kube_apimachinery::managed_fields;
use kube_apimachinery::metadata;
use kube_apimachinery::status::ApiError;
use serde_json::Value;

pub(crate) use attributes::{Attributes, ObjectKind, Operation, OperationOptions, is_namespace};
use namespace_lifecycle::NamespaceLifecycle;
pub(crate) use namespace_lifecycle::check_namespace;

/// Result of a plugin: whether it lets the request pass.
pub(crate) type Verdict<'a> = BoxFuture<'a, Result<(), ApiError>>;

/// A plugin that can change the object of a write.
pub(crate) trait MutatingPlugin: Send + Sync {
    /// Changes or refuses the object; a deletion has none. What it sets must be complete: defaults are not set again.
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
        Self {
            mutating: vec![Box::new(NamespaceLifecycle), Box::new(priority::Priority)],
            validating: vec![Box::new(priority::Priority)],
        }
    }

    /// Adds a plugin at the end of both chains.
    #[cfg(test)]
    pub(crate) fn with(mut self, plugin: impl MutatingPlugin + ValidatingPlugin + Clone + 'static) -> Self {
        self.mutating.push(Box::new(plugin.clone()));
        self.validating.push(Box::new(plugin));
        self
    }

    /// Runs the mutating chain: stage 5.
    ///
    /// # Errors
    /// The error of the first plugin that refuses.
    pub(crate) async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
    ) -> Result<(), ApiError> {
        for plugin in &self.mutating {
            let verdict = plugin.mutate(attributes, object.as_deref_mut()).await;
            verdict.inspect_err(|error| attributes.log_refusal(error))?;
        }
        Ok(())
    }

    /// Runs the validating chain: stage 7.
    ///
    /// # Errors
    /// The error of the first plugin that refuses.
    pub(crate) async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<(), ApiError> {
        for plugin in &self.validating {
            let verdict = plugin.validate(attributes, object).await;
            verdict.inspect_err(|error| attributes.log_refusal(error))?;
        }
        Ok(())
    }
}

/// Restores `metadata.managedFields` if a webhook left them in a state that cannot be decoded; `before` are the entries before it
/// was called. Returns the warning for the client.
#[cfg_attr(not(test), expect(dead_code, reason = "no plugin of the server lets others change objects"))]
pub(crate) fn restore_managed_fields(before: &Value, object: &mut Value) -> Option<String> {
    let why = managed_fields::validate(object).err()?;
    let fields = metadata::of(object);
    if before.is_null() {
        fields.remove("managedFields");
    } else {
        fields.insert("managedFields".to_owned(), before.clone());
    }
    Some(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission \
         controller; please fix your requests: {why}"
    ))
}

#[cfg(test)]
mod tests;
