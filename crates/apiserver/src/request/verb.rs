//! API verbs.

use std::fmt;

use http::Method;
use serde::{Deserialize, Serialize};

use super::path::ResourcePath;
use super::query::Query;

/// API verb of a request for a resource, as Kubernetes names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// GET of one object.
    Get,
    /// GET of a collection.
    List,
    /// GET of a collection with `watch`.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH, server-side apply included.
    Patch,
    /// DELETE of one object.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
}

impl Verb {
    /// Returns Kubernetes' name of the verb, such as `deletecollection`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// Determines the verb; `None` for methods that no resource supports, and for writes below the `watch/` prefix.
    pub(crate) fn of(method: &Method, path: &ResourcePath, query: &Query) -> Option<Self> {
        let collection = path.name.is_empty();
        Some(match *method {
            Method::GET | Method::HEAD if path.watch_prefix => Self::Watch,
            _ if path.watch_prefix => return None,
            Method::GET | Method::HEAD if collection && query.flag("watch") == Some(true) => Self::Watch,
            Method::GET | Method::HEAD if collection => Self::List,
            Method::GET | Method::HEAD => Self::Get,
            Method::POST => Self::Create,
            Method::PUT => Self::Update,
            Method::PATCH => Self::Patch,
            Method::DELETE if collection => Self::DeleteCollection,
            Method::DELETE => Self::Delete,
            _ => return None,
        })
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::path::Route;

    fn check(method: &str, uri: &str, expected: Option<Verb>) {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let Route::Resource(path) = Route::parse(path) else { panic!("{path}") };
        let verb = Verb::of(&method.parse().unwrap(), &path, &Query::parse(query));
        assert_eq!(verb, expected, "{method} {uri}");
    }

    #[test]
    fn collections_are_watched_and_single_objects_are_got() {
        const MAPS: &str = "/api/v1/namespaces/a/configmaps";
        check("GET", MAPS, Some(Verb::List));
        check("GET", &format!("{MAPS}?watch=true"), Some(Verb::Watch));
        check("GET", &format!("{MAPS}?watch=false"), Some(Verb::List));
        check("GET", &format!("{MAPS}/b"), Some(Verb::Get));
        check("GET", &format!("{MAPS}/b?watch=true"), Some(Verb::Get));
        check("HEAD", &format!("{MAPS}/b?watch=true"), Some(Verb::Get));
    }

    #[test]
    fn nothing_is_written_below_the_watch_prefix() {
        for path in ["/api/v1/watch/namespaces/a/configmaps", "/api/v1/watch/namespaces/a/configmaps/b"] {
            check("GET", path, Some(Verb::Watch));
            for method in ["POST", "PUT", "PATCH", "DELETE"] {
                check(method, path, None);
            }
        }
    }
}
