//! Health endpoints like those of controller-runtime: `/healthz` for liveness, `/readyz` for readiness.
//!
//! An endpoint fails if one of its checks does. `/readyz/<name>` runs a single check, `?verbose` lists all, `?exclude=<name>`
//! leaves one out. A failed check is named without its reason: the endpoints need no authentication, so the reason is
//! only logged. (Go returns it at the endpoint of a single check.)
//!
//! A manager adds these checks:
//!
//! | Endpoint | Check | Fails while |
//! |---|---|---|
//! | both | `ping` | never |
//! | `/healthz` | `leader-election` | the process still acts as leader although its lease has expired; or a task that does not reach an `.await` still runs two seconds after the lease was lost |
//! | `/healthz` | `workers` | a reconcile takes longer than [`stuck_after`](crate::ManagerOptions::stuck_after) |
//! | `/readyz` | `caches` | a cache has not received its initial list, or its list or watch has failed for longer than [`stale_after`](crate::ManagerOptions::stale_after) |
//! | `/readyz` | `started` | a server does not listen yet, a part of the manager has not started, or the manager is stopping |
//!
//! A manager with webhooks adds the check `webhooks` to `/readyz`. It fails while webhooks are registered and their
//! server does not listen, or while API servers do not trust a self-managed certificate.
//!
//! A standby of a leader election is ready. So is a manager if one of its other [clusters](crate::manager::Cluster) is
//! down: `?verbose` has a line for that cluster, `warn: cluster east is not up to date: reason withheld`.

use std::{collections::BTreeMap, future::Future, pin::Pin, sync::Arc, time::Duration};

use http::StatusCode;
use parking_lot::RwLock;
use tokio::time::timeout;

use crate::{
    error::BoxError,
    serving::{HttpRequest, HttpResponse, text},
};

/// Timeout of one check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

type HealthCheck = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>> + Send + Sync>;

/// Returns problems that are not failures.
type HealthWarnings = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// The checks behind one endpoint.
#[derive(Clone, Default)]
pub(crate) struct Checks {
    checks: Arc<RwLock<BTreeMap<String, HealthCheck>>>,
    warnings: Arc<RwLock<Vec<HealthWarnings>>>,
}

impl Checks {
    /// Adds a check; replaces an existing one of that name.
    pub(crate) fn add<C, F>(&self, name: impl Into<String>, check: C)
    where
        C: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.checks.write().insert(name.into(), Arc::new(move || Box::pin(check())));
    }

    /// Adds lines to the verbose page, each after `warn: `. They do not fail the endpoint. They must not contain secrets, because
    /// the page needs no authentication.
    pub(crate) fn add_warnings(&self, warnings: impl Fn() -> Vec<String> + Send + Sync + 'static) {
        self.warnings.write().push(Arc::new(warnings));
    }

    /// Answers a request to the endpoint `root` or to a check below it; `None` for other paths.
    pub(crate) async fn answer(&self, root: &str, request: &HttpRequest) -> Option<HttpResponse> {
        let rest = request.uri().path().strip_prefix(root)?;
        match rest.strip_prefix('/').unwrap_or(rest) {
            "" => Some(self.all(root, request.uri().query().unwrap_or_default()).await),
            // Another path with the same beginning, such as `/healthzz`.
            _ if !rest.starts_with('/') => None,
            name => Some(self.one(name).await),
        }
    }

    /// Runs a single check.
    async fn one(&self, name: &str) -> HttpResponse {
        let check = self.checks.read().get(name).cloned();
        match check {
            None if name == "ping" => text(StatusCode::OK, "ok"),
            None => text(StatusCode::NOT_FOUND, "404 page not found\n"),
            Some(check) if run(name, &check).await => text(StatusCode::OK, "ok"),
            Some(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "internal server error: reason withheld\n"),
        }
    }

    /// Runs all checks that the query does not exclude.
    async fn all(&self, root: &str, query: &str) -> HttpResponse {
        let values = |wanted: &'static str| {
            form_urlencoded::parse(query.as_bytes())
                .filter_map(move |(name, value)| (name == wanted).then_some(value))
        };
        let mut unmatched: Vec<_> = values("exclude").filter(|name| !name.is_empty()).collect();
        let checks = self.checks.read().clone();
        let (mut lines, mut failed) = (String::new(), false);
        let names = checks.iter().map(|(name, check)| (&**name, Some(check)));
        // Go's scaffold adds a `ping` of its own, which replaces the built-in one.
        let ping = (!checks.contains_key("ping")).then_some(("ping", None));
        let mut names: Vec<_> = names.chain(ping).collect();
        names.sort_by_key(|(name, _)| *name);
        for (name, check) in names {
            let before = unmatched.len();
            unmatched.retain(|excluded| *excluded != name);
            lines += &if unmatched.len() < before {
                format!("[+]{name} excluded: ok\n")
            } else if match check {
                Some(check) => run(name, check).await,
                None => true,
            } {
                format!("[+]{name} ok\n")
            } else {
                failed = true;
                format!("[-]{name} failed: reason withheld\n")
            };
        }
        if !unmatched.is_empty() {
            let quoted: Vec<_> = unmatched.iter().map(|name| format!("{name:?}")).collect();
            lines += &format!(
                "warn: some health checks cannot be excluded: no matches for {}\n",
                quoted.join(", ")
            );
        }
        let warnings = self.warnings.read().clone();
        for warning in warnings.iter().flat_map(|warnings| warnings()) {
            lines += &format!("warn: {warning}\n");
        }
        let endpoint = root.trim_start_matches('/');
        if failed {
            return text(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{endpoint} check failed\n"));
        }
        match values("verbose").next() {
            Some(_) => text(StatusCode::OK, format!("{lines}{endpoint} check passed\n")),
            None => text(StatusCode::OK, "ok"),
        }
    }
}

/// Returns whether the check passes. The reason of a failure is logged.
async fn run(name: &str, check: &HealthCheck) -> bool {
    let result = match timeout(CHECK_TIMEOUT, check()).await {
        Ok(result) => result,
        Err(_) => Err(format!("no answer within {} s", CHECK_TIMEOUT.as_secs()).into()),
    };
    if let Err(reason) = &result {
        tracing::info!(check = name, "health check failed: {reason}");
    }
    result.is_ok()
}

#[cfg(test)]
mod tests;
