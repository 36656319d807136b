//! What is not a resource: discovery, health, version, OpenAPI.

use http::Method;
use http::request::Parts;
use serde_json::{Value, json};

use super::dispatch::not_found;
use crate::registry::Registry;
use crate::request::accept::Accept;
use crate::request::path::Route;
use crate::verbs::reply::Reply;

/// Answers a path that is not one of a resource.
pub(super) fn answer(registry: &Registry, route: &Route, head: &Parts) -> Reply {
    match route {
        Route::Health { .. } => Reply::text(200, "ok"),
        Route::Version if head.method != Method::GET => Reply::text(405, ""),
        Route::Version => Reply::value(200, Accept::JSON.encoding, &version()),
        Route::GroupVersion { group, .. } => not_found(registry, group),
        Route::Root | Route::Unknown => {
            let code = if matches!(route, Route::Root) { 200 } else { 404 };
            Reply::value(
                code,
                Accept::JSON.encoding,
                &json!({"paths": ["/api", "/apis", "/healthz", "/version"]}),
            )
        }
        _ => not_found(registry, "-"),
    }
}

/// What the server says it is: the API level it follows.
fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": concat!("v1.36.3+embedded-", env!("CARGO_PKG_VERSION")), "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc",
        "platform": concat!("linux", "/", "amd64"),
    })
}
