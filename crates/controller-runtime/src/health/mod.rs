//! Health endpoints: `/healthz` for liveness, `/readyz` for readiness, as controller-runtime's.
//!
//! Each is the sum of its checks. `/readyz/<name>` is one of them, `?verbose` lists all, `?exclude=<name>` leaves one out. A
//! failed check is named but its reason is not told: the endpoints are open to everybody, so the reason is in the log.
//! (Go tells it at the endpoint of a single check.)
//!
//! A manager brings checks of its own:
//!
//! | endpoint | check | fails while |
//! |---|---|---|
//! | both | `ping` | never |
//! | `/healthz` | `leader-election` | the process leads and its lease has run out, which its own tasks should have noticed; or something never waits and so runs on, two seconds after the lease was lost |
//! | `/healthz` | `workers` | a reconcile takes longer than [`stuck_after`](crate::manager::Options::stuck_after) |
//! | `/readyz` | `caches` | a cache does not know the present, or has failed to keep up with it for longer than [`stale_after`](crate::manager::Options::stale_after) |
//! | `/readyz` | `started` | something does not listen yet, has not started, or the manager stops |
//!
//! A standby of a leader election is ready.

use std::{collections::BTreeMap, future::Future, pin::Pin, sync::Arc, time::Duration};

use http::StatusCode;
use parking_lot::RwLock;
use tokio::time::timeout;

use crate::{
    http_server::{Request, Response, text},
    manager::BoxError,
};

/// How long one check may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

type Check = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>> + Send + Sync>;

/// The checks behind one endpoint.
#[derive(Clone, Default)]
pub(crate) struct Checks {
    checks: Arc<RwLock<BTreeMap<String, Check>>>,
}

impl Checks {
    /// Adds a check, or replaces the one of that name.
    pub(crate) fn add<C, F>(&self, name: impl Into<String>, check: C)
    where
        C: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.checks.write().insert(name.into(), Arc::new(move || Box::pin(check())));
    }

    /// Answers a request to the endpoint `root` or below it; `None` if it is neither.
    pub(crate) async fn answer(&self, root: &str, request: &Request) -> Option<Response> {
        let rest = request.uri().path().strip_prefix(root)?;
        match rest.strip_prefix('/').unwrap_or(rest) {
            "" => Some(self.all(root, request.uri().query().unwrap_or_default()).await),
            _ if !rest.starts_with('/') => None,
            name => Some(self.one(name).await),
        }
    }

    async fn one(&self, name: &str) -> Response {
        let check = self.checks.read().get(name).cloned();
        match check {
            None if name == "ping" => text(StatusCode::OK, "ok"),
            None => text(StatusCode::NOT_FOUND, "404 page not found\n"),
            Some(check) if run(name, &check).await => text(StatusCode::OK, "ok"),
            Some(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "internal server error: reason withheld\n"),
        }
    }

    async fn all(&self, root: &str, query: &str) -> Response {
        let values = |wanted: &'static str| {
            query.split('&').filter_map(move |pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                (name == wanted).then_some(value)
            })
        };
        let mut unknown: Vec<_> = values("exclude").filter(|name| !name.is_empty()).collect();
        let checks = self.checks.read().clone();
        let (mut lines, mut failed) = (String::new(), false);
        let names = checks.iter().map(|(name, check)| (&**name, Some(check)));
        // Go's scaffold adds a `ping` of its own, which takes the place of the built-in one.
        let ping = (!checks.contains_key("ping")).then_some(("ping", None));
        let mut names: Vec<_> = names.chain(ping).collect();
        names.sort_by_key(|(name, _)| *name);
        for (name, check) in names {
            let excluded = unknown.len();
            unknown.retain(|known| *known != name);
            lines += &if unknown.len() < excluded {
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
        if !unknown.is_empty() {
            let quoted: Vec<_> = unknown.iter().map(|name| format!("{name:?}")).collect();
            lines += &format!(
                "warn: some health checks cannot be excluded: no matches for {}\n",
                quoted.join(", ")
            );
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

/// Whether the check passes. Why it does not is for the log.
async fn run(name: &str, check: &Check) -> bool {
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
