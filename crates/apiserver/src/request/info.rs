//! Target and attributes of a request, parsed once, like kube-apiserver's `RequestInfo`.

use std::fmt;

use http::request::Parts;
use http::{Method, Uri, header};
use kube_apimachinery::names::{self, NameRule};
use kube_apimachinery::selector::field_terms;
use tokio::time::Instant;

use super::verb::Verb;
use crate::request::path::{ResourcePath, Route};
use crate::request::query::{ListOptions, Query};

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
    /// Name in the path, or the name that a field selector requires. Empty for collections, and for creates, which have the name in the body.
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
        let user_agent = head.headers.get(header::USER_AGENT).map(http::HeaderValue::as_bytes);
        let user_agent = String::from_utf8_lossy(user_agent.unwrap_or_default()).into_owned();
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
    let name = match verb {
        Verb::List | Verb::Watch if path.name.is_empty() => selected_name(query.text("fieldSelector"))
            .filter(|_| ListOptions::are_decodable(query))
            .unwrap_or_default(),
        _ => path.name.clone(),
    };
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

/// Returns the name that a field selector requires (`metadata.name=x`), like kube-apiserver's `RequestInfo`. A rule with `resourceNames` allows
/// such a list or watch. `None` also if the selector, or the name, is not valid. A request whose options cannot be decoded has no name.
fn selected_name(selector: &str) -> Option<String> {
    let terms: Vec<_> = field_terms(selector).collect::<Result<_, _>>().ok()?;
    let required = terms.into_iter().find(|term| term.equal && term.label == "metadata.name")?;
    names::name(NameRule::PathSegment, &required.value).is_empty().then_some(required.value)
}

impl RequestInfo {
    /// Namespace in which authorization and flow control count the request. A request for one Namespace counts as being in it.
    pub(crate) fn effective_namespace(&self) -> &str {
        let is_namespace = self.group.is_empty() && self.resource == "namespaces";
        // The name in a list is that of a field selector.
        let is_of_one = !matches!(self.verb, Verb::List | Verb::Watch);
        if is_namespace && is_of_one { &self.name } else { &self.namespace }
    }
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
        check(
            "GET",
            "/api/v1/configmaps?watch=1&fieldSelector=a%3Db,metadata.name%3D%3Dx",
            expect!["watch configmaps x"],
        );
        check("GET", "/api/v1/namespaces/a", expect!["get namespaces a"]);
        check("GET", "/api/v1/nodes/n/proxy/metrics", expect!["get nodes/proxy n"]);
        check("GET", "/version", expect!["none"]);
    }

    #[test]
    fn a_selector_names_an_object_only_in_lists_and_watches() {
        let selected = "configmaps?fieldSelector=metadata.name%3Dx";
        check("POST", &format!("/api/v1/namespaces/a/{selected}"), expect!["create configmaps a/"]);
        check(
            "DELETE",
            &format!("/api/v1/namespaces/a/{selected}"),
            expect!["deletecollection configmaps a/"],
        );
        for selector in
            ["metadata.name!%3Dx", "metadata.name%3D..", "metadata.name%3Da%252Fb", "metadata.name%3Dx,a"]
        {
            let uri = format!("/api/v1/namespaces/a/configmaps?fieldSelector={selector}");
            check("GET", &uri, expect!["list configmaps a/"]);
        }
        // kube-apiserver v1.36.3 reads no name from options that it cannot decode.
        for other in ["limit=x", "timeoutSeconds=99999999999999999999", "labelSelector=a%3D%3D%3Db"] {
            let uri = format!("/api/v1/namespaces/a/{selected}&{other}");
            check("GET", &uri, expect!["list configmaps a/"]);
        }
        let undecided = "limit=-1&resourceVersionMatch=x&continue=y";
        check("GET", &format!("/api/v1/namespaces/a/{selected}&{undecided}"), expect!["list configmaps a/x"]);
    }

    #[test]
    fn a_request_for_one_namespace_counts_as_being_in_it() {
        for (method, uri, namespace) in [
            ("GET", "/api/v1/namespaces/a", "a"),
            ("GET", "/api/v1/namespaces?fieldSelector=metadata.name%3Da", ""),
            ("DELETE", "/api/v1/namespaces?fieldSelector=metadata.name%3Da", ""),
            ("GET", "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Db", "a"),
        ] {
            let request = http::Request::builder().method(method).uri(uri).body(()).unwrap();
            let target = RequestTarget::of(&request.into_parts().0);
            assert_eq!(target.info().unwrap().effective_namespace(), namespace, "{method} {uri}");
        }
    }
}
