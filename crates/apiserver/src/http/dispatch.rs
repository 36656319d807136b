//! Dispatch: from an HTTP request to its response.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderMap};
use http::request::Parts;
use http::{Method, Response};
use http_body::Body;
use kube_apimachinery::status::{ApiError, Cause};
use tokio::task::yield_now;
use tokio::time::{Duration, Instant, timeout};

use super::Server;
use super::complete_response::complete_response;
use super::deadline;
use super::drain::drain;
use super::measure;
use super::routes;
use crate::api::audit::PendingEvent;
use crate::api::authentication::browser;
use crate::api::authorization::{self, Permissions};
use crate::api::impersonation;
use crate::api::verbs::reply::{NO_SNIFF, Reply};
use crate::api::verbs::{self, Call};
use crate::faults::{self, FaultyWatch, Stale};
use crate::kind::registry::{Registry, ServedKind};
use crate::kind::resource::{PostAction, Subresource};
use crate::metrics::Measurement;
use crate::request::accept::{Accept, Encoding, Endpoint};
use crate::request::info::RequestTarget;
use crate::request::origin::{Closing, FaultApi};
use crate::request::path::{ResourcePath, Route};
use crate::request::query::{Query, revision};
use crate::request::verb::Verb;
use crate::response::ResponseBody;
use crate::response::Warnings;
use crate::user::UserInfo;

/// Maximum time for which a read waits for a revision that is not committed yet.
const FRESHNESS_TIMEOUT: Duration = Duration::from_secs(3);

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
    // Responses to forbidden requests have the headers too.
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
            let answered = match admissible(server, request, head, accept.as_deref(), warnings) {
                Ok(call) => measured(server, call, head, body).await,
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

/// Whether the scope of the path is one of the resource: a namespace, all namespaces, or the cluster.
fn is_well_formed(served: &ServedKind, path: &ResourcePath, method: &Method) -> bool {
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
struct ResourceRequest {
    served: Arc<ServedKind>,
    path: ResourcePath,
    query: Query,
    verb: Option<Verb>,
    user_agent: String,
    permissions: Permissions,
    arrived: Instant,
    /// Whether the path or a field selector names an object.
    has_name: bool,
}

/// A request that its resource supports.
struct Admissible {
    call: Call,
    verb: Verb,
    arrived: Instant,
    has_name: bool,
}

/// Checks that the resource supports the request.
fn admissible(
    server: &Server,
    ResourceRequest { served, path, query, verb, user_agent, permissions, arrived, has_name }: ResourceRequest,
    head: &Parts,
    accept: Option<&str>,
    warnings: &Warnings,
) -> Result<Box<Admissible>, ApiError> {
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
    // kube-apiserver's router checks path and method of builtin kinds before the handler negotiates. The handler of custom kinds checks them
    // after the negotiation.
    if !call.served.is_custom() {
        check_allowed(&call, verb)?;
        // The router has no routes for HEAD, although authorization treats it as a read.
        if head.method == Method::HEAD {
            return Err(call.not_allowed(verb.name()));
        }
    }
    // The other end of a connection chooses the format.
    if !connects {
        call.accept = Accept::negotiate(accept, endpoint)?;
    }
    if call.served.is_custom() {
        check_allowed(&call, verb)?;
    }
    // The router refuses a patch of an unknown type before the handler warns.
    let is_routed = verb != Verb::Patch || verbs::patch::check_content_type(&call).is_ok();
    if let Some(warning) = call.served.strategy.deprecation(&call.served).filter(|_| is_routed) {
        call.warn(warning);
    }
    // Boxed, because each future that passes it on keeps it twice.
    Ok(Box::new(Admissible { call, verb, arrived, has_name }))
}

/// Answers a request that its resource supports, and measures it.
async fn measured<B>(
    server: &Server,
    admissible: Box<Admissible>,
    head: &Parts,
    body: B,
) -> Result<Reply, ApiError>
where
    B: Body<Data = Bytes> + Send,
    B::Error: std::fmt::Display,
{
    let Admissible { ref call, verb, arrived, has_name } = *admissible;
    let labels = measure::of_resource(call, verb, has_name);
    let measured = server.cluster.metrics.measure(&labels, arrived);
    if verb == Verb::Watch {
        // `long` counts the watch when it ends; `measured` counts only a refusal.
        let long = server.cluster.metrics.measure_long(&labels, arrived);
        return match wait_for_revision(call, verb).await {
            Ok(()) => watch(admissible.call, head, long),
            Err(error) => verbs::watch::ended_by(call, &error).inspect(|_| long.answered(200)),
        }
        .inspect_err(|error| measured.answered(error.code()));
    }
    let answered = perform_durably(server, call, verb, body).await;
    measured.answered(answered.as_ref().map_or_else(ApiError::code, |reply| reply.code));
    answered
}

/// Starts a watch, which owns the call until it ends.
fn watch(call: Call, head: &Parts, measurement: Measurement) -> Result<Reply, ApiError> {
    let closing = head.extensions.get::<Closing>().cloned();
    let fault = head.extensions.get::<FaultyWatch>().copied();
    verbs::watch::run(call, closing, fault, Some(measurement))
}

/// Answers a request other than a watch, once the data file contains every change that the response can show.
async fn perform_durably<B>(server: &Server, call: &Call, verb: Verb, body: B) -> Result<Reply, ApiError>
where
    B: Body<Data = Bytes> + Send,
    B::Error: std::fmt::Display,
{
    let connects = connection(&call.served, &call.path.subresource).is_some();
    let is_read = connects || matches!(verb, Verb::Get | Verb::List);
    if !is_read {
        // Checked before the change, because a commit that cannot be persisted is not undone.
        call.cluster.writable().await?;
    }
    let outcome = perform(server, call, verb, body).await;
    // The response may show commits of other requests, so all of them must be persisted before.
    call.cluster.all_kept().await?;
    if !is_read && call.cluster.is_watched(call.served.storage()) {
        // The watches that the commit woke run first. kube-apiserver sends an event before the response to its write, and programs that
        // compare the version in the response with their cache rely on that order. If no watch was woken, yielding would only cost the
        // writer time, because tokio polls its sockets before it returns.
        yield_now().await;
    }
    outcome
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

async fn perform<B>(server: &Server, call: &Call, verb: Verb, body: B) -> Result<Reply, ApiError>
where
    B: Body<Data = Bytes> + Send,
    B::Error: std::fmt::Display,
{
    if let Some(subresource) = connection(&call.served, &call.path.subresource) {
        return verbs::connect::run(call, &subresource.kind).await;
    }
    let scale = call.path.subresource == "scale";
    match verb {
        Verb::Get | Verb::List => {
            wait_for_revision(call, verb).await?;
            match verb {
                Verb::Get if scale => verbs::scale::get(call).await,
                Verb::Get if call.path.subresource == "log" => verbs::pod_log::get(call),
                _ if verbs::components::is_table(call.served.storage()) => verbs::components::read(call),
                Verb::Get => verbs::read::get(call).await,
                _ => verbs::read::list(call).await,
            }
        }
        Verb::Watch => Err(ApiError::internal("a watch is not performed by this function")),
        _ => {
            // The body keeps its share of the memory limit until the write is done.
            let body = server.body_limit.read(body).await?;
            if verb == Verb::DeleteCollection {
                // A deletion of a collection begins with a list.
                wait_for_revision(call, verb).await?;
            }
            // Boxed, so that the futures of reads are not as large as those of writes.
            deadline::of_write(Box::pin(write(call, verb, &body.bytes))).await
        }
    }
}

async fn write(call: &Call, verb: Verb, body: &Bytes) -> Result<Reply, ApiError> {
    let scale = call.path.subresource == "scale";
    match verb {
        Verb::Create => match action(&call.served, &call.path.subresource) {
            Some(action) => verbs::actions::run(call, action, body).await,
            None => verbs::create::run(call, body).await,
        },
        Verb::Update if scale => verbs::scale::put(call, body).await,
        Verb::Update => verbs::update::run(call, body).await,
        Verb::Patch if scale => verbs::scale::patch(call, body).await,
        Verb::Patch => verbs::patch::run(call, body).await,
        Verb::Delete => verbs::delete::run(call, body).await,
        Verb::DeleteCollection => verbs::delete::run_collection(call, body).await,
        Verb::Get | Verb::List | Verb::Watch => Err(ApiError::internal("a read is not a write")),
    }
}

/// Returns the action of a POST to a collection or subresource, if it does not create an object.
fn action(served: &ServedKind, name: &str) -> Option<PostAction> {
    if name.is_empty() { served.resource.action } else { subresource(served, name)?.action }
}

/// Returns a subresource with requests that open connections.
fn connection<'a>(served: &'a ServedKind, name: &str) -> Option<&'a Subresource> {
    subresource(served, name).filter(|subresource| subresource.connects)
}

/// Returns a subresource other than `status` and `scale`.
fn subresource<'a>(served: &'a ServedKind, name: &str) -> Option<&'a Subresource> {
    served.resource.other_subresources.iter().find(|subresource| subresource.name == name)
}

/// Waits a short time for the requested revision if it is not committed yet.
async fn wait_for_revision(call: &Call, verb: Verb) -> Result<(), ApiError> {
    // The verb itself refuses malformed revisions.
    let requested = revision(call.query.text("resourceVersion")).ok().flatten();
    let continued = || verbs::read::continued_revision(call).filter(|_| verb == Verb::List);
    let Some(wanted) = requested.filter(|wanted| *wanted != 0).or_else(continued) else {
        return Ok(());
    };
    // A watch from a future revision waits on its own, unless it begins with the initial state.
    if verb == Verb::Watch && call.query.flag("sendInitialEvents") != Some(true) {
        return Ok(());
    }
    if timeout(FRESHNESS_TIMEOUT, call.cluster.commits().reached(wanted)).await.is_ok() {
        return Ok(());
    }
    let current = call.cluster.read(crate::store::Store::revision);
    let cause = Cause {
        reason: "ResourceVersionTooLarge",
        message: "Too large resource version".to_owned(),
        field: String::new(),
    };
    let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
    Err(ApiError::new(504, "Timeout", message).with_causes(vec![cause]).with_retry_after(1))
}

/// Returns a header as text. As in Go's handlers, only the first of several lines counts.
pub(crate) fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    headers.get(name).map(|line| String::from_utf8_lossy(line.as_bytes()).into_owned())
}
