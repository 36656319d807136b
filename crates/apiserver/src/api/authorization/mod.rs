//! Authorization: the stage after authentication, and checks of other permissions that a request needs.
//!
//! Members of `system:masters` may perform every action. The permissions of other users come from roles and bindings ([`RoleIndex`]),
//! unless the server runs in mode [`AlwaysAllow`](AuthorizationMode::AlwaysAllow).

mod escalation;
mod permissions;
mod role_index;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use kube_apimachinery::rbac::{self, Action, PolicyRule, ResourceAction, Unresolved};

pub(crate) use self::escalation::{RequestedWrite, check as check_escalation};
pub use self::permissions::{AccessCheck, Outcome};
pub(crate) use self::permissions::{Permissions, Record};
pub(crate) use self::role_index::RoleIndex;
use crate::request::info::RequestTarget;
use crate::request::path::{ResourcePath, Route};
use crate::user::{ANONYMOUS, UserInfo};

/// Reason in access reviews of a server that does not restrict its users.
const NOT_ENFORCED: &str = "access control is not enforced: every user may do everything";

/// Restriction of users, like kube-apiserver's `--authorization-mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AuthorizationMode {
    /// Users have the permissions that roles and bindings grant them. Members of `system:masters` may do everything. If the server requires
    /// no credentials, every client without credentials is a member.
    #[default]
    Rbac,
    /// Users may do everything. Only anonymous users are restricted by roles, to health and version.
    AlwaysAllow,
}

/// Parses `RBAC` and `AlwaysAllow`.
impl FromStr for AuthorizationMode {
    type Err = UnknownAuthorizationMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "RBAC" => Ok(Self::Rbac),
            "AlwaysAllow" => Ok(Self::AlwaysAllow),
            _ => Err(UnknownAuthorizationMode(text.to_owned())),
        }
    }
}

impl fmt::Display for AuthorizationMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rbac => "RBAC",
            Self::AlwaysAllow => "AlwaysAllow",
        })
    }
}

/// Name that is not an [`AuthorizationMode`]'s.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("authorization mode {0:?} is not supported: use RBAC or AlwaysAllow")]
pub struct UnknownAuthorizationMode(String);

/// Decides which requests are allowed.
pub(crate) struct Authorizer {
    mode: AuthorizationMode,
    roles: Arc<RoleIndex>,
}

/// Result of authorization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The user is a member of `system:masters`.
    Master,
    /// The mode of the server does not restrict the user.
    NotEnforced,
    /// The rules of the user's roles decide.
    Rules(rbac::Decision),
}

impl Decision {
    pub(crate) fn is_allowed(&self) -> bool {
        match self {
            Self::Master | Self::NotEnforced => true,
            Self::Rules(decision) => decision.is_allowed(),
        }
    }

    /// Returns the reason for a review or a refusal; it may be empty.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Master => String::new(),
            Self::NotEnforced => NOT_ENFORCED.to_owned(),
            Self::Rules(decision) => decision.reason(),
        }
    }
}

impl Authorizer {
    pub(crate) fn new(mode: AuthorizationMode, roles: Arc<RoleIndex>) -> Self {
        Self { mode, roles }
    }

    /// Decides whether a user may perform an action.
    pub(crate) fn decide(&self, user: &UserInfo, action: &Action<'_>) -> Decision {
        if user.is_master() {
            Decision::Master
        } else if self.allows_everything(user) {
            Decision::NotEnforced
        } else {
            Decision::Rules(self.roles.decide(user.identity(), action))
        }
    }

    /// Whether the mode of the server allows the user everything.
    fn allows_everything(&self, user: &UserInfo) -> bool {
        self.mode == AuthorizationMode::AlwaysAllow && user.name != ANONYMOUS
    }

    /// Returns the rules of a user in a namespace, and the reasons why the role of a binding could not be found.
    pub(crate) fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<PolicyRule>, Vec<Unresolved>) {
        if self.allows_everything(user) {
            let all = || vec!["*".to_owned()];
            let objects =
                PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() };
            let paths = PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() };
            return (vec![objects, paths], Vec::new());
        }
        self.roles.rules_for(user.identity(), namespace)
    }
}

/// Returns the action of a request; `verb` is its method in lower case.
pub(crate) fn action_of<'a>(target: &'a RequestTarget, verb: &'a str) -> Action<'a> {
    let Some(info) = target.info() else {
        return match &target.route {
            Route::Resource(path) => without_verb(path),
            _ => Action::Path { verb, path: target.path() },
        };
    };
    Action::Resource(ResourceAction {
        verb: info.verb.name(),
        group: &info.group,
        resource: &info.resource,
        subresource: &info.subresource,
        namespace: info.effective_namespace(),
        name: &info.name,
    })
}

/// Returns the action of a method that no resource supports. It has no verb, except below the `watch/` prefix, which stands for one.
fn without_verb(path: &ResourcePath) -> Action<'_> {
    let is_namespace = path.group.is_empty() && path.plural == "namespaces";
    Action::Resource(ResourceAction {
        verb: if path.watch_prefix { "watch" } else { "" },
        group: &path.group,
        resource: &path.plural,
        subresource: &path.subresource,
        namespace: if is_namespace { &path.name } else { &path.namespace },
        name: &path.name,
    })
}

#[cfg(test)]
mod tests;
