//! The health endpoints `/healthz`, `/livez` and `/readyz`, with the checks of kube-apiserver.

use http::{Response, header};
use kube_apimachinery::go::quote;

use crate::api::verbs::reply::Reply;
use crate::request::query::Query;
use crate::response::ResponseBody;

/// Check of the storage, which fails while the data file cannot be written.
const STORAGE: &str = "etcd";
/// Checks before the hooks: of `/healthz` and `/livez`, and of `/readyz`.
const ALIVE: [&str; 4] = ["ping", "log", "loopback-serving-certificate", STORAGE];
const READY: [&str; 5] = ["ping", "log", STORAGE, "etcd-readiness", "informer-sync"];
/// Parts of kube-apiserver that start after its listener. This server has completed its start before it listens, so these checks always
/// succeed. They have names because tools wait for single ones, such as `poststarthook/rbac/bootstrap-roles`.
const HOOKS: [&str; 30] = [
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];
/// Last check of `/readyz`.
const SHUTDOWN: &str = "shutdown";

/// Returns the names of an endpoint's checks, in the order of `?verbose`.
pub(super) fn names(endpoint: &str) -> impl Iterator<Item = &'static str> {
    let is_ready = endpoint == "readyz";
    let first = if is_ready { &READY[..] } else { &ALIVE };
    first.iter().copied().chain(HOOKS).chain(is_ready.then_some(SHUTDOWN))
}

/// Answers an endpoint, or one of its checks, with `?verbose` and `?exclude=`. Failures are listed even without `?verbose`.
pub(super) fn answer(
    endpoint: &str,
    check: Option<&str>,
    query: &Query,
    is_writable: bool,
) -> Response<ResponseBody> {
    match check {
        Some(name) => single(endpoint, name, is_writable),
        None => all(endpoint, query, is_writable).into_response(),
    }
}

fn fails(name: &str, is_writable: bool) -> bool {
    name == STORAGE && !is_writable
}

fn single(endpoint: &str, name: &str, is_writable: bool) -> Response<ResponseBody> {
    if !names(endpoint).any(|known| known == name) {
        return Reply::text(404, "404 page not found\n").into_response();
    }
    if fails(name, is_writable) {
        let why = "internal server error: the data file cannot be written\n";
        return Reply::text(500, why).into_response();
    }
    let mut response = Reply::text(200, "ok").into_response();
    response.headers_mut().remove(header::X_CONTENT_TYPE_OPTIONS);
    response
}

fn all(endpoint: &str, query: &Query, is_writable: bool) -> Reply {
    let mut excluded = query.all("exclude");
    let mut lines = String::new();
    let mut failed = false;
    for name in names(endpoint) {
        let before = excluded.len();
        excluded.retain(|other| other != name);
        lines += &if excluded.len() < before {
            format!("[+]{name} excluded: ok\n")
        } else if fails(name, is_writable) {
            failed = true;
            format!("[-]{name} failed: reason withheld\n")
        } else {
            format!("[+]{name} ok\n")
        };
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| quote(name)).collect();
        let names = names.join(",");
        lines += &format!("warn: some health checks cannot be excluded: no matches for {names}\n");
    }
    if failed {
        Reply::text(500, &format!("{lines}{endpoint} check failed\n"))
    } else if query.get("verbose").is_some() {
        Reply::text(200, &format!("{lines}{endpoint} check passed\n"))
    } else {
        Reply::text(200, "ok")
    }
}
