//! Plugin `OwnerReferencesPermissionEnforcement`: permissions for owner references.
//!
//! - Changing the owner references of an object needs the permission to delete it, because the garbage collector may delete it then.
//! - A new reference with `blockOwnerDeletion` delays the deletion of the owner. It needs the permission to update the finalizers of the
//!   owner.
//!
//! The plugin is off by default, as in kube-apiserver; OpenShift turns it on. While it is off, an audit records the permissions that it
//! would require, so that tests can tell whether an operator has them.

use kube_apimachinery::rbac::{Action, ResourceAction};
use kube_apimachinery::status::ApiError;
use serde_json::Value;

use super::rules::WriteRule;
use super::{Attributes, ObjectKind, Operation};
use crate::kind::resource::Resource;

/// The plugin, or the recorder that replaces it while it is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnerReferences {
    /// Refuses a write for which the user lacks a permission.
    Enforced,
    /// Records the permissions that a write would need.
    Recorded,
}

impl WriteRule for OwnerReferences {
    fn validate(&self, attributes: &Attributes<'_>, object: &Value) -> Result<(), ApiError> {
        if *self == Self::Recorded && !attributes.permissions.are_audited() {
            return Ok(());
        }
        let old = attributes.old.map(references).unwrap_or_default();
        let new = references(object);
        // kube-apiserver exempts the status of pods.
        let is_status_of_pod = attributes.is_below("", "pods") && attributes.subresource == "status";
        if old == new || is_status_of_pod {
            return Ok(());
        }
        // A create needs no permission to delete: if the new object is collected, no object of other users is lost.
        if attributes.operation != Operation::Create {
            let resource = &attributes.served.resource;
            let delete = ResourceAction {
                verb: "delete",
                group: &resource.group,
                resource: &resource.plural,
                subresource: attributes.subresource,
                namespace: attributes.namespace,
                name: attributes.name,
            };
            self.require(
                attributes,
                object,
                delete,
                "cannot set an ownerRef on a resource you can't delete",
            )?;
        }
        let is_new = |reference: &&Value| {
            let before = old.iter().find(|before| before["uid"] == reference["uid"]);
            blocks(reference) && !before.is_some_and(blocks)
        };
        let new: Vec<&Value> = new.iter().filter(is_new).collect();
        if new.is_empty() || self.may_finalize_anything(attributes) {
            return Ok(());
        }
        new.into_iter().try_for_each(|reference| self.check_owner(attributes, object, reference))
    }
}

impl OwnerReferences {
    /// Checks the permission to delay the deletion of an owner.
    fn check_owner(
        self,
        attributes: &Attributes<'_>,
        object: &Value,
        reference: &Value,
    ) -> Result<(), ApiError> {
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let owner = ObjectKind::new(text("apiVersion"), text("kind"));
        let registry = attributes.cluster.registry();
        let is_owner = |resource: &Resource| {
            (resource.group.as_str(), resource.version.as_str(), resource.kind.as_str())
                == (owner.group, owner.version, owner.kind)
        };
        let resources: Vec<_> =
            registry.all().map(|served| &served.resource).filter(|resource| is_owner(resource)).collect();
        if resources.is_empty() && self == Self::Enforced {
            let (version, kind) = (text("apiVersion"), owner.kind);
            return Err(attributes.forbidden(
                object,
                &format!(
                    "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {version} Kind \
                     {kind}: no matches for kind \"{kind}\" in version \"{version}\""
                ),
            ));
        }
        resources.into_iter().try_for_each(|resource| {
            let update = ResourceAction {
                verb: "update",
                group: &resource.group,
                resource: &resource.plural,
                subresource: "finalizers",
                // An owner is in the namespace of its dependents.
                namespace: if resource.namespaced { attributes.namespace } else { "" },
                name: text("name"),
            };
            let why = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on";
            self.require(attributes, object, update, why)
        })
    }

    /// Whether the user may update all finalizers, so that owners need not be looked up. The recorder looks them up in any case, to name
    /// them.
    fn may_finalize_anything(self, attributes: &Attributes<'_>) -> bool {
        let anything = ResourceAction {
            verb: "update",
            group: "*",
            resource: "*",
            subresource: "finalizers",
            namespace: "",
            name: "*",
        };
        let authorizer = attributes.permissions.authorizer();
        self == Self::Enforced && authorizer.decide(attributes.user, &Action::Resource(anything)).is_allowed()
    }

    /// Refuses the write if the user lacks the permission. The recorder only records it.
    fn require(
        self,
        attributes: &Attributes<'_>,
        object: &Value,
        action: ResourceAction<'_>,
        why: &str,
    ) -> Result<(), ApiError> {
        let (permissions, action) = (attributes.permissions, Action::Resource(action));
        if self == Self::Recorded {
            permissions.record_unenforced(attributes.user, &action);
            return Ok(());
        }
        let decision = permissions.decide(attributes.user, &action);
        if decision.is_allowed() {
            return Ok(());
        }
        Err(attributes.forbidden(object, &format!("{why}: {}, <nil>", decision.reason())))
    }
}

fn references(object: &Value) -> &[Value] {
    object["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn blocks(reference: &Value) -> bool {
    reference["blockOwnerDeletion"] == true
}
