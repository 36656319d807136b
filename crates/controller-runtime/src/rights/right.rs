//! A right: verbs on objects or on a URL, and where.

use std::{borrow::Cow, collections::BTreeSet, fmt, sync::Arc};

use kube_apimachinery::rbac::PolicyRule;

use super::verb::Verb;
use crate::object::{DynamicKind, StaticObject};

/// Verbs of requests, in the order of the documentation of Kubernetes. Others follow in alphabetical order.
const ORDER: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// Permission to act on objects of one resource, or on a URL.
///
/// ```
/// use controller_runtime::{Verb, rights::Right};
/// use k8s_openapi::api::core::v1::{Pod, Secret};
///
/// let evict = Right::on::<Pod>([Verb::Create]).subresource("eviction");
/// assert_eq!(evict.to_string(), "create pods/eviction");
///
/// let token = Right::on::<Secret>([Verb::Get, Verb::Update]).named(["token"]).in_own_namespace();
/// assert_eq!(token.to_string(), "get update secrets named token in the operator's namespace");
///
/// let sign = Right::of_resource("certificates.k8s.io", "signers", []).verb("approve").named(["example.com/a"]);
/// assert_eq!(sign.to_string(), "approve signers.certificates.k8s.io named example.com/a");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Right {
    /// Objects or URL.
    pub target: Target,
    /// Verbs of RBAC, such as `list` or `approve`.
    pub verbs: BTreeSet<Cow<'static, str>>,
    /// Namespaces in which the right is needed.
    pub scope: RightScope,
}

/// The objects of a [`Right`], or its URL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Target {
    /// Objects of a resource.
    Objects {
        /// API group; empty for the core group.
        group: String,
        /// Plural name, such as `deployments`.
        resource: String,
        /// Subresource, such as `status`; empty for the objects themselves.
        subresource: String,
        /// Names of the objects; empty for all.
        names: BTreeSet<String>,
    },
    /// A path outside of the resource API, such as `/metrics`.
    Url(String),
}

/// Namespaces of a [`Right`].
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RightScope {
    /// All namespaces, and kinds without namespaces: a ClusterRole.
    #[default]
    Cluster,
    /// Some namespaces: a Role in each.
    Namespaces {
        /// The names, as they are now.
        names: BTreeSet<Arc<str>>,
        /// Whether the operator may change them while it runs.
        may_change: bool,
    },
    /// The namespace in which the operator runs: a Role there.
    OwnNamespace,
}

impl RightScope {
    /// Returns whether the scope includes a namespace, for an operator that runs in the namespace `own`.
    pub(super) fn covers(&self, namespace: &str, own: &str) -> bool {
        match self {
            Self::Cluster => true,
            Self::Namespaces { names, .. } => names.contains(namespace),
            Self::OwnNamespace => namespace == own,
        }
    }
}

impl Right {
    /// Verbs on objects of kind `K`, in all namespaces.
    #[must_use]
    pub fn on<K: StaticObject>(verbs: impl IntoIterator<Item = Verb>) -> Self {
        Self::of_kind(&DynamicKind::of::<K>(), verbs)
    }

    /// Verbs on objects of a kind known at run time, in all namespaces.
    #[must_use]
    pub fn of_kind(kind: &DynamicKind, verbs: impl IntoIterator<Item = Verb>) -> Self {
        Self::of_resource(&kind.resource().group, &kind.resource().plural, verbs)
    }

    /// Verbs on objects of a resource: API group, empty for the core group, and plural name.
    #[must_use]
    pub fn of_resource(group: &str, plural: &str, verbs: impl IntoIterator<Item = Verb>) -> Self {
        let target = Target::Objects {
            group: group.to_owned(),
            resource: plural.to_owned(),
            subresource: String::new(),
            names: BTreeSet::new(),
        };
        Self { target, verbs: in_rules(verbs), scope: RightScope::Cluster }
    }

    /// Verbs on a path outside of the resource API, of which the last character may be `*`.
    ///
    /// The verb in the role is the HTTP method in lower case: [`Verb::Create`] becomes `post`.
    #[must_use]
    pub fn of_url(path: impl Into<String>, verbs: impl IntoIterator<Item = Verb>) -> Self {
        let methods = verbs.into_iter().map(|verb| Cow::Owned(verb.method().as_str().to_ascii_lowercase()));
        Self { target: Target::Url(path.into()), verbs: methods.collect(), scope: RightScope::Cluster }
    }

    /// Adds a verb without a request of its own, such as `approve`, `bind`, `escalate` or `impersonate`.
    #[must_use]
    pub fn verb(mut self, verb: impl Into<Cow<'static, str>>) -> Self {
        self.verbs.insert(verb.into());
        self
    }

    /// Sets the subresource, such as `scale`. Has no effect on a URL.
    #[must_use]
    pub fn subresource(mut self, name: impl Into<String>) -> Self {
        if let Target::Objects { subresource, .. } = &mut self.target {
            *subresource = name.into();
        }
        self
    }

    /// Restricts the right to objects of these names. A create has no name, and is not permitted by such a right. Has no effect on
    /// a URL.
    #[must_use]
    pub fn named<N: Into<String>>(mut self, all: impl IntoIterator<Item = N>) -> Self {
        if let Target::Objects { names, .. } = &mut self.target {
            names.extend(all.into_iter().map(Into::into));
        }
        self
    }

    /// Restricts the right to these namespaces.
    #[must_use]
    pub fn in_namespaces<N: Into<Arc<str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        self.scope = RightScope::Namespaces { names, may_change: false };
        self
    }

    /// The right as a rule of a role, whose namespaces are those of [`scope`](Self::scope).
    pub(super) fn rule(&self) -> PolicyRule {
        let verbs = self.verbs.iter().map(|verb| verb.clone().into_owned()).collect();
        match &self.target {
            Target::Url(path) => {
                PolicyRule { verbs, non_resource_urls: vec![path.clone()], ..PolicyRule::default() }
            }
            Target::Objects { group, resource, subresource, names } => {
                let slash = if subresource.is_empty() { "" } else { "/" };
                PolicyRule {
                    verbs,
                    api_groups: vec![group.clone()],
                    resources: vec![format!("{resource}{slash}{subresource}")],
                    resource_names: names.iter().cloned().collect(),
                    non_resource_urls: Vec::new(),
                }
            }
        }
    }

    /// Restricts the right to the namespace in which the operator runs.
    #[must_use]
    pub fn in_own_namespace(mut self) -> Self {
        self.scope = RightScope::OwnNamespace;
        self
    }
}

/// Sorts verbs in the order of the documentation of Kubernetes.
pub(super) fn in_order<'v>(verbs: impl IntoIterator<Item = &'v Cow<'static, str>>) -> Vec<&'v str> {
    let mut verbs: Vec<&str> = verbs.into_iter().map(|verb| &**verb).collect();
    verbs.sort_by_key(|verb| (ORDER.iter().position(|known| known == verb).unwrap_or(ORDER.len()), *verb));
    verbs
}

/// Verbs that a rule must have for requests with these verbs.
fn in_rules(verbs: impl IntoIterator<Item = Verb>) -> BTreeSet<Cow<'static, str>> {
    verbs.into_iter().flat_map(Verb::in_rules).map(|verb| Cow::Borrowed(*verb)).collect()
}

/// Formats as `deployments.apps/scale named web`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Objects { group, resource, subresource, names } => {
                f.write_str(resource)?;
                if !group.is_empty() {
                    write!(f, ".{group}")?;
                }
                if !subresource.is_empty() {
                    write!(f, "/{subresource}")?;
                }
                if names.is_empty() {
                    return Ok(());
                }
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                write!(f, " named {}", names.join(", "))
            }
            Self::Url(path) => f.write_str(path),
        }
    }
}

/// Formats as `get update secrets named token in the operator's namespace`.
impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", in_order(&self.verbs).join(" "), self.target)?;
        match &self.scope {
            RightScope::Cluster => Ok(()),
            RightScope::OwnNamespace => f.write_str(" in the operator's namespace"),
            RightScope::Namespaces { names, .. } => {
                let names: Vec<&str> = names.iter().map(|name| &**name).collect();
                write!(f, " in {}", names.join(", "))
            }
        }
    }
}
