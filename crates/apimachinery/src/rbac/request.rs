//! The action for which a request needs permission.

use super::action::OwnedAction;

impl OwnedAction {
    /// Returns the action of a request with this HTTP method, path, and query, both as they are in the request line. A path outside of the
    /// resource API, such as `/metrics`, is the action itself.
    ///
    /// Like kube-apiserver, it takes a list or watch with the field selector `metadata.name=x` for one of the object `x`.
    ///
    /// ```
    /// use kube_apimachinery::rbac::OwnedAction;
    ///
    /// let action = OwnedAction::of_request("PATCH", "/apis/apps/v1/namespaces/a/deployments/x/scale", "force=true");
    /// assert_eq!(action.to_string(), r#"patch resource "deployments/scale" in API group "apps" in the namespace "a""#);
    /// ```
    #[must_use]
    pub fn of_request(method: &str, path: &str, query: &str) -> Self {
        Self::on_objects(method, path, query)
            .unwrap_or_else(|| Self::Path { verb: method.to_ascii_lowercase(), path: path.to_owned() })
    }

    /// `None` for paths outside of the resource API.
    fn on_objects(method: &str, path: &str, query: &str) -> Option<Self> {
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
            // `namespaces/NAME` is the namespace itself, and has two subresources. Any other longer path refers to a resource inside of it.
            if rest.len() > 2 && !matches!(rest[2], "status" | "finalize") {
                rest.drain(..2);
            }
        }
        let (resource, name, subresource) = (rest.first()?, rest.get(1).copied(), rest.get(2));
        let query = Query::of(query);
        let verb = match (method, name) {
            ("GET" | "HEAD", None) if query.watches => "watch",
            ("GET" | "HEAD", None) => "list",
            ("GET" | "HEAD", Some(_)) => "get",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", None) => "deletecollection",
            ("DELETE", Some(_)) => "delete",
            _ => "",
        };
        let name = match (verb, name) {
            ("list" | "watch", None) => query.name.unwrap_or_default(),
            (_, name) => name.unwrap_or_default().to_owned(),
        };
        Some(Self::Resource {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: (*resource).to_owned(),
            subresource: subresource.copied().unwrap_or_default().to_owned(),
            namespace: namespace.to_owned(),
            name,
        })
    }
}

/// Parameters that affect authorization.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the action of a request with its text, which ends with namespace and name for actions on objects.
    #[track_caller]
    fn check(request: &str, expected: &str) {
        let (method, path) = request.split_once(' ').expect("method and path");
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let shown = match OwnedAction::of_request(method, path, query) {
            OwnedAction::Path { verb, path } => format!("{verb} {path}"),
            OwnedAction::Resource { verb, group, resource, subresource, namespace, name } => {
                let dot = if group.is_empty() { "" } else { "." };
                let slash = if subresource.is_empty() { "" } else { "/" };
                format!("{verb} {resource}{dot}{group}{slash}{subresource} {namespace}/{name}")
            }
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
}
