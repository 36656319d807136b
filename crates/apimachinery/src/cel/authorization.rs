//! Queries of expressions to the authorizer: `authorizer.group('').resource('pods').check('get').allowed()`.

use super::types::{ObjectType, Type};

/// Query of an expression to the authorizer: whether a user may perform an action.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessQuery {
    /// Path of a request that belongs to no resource, such as `/metrics`. If it is set, the fields about resources are empty.
    pub path: Option<String>,
    /// API group.
    pub group: String,
    /// Plural of the resource.
    pub resource: String,
    /// Subresource; may be empty.
    pub subresource: String,
    /// Namespace; empty for all.
    pub namespace: String,
    /// Name of the object; empty for all.
    pub name: String,
    /// Verb, such as `get`.
    pub verb: String,
    /// Namespace and name of a service account; if set, the query is about this account instead of the user of the request.
    pub service_account: Option<(String, String)>,
}

impl AccessQuery {
    /// Returns the length of all texts in bytes.
    pub(super) fn length(&self) -> usize {
        let Self { path, group, resource, subresource, namespace, name, verb, service_account } = self;
        let account = service_account.as_ref().map_or(0, |(namespace, name)| namespace.len() + name.len());
        let texts = [group, resource, subresource, namespace, name, verb];
        path.as_ref().map_or(0, String::len) + account + texts.into_iter().map(String::len).sum::<usize>()
    }
}

/// Answer of the authorizer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizerDecision {
    /// Whether the action is allowed.
    pub allowed: bool,
    /// Reason of the authorizer; may be empty.
    pub reason: String,
}

/// Type of the variable `authorizer`.
pub static AUTHORIZER: ObjectType = ObjectType {
    name: "kubernetes.authorization.Authorizer",
    field: |name| (name == "requestResource").then_some(Type::Object(&RESOURCE_CHECK)),
};
pub(super) static PATH_CHECK: ObjectType = ObjectType::opaque("kubernetes.authorization.PathCheck");
pub(super) static GROUP_CHECK: ObjectType = ObjectType::opaque("kubernetes.authorization.GroupCheck");
pub(super) static RESOURCE_CHECK: ObjectType = ObjectType::opaque("kubernetes.authorization.ResourceCheck");
pub(super) static DECISION: ObjectType = ObjectType::opaque("kubernetes.authorization.Decision");
