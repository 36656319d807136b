//! Attributes of a request that RBAC evaluates.

use http::{Method, request::Parts};

/// Attributes of a request that RBAC evaluates.
#[derive(Debug, PartialEq)]
pub(crate) struct RequestAttributes {
    pub(super) verb: String,
    /// Empty for cluster-scoped resources.
    pub(super) namespace: String,
    pub(super) about: About,
}

#[derive(Debug, PartialEq)]
pub(super) enum About {
    Resource {
        group: String,
        /// Includes the subresource: `deployments/status`.
        resource: String,
        /// Empty for collections and creations.
        name: String,
    },
    /// A path outside of the resource API.
    Url(String),
}

impl RequestAttributes {
    pub(crate) fn of(head: &Parts) -> Self {
        let path = head.uri.path();
        Self::about_resource(head, path).unwrap_or_else(|| Self {
            verb: head.method.as_str().to_ascii_lowercase(),
            namespace: String::new(),
            about: About::Url(path.to_owned()),
        })
    }

    /// Name of the required permission: `patch guestbooks.example.com/status`, `get /version`.
    pub(crate) fn name(&self) -> String {
        let verb = &self.verb;
        match &self.about {
            About::Resource { group, resource, .. } => format!("{verb} {}", right_about(group, resource)),
            About::Url(path) => format!("{verb} {path}"),
        }
    }

    /// Returns whether the request changes an object other than leases, events and access reviews.
    pub(crate) fn is_write(&self) -> bool {
        const BESIDES: [&str; 4] =
            ["authentication.k8s.io", "authorization.k8s.io", "coordination.k8s.io", "events.k8s.io"];
        let About::Resource { group, resource, .. } = &self.about else { return false };
        let changes = matches!(&*self.verb, "create" | "update" | "patch" | "delete" | "deletecollection");
        changes && !BESIDES.contains(&&**group) && (&**group, &**resource) != ("", "events")
    }

    /// Parses a resource path; `None` for other paths.
    fn about_resource(head: &Parts, path: &str) -> Option<Self> {
        let mut path = path.trim_matches('/').split('/');
        let group = match path.next()? {
            "api" => "",
            "apis" => path.next()?,
            _ => return None,
        };
        let _version = path.next()?;
        let mut rest: Vec<_> = path.collect();
        let mut namespace = "";
        if rest.len() >= 2 && rest[0] == "namespaces" {
            namespace = rest[1];
            // `namespaces/NAME` is the namespace itself; a longer path refers to a resource inside of it.
            if rest.len() > 2 && !matches!(rest[2], "status" | "finalize") {
                rest.drain(..2);
            }
        }
        let (plural, name, below) = (rest.first()?, rest.get(1).copied(), rest.get(2));
        let query = Query::of(head.uri.query().unwrap_or_default());
        let verb = match (&head.method, name) {
            (&Method::GET | &Method::HEAD, None) if query.watches => "watch",
            (&Method::GET | &Method::HEAD, None) => "list",
            (&Method::GET | &Method::HEAD, Some(_)) => "get",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, None) => "deletecollection",
            (&Method::DELETE, Some(_)) => "delete",
            _ => "",
        };
        let name = match (verb, name) {
            ("list" | "watch", None) => query.name.unwrap_or_default(),
            (_, name) => name.unwrap_or_default().to_owned(),
        };
        let resource = below.map_or_else(|| (*plural).to_owned(), |below| format!("{plural}/{below}"));
        let about = About::Resource { group: group.to_owned(), resource, name };
        Some(Self { verb: verb.to_owned(), namespace: namespace.to_owned(), about })
    }

    /// Message of a refusal, similar to that of RBAC.
    pub(super) fn refusal(&self) -> String {
        let verb = &self.verb;
        let (group, resource) = match &self.about {
            About::Resource { group, resource, .. } => (group, resource),
            About::Url(path) => {
                return format!("forbidden: the manifests do not allow to {verb} path \"{path}\"");
            }
        };
        let place = match &*self.namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        let what = right_about(group, resource.split('/').next().unwrap_or_default());
        format!(
            "{what} is forbidden: the manifests do not allow to {verb} resource \"{resource}\" in API group \"{group}\" {place}"
        )
    }
}

/// Parts of the query that affect authorization.
struct Query {
    watches: bool,
    /// Name that the field selector requires. Rules with `resourceNames` permit lists and watches of that name.
    name: Option<String>,
}

impl Query {
    fn of(query: &str) -> Self {
        let (mut watches, mut name) = (false, None);
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "watch" => watches = matches!(&*value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
                "fieldSelector" => name = value.split(',').find_map(required_name),
                _ => {}
            }
        }
        Self { watches, name }
    }
}

fn required_name(requirement: &str) -> Option<String> {
    let value = requirement.trim().strip_prefix("metadata.name")?.strip_prefix('=')?;
    Some(value.strip_prefix('=').unwrap_or(value).to_owned())
}

/// Formats a resource with its group: `pods`, `deployments.apps`, `deployments.apps/status`.
pub(super) fn right_about(group: &str, resource: &str) -> String {
    let (plural, below) = resource.split_once('/').map_or((resource, None), |(p, b)| (p, Some(b)));
    let dot = if group.is_empty() { "" } else { "." };
    let slash = if below.is_some() { "/" } else { "" };
    format!("{plural}{dot}{group}{slash}{}", below.unwrap_or_default())
}

#[cfg(test)]
pub(super) mod tests {
    use http::Request;

    use super::*;

    pub(in super::super) fn asked(request: &str) -> RequestAttributes {
        let (method, uri) = request.split_once(' ').expect("method and path");
        let request = Request::builder().method(method).uri(uri).body(()).expect("a request");
        RequestAttributes::of(&request.into_parts().0)
    }

    /// Compares the attributes of a request with their expected text.
    #[track_caller]
    fn check(request: &str, expected: &str) {
        let attributes = asked(request);
        let right = attributes.name();
        let shown = match &attributes.about {
            About::Resource { name, .. } => format!("{right} {}/{name}", attributes.namespace),
            About::Url(_) => right,
        };
        assert_eq!(shown, expected, "{request}");
    }

    #[test]
    fn a_verb_follows_from_method_name_and_query() {
        check("GET /api/v1/namespaces/a/pods", "list pods a/");
        check("GET /api/v1/pods?watch=true&limit=1", "watch pods /");
        check("GET /api/v1/pods?watch=false", "list pods /");
        check("GET /api/v1/namespaces/a/pods/x", "get pods a/x");
        check("HEAD /api/v1/namespaces/a/pods/x", "get pods a/x");
        check("POST /api/v1/namespaces/a/pods", "create pods a/");
        check("PUT /apis/apps/v1/namespaces/a/deployments/x", "update deployments.apps a/x");
        check("PATCH /apis/apps/v1/namespaces/a/deployments/x?force=true", "patch deployments.apps a/x");
        check("DELETE /api/v1/namespaces/a/pods/x", "delete pods a/x");
        check("DELETE /api/v1/namespaces/a/pods", "deletecollection pods a/");
        check("OPTIONS /api/v1/pods", " pods /");
    }

    #[test]
    fn a_resource_may_have_a_subresource() {
        check("PUT /apis/apps/v1/namespaces/a/deployments/x/status", "update deployments.apps/status a/x");
        check("GET /api/v1/namespaces/a/pods/x/proxy/some/path", "get pods/proxy a/x");
        check("POST /api/v1/namespaces/a/pods/x/eviction", "create pods/eviction a/x");
    }

    #[test]
    fn a_namespace_object_is_in_its_own_namespace() {
        check("GET /api/v1/namespaces", "list namespaces /");
        check("GET /api/v1/namespaces/a", "get namespaces a/a");
        check("PUT /api/v1/namespaces/a/finalize", "update namespaces/finalize a/a");
        check("PATCH /api/v1/namespaces/a/status", "patch namespaces/status a/a");
    }

    #[test]
    fn a_field_selector_of_one_name_is_authorized_by_that_name() {
        check("GET /api/v1/nodes?watch=1&fieldSelector=metadata.name%3Dn", "watch nodes /n");
        check(
            "GET /api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue,metadata.name%3D%3Dn",
            "list nodes /n",
        );
        check("GET /api/v1/nodes?fieldSelector=metadata.name!%3Dn", "list nodes /");
        check("DELETE /api/v1/nodes?fieldSelector=metadata.name%3Dn", "deletecollection nodes /");
    }

    #[test]
    fn a_request_outside_of_the_resource_api_is_a_path() {
        for path in ["/metrics", "/", "/api", "/api/v1", "/apis/apps", "/apis/apps/v1", "/version/"] {
            check(&format!("GET {path}"), &format!("get {path}"));
        }
        check("POST /logs/a", "post /logs/a");
    }

    #[test]
    fn a_refusal_names_the_missing_permission() {
        let message = asked("PUT /apis/apps/v1/namespaces/a/deployments/x/scale").refusal();
        let resource =
            "to update resource \"deployments/scale\" in API group \"apps\" in the namespace \"a\"";
        assert_eq!(message, format!("deployments.apps is forbidden: the manifests do not allow {resource}"));
        let message = asked("GET /metrics").refusal();
        assert_eq!(message, "forbidden: the manifests do not allow to get path \"/metrics\"");
    }
}
