//! Dispatch: from an HTTP request to its response.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::header::{self, HeaderMap};
use http::request::Parts;
use http_body::Body;
use kube_apimachinery::status::ApiError;
use tokio::time::timeout;

use super::Server;
use super::complete_response::complete_response;
use super::deadline;
use super::drain::drain;
use super::execution::execute;
use super::measure;
use super::resource_request::{ResourceRequest, is_well_formed, supported_request};
use super::routes;
use crate::api::audit::PendingEvent;
use crate::api::authentication::browser;
use crate::api::authorization::{self, Permissions};
use crate::api::impersonation;
use crate::api::verbs::reply::{NO_SNIFF, Reply};
use crate::faults;
use crate::kind::registry::Registry;
use crate::request::accept::{Accept, Encoding};
use crate::request::info::RequestTarget;
use crate::request::origin::{Closing, FaultApi};
use crate::request::path::Route;
use crate::response::ResponseBody;
use crate::response::Warnings;
use crate::user::UserInfo;

/// Answers a request. Every request gets a response.
pub(crate) async fn answer<B>(
    server: &Arc<Server>,
    mut head: Parts,
    target: Box<RequestTarget>,
    body: B,
) -> Response<ResponseBody>
where
    B: Body<Data = Bytes> + Send,
    B::Error: std::fmt::Display,
{
    let mut body = std::pin::pin!(body);
    let mut event = server.context.audit.begin(&target);
    let permissions = Permissions::new(&server.context.authorizer, event.as_ref().map(PendingEvent::record));
    // As in kube-apiserver's chain, the deadline comes before the authentication: a malformed timeout is
    // answered with 400 even without credentials.
    let mut response = match deadline::of(&target) {
        Ok(limit) if limit < deadline::SHORTEST => deadline::too_late(),
        Ok(limit) => {
            match timeout(limit, authenticated(server, &mut head, target, body.as_mut(), &permissions)).await
            {
                Ok(response) => {
                    drain(&head, body).await;
                    response
                }
                Err(_elapsed) => deadline::too_late(),
            }
        }
        Err(error) => {
            let accept = text(&head.headers, header::ACCEPT);
            failure(accept.as_deref(), &error).into_response()
        }
    };
    if let Some(warning) = server.context.authenticator.warning(&head) {
        let warnings = Warnings::default();
        warnings.add(warning.to_owned());
        warnings.write(response.headers_mut());
    }
    if let Some(event) = &mut event {
        event.answered(response.status().as_u16());
    }
    complete_response(server, &head, &mut response);
    response
}

async fn authenticated<B>(
    server: &Arc<Server>,
    head: &mut Parts,
    target: Box<RequestTarget>,
    body: B,
    permissions: &Permissions,
) -> Response<ResponseBody>
where
    B: Body<Data = Bytes> + Send,
    B::Error: std::fmt::Display,
{
    // Connections of listeners add `Closing` to each request; in-process calls do not have it.
    let is_remote = head.extensions.get::<Closing>().is_some();
    let refuse = |head: &Parts, error: &ApiError| {
        let accept = text(&head.headers, header::ACCEPT);
        failure(accept.as_deref(), error).into_response()
    };
    // Without credentials, any web page could send requests to this server through the browser of its visitor.
    if is_remote
        && !server.context.authenticator.requires_credentials()
        && let Err(error) = browser::refuse_foreign(head)
    {
        return refuse(head, &error);
    }
    let user = match server.context.authenticator.authenticate(
        head,
        is_remote,
        || server.cluster.clock.now(),
        &*server.cluster,
    ) {
        Ok(user) => user,
        Err(error) => return refuse(head, &error),
    };
    let (user, permission) = match permitted(server, user, head, &target, permissions) {
        Ok(permitted) => permitted,
        Err(error) => return without_sniffing(refuse(head, &error)),
    };
    // Forbidden requests are classified too, because their responses have the headers of the flow.
    let flow = server.flow_control.classify(&server.cluster, &user, &target);
    let mut response = match permission {
        Ok(()) => {
            head.extensions.insert(Arc::clone(&user));
            let kind = measure::kind(&target);
            let _in_flight = kind.map(|kind| server.cluster.metrics.in_flight(kind, target.arrived));
            let warnings = Warnings::default();
            let mut response = route(server, head, target, body, &warnings, permissions).await;
            warnings.write(response.headers_mut());
            tracing::debug!(method = %head.method, uri = %head.uri, user = user.name, code = response.status().as_u16(), "answered");
            response
        }
        Err(error) => without_sniffing(refuse(head, &error)),
    };
    if let Some(flow) = flow {
        flow.write(response.headers_mut());
    }
    response
}

/// Adds `X-Content-Type-Options`, which kube-apiserver sends when it refuses an impersonation or a request without permission.
fn without_sniffing(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    response
}

/// Returns the user that the request acts as, and whether this user may send the request.
///
/// # Errors
/// The refusal of an impersonation.
fn permitted(
    server: &Server,
    requestor: Arc<UserInfo>,
    head: &mut Parts,
    target: &RequestTarget,
    permissions: &Permissions,
) -> Result<(Arc<UserInfo>, Result<(), ApiError>), ApiError> {
    // Before the impersonation, so that the audit event of a refused one names the user.
    permissions.record_user(&requestor, None);
    let verb = target.method.as_str().to_ascii_lowercase();
    let action = authorization::action_of(target, &verb);
    let impersonated =
        server.context.impersonation.user_of(permissions, &requestor, &action, &head.headers)?;
    let is_impersonated = impersonated.is_some();
    permissions.record_user(&requestor, impersonated.as_ref());
    let user = impersonated.unwrap_or(requestor);
    let permission = permissions.authorize(&user, &action);
    if is_impersonated {
        // Later stages treat the request like one of the impersonated user.
        impersonation::remove_headers(&mut head.headers);
    }
    Ok((user, permission))
}

async fn route<B>(
    server: &Arc<Server>,
    head: &Parts,
    target: Box<RequestTarget>,
    body: B,
    warnings: &Warnings,
    permissions: &Permissions,
) -> Response<ResponseBody>
where
    B: Body<Data = Bytes> + Send,
    B::Error: std::fmt::Display,
{
    let accept = text(&head.headers, header::ACCEPT);
    if let Some(path) = head.uri.path().strip_prefix(faults::API)
        && head.extensions.get::<FaultApi>().is_some()
    {
        return fault_api(server, head, path, body).await.into_response();
    }
    let registry = server.cluster.registry();
    let has_name = target.info().is_some_and(|info| !info.name.is_empty());
    let RequestTarget { route, query, verb, user_agent, arrived, .. } = *target;
    // Like kube-apiserver's aggregator, before the kinds: an APIService can take over the group and version
    // of a definition.
    if is_remote(server, &route) {
        return Reply::text(503, "service unavailable\n").into_response();
    }
    match route {
        Route::Resource(path) => {
            let Some(served) = registry.get(&path.group, &path.version, &path.plural) else {
                return not_found(&registry, &path.group, accept.as_deref()).into_response();
            };
            if !is_well_formed(served, &path, &head.method) {
                return not_found(&registry, &path.group, accept.as_deref()).into_response();
            }
            let served = Arc::clone(served);
            let permissions = permissions.clone();
            let request =
                ResourceRequest { served, path, query, verb, user_agent, permissions, arrived, has_name };
            let answered = match supported_request(server, request, head, accept.as_deref(), warnings) {
                Ok(call) => execute(server, call, head, body).await,
                Err(error) => Err(error),
            };
            answered.unwrap_or_else(|error| failure(accept.as_deref(), &error)).into_response()
        }
        Route::Malformed { group, .. } => not_found(&registry, &group, accept.as_deref()).into_response(),
        other => {
            let labels = measure::of_path(&other, &query, head);
            let response = routes::answer(server, &registry, &other, &query, head).await;
            if let Some(labels) = labels {
                let measurement = server.cluster.metrics.measure(&labels, arrived);
                measurement.answered(response.status().as_u16());
            }
            response
        }
    }
}

/// Whether the path belongs to an APIService of another server, to which requests are not proxied.
fn is_remote(server: &Server, route: &Route) -> bool {
    let (group, version) = match route {
        Route::Resource(path) => (&path.group, &path.version),
        Route::GroupVersion { group, version } | Route::Malformed { group, version } => (group, version),
        _ => return false,
    };
    server.context.apis.is_remote(group, version)
}

/// Serves the fault API.
async fn fault_api<B>(server: &Arc<Server>, head: &Parts, path: &str, body: B) -> Reply
where
    B: Body<Data = Bytes> + Send,
    B::Error: std::fmt::Display,
{
    let answer = match server.body_limit.read(body).await {
        Ok(body) => faults::answer_api(&server.faults(), &head.method, path, &body.bytes),
        Err(error) => Err(error),
    };
    match answer {
        Ok((code, value)) => Reply::value(code, Accept::JSON.encoding, &value),
        Err(error) => Reply::error(Accept::JSON.encoding, &error),
    }
}

/// Builds the response for an error, including `Retry-After`.
pub(crate) fn failure(accept: Option<&str>, error: &ApiError) -> Reply {
    let mut reply = Reply::error(Accept::of_error(accept).unwrap_or(Encoding::Json), error);
    reply.retry_after = error.retry_after();
    reply
}

/// Builds the 404 below a group: a `Status` for groups of builtin kinds, plain text for others.
pub(crate) fn not_found(registry: &Registry, group: &str, accept: Option<&str>) -> Reply {
    if registry.is_builtin_group(group) {
        failure(accept, &ApiError::unknown_resource())
    } else {
        Reply::text(404, "404 page not found\n")
    }
}

/// Returns a header as text. As in Go's handlers, only the first of several lines counts.
pub(crate) fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    headers.get(name).map(|line| String::from_utf8_lossy(line.as_bytes()).into_owned())
}
