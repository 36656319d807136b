//! Labels of requests in metrics, as kube-apiserver chooses them.

use http::request::Parts;
use http::{Method, header};

use super::discovery;
use super::dispatch::text;
use crate::api::verbs::Call;
use crate::api::verbs::patch::APPLY;
use crate::metrics::{MeasuredTarget, RequestKind, RequestLabels};
use crate::request::info::RequestTarget;
use crate::request::path::Route;
use crate::request::query::Query;
use crate::request::verb::Verb;

/// Subresources that count as connections, whatever the method.
const CONNECTIONS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Returns the labels of a request for a served resource. `has_name` is whether the path or a field selector names an object.
pub(super) fn of_resource(call: &Call, verb: Verb, has_name: bool) -> RequestLabels {
    let path = &call.path;
    // kube-apiserver ignores the selector for builtin resources.
    let has_name = !path.name.is_empty() || (call.served.is_custom() && has_name);
    let scope = match () {
        () if has_name || verb == Verb::Create => "resource",
        () if !path.namespace.is_empty() => "namespace",
        () => "cluster",
    };
    let verb = match verb {
        _ if CONNECTIONS.contains(&path.subresource.as_str()) => "CONNECT",
        Verb::Watch => "WATCH",
        Verb::Get | Verb::List if scope == "resource" => "GET",
        Verb::Get | Verb::List => "LIST",
        Verb::Create => "POST",
        Verb::Update => "PUT",
        Verb::Patch if call.content_type.as_deref() == Some(APPLY) => "APPLY",
        Verb::Patch => "PATCH",
        Verb::Delete | Verb::DeleteCollection => "DELETE",
    };
    let (resource, subresource) = (&call.served.resource, path.subresource.as_str());
    RequestLabels::new(verb, dry_run(&call.query), MeasuredTarget::Resource { resource, subresource, scope })
}

/// Returns the labels of a request for a path without a resource; `None` if kube-apiserver does not measure it.
pub(super) fn of_path(route: &Route, query: &Query, head: &Parts) -> Option<RequestLabels> {
    let is_aggregated = || {
        text(&head.headers, header::ACCEPT)
            .is_some_and(|accept| discovery::wants_aggregated(&accept).is_some())
    };
    let (path, component) = match route {
        Route::Health { check: None, .. } => (head.uri.path().trim_end_matches('/'), ""),
        Route::OpenApi(document) if document.is_empty() => ("openapi/v3", ""),
        Route::CoreVersions if is_aggregated() => ("/api", "apiserver"),
        Route::Groups if is_aggregated() => ("/apis", "apiserver"),
        _ => return None,
    };
    // kube-apiserver always reports GET for these routes.
    Some(RequestLabels::new("GET", dry_run(query), MeasuredTarget::Path { path, component }))
}

/// Returns the kind of a request for the number of requests in flight; `None` for long-running requests, which are not limited.
pub(super) fn kind(target: &RequestTarget) -> Option<RequestKind> {
    let is_read = match (&target.route, target.verb) {
        (Route::Resource(path), _) if CONNECTIONS.contains(&path.subresource.as_str()) => return None,
        (_, Some(Verb::Watch)) => return None,
        (_, Some(verb)) => matches!(verb, Verb::Get | Verb::List),
        // Without a resource, kube-apiserver's verb is the method in lower case. Of the reading verbs only `get` is a method.
        (_, None) => target.method == Method::GET,
    };
    Some(if is_read { RequestKind::ReadOnly } else { RequestKind::Mutating })
}

fn dry_run(query: &Query) -> &'static str {
    let values = query.all("dryRun");
    match values.as_slice() {
        [] => "",
        values if values.iter().all(|value| value == "All") => "All",
        _ => "invalid",
    }
}
