//! Role-based access control: rules, roles and bindings, decisions about actions, and checks against escalation.
//!
//! [`Policy`] holds roles and bindings with an index by subject, and [decides](Policy::decide) whether a user may perform an
//! [`Action`]. [`escalation`] compares the rules that a user holds with those that the user grants, and [`aggregate`] combines
//! the rules of ClusterRoles by label. Rules only add permissions, so the order in which they are evaluated never changes a
//! decision.
//!
//! ```
//! use kube_apimachinery::rbac::{Action, Binding, Identity, Kind, Policy, ResourceAction, Role};
//! use serde_json::json;
//!
//! let mut policy = Policy::default();
//! let role = json!({
//!     "metadata": {"name": "reader", "namespace": "shop"},
//!     "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
//! });
//! let binding = json!({
//!     "metadata": {"name": "jane-reads", "namespace": "shop"},
//!     "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
//!     "subjects": [{"kind": "User", "name": "jane"}],
//! });
//! policy.put_role(Role::from_object(&role));
//! policy.put_binding(Binding::from_object(&binding));
//!
//! let jane = Identity { name: "jane", groups: &[] };
//! let get = ResourceAction { verb: "get", resource: "configmaps", namespace: "shop", name: "a", ..ResourceAction::default() };
//! assert!(policy.decide(jane, &Action::Resource(get)).is_allowed());
//! let delete = ResourceAction { verb: "delete", ..get };
//! assert!(!policy.decide(jane, &Action::Resource(delete)).is_allowed());
//! policy.remove(Kind::RoleBinding, "shop", "jane-reads");
//! assert!(!policy.decide(jane, &Action::Resource(get)).is_allowed());
//! ```
//!
//! For a client that checks its own requests, [`OwnedAction::of_request`] finds the action of an HTTP request, and
//! [`PolicyRule::of_authenticated_users`] returns the rules that hold for its user without a binding of its own.
//!
//! Evaluation and messages follow the RBAC authorizer of Kubernetes 1.36. A decision about a user costs a lookup for its name and each
//! of its groups, and the rules of the roles that are bound to them; the number of other bindings does not matter.

mod action;
mod aggregation;
pub mod escalation;
mod policy;
mod policy_rule;
mod request;
mod role;
#[cfg(test)]
mod tests;

pub use self::action::{Action, OwnedAction, ResourceAction};
pub use self::aggregation::aggregate;
pub use self::policy::{Decision, Grant, Policy};
pub use self::policy_rule::{PolicyRule, RulePart};
pub use self::role::{Binding, Identity, Kind, Role, RoleRef, Subject, Unresolved, service_account_name};

/// API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";
