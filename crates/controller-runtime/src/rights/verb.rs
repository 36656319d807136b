//! Verbs of requests.

use std::fmt;

/// Verb of a request to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many objects.
    List,
    /// Follow changes.
    Watch,
    /// Make an object.
    Create,
    /// Replace an object.
    Update,
    /// Change fields of an object.
    Patch,
    /// Server-side apply, which the API server knows as a patch, and as a create if the object does not exist.
    Apply,
    /// Delete one object.
    Delete,
    /// Delete many objects.
    DeleteCollection,
}

impl Verb {
    /// Returns whether requests with this verb may change objects: all verbs except get, list and watch.
    #[must_use]
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }

    /// Verbs that a role must have for the request: `create` and `patch` for an apply, one for every other verb.
    #[must_use]
    pub fn in_rules(self) -> &'static [&'static str] {
        match self {
            Self::Get => &["get"],
            Self::List => &["list"],
            Self::Watch => &["watch"],
            Self::Create => &["create"],
            Self::Update => &["update"],
            Self::Patch => &["patch"],
            Self::Apply => &["create", "patch"],
            Self::Delete => &["delete"],
            Self::DeleteCollection => &["deletecollection"],
        }
    }

    /// HTTP method of the request.
    pub(crate) fn method(self) -> http::Method {
        match self {
            Self::Get | Self::List | Self::Watch => http::Method::GET,
            Self::Create => http::Method::POST,
            Self::Update => http::Method::PUT,
            Self::Patch | Self::Apply => http::Method::PATCH,
            Self::Delete | Self::DeleteCollection => http::Method::DELETE,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::DeleteCollection => "delete all",
        })
    }
}
