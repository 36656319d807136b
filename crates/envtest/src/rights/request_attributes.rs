//! Attributes of a request by which RBAC decides, and the name of the permission that it needs.

use http::request::Parts;
use kube_apimachinery::rbac::{Action, OwnedAction, ResourceAction};

/// A request, as RBAC evaluates it.
#[derive(Debug, PartialEq)]
pub(crate) struct RequestAttributes(OwnedAction);

impl RequestAttributes {
    pub(crate) fn of(head: &Parts) -> Self {
        let query = head.uri.query().unwrap_or_default();
        Self(OwnedAction::of_request(head.method.as_str(), head.uri.path(), query))
    }

    pub(super) fn action(&self) -> Action<'_> {
        self.0.as_action()
    }

    /// Name of the required permission: `patch guestbooks.example.com/status`, `get /version`.
    pub(crate) fn name(&self) -> String {
        match self.action() {
            Action::Resource(action) => {
                format!("{} {}", action.verb, resource_with_group(action.group, &with_subresource(&action)))
            }
            Action::Path { verb, path } => format!("{verb} {path}"),
        }
    }

    /// Returns whether the request changes an object other than leases, events and access reviews.
    pub(crate) fn is_write(&self) -> bool {
        // Their number depends on time, such as renewals of leases, so a crash after the n-th write would not
        // repeat.
        const NOT_COUNTED: [&str; 4] =
            ["authentication.k8s.io", "authorization.k8s.io", "coordination.k8s.io", "events.k8s.io"];
        let Action::Resource(ResourceAction { verb, group, resource, .. }) = self.action() else {
            return false;
        };
        let changes = matches!(verb, "create" | "update" | "patch" | "delete" | "deletecollection");
        changes && !NOT_COUNTED.contains(&group) && (group, resource) != ("", "events")
    }

    /// Message of a refusal, similar to that of RBAC.
    pub(super) fn refusal(&self) -> String {
        match self.action() {
            Action::Path { verb, path } => {
                format!("forbidden: the manifests do not allow to {verb} path \"{path}\"")
            }
            Action::Resource(action) => {
                let subject = resource_with_group(action.group, action.resource);
                format!("{subject} is forbidden: the manifests do not allow to {action}")
            }
        }
    }
}

/// Resource and subresource: `deployments/status`.
pub(super) fn with_subresource(action: &ResourceAction<'_>) -> String {
    let slash = if action.subresource.is_empty() { "" } else { "/" };
    format!("{}{slash}{}", action.resource, action.subresource)
}

/// Formats a resource with its group: `pods`, `deployments.apps`, `deployments.apps/status`.
pub(super) fn resource_with_group(group: &str, resource: &str) -> String {
    let (plural, subresource) = resource
        .split_once('/')
        .map_or((resource, None), |(plural, subresource)| (plural, Some(subresource)));
    let dot = if group.is_empty() { "" } else { "." };
    let slash = if subresource.is_some() { "/" } else { "" };
    format!("{plural}{dot}{group}{slash}{}", subresource.unwrap_or_default())
}

#[cfg(test)]
pub(super) mod tests {
    use http::Request;

    use super::*;

    /// Attributes of a request given as `GET /api/v1/pods`.
    pub(in super::super) fn attributes_of(request: &str) -> RequestAttributes {
        let (method, uri) = request.split_once(' ').expect("method and path");
        let request = Request::builder().method(method).uri(uri).body(()).expect("a request");
        RequestAttributes::of(&request.into_parts().0)
    }

    #[test]
    fn the_permission_has_resource_group_and_subresource() {
        for (request, expected) in [
            ("PUT /apis/apps/v1/namespaces/a/deployments/x/status", "update deployments.apps/status"),
            ("GET /api/v1/namespaces/a/pods/x/proxy/some/path", "get pods/proxy"),
            ("GET /api/v1/pods?watch=true", "watch pods"),
            ("POST /logs/a", "post /logs/a"),
        ] {
            assert_eq!(attributes_of(request).name(), expected, "{request}");
        }
    }

    #[test]
    fn leases_events_and_reviews_do_not_count_as_writes() {
        for (request, expected) in [
            ("PATCH /api/v1/namespaces/a/configmaps/x", true),
            ("PATCH /apis/apps/v1/namespaces/a/deployments/x/status", true),
            ("GET /api/v1/namespaces/a/configmaps/x", false),
            ("PUT /apis/coordination.k8s.io/v1/namespaces/a/leases/x", false),
            ("POST /api/v1/namespaces/a/events", false),
            ("POST /apis/events.k8s.io/v1/namespaces/a/events", false),
            ("POST /metrics", false),
        ] {
            assert_eq!(attributes_of(request).is_write(), expected, "{request}");
        }
    }

    #[test]
    fn a_refusal_names_the_missing_permission() {
        let message = attributes_of("PUT /apis/apps/v1/namespaces/a/deployments/x/scale").refusal();
        let resource =
            "to update resource \"deployments/scale\" in API group \"apps\" in the namespace \"a\"";
        assert_eq!(message, format!("deployments.apps is forbidden: the manifests do not allow {resource}"));
        let message = attributes_of("GET /metrics").refusal();
        assert_eq!(message, "forbidden: the manifests do not allow to get path \"/metrics\"");
    }
}
