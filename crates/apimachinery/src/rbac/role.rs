//! Roles, bindings and their subjects.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::GROUP;
use super::policy_rule::PolicyRule;
use crate::go::quote;
use crate::metadata;
use crate::status::ApiError;

/// A user, as access control sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity<'a> {
    /// Name of the user.
    pub name: &'a str,
    /// Groups of the user.
    pub groups: &'a [String],
}

/// Kinds of objects of which a policy consists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Rules in a namespace.
    Role,
    /// Rules for the cluster, or for the namespace of a RoleBinding.
    ClusterRole,
    /// Grant in a namespace.
    RoleBinding,
    /// Grant in the cluster.
    ClusterRoleBinding,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Role, Self::ClusterRole, Self::RoleBinding, Self::ClusterRoleBinding];

    /// Returns the plural name of the resource.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Role => "roles",
            Self::ClusterRole => "clusterroles",
            Self::RoleBinding => "rolebindings",
            Self::ClusterRoleBinding => "clusterrolebindings",
        }
    }

    /// Returns the kind of this resource; `None` if it is not part of a policy.
    #[must_use]
    pub fn of(group: &str, plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| group == GROUP && kind.plural() == plural)
    }
}

/// A Role, or a ClusterRole if the namespace is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// Namespace; empty for a ClusterRole.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Rules of the role.
    pub rules: Arc<[PolicyRule]>,
}

impl Role {
    /// Reads a Role or ClusterRole.
    #[must_use]
    pub fn from_object(role: &Value) -> Self {
        Self {
            namespace: metadata::text(role, "namespace").to_owned(),
            name: metadata::text(role, "name").to_owned(),
            rules: PolicyRule::list(&role["rules"]).into(),
        }
    }
}

/// Reference of a binding to its role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleRef {
    /// `Role` or `ClusterRole`; other kinds do not resolve.
    pub kind: String,
    /// Name of the role.
    pub name: String,
}

impl RoleRef {
    /// Reads `roleRef`.
    #[must_use]
    pub fn from_value(reference: &Value) -> Self {
        let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
        Self { kind: text("kind"), name: text("name") }
    }
}

/// A user, group or service account that a binding names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// `User`, `Group` or `ServiceAccount`; other kinds match nothing.
    pub kind: String,
    /// Name of the subject.
    pub name: String,
    /// Namespace of a service account; empty means that of the binding.
    pub namespace: String,
}

impl Subject {
    fn from_value(subject: &Value) -> Self {
        let text = |field: &str| subject[field].as_str().unwrap_or_default().to_owned();
        Self { kind: text("kind"), name: text("name"), namespace: text("namespace") }
    }

    /// Returns the namespace of a service account, given that of the binding.
    fn account_namespace<'a>(&'a self, binding: &'a str) -> &'a str {
        if self.namespace.is_empty() { binding } else { &self.namespace }
    }

    /// Returns the user or group that the subject of a binding in `namespace` stands for; `None` if it matches nothing.
    pub(super) fn principal(&self, namespace: &str) -> Option<Principal> {
        match self.kind.as_str() {
            "User" => Some(Principal::User(self.name.clone())),
            "Group" => Some(Principal::Group(self.name.clone())),
            "ServiceAccount" => {
                let namespace = self.account_namespace(namespace);
                // Without a namespace the account has no user name.
                (!namespace.is_empty()).then(|| Principal::User(service_account_name(namespace, &self.name)))
            }
            _ => None,
        }
    }
}

/// User or group, as a key of the index of bindings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Principal {
    User(String),
    Group(String),
}

impl Principal {
    pub(super) fn is(&self, user: Identity<'_>) -> bool {
        match self {
            Self::User(name) => name == user.name,
            Self::Group(name) => user.groups.contains(name),
        }
    }
}

/// Returns the user name of a service account: `system:serviceaccount:<namespace>:<name>`.
#[must_use]
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// A RoleBinding, or a ClusterRoleBinding if the namespace is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Namespace; empty for a ClusterRoleBinding.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Role that the subjects have.
    pub role: RoleRef,
    /// Users, groups and service accounts that have the role.
    pub subjects: Vec<Subject>,
}

impl Binding {
    /// Reads a RoleBinding or ClusterRoleBinding.
    #[must_use]
    pub fn from_object(binding: &Value) -> Self {
        Self {
            namespace: metadata::text(binding, "namespace").to_owned(),
            name: metadata::text(binding, "name").to_owned(),
            role: RoleRef::from_value(&binding["roleRef"]),
            subjects: binding["subjects"].as_array().into_iter().flatten().map(Subject::from_value).collect(),
        }
    }

    /// Returns the position of the first subject that is the user.
    pub(super) fn subject_of(&self, user: Identity<'_>) -> Option<usize> {
        let is = |subject: &Subject| {
            subject.principal(&self.namespace).is_some_and(|principal| principal.is(user))
        };
        self.subjects.iter().position(is)
    }

    /// Describes the grant to a subject, as in the reason of an access review.
    pub(super) fn describe(&self, subject: &Subject, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = if self.namespace.is_empty() {
            ("ClusterRoleBinding", self.name.clone())
        } else {
            ("RoleBinding", format!("{}/{}", self.name, self.namespace))
        };
        let who = match subject.kind.as_str() {
            "ServiceAccount" => format!("{}/{}", subject.name, subject.account_namespace(&self.namespace)),
            _ => subject.name.clone(),
        };
        let RoleRef { kind: role_kind, name: role } = &self.role;
        write!(
            f,
            "{kind} {} of {role_kind} {} to {} {}",
            quote(&name),
            quote(role),
            subject.kind,
            quote(&who)
        )
    }
}

/// Reason why the role of a binding cannot be found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unresolved {
    /// The role does not exist.
    NotFound {
        /// `role` or `clusterrole`.
        resource: &'static str,
        /// Name of the role.
        name: String,
    },
    /// The reference names a kind other than `Role` and `ClusterRole`.
    UnknownKind(String),
}

impl Unresolved {
    /// Builds the error for a request that needs the role. `plural` is the resource of the request, which kube-apiserver names instead of
    /// the role's resource.
    #[must_use]
    pub fn into_error(self, plural: &str) -> ApiError {
        match self {
            Self::NotFound { name, .. } => ApiError::not_found(GROUP, plural, &name),
            Self::UnknownKind(_) => ApiError::internal(self.to_string()),
        }
    }
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { resource, name } => write!(f, "{resource}.{GROUP} \"{name}\" not found"),
            Self::UnknownKind(kind) => write!(f, "unsupported role reference kind: {}", quote(kind)),
        }
    }
}
