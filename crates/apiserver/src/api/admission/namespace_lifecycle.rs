//! Plugin `NamespaceLifecycle`: refuses to create objects in missing or terminating namespaces, and to
//! delete some namespaces. Like kube-apiserver's, it is a mutating plugin, so that it runs first.

use futures::FutureExt;
use futures::future::ready;
use kube_apimachinery::metadata;
use kube_apimachinery::status::{ApiError, Cause};
use serde_json::Value;

use super::{Attributes, MutatingPlugin, Operation, Verdict};
use crate::kind::registry::ServedKind;
use crate::kind::resource::StorageKey;
use crate::store::{Key, Store};

pub(super) struct NamespaceLifecycle;

impl NamespaceLifecycle {
    /// Checks the namespace of a new object again, under the lock of the store.
    pub(super) fn recheck(attributes: &Attributes<'_>, store: &Store<StorageKey>) -> Result<(), ApiError> {
        if attributes.operation != Operation::Create || !is_in_namespace(attributes) {
            return Ok(());
        }
        // The namespace may have been deleted since the plugin ran. An object committed now would stay
        // behind, because the namespace controller does not look for more.
        check_namespace(attributes.served, store, attributes.namespace, attributes.name)
    }
}

impl MutatingPlugin for NamespaceLifecycle {
    fn mutate<'a>(&'a self, attributes: &'a Attributes<'a>, object: Option<&'a mut Value>) -> Verdict<'a> {
        let outcome = match (attributes.operation, object) {
            (Operation::Create, Some(object)) if is_in_namespace(attributes) => {
                let names = [attributes.name, metadata::text(object, "generateName")];
                let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
                let namespace = attributes.namespace;
                attributes.cluster.read(|store| check_namespace(attributes.served, store, namespace, name))
            }
            (Operation::Delete, _) => attributes.served.strategy.admit_delete(attributes.name),
            _ => Ok(()),
        };
        ready(outcome).boxed()
    }
}

/// Whether the write depends on the state of its namespace. Reviews of access do not, because their answers would reveal it.
fn is_in_namespace(attributes: &Attributes<'_>) -> bool {
    let resource = &attributes.served.resource;
    resource.namespaced
        && (resource.group.as_str(), resource.plural.as_str())
            != ("authorization.k8s.io", "localsubjectaccessreviews")
}

/// Refuses objects in a namespace that does not exist or is being deleted.
fn check_namespace(
    served: &ServedKind,
    store: &Store<StorageKey>,
    namespace: &str,
    name: &str,
) -> Result<(), ApiError> {
    if namespace.is_empty() {
        return Ok(());
    }
    // kube-apiserver waits a moment for its cache before it refuses. The store is always current, so a
    // missing namespace is refused at once.
    let Some(stored) = store.get(&crate::kinds::namespace::table(), &Key::new("", namespace)) else {
        return Err(ApiError::not_found("", "namespaces", namespace));
    };
    if !stored.document.is_terminating() {
        return Ok(());
    }
    let resource = &served.resource;
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let cause = Cause {
        reason: "NamespaceTerminating",
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".to_owned(),
    };
    Err(ApiError::forbidden(&resource.group, &resource.plural, name, &why).with_causes(vec![cause]))
}
