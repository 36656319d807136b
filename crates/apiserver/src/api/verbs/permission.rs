//! Permissions that a request needs in addition to the permission for the request itself.

use kube_apimachinery::rbac::{Action, ResourceAction};
use kube_apimachinery::status::ApiError;
use serde_json::Value;

use super::Call;
use crate::api::authorization::{self, RequestedWrite};

impl Call {
    /// Refuses the request unless its user may also use `verb` on its object.
    pub(super) fn authorize(&self, verb: &str) -> Result<(), ApiError> {
        self.permissions.authorize(&self.user, &self.action(verb))
    }

    /// Refuses a stream to a pod unless the user may also `create` it: the permission for the GET that opens a WebSocket would only allow
    /// to read.
    ///
    /// # Errors
    /// 403 with the reason alone, which may be empty, as in kube-apiserver.
    pub(super) fn authorize_stream(&self) -> Result<(), ApiError> {
        let decision = self.permissions.decide(&self.user, &self.action("create"));
        if decision.is_allowed() {
            return Ok(());
        }
        let resource = &self.served.resource;
        Err(ApiError::forbidden(&resource.group, &resource.plural, &self.path.name, &decision.reason()))
    }

    /// Returns the action `verb` on the object of the request.
    fn action<'a>(&'a self, verb: &'a str) -> Action<'a> {
        let resource = &self.served.resource;
        Action::Resource(ResourceAction {
            verb,
            group: &resource.group,
            resource: &resource.plural,
            subresource: &self.path.subresource,
            namespace: &self.path.namespace,
            name: &self.path.name,
        })
    }

    /// Refuses to write a role or binding that grants permissions which the user does not hold.
    pub(super) fn check_escalation(&self, old: Option<&Value>, new: &Value) -> Result<(), ApiError> {
        let resource = &self.served.resource;
        let write = RequestedWrite {
            user: &self.user,
            resource: (&resource.group, &resource.plural),
            namespace: &self.path.namespace,
            name: &self.path.name,
            old,
            new,
        };
        authorization::check_escalation(&self.permissions, &write)
    }
}
