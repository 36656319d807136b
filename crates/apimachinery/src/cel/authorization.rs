//! Queries of expressions to the authorizer: `authorizer.group('').resource('pods').check('get').allowed()`.

use super::cost::Cost;
use super::evaluation_error::{EvaluationError, no_overload};
use super::functions::Evaluated;
use super::types::{ObjectType, Type};
use super::value::Val;

/// Field of `authorizer` with a query about the resource of the request.
pub(super) const REQUEST_RESOURCE: &str = "requestResource";

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
    /// Returns the query after a call of a function such as `resource('pods')`. `check`, which names the verb, makes it complete.
    pub(super) fn after(&self, function: &str, arguments: &[Val<'_>]) -> Result<Self, EvaluationError> {
        let mut query = self.clone();
        let text = |at: usize| match arguments.get(at) {
            Some(Val::String(text)) => Ok(text.to_string()),
            _ => Err(no_overload()),
        };
        match function {
            "path" => query.path = Some(text(0)?),
            "group" => query.group = text(0)?,
            "resource" => query.resource = text(0)?,
            "subresource" => query.subresource = text(0)?,
            "namespace" => query.namespace = text(0)?,
            "name" => query.name = text(0)?,
            "serviceAccount" => query.service_account = Some((text(0)?, text(1)?)),
            // Role-based access control does not look at selectors.
            "fieldSelector" | "labelSelector" => drop(text(0)?),
            "check" => query.verb = text(0)?,
            _ => return Err(no_overload()),
        }
        Ok(query)
    }

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

/// Calls a function of the answer. The authorizer reports no errors, so `errored` is always false.
pub(super) fn of_decision<'a>(
    function: &str,
    decision: &AuthorizerDecision,
    cost: &mut Cost,
) -> Evaluated<'a> {
    match function {
        "allowed" => Ok(Val::Bool(decision.allowed)),
        "reason" => {
            cost.text(decision.reason.len())?;
            Ok(Val::text(&*decision.reason))
        }
        "errored" => Ok(Val::Bool(false)),
        "error" => Ok(Val::text("")),
        _ => Err(no_overload()),
    }
}

/// Type of the variable `authorizer`.
pub static AUTHORIZER: ObjectType = ObjectType {
    name: "kubernetes.authorization.Authorizer",
    field: |name| (name == REQUEST_RESOURCE).then_some(Type::Object(&RESOURCE_CHECK)),
};
pub(super) static PATH_CHECK: ObjectType = ObjectType::opaque("kubernetes.authorization.PathCheck");
pub(super) static GROUP_CHECK: ObjectType = ObjectType::opaque("kubernetes.authorization.GroupCheck");
pub(super) static RESOURCE_CHECK: ObjectType = ObjectType::opaque("kubernetes.authorization.ResourceCheck");
pub(super) static DECISION: ObjectType = ObjectType::opaque("kubernetes.authorization.Decision");
