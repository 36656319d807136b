//! Which rights a list and watch needs, as a rule to copy.

use std::fmt;

use kube::core::ApiResource;

use crate::client;

/// A right that the operator lacks: without it a cache stays empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct MissingRight {
    /// The resource, e.g. `deployments.apps`, and its selection.
    pub resource: String,
    /// The rule to add, and where.
    pub rule: String,
}

impl fmt::Display for MissingRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, rule } = self;
        write!(f, "{resource}: {rule}")
    }
}

/// What to add to the operator's rights so that it may list and watch the resource.
pub(super) fn rule(resource: &ApiResource, namespace: Option<&str>) -> String {
    let ApiResource { group, plural, .. } = resource;
    client::rule(group, plural, &["list", "watch"], namespace)
}
