//! Writes of roles and bindings: users may grant only permissions that they hold.
//!
//! A user may write a role if it holds the role's permissions, or has the verb `escalate` on the role. It may write a binding if it holds
//! the permissions of the bound role, or has the verb `bind` on that role. Owner references and finalizers may always be changed, so that
//! garbage collection works. Order and messages follow the storage of roles in Kubernetes 1.36.

use kube_apimachinery::rbac::{Action, GROUP, Kind, PolicyRule, ResourceAction, RoleRef, escalation};
use kube_apimachinery::status::ApiError;
use serde_json::Value;

use super::Permissions;
use crate::user::UserInfo;

/// A write of an object, as the client requested it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestedWrite<'a> {
    pub(crate) user: &'a UserInfo,
    /// Group and plural of the resource.
    pub(crate) resource: (&'a str, &'a str),
    pub(crate) namespace: &'a str,
    /// Name in the path; empty for a POST.
    pub(crate) name: &'a str,
    /// State before the write; `None` for a new object.
    pub(crate) old: Option<&'a Value>,
    /// State after the write.
    pub(crate) new: &'a Value,
}

/// Checks the write of a role or binding; all other writes pass.
///
/// # Errors
/// 403 with the permissions that the user lacks, or 404 if the role of a binding does not exist.
pub(crate) fn check(permissions: &Permissions, write: &RequestedWrite<'_>) -> Result<(), ApiError> {
    let (group, plural) = write.resource;
    let Some(kind) = Kind::of(group, plural) else { return Ok(()) };
    let resource = ResourceAction { group, namespace: write.namespace, ..ResourceAction::default() };
    match kind {
        Kind::Role | Kind::ClusterRole => {
            let escalate =
                ResourceAction { verb: "escalate", resource: plural, name: write.name, ..resource };
            if permissions.decide(write.user, &Action::Resource(escalate)).is_allowed()
                || write.is_for_collector()
            {
                return Ok(());
            }
            let held = permissions.authorizer().rules_for(write.user, write.namespace);
            let refuse =
                |granted: &[PolicyRule]| escalation::refusal(write.user.identity(), &held, granted, plural);
            if let Some(why) = refuse(&PolicyRule::list(&write.new["rules"])) {
                return Err(write.forbidden(&why));
            }
            // The selectors of an aggregation rule can add any role later. Removing them keeps the rules.
            let aggregates = |role: &Value| {
                let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
                selectors.is_some_and(|selectors| !selectors.is_empty())
            };
            if (aggregates(write.new) || write.old.is_some_and(aggregates)) && refuse(&everything()).is_some()
            {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                return Err(write.forbidden(why));
            }
            Ok(())
        }
        Kind::RoleBinding | Kind::ClusterRoleBinding => {
            if write.user.is_master() || write.is_for_collector() {
                return Ok(());
            }
            let role = RoleRef::from_value(&write.new["roleRef"]);
            let roles = if role.kind == "Role" { Kind::Role } else { Kind::ClusterRole };
            let group = write.new["roleRef"]["apiGroup"].as_str().unwrap_or_default();
            let bind = ResourceAction {
                verb: "bind",
                group,
                resource: roles.plural(),
                name: &role.name,
                ..resource
            };
            let has_role = ["Role", "ClusterRole"].contains(&role.kind.as_str());
            if has_role && permissions.decide(write.user, &Action::Resource(bind)).is_allowed() {
                return Ok(());
            }
            let granted = permissions.authorizer().roles.rules_of(&role, write.namespace);
            let granted = granted.map_err(|error| error.into_error(plural))?;
            let held = permissions.authorizer().rules_for(write.user, write.namespace);
            match escalation::refusal(write.user.identity(), &held, &granted, plural) {
                Some(why) => Err(write.forbidden(&why)),
                None => Ok(()),
            }
        }
    }
}

/// The rules of `cluster-admin`.
fn everything() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    [
        PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() },
        PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() },
    ]
}

impl RequestedWrite<'_> {
    /// Whether the write changes only owner references and finalizers, which garbage collection needs.
    fn is_for_collector(&self) -> bool {
        let strip = |object: &Value| {
            let mut object = object.clone();
            if let Some(metadata) = object["metadata"].as_object_mut() {
                // Ownership was tracked before this check, so the managed fields differ in any case.
                for field in ["ownerReferences", "finalizers", "managedFields"] {
                    metadata.remove(field);
                }
            }
            object
        };
        self.old.is_some_and(|old| strip(old) == strip(self.new))
    }

    fn forbidden(&self, why: &str) -> ApiError {
        let name = self.new["metadata"]["name"].as_str().unwrap_or_default();
        ApiError::forbidden(GROUP, self.resource.1, name, why)
    }
}
