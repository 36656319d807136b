//! Requests for resources: which of them a resource supports.

use std::sync::Arc;

use http::Method;
use http::header;
use http::request::Parts;
use kube_apimachinery::status::ApiError;
use tokio::time::Instant;

use super::Server;
use super::dispatch::text;
use crate::api::authorization::Permissions;
use crate::api::verbs::{self, Call};
use crate::faults::Stale;
use crate::kind::registry::ServedKind;
use crate::kind::resource::{PostAction, Subresource};
use crate::request::accept::{Accept, Endpoint};
use crate::request::path::ResourcePath;
use crate::request::query::Query;
use crate::request::verb::Verb;
use crate::response::Warnings;
use crate::user::UserInfo;

/// Whether the scope of the path is one of the resource: a namespace, all namespaces, or the cluster.
pub(super) fn is_well_formed(served: &ServedKind, path: &ResourcePath, method: &Method) -> bool {
    // Builtin kinds that cannot be watched have no paths below `watch/`.
    if path.watch_prefix && !served.is_custom() && !served.resource.allows("watch") {
        return false;
    }
    if served.resource.namespaced && path.namespace.is_empty() {
        // Across namespaces, custom resources have paths for reads only. Builtin ones have one if they can be listed, and refuse other
        // methods later, with 405.
        let has_path = if served.is_custom() {
            [Method::GET, Method::HEAD].contains(method)
        } else {
            served.resource.allows("list")
        };
        path.name.is_empty() && has_path
    } else if served.resource.namespaced {
        true
    } else {
        path.namespace.is_empty()
    }
}

/// A request for a served resource.
pub(super) struct ResourceRequest {
    pub(super) served: Arc<ServedKind>,
    pub(super) path: ResourcePath,
    pub(super) query: Query,
    pub(super) verb: Option<Verb>,
    pub(super) user_agent: String,
    pub(super) permissions: Permissions,
    pub(super) arrived: Instant,
    /// Whether the path or a field selector names an object.
    pub(super) has_name: bool,
}

/// A request that its resource supports.
pub(super) struct SupportedRequest {
    pub(super) call: Call,
    pub(super) verb: Verb,
    pub(super) arrived: Instant,
    pub(super) has_name: bool,
}

/// Checks that the resource supports the request.
pub(super) fn supported_request(
    server: &Server,
    ResourceRequest { served, path, query, verb, user_agent, permissions, arrived, has_name }: ResourceRequest,
    head: &Parts,
    accept: Option<&str>,
    warnings: &Warnings,
) -> Result<Box<SupportedRequest>, ApiError> {
    if let Some(warning) = served.custom.as_ref().and_then(|custom| custom.warning.as_ref()) {
        warnings.add(warning.clone());
    }
    let verb = verb.ok_or_else(|| {
        // 405 is only for paths that exist: kinds that are only posted, such as reviews, have no paths of objects.
        let is_absent = !path.name.is_empty()
            && path.subresource.is_empty()
            && !served.resource.allows("get")
            && !served.is_custom();
        if is_absent { ApiError::unknown_resource() } else { verbs::method_not_allowed(&served, "") }
    })?;
    let connects = connection(&served, &path.subresource).is_some();
    let endpoint = match (served.is_custom(), path.subresource.as_str()) {
        (false, subresource) if verb == Verb::Create && action(&served, subresource).is_some() => {
            Endpoint::Action
        }
        (false, "log") => Endpoint::Log,
        (false, subresource) if has_no_table(&served, subresource) => Endpoint::Action,
        (false, _) if matches!(verb, Verb::List | Verb::Watch) => Endpoint::Collection,
        (false, _) => Endpoint::Object,
        (true, _) => Endpoint::Custom,
    };
    let mut call = Call {
        context: Arc::clone(&server.context),
        cluster: Arc::clone(&server.cluster),
        accept: Accept::JSON,
        served,
        path,
        query,
        content_type: text(&head.headers, header::CONTENT_TYPE),
        user_agent,
        user: head.extensions.get::<Arc<UserInfo>>().cloned().unwrap_or_default(),
        permissions,
        // Errors include warnings as well.
        warnings: warnings.clone(),
        stale: head.extensions.get::<Stale>().copied(),
        conversions: Arc::default(),
    };
    // The order of kube-apiserver: the path and the method; for builtin kinds its router, which knows types without their parameters; the
    // warning about a deprecated kind; the handler.
    check_allowed(&call, verb)?;
    if !call.served.is_custom() {
        // The router has no routes for HEAD, although authorization treats it as a read.
        if head.method == Method::HEAD {
            return Err(call.not_allowed(verb.name()));
        }
        if verb == Verb::Patch {
            verbs::patch::check_routed_type(&call)?;
        }
        if !connects {
            Accept::check_routed(accept, endpoint)?;
        }
    }
    if let Some(warning) = call.served.strategy.deprecation(&call.served) {
        call.warn(warning);
    }
    if verb == Verb::Patch {
        verbs::patch::check_content_type(&call)?;
    }
    // The other end of a connection chooses the format.
    if !connects {
        call.accept = Accept::negotiate(accept, endpoint)?;
    }
    // Boxed, because each future that passes it on keeps it twice.
    Ok(Box::new(SupportedRequest { call, verb, arrived, has_name }))
}

/// Whether a subresource of a builtin kind has no Table.
fn has_no_table(served: &ServedKind, subresource: &str) -> bool {
    match subresource {
        "approval" | "ephemeralcontainers" | "finalize" | "resize" => true,
        "status" => {
            ["apiservices", "customresourcedefinitions", "resourceclaims"].contains(&&*served.resource.plural)
        }
        _ => false,
    }
}

/// Checks that the collection, object or subresource supports the verb.
fn check_allowed(call: &Call, verb: Verb) -> Result<(), ApiError> {
    let resource = &call.served.resource;
    let refuse = || Err(call.not_allowed(verb.name()));
    if !call.path.subresource.is_empty() {
        let verbs: Option<Vec<&str>> = match call.path.subresource.as_str() {
            // The handler of custom kinds ignores the rest of the path.
            "status" | "scale" if !call.path.below.is_empty() && !call.served.is_custom() => None,
            "status" => resource.status.then(|| vec!["get", "update", "patch"]),
            "scale" => resource.scale.as_ref().map(|_| vec!["get", "update", "patch"]),
            other => subresource(&call.served, other)
                .filter(|_| call.path.below.is_empty() || other == "proxy")
                .map(|subresource| subresource.verbs.iter().map(String::as_str).collect()),
        };
        return match verbs {
            Some(verbs) if verbs.contains(&verb.name()) => Ok(()),
            Some(_) => refuse(),
            None if call.served.is_custom() => Err(call.not_found()),
            None => Err(ApiError::unknown_resource()),
        };
    }
    // Kinds without stored objects have no paths of single objects.
    if !call.path.name.is_empty() && !resource.allows("get") && !call.served.is_custom() {
        return Err(ApiError::unknown_resource());
    }
    if verb == Verb::Watch && !resource.allows("watch") && !call.served.is_custom() {
        return Err(unwatchable(call));
    }
    if !resource.allows(verb.name()) {
        return refuse();
    }
    if call.path.name.is_empty() {
        if call.served.is_custom() && matches!(verb, Verb::Update | Verb::Patch) {
            if verb == Verb::Patch {
                verbs::patch::check_content_type(call)?;
            }
            return Err(ApiError::bad_request("name must be provided"));
        }
        let across = resource.namespaced && call.path.namespace.is_empty();
        if matches!(verb, Verb::Update | Verb::Patch) || (across && !matches!(verb, Verb::List | Verb::Watch))
        {
            return refuse();
        }
    } else if verb == Verb::Create && !call.served.is_custom() {
        return refuse();
    }
    Ok(())
}

/// Builds the error for the watch of a builtin kind that is only listed, or that has no collection.
fn unwatchable(call: &Call) -> ApiError {
    let resource = &call.served.resource;
    if !resource.allows("list") {
        return call.not_allowed(Verb::Watch.name());
    }
    // The handler of lists refuses it, after its warning.
    if let Some(warning) = call.served.strategy.deprecation(&call.served) {
        call.warn(warning);
    }
    let message = format!("watch is not supported on resources of kind {:?}", resource.plural);
    ApiError::new(405, "MethodNotAllowed", message).with_details("", &resource.group, &resource.plural)
}

/// Returns the action of a POST to a collection or subresource, if it does not create an object.
pub(super) fn action(served: &ServedKind, name: &str) -> Option<PostAction> {
    if name.is_empty() { served.resource.action } else { subresource(served, name)?.action }
}

/// Returns a subresource with requests that open connections.
pub(super) fn connection<'a>(served: &'a ServedKind, name: &str) -> Option<&'a Subresource> {
    subresource(served, name).filter(|subresource| subresource.connects)
}

/// Returns a subresource other than `status` and `scale`.
fn subresource<'a>(served: &'a ServedKind, name: &str) -> Option<&'a Subresource> {
    served.resource.other_subresources.iter().find(|subresource| subresource.name == name)
}
