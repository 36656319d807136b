//! Permissions that a request needs beyond that for itself.

use kube_apimachinery::rbac::{Action, ResourceAction};
use kube_apimachinery::status::ApiError;
use serde_json::Value;

use super::Call;
use crate::api::authorization::{self, Write};

impl Call {
    /// Refuses the request unless its user may also use `verb` on its object.
    pub(super) fn authorize(&self, verb: &str) -> Result<(), ApiError> {
        let resource = &self.served.resource;
        let action = ResourceAction {
            verb,
            group: &resource.group,
            resource: &resource.plural,
            subresource: &self.path.subresource,
            namespace: &self.path.namespace,
            name: &self.path.name,
        };
        self.context.authorizer.authorize(&self.user, &Action::Resource(action))
    }

    /// Refuses to write a role or binding that grants more than its user may do.
    pub(super) fn check_escalation(&self, old: Option<&Value>, new: &Value) -> Result<(), ApiError> {
        let resource = &self.served.resource;
        let write = Write {
            user: &self.user,
            resource: (&resource.group, &resource.plural),
            namespace: &self.path.namespace,
            name: &self.path.name,
            old,
            new,
        };
        authorization::check_escalation(&self.context.authorizer, &write)
    }
}
