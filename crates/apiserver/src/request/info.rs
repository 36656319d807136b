//! Target and attributes of a request, parsed once, like kube-apiserver's `RequestInfo`.

use std::fmt;

use http::request::Parts;
use http::{Method, Uri, header};
use tokio::time::Instant;

use super::verb::Verb;
use crate::request::path::{ResourcePath, Route};
use crate::request::query::Query;

/// Attributes of a request, by which fault rules, authorization and flow control match it. They come from the head of the request, not from
/// its body.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestInfo {
    /// API verb.
    pub verb: Verb,
    /// API group; empty for the core group.
    pub group: String,
    /// Version of the API group, such as `v1`.
    pub version: String,
    /// Plural name of the resource, such as `configmaps`.
    pub resource: String,
    /// Subresource such as `status`; empty for the object itself. The path below `proxy` is not part of it.
    pub subresource: String,
    /// Namespace; empty for cluster-scoped objects and requests across namespaces.
    pub namespace: String,
    /// Name in the path, or the name that a field selector requires. Empty for collections and for creates, whose name is in the body.
    pub name: String,
    /// The `resourceVersion` parameter; empty if there is none.
    pub resource_version: String,
    /// Whole `User-Agent` header.
    pub user_agent: String,
    /// `fieldManager` parameter; empty if the server derives the manager.
    pub field_manager: String,
    /// Whether there is a `dryRun` parameter. A dry run that a delete requests in its body does not count.
    pub dry_run: bool,
}

/// Method, path and query of a request, parsed once for all its stages.
#[derive(Debug)]
pub(crate) struct RequestTarget {
    pub(crate) method: Method,
    uri: Uri,
    pub(crate) route: Route,
    pub(crate) query: Query,
    /// API verb; `None` for requests without a resource, and for methods that no resource supports.
    pub(crate) verb: Option<Verb>,
    /// First `User-Agent` header; empty if there is none.
    pub(crate) user_agent: String,
    /// Time at which the request arrived.
    pub(crate) arrived: Instant,
    info: Option<RequestInfo>,
}

impl RequestTarget {
    /// Parses the head of a request.
    pub(crate) fn of(head: &Parts) -> Self {
        let route = Route::parse(head.uri.path());
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let verb = match &route {
            Route::Resource(path) => Verb::of(&head.method, path, &query),
            _ => None,
        };
        let user_agent = head.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        let user_agent = user_agent.unwrap_or_default().to_owned();
        let info = match (&route, verb) {
            (Route::Resource(path), Some(verb)) => Some(attributes(verb, path, &query, &user_agent)),
            _ => None,
        };
        Self {
            method: head.method.clone(),
            uri: head.uri.clone(),
            route,
            query,
            verb,
            user_agent,
            arrived: Instant::now(),
            info,
        }
    }

    /// Returns the path as it was sent.
    pub(crate) fn path(&self) -> &str {
        self.uri.path()
    }

    /// Returns the attributes; `None` for requests without a resource, and for methods that no resource supports.
    pub(crate) fn info(&self) -> Option<&RequestInfo> {
        self.info.as_ref()
    }
}

fn attributes(verb: Verb, path: &ResourcePath, query: &Query, user_agent: &str) -> RequestInfo {
    let name =
        if path.name.is_empty() { selected_name(query.text("fieldSelector")) } else { path.name.clone() };
    RequestInfo {
        verb,
        group: path.group.clone(),
        version: path.version.clone(),
        resource: path.plural.clone(),
        subresource: path.subresource.clone(),
        namespace: path.namespace.clone(),
        name,
        resource_version: query.text("resourceVersion").to_owned(),
        user_agent: user_agent.to_owned(),
        field_manager: query.text("fieldManager").to_owned(),
        dry_run: !query.text("dryRun").is_empty(),
    }
}

/// Returns the name in `metadata.name=x`, like kube-apiserver's `RequestInfo`.
fn selected_name(selector: &str) -> String {
    let names = selector.split(',').filter_map(|part| part.trim().strip_prefix("metadata.name="));
    names.map(|name| name.trim_start_matches('=')).next().unwrap_or_default().to_owned()
}

/// Formats as `update deployments.apps/status default/web`.
impl fmt::Display for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if !self.subresource.is_empty() {
            write!(f, "/{}", self.subresource)?;
        }
        match (self.namespace.as_str(), self.name.as_str()) {
            ("", "") => Ok(()),
            ("", name) => write!(f, " {name}"),
            (namespace, name) => write!(f, " {namespace}/{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    #[expect(clippy::needless_pass_by_value, reason = "`expect!` returns values")]
    fn check(method: &str, uri: &str, expected: Expect) {
        let request = http::Request::builder().method(method).uri(uri).body(()).unwrap();
        let target = RequestTarget::of(&request.into_parts().0);
        expected.assert_eq(&target.info().map_or_else(|| "none".to_owned(), ToString::to_string));
    }

    #[test]
    fn attributes_are_read_from_the_head() {
        check("POST", "/api/v1/namespaces/a/configmaps", expect!["create configmaps a/"]);
        check(
            "PUT",
            "/apis/apps/v1/namespaces/a/deployments/web/status",
            expect!["update deployments.apps/status a/web"],
        );
        check("GET", "/api/v1/configmaps?watch=true", expect!["watch configmaps"]);
        check(
            "GET",
            "/api/v1/namespaces/a/configmaps?fieldSelector=metadata.name%3Dx",
            expect!["list configmaps a/x"],
        );
        check("GET", "/api/v1/namespaces/a", expect!["get namespaces a"]);
        check("GET", "/api/v1/nodes/n/proxy/metrics", expect!["get nodes/proxy n"]);
        check("GET", "/version", expect!["none"]);
    }
}
