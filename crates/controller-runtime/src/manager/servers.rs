//! The servers of a manager: metrics and probes.

use std::{future::Future, net::SocketAddr, sync::Arc};

use futures::FutureExt;
use http::StatusCode;
use tokio::sync::watch;

use super::{Manager, explain_api, explain_lookup};
use crate::{
    error::BoxError,
    health::Checks,
    runnable::{Group, State},
    serving::{
        Endpoint, ExtraHandlers, Handler, HttpRequest, HttpServer, Listen, ResponseBody, Serving, boxed, text,
    },
};

/// Addresses of the manager's servers, and their checks and handlers.
#[derive(Default)]
pub(super) struct Servers {
    metrics: Arc<watch::Sender<Option<SocketAddr>>>,
    health: Arc<watch::Sender<Option<SocketAddr>>>,
    live: Checks,
    ready: Checks,
    /// Handlers of the metrics server other than the metrics.
    extra: ExtraHandlers,
}

impl Manager {
    /// Address of the metrics server; `None` while it does not listen.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        *self.shared.servers.metrics.borrow()
    }

    /// Address of the probes; `None` while their server does not listen.
    #[must_use]
    pub fn health_probe_address(&self) -> Option<SocketAddr> {
        *self.shared.servers.health.borrow()
    }

    /// Adds a check to `/healthz`; replaces an existing one of that name. Kubernetes restarts a container whose liveness probe fails.
    ///
    /// ```
    /// # fn example(manager: &controller_runtime::Manager) {
    /// manager.add_healthz_check("disk", || async {
    ///     if std::fs::exists("/data")? { Ok(()) } else { Err("no disk".into()) }
    /// });
    /// # }
    /// ```
    #[doc(alias = "AddHealthzCheck")]
    pub fn add_healthz_check<C, F>(&self, name: impl Into<String>, check: C)
    where
        C: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.shared.servers.live.add(name, check);
    }

    /// Adds a check to `/readyz`; replaces an existing one of that name. Services send no traffic to a pod whose readiness probe
    /// fails. For an example see [`add_healthz_check`](Self::add_healthz_check).
    #[doc(alias = "AddReadyzCheck")]
    pub fn add_readyz_check<C, F>(&self, name: impl Into<String>, check: C)
    where
        C: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.shared.servers.ready.add(name, check);
    }

    /// Adds a handler for `path` to the metrics server, in place of an earlier handler for it. If the server is running, the
    /// handler is used at once. `/metrics` cannot be replaced. Access is controlled as for the metrics
    /// ([`MetricsServerOptions::allowed_to`](crate::serving::MetricsServerOptions::allowed_to)). Without a metrics server
    /// the handler has no effect.
    ///
    /// For handlers that are known when the manager is made, prefer
    /// [`MetricsServerOptions::extra_handler`](crate::serving::MetricsServerOptions::extra_handler).
    ///
    /// ```
    /// use controller_runtime::{Manager, serving::{HttpRequest, HttpResponse}};
    ///
    /// # fn example(manager: &Manager) {
    /// manager.add_metrics_server_extra_handler("/version", async |_: HttpRequest| HttpResponse::new("1.2.3".into()));
    /// # }
    /// ```
    #[doc(alias = "AddMetricsServerExtraHandler")]
    pub fn add_metrics_server_extra_handler(&self, path: impl Into<String>, handler: impl Handler) {
        self.shared.servers.extra.insert(path.into(), boxed(handler));
    }

    /// Adds the servers that the options ask for, and the checks of the manager itself.
    pub(super) fn add_servers(&self) {
        self.add_own_checks();
        if !self.shared.options.metrics.listen.is_nowhere() {
            self.add_metrics_server();
        }
        if self.shared.options.health_probe != Endpoint::Disabled {
            self.add_health_server();
        }
    }

    /// Adds the server of metrics and explanations.
    fn add_metrics_server(&self) {
        let (options, servers) = (&self.shared.options, &self.shared.servers);
        let client = self.shared.ungated.kube().clone();
        let (registry, guarded) = (Arc::downgrade(&self.shared.registry), options.metrics.is_guarded());
        let explained = boxed(move |request: HttpRequest| {
            let answer = match guarded {
                true => explain_lookup::answer(&registry, &request),
                false => explain_lookup::not_for_everybody(),
            };
            std::future::ready(answer)
        });
        servers.extra.insert(explain_lookup::PATH.to_owned(), explained);
        let explainer = Arc::downgrade(&self.shared.explainer);
        let api = Arc::new(move |request: HttpRequest| {
            let explainer = explainer.upgrade().filter(|_| guarded);
            async move {
                match explainer {
                    Some(explainer) => explain_api::answer(explainer, request).await,
                    // The server may answer a last request while the manager is dropped.
                    None if guarded => explain_api::dropped().into(),
                    None => explain_lookup::not_for_everybody().map(ResponseBody::from),
                }
            }
            .boxed()
        });
        servers.extra.insert(explain_api::PREFIX.to_owned(), api);
        // The page contains no data, and its user has no token before it is loaded.
        servers.extra.insert_public(explain_api::PAGE, boxed(async |request| explain_api::page(&request)));
        let (metrics, extra) = (self.shared.metrics.clone(), servers.extra.clone());
        let handler = options.metrics.handler(metrics, extra, client, options.rng());
        let (serving, bound) = (options.metrics.serving.clone(), Arc::clone(&servers.metrics));
        let listen = options.metrics.listen.clone();
        let certificates = self.shared.metrics.certificates();
        let server = HttpServer::new("metrics", listen, serving, handler, certificates, bound)
            .offering_http2(options.metrics.enable_http2)
            .adapting_tls(options.metrics.adapt_tls.clone());
        self.add_own(server, Group::HttpServers);
    }

    /// Adds the server of liveness and readiness.
    fn add_health_server(&self) {
        let (options, servers) = (&self.shared.options, &self.shared.servers);
        let (live, ready) = (servers.live.clone(), servers.ready.clone());
        let paths = Arc::new((options.liveness.clone(), options.readiness.clone()));
        let handler = boxed(move |request: HttpRequest| {
            let (live, ready, paths) = (live.clone(), ready.clone(), Arc::clone(&paths));
            async move {
                if let Some(answer) = live.answer(&paths.0, &request).await {
                    return answer;
                }
                let answer = ready.answer(&paths.1, &request).await;
                answer.unwrap_or_else(|| text(StatusCode::NOT_FOUND, "404 page not found\n"))
            }
        });
        let bound = Arc::clone(&servers.health);
        let (at, plain) = (Listen::At(options.health_probe), Serving::Plain);
        let certificates = self.shared.metrics.certificates();
        let server = HttpServer::new("health probes", at, plain, handler, certificates, bound);
        self.add_own(server, Group::HttpServers);
    }

    /// Adds the checks that every manager has. They must not hold a handle of the manager, because the manager holds them.
    fn add_own_checks(&self) {
        let state = self.state();
        self.add_readyz_check("started", move || {
            let state = *state.borrow();
            async move {
                if state == State::Ready { Ok(()) } else { Err(format!("the manager is {state:?}").into()) }
            }
        });
        let (cache, limit) = (Arc::clone(&self.shared.cache), self.shared.options.stale_after);
        self.add_readyz_check("caches", move || {
            let problem = cache.problem(limit);
            async move { problem.map_or(Ok(()), |problem| Err(problem.into())) }
        });
        let clusters = self.shared.clusters.clone();
        self.shared.servers.ready.add_warnings(move || {
            let warning = |name| format!("cluster {name} is not up to date: reason withheld");
            clusters.in_trouble().into_iter().map(warning).collect()
        });
        if let Some(election) = &self.shared.election {
            let (leads, permit) = (self.leads(), election.issuer.permit());
            let overdue = self.shared.overdue.subscribe();
            self.add_healthz_check("leader-election", move || {
                // The permit ends by itself, but `leads` changes only when the task of the candidate runs. If that task is stuck,
                // the two differ.
                let unnoticed = *leads.borrow() && !permit.is_valid();
                let overdue = overdue.borrow().join(", ");
                async move {
                    if unnoticed {
                        return Err("the lease has expired, but this process still acts as leader".into());
                    }
                    match overdue.is_empty() {
                        true => Ok(()),
                        false => Err(format!("still running without the lease: {overdue}").into()),
                    }
                }
            });
        }
        if let Some(limit) = self.shared.options.stuck_after {
            let metrics = self.shared.metrics.clone();
            self.add_healthz_check("workers", move || {
                let longest = metrics.longest_running().filter(|(_, running)| *running > limit);
                async move {
                    longest.map_or(Ok(()), |(controller, running)| {
                        Err(format!("a reconcile of {controller} has taken {} s", running.as_secs()).into())
                    })
                }
            });
        }
    }
}
