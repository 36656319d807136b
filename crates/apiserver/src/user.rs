//! Users of requests.

use std::collections::BTreeMap;

use kube_apimachinery::rbac::Identity;

/// User name of requests without credentials.
pub(crate) const ANONYMOUS: &str = "system:anonymous";

/// Group of users that may do everything, regardless of roles.
pub(crate) const MASTERS: &str = "system:masters";
/// Group of all authenticated users.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// Group of all users without credentials.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";

/// An authenticated user: Kubernetes' `user.Info`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct UserInfo {
    /// User name, such as `jane` or `system:serviceaccount:default:builder`.
    pub name: String,
    /// UID that distinguishes users of one name over time; may be empty.
    pub uid: String,
    /// Groups in the given order, `system:authenticated` last.
    pub groups: Vec<String>,
    /// Other attributes. For a service account they are the id of its token, and the pod and node to which the token is bound.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// Creates an authenticated user: a member of `groups` and of `system:authenticated`.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        uid: impl Into<String>,
        groups: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let mut groups: Vec<String> = groups.into_iter().map(Into::into).collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { name: name.into(), uid: uid.into(), groups, extra: BTreeMap::new() }
    }

    /// Returns the user of requests to a server that requires no credentials.
    pub(crate) fn admin() -> Self {
        Self::new("system:admin", "", [MASTERS])
    }

    /// Returns the user of requests without credentials to a server that requires them: `system:anonymous`.
    #[must_use]
    pub fn anonymous() -> Self {
        let groups = vec![UNAUTHENTICATED.to_owned()];
        Self { name: ANONYMOUS.to_owned(), groups, ..Self::default() }
    }

    /// Returns the attributes by which roles are bound.
    pub(crate) fn identity(&self) -> Identity<'_> {
        Identity { name: &self.name, groups: &self.groups }
    }

    /// Whether the user is a member of `system:masters`, which may do everything.
    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}
