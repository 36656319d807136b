//! Missing permissions for a list and watch, as a rule to copy into a role.

use std::fmt;

use kube::core::ApiResource;

use crate::client;

/// A permission that the operator lacks: without it a cache stays empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct MissingRight {
    /// The resource, e.g. `deployments.apps`, and its selection.
    pub resource: String,
    /// The rule to add, and the role to add it to.
    pub rule: String,
}

impl fmt::Display for MissingRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, rule } = self;
        write!(f, "{resource}: {rule}")
    }
}

/// Error of a cache that the API server does not allow the operator to fill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the operator has no permission to list and watch {}", list(missing))]
#[non_exhaustive]
pub struct ForbiddenError {
    /// The permissions that were found missing within half a second of the first. The message names the first ten.
    pub missing: Vec<MissingRight>,
}

/// Number of missing permissions in a message.
const NAMED: usize = 10;

fn list(missing: &[MissingRight]) -> String {
    let named: Vec<_> = missing.iter().take(NAMED).map(ToString::to_string).collect();
    let more = match missing.len() - named.len() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    named.join("; ") + &more
}

/// Returns the rule that allows the operator to list and watch the resource.
pub(in crate::cache) fn rule(resource: &ApiResource, namespace: Option<&str>) -> String {
    let ApiResource { group, plural, .. } = resource;
    client::rule(group, plural, &["list", "watch"], namespace)
}
