//! Attributes of a request for a resource, like kube-apiserver's `RequestInfo`.

use std::fmt;

use http::header;
use http::request::Parts;

use super::verb::Verb;
use crate::request::path::Route;
use crate::request::query::Query;

/// Attributes of a request that fault rules, authorization and flow control match. They come from its head, not its body.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestInfo {
    /// API verb.
    pub verb: Verb,
    /// API group; empty for the core group.
    pub group: String,
    /// Plural name of the resource, such as `configmaps`.
    pub resource: String,
    /// Subresource such as `status`; empty for the object itself.
    pub subresource: String,
    /// Namespace; empty for cluster-scoped objects and requests across namespaces.
    pub namespace: String,
    /// Name in the path, or the one that a field selector requires; empty for collections, and for creates, whose name
    /// is in the body.
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

impl RequestInfo {
    /// Returns `None` for requests without a resource.
    pub(crate) fn of(head: &Parts) -> Option<Self> {
        let Route::Resource(path) = Route::parse(head.uri.path()) else {
            return None;
        };
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let verb = Verb::of(&head.method, &path, &query)?;
        let name = if path.name.is_empty() { selected_name(query.text("fieldSelector")) } else { path.name };
        let user_agent = head.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        Some(Self {
            verb,
            group: path.group,
            resource: path.plural,
            subresource: path.subresource,
            namespace: path.namespace,
            name,
            resource_version: query.text("resourceVersion").to_owned(),
            user_agent: user_agent.unwrap_or_default().to_owned(),
            field_manager: query.text("fieldManager").to_owned(),
            dry_run: !query.text("dryRun").is_empty(),
        })
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
        let facts = RequestInfo::of(&request.into_parts().0);
        expected.assert_eq(&facts.map_or_else(|| "none".to_owned(), |facts| facts.to_string()));
    }

    #[test]
    fn requests_are_told_apart_by_their_head() {
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
        check("GET", "/version", expect!["none"]);
    }
}
