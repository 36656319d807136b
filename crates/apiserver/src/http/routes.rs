//! Routes other than resources: discovery, health and version, and the entry to OpenAPI.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, Method, Response, header};
use kube_apimachinery::status::ApiError;
use kube_apimachinery::yaml;
use serde_json::{Value, json};

use super::Server;
use super::complete_response;
use super::dispatch::{failure, not_found, text};
use super::health_checks;
use super::openapi_routes;
use crate::api::verbs::reply::Reply;
use crate::controllers::api_availability::RegisteredApi;
use crate::http::discovery::{self, DiscoveryRoot};
use crate::kind::registry::Registry;
use crate::kind::resource::Resource;
use crate::metrics;
use crate::request::accept::{self, Accept, Encoding, Endpoint};
use crate::request::path::Route;
use crate::request::query::Query;
use crate::response::ResponseBody;

/// Version of the server in `gitVersion` of `/version`: the version of Kubernetes that the API follows, and the version of this server.
pub const GIT_VERSION: &str = concat!("v1.36.3+embedded.", env!("CARGO_PKG_VERSION"));
/// Answers a path that does not lead to a resource.
pub(crate) async fn answer(
    server: &Server,
    registry: &Registry,
    route: &Route,
    query: &Query,
    head: &Parts,
) -> Response<ResponseBody> {
    match route {
        Route::Health { endpoint, check } => {
            health_checks::answer(endpoint, check.as_deref(), query, server.cluster.is_writable())
        }
        Route::Metrics => Reply::bytes(200, metrics::CONTENT_TYPE, metrics_page(server)).into_response(),
        Route::Root => indented_document(&paths(server, registry)),
        Route::NoResource => no_resource(head.uri.path()).into_response(),
        Route::Unknown => Reply::text(404, "404 page not found\n").into_response(),
        Route::OpenApiV2 => openapi_routes::all_in_one(server, registry, head).await,
        Route::OpenApi(path) => openapi_routes::answer(server, registry, path, head),
        Route::IssuerConfiguration | Route::IssuerKeys
            if server.context.authenticator.issuer().key_set().is_none() =>
        {
            Reply::text(404, "404 page not found\n").into_response()
        }
        // The handlers of groups, and of versions of custom kinds, do not look at the method either.
        Route::Groups | Route::Group(_) => discover(server, registry, route, head),
        Route::GroupVersion { group, .. } if !registry.is_builtin_group(group) => {
            discover(server, registry, route, head)
        }
        // There are no routes for versions that the group does not have.
        Route::GroupVersion { group, version }
            if !registry
                .all()
                .any(|served| served.resource.group == *group && served.resource.version == *version) =>
        {
            discover(server, registry, route, head)
        }
        _ if head.method != Method::GET => method_not_allowed(head),
        Route::Version => refusal(head, "application/json").unwrap_or_else(|| indented_document(&version())),
        Route::IssuerConfiguration | Route::IssuerKeys => issuer(server, route, head),
        route => discover(server, registry, route, head),
    }
}

/// Responds with a document that is indented for every client.
fn indented_document(document: &Value) -> Response<ResponseBody> {
    let content_type = Encoding::Json.content_type();
    Reply::bytes(200, content_type, complete_response::indented(document)).into_response()
}

/// Answers a path that ends before its resource.
fn no_resource(path: &str) -> Reply {
    let why = "failed to create RequestInfo: unable to determine kind and namespace from url";
    Reply::text(500, &format!("Internal Server Error: {path:?}: {why}, {path}\n"))
}

/// Returns the page of metrics, with the numbers of stored objects.
fn metrics_page(server: &Server) -> String {
    let registry = server.cluster.registry();
    let tables = registry.tables();
    // Counted in one read, so that all numbers are of the same revision.
    let numbers: Vec<_> = server.cluster.read(|store| {
        tables.into_iter().map(|storage| (storage.clone(), store.snapshot(storage).len())).collect()
    });
    server.cluster.metrics.page(&numbers)
}

/// Answers with the issuer's configuration or keys, with which other programs verify tokens of service accounts.
fn issuer(server: &Server, route: &Route, head: &Parts) -> Response<ResponseBody> {
    let issuer = server.context.authenticator.issuer();
    let (content_type, document) = if *route == Route::IssuerKeys {
        ("application/jwk-set+json", issuer.key_set())
    } else {
        let url = format!("https://{}/openid/v1/jwks", server.cluster.address());
        ("application/json", issuer.configuration(&url))
    };
    if let Some(response) = refusal(head, content_type) {
        return response;
    }
    let document = document.unwrap_or_default().to_string();
    let mut response = Reply::bytes(200, content_type, document).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    response
}

/// Returns the 406 for a client that does not accept the only type of a document.
fn refusal(head: &Parts, content_type: &'static str) -> Option<Response<ResponseBody>> {
    let accept = text(&head.headers, header::ACCEPT);
    let error = accept::require_one_of(accept.as_deref(), &[content_type]).err()?;
    Some(failure(accept.as_deref(), &error).into_response())
}

fn method_not_allowed(head: &Parts) -> Response<ResponseBody> {
    let message = "the server does not allow this method on the requested resource";
    let error = ApiError::new(405, "MethodNotAllowed", message).with_details("", "", "");
    failure(text(&head.headers, header::ACCEPT).as_deref(), &error).into_response()
}

/// Answers with the aggregated discovery document if the client requests it, otherwise with the document of the path.
fn discover(server: &Server, registry: &Registry, route: &Route, head: &Parts) -> Response<ResponseBody> {
    let resources: Vec<Arc<Resource>> = registry.all().map(|served| Arc::clone(&served.resource)).collect();
    let accept = text(&head.headers, header::ACCEPT).unwrap_or_default();
    let root = match route {
        Route::CoreVersions => Some(DiscoveryRoot::Api),
        Route::Groups => Some(DiscoveryRoot::Apis),
        _ => None,
    };
    if let Some(root) = root
        && let Some(encoding) = discovery::wants_aggregated(&accept)
    {
        return aggregated(&resources, &server.context.apis.beyond(registry), root, encoding, head);
    }
    let beyond = || server.context.apis.beyond(registry);
    let (document, group) = match route {
        Route::CoreVersions => (Some(discovery::core_versions(&server.cluster.address().to_string())), ""),
        Route::Groups => (Some(discovery::group_list(&resources, &beyond())), ""),
        Route::Group(group) => (discovery::group(&resources, &beyond(), group), group.as_str()),
        Route::GroupVersion { group, version } => {
            (discovery::resource_list(&resources, group, version), group.as_str())
        }
        // A group without builtin kinds, so that the 404 is plain text.
        _ => (None, "-"),
    };
    let endpoint = match route {
        Route::CoreVersions => Endpoint::Discovery,
        Route::GroupVersion { group, .. } if registry.is_builtin_group(group) => Endpoint::Discovery,
        _ => Endpoint::Groups,
    };
    match document {
        Some(document) => {
            let encoding = match Accept::negotiate(Some(&accept), endpoint) {
                Ok(accept) => accept.encoding,
                Err(error) => return failure(Some(&accept), &error).into_response(),
            };
            Reply::value(200, encoding, &document).into_response()
        }
        None => not_found(registry, group, Some(&accept)).into_response(),
    }
}

fn aggregated(
    resources: &[Arc<Resource>],
    beyond: &[RegisteredApi],
    root: DiscoveryRoot,
    encoding: Encoding,
    head: &Parts,
) -> Response<ResponseBody> {
    let value = discovery::aggregated(resources, beyond, root);
    let document = value.to_string();
    let tag = format!("\"{}\"", discovery::etag(document.as_bytes()));
    let known = text(&head.headers, header::IF_NONE_MATCH).is_some_and(|tags| tags.contains(&tag));
    let (content_type, document) = match encoding {
        Encoding::Yaml => (discovery::AGGREGATED_YAML, yaml::write(&value)),
        Encoding::Json | Encoding::Protobuf => (discovery::AGGREGATED_JSON, document + "\n"),
    };
    let mut response = if known {
        let mut response = Reply::bytes(304, content_type, Vec::new()).into_response();
        response.headers_mut().remove(header::CONTENT_TYPE);
        response
    } else {
        Reply::bytes(200, content_type, document).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// Lists the paths for `/`.
fn paths(server: &Server, registry: &Registry) -> Value {
    let resources: Vec<Arc<Resource>> = registry.all().map(|served| Arc::clone(&served.resource)).collect();
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for group in discovery::groups(&resources).iter().filter(|group| !group.name.is_empty()) {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|version| format!("/apis/{}/{}", group.name, version.name)));
    }
    for endpoint in ["healthz", "livez", "readyz"] {
        paths.push(format!("/{endpoint}"));
        paths.extend(health_checks::names(endpoint).map(|check| format!("/{endpoint}/{check}")));
    }
    paths.extend(
        ["/apis/", "/metrics", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version"].map(str::to_owned),
    );
    if server.context.authenticator.issuer().key_set().is_some() {
        paths.extend(["/.well-known/openid-configuration", "/openid/v1/jwks"].map(str::to_owned));
    }
    paths.sort();
    json!({ "paths": paths })
}

/// Returns the version document, with the version of Kubernetes that the API follows.
fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}
