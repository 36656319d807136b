//! Single permissions: the smallest parts of RBAC rules.

use std::fmt;

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube_apimachinery::rbac::{self, Action, OwnedAction};

/// A single permission: one verb on one resource, object or path.
///
/// Its display is `patch guestbooks.example.com/status`, `get secrets "key" in default`, `get /metrics`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Permission {
    /// Target of the verb.
    pub target: PermissionTarget,
    /// Verb, such as `list`; `*` for all.
    pub verb: String,
    /// Namespace in which the permission holds; `None` for all of them, and for cluster-scoped objects.
    pub namespace: Option<String>,
}

/// Target of a [`Permission`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PermissionTarget {
    /// Objects of a resource.
    Objects {
        /// API group; empty for the core group, `*` for all.
        group: String,
        /// Resource with its subresource, as in a rule: `pods`, `pods/log`, `*`.
        resource: String,
        /// Name of the object; `None` for all.
        name: Option<String>,
    },
    /// A path outside of the resource API; `*` at its end matches every continuation.
    Path(String),
}

impl Permission {
    /// Splits a rule into its permissions. `namespace` is that of a RoleBinding, which grants no paths.
    pub(super) fn of_rule(rule: &PolicyRule, namespace: Option<&str>) -> Vec<Self> {
        let mut targets = Vec::new();
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                let (group, resource) = (group.clone(), resource.clone());
                let names = rule.resource_names.iter().flatten().cloned().map(Some);
                let mut names: Vec<Option<String>> = names.collect();
                // A rule without names covers all objects.
                if names.is_empty() {
                    names.push(None);
                }
                targets.extend(names.into_iter().map(|name| PermissionTarget::Objects {
                    group: group.clone(),
                    resource: resource.clone(),
                    name,
                }));
            }
        }
        // Paths have no namespace, so RBAC ignores rules about them in a RoleBinding.
        if namespace.is_none() {
            targets.extend(rule.non_resource_urls.iter().flatten().cloned().map(PermissionTarget::Path));
        }
        let namespace = namespace.map(str::to_owned);
        let with = |verb: &String, target: &PermissionTarget| Self {
            target: target.clone(),
            verb: verb.clone(),
            namespace: namespace.clone(),
        };
        rule.verbs.iter().flat_map(|verb| targets.iter().map(move |target| with(verb, target))).collect()
    }

    /// Returns the permission that an action needs, without the name of the object.
    pub(super) fn needed_for(action: &OwnedAction) -> Self {
        match action {
            OwnedAction::Path { verb, path } => {
                Self { target: PermissionTarget::Path(path.clone()), verb: verb.clone(), namespace: None }
            }
            OwnedAction::Resource { verb, group, resource, subresource, namespace, .. } => {
                let slash = if subresource.is_empty() { "" } else { "/" };
                let resource = format!("{resource}{slash}{subresource}");
                Self {
                    target: PermissionTarget::Objects { group: group.clone(), resource, name: None },
                    verb: verb.clone(),
                    namespace: (!namespace.is_empty()).then(|| namespace.clone()),
                }
            }
        }
    }

    /// Makes the review by which the API server decides whether a user has this permission.
    pub(super) fn review(&self) -> SelfSubjectAccessReview {
        let verb = Some(self.verb.clone());
        let mut spec = SelfSubjectAccessReviewSpec::default();
        match &self.target {
            PermissionTarget::Path(path) => {
                spec.non_resource_attributes = Some(NonResourceAttributes { path: Some(path.clone()), verb });
            }
            PermissionTarget::Objects { group, resource, name } => {
                // Rules write both in one text, and reviews in two fields.
                let (resource, subresource) = match resource.split_once('/') {
                    Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
                    None => (&**resource, None),
                };
                spec.resource_attributes = Some(ResourceAttributes {
                    verb,
                    group: Some(group.clone()),
                    resource: Some(resource.to_owned()),
                    subresource,
                    name: name.clone(),
                    namespace: self.namespace.clone(),
                    ..ResourceAttributes::default()
                });
            }
        }
        SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() }
    }

    /// Returns whether the permission permits an action, by the rules of RBAC.
    pub(super) fn permits(&self, action: &Action<'_>) -> bool {
        let mut rule = rbac::PolicyRule { verbs: vec![self.verb.clone()], ..rbac::PolicyRule::default() };
        match &self.target {
            PermissionTarget::Objects { group, resource, name } => {
                rule.api_groups.push(group.clone());
                rule.resources.push(resource.clone());
                rule.resource_names.extend(name.clone());
            }
            PermissionTarget::Path(path) => rule.non_resource_urls.push(path.clone()),
        }
        self.namespace.as_deref().is_none_or(|namespace| namespace == action.namespace())
            && rule.allows(action)
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.verb)?;
        match &self.target {
            PermissionTarget::Path(path) => f.write_str(path)?,
            PermissionTarget::Objects { group, resource, name } => {
                let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                f.write_str(plural)?;
                if !group.is_empty() {
                    write!(f, ".{group}")?;
                }
                if !subresource.is_empty() {
                    write!(f, "/{subresource}")?;
                }
                if let Some(name) = name {
                    write!(f, " \"{name}\"")?;
                }
            }
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => Ok(()),
        }
    }
}
