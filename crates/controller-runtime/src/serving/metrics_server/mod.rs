//! The metrics server.

mod extra_handlers;
mod metrics_access;

use std::{collections::BTreeMap, future::Future, net::TcpListener, panic::Location, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use http::{
    Method, StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use tokio_rustls::rustls::ServerConfig;

pub(crate) use self::extra_handlers::ExtraHandlers;
use self::metrics_access::Access;
use super::{
    BoxHandler, Endpoint, Handler, HttpRequest, HttpResponse, Listen, ResponseBody, ServerResponse, Serving,
    boxed, certificates::AdaptTls, text,
};
use crate::{
    metrics::Metrics,
    rights::{self, CodeLine, DeclarationLog, ScopeOf},
};

/// Path of the metrics, which no handler can replace.
const METRICS_PATH: &str = "/metrics";

/// Options of the metrics server.
///
/// ```
/// use controller_runtime::serving::{AllowedTo, MetricsServerOptions, Serving};
///
/// let options = MetricsServerOptions::default()
///     .bind_address(":8443".parse()?)
///     .serving(Serving::SelfSigned)
///     .allowed_to(AllowedTo::Authorized);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct MetricsServerOptions {
    pub(crate) listen: Listen,
    pub(crate) serving: Serving,
    pub(crate) enable_http2: bool,
    pub(crate) adapt_tls: AdaptTls,
    allowed_to: AllowedTo,
    /// Line of the program that chose the clients.
    allowed_at: Option<CodeLine>,
    filters: Vec<Arc<Filter>>,
    extra_handlers: BTreeMap<String, BoxHandler>,
}

/// Passes a request, or refuses it with a response.
type Filter = dyn Fn(HttpRequest) -> BoxFuture<'static, Result<HttpRequest, HttpResponse>> + Send + Sync;

/// Clients that may read metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AllowedTo {
    /// Every client that reaches the server.
    #[default]
    Everybody,
    /// Clients with a bearer token that the API server accepts (TokenReview), of a user with permission to `get` the path
    /// (SubjectAccessReview for `nonResourceURLs`). The manager needs permission to `create` both kinds of review. `/explain`
    /// is served only in this mode: see [`Manager::explain`](crate::Manager::explain).
    #[doc(alias = "WithAuthenticationAndAuthorization")]
    Authorized,
}

impl MetricsServerOptions {
    /// Sets the address of the server. Default: none. (Go serves metrics on `:8080` by default, but its scaffolds do not.)
    #[doc(alias = "BindAddress")]
    pub fn bind_address(mut self, address: Endpoint) -> Self {
        self.listen = Listen::At(address);
        self
    }

    /// Serves metrics on an existing socket instead of [`MetricsServerOptions::bind_address`]: for example one with options of its
    /// own, or one inherited by the process. It stays open as long as these options, or a manager with them, exist: clients of
    /// a manager that has stopped wait until it runs again.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use std::net::TcpListener;
    /// use controller_runtime::serving::MetricsServerOptions;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// println!("metrics are served at {}", listener.local_addr()?);
    /// let options = MetricsServerOptions::default().listener(listener);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "ListenConfig")]
    pub fn listener(mut self, listener: TcpListener) -> Self {
        self.listen = Listen::On(Arc::new(listener));
        self
    }

    /// Sets whether and with which certificate the server uses TLS. Default: without TLS.
    #[doc(alias = "SecureServing")]
    pub fn serving(mut self, serving: Serving) -> Self {
        self.serving = serving;
        self
    }

    /// Sets whether clients may negotiate HTTP/2 in the TLS handshake; without TLS it is never used. Default: HTTP/1.1 only,
    /// as in kubebuilder's scaffold (Go's library enables it).
    ///
    /// Attacks on HTTP/2 such as CVE-2023-44487 (rapid reset) have little effect here: a connection has at
    /// most 16 running requests, and is closed when its client has cancelled 20 that had not been processed yet.
    #[cfg(feature = "http2")]
    #[doc(alias = "NextProtos")]
    pub fn enable_http2(mut self, enable: bool) -> Self {
        self.enable_http2 = enable;
        self
    }

    /// Changes the TLS configuration after all other options, for example protocol versions or client certificates. Several
    /// functions run in the order in which they were added. Has no effect without TLS.
    ///
    /// A [`ServerConfig`] setting that cannot be changed in place can be changed by replacing the configuration:
    ///
    /// ```
    /// use controller_runtime::serving::{MetricsServerOptions, rustls::{ServerConfig, version::TLS13}};
    ///
    /// let options = MetricsServerOptions::default().tls(|config| {
    ///     let builder = ServerConfig::builder_with_provider(config.crypto_provider().clone());
    ///     let newest = builder.with_protocol_versions(&[&TLS13]).expect("the provider speaks it");
    ///     let mut newest = newest.with_no_client_auth().with_cert_resolver(config.cert_resolver.clone());
    ///     newest.alpn_protocols = config.alpn_protocols.clone(); // the versions of HTTP
    ///     *config = newest;
    /// });
    /// ```
    #[doc(alias = "TLSOpts")]
    pub fn tls(mut self, adapt: impl Fn(&mut ServerConfig) + Send + Sync + 'static) -> Self {
        self.adapt_tls = self.adapt_tls.and(adapt);
        self
    }

    /// Adds a filter of requests, including those for extra handlers: it returns the request to pass it on, or a response.
    /// Filters run in the order in which they were added, after [`MetricsServerOptions::allowed_to`]. Default: none.
    ///
    /// ```
    /// use controller_runtime::serving::{HttpRequest, HttpResponse, MetricsServerOptions};
    ///
    /// let options = MetricsServerOptions::default().filter(async |request: HttpRequest| {
    ///     match request.headers().get("x-scraper") {
    ///         Some(_) => Ok(request),
    ///         None => Err(HttpResponse::new("the header x-scraper is missing".into())),
    ///     }
    /// });
    /// ```
    #[doc(alias = "FilterProvider")]
    pub fn filter<F>(mut self, filter: impl Fn(HttpRequest) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<HttpRequest, HttpResponse>> + Send + 'static,
    {
        self.filters.push(Arc::new(move |request| filter(request).boxed()));
        self
    }

    /// Sets which clients may read metrics and use the extra handlers. Default: every client.
    #[doc(alias = "WithAuthenticationAndAuthorization")]
    #[track_caller]
    pub fn allowed_to(mut self, allowed_to: AllowedTo) -> Self {
        (self.allowed_to, self.allowed_at) = (allowed_to, Some(Location::caller()));
        self
    }

    /// Adds a handler for `path`, in place of an earlier handler for it. `/metrics` cannot be replaced. A path that ends with a slash
    /// matches all paths that begin with it, as in Go's `http.ServeMux`; the longest path wins.
    ///
    /// To add a handler later, use
    /// [`Manager::add_metrics_server_extra_handler`](crate::Manager::add_metrics_server_extra_handler).
    #[doc(alias = "ExtraHandlers")]
    pub fn extra_handler(mut self, path: impl Into<String>, handler: impl Handler) -> Self {
        self.extra_handlers.insert(path.into(), boxed(handler));
        self
    }

    /// Records the rights to authenticate and authorize clients, if the server does.
    pub(crate) fn declare(&self, log: &DeclarationLog) {
        let Some(place) = self.allowed_at.filter(|_| self.is_guarded() && !self.listen.is_nowhere()) else {
            return;
        };
        for declaration in rights::reviews(place) {
            log.record(declaration, &ScopeOf::CLUSTER);
        }
    }

    /// Returns whether clients are authenticated and authorized.
    pub(crate) fn is_guarded(&self) -> bool {
        self.allowed_to == AllowedTo::Authorized
    }

    /// The handler of all requests: the metrics, and `extra` with the handlers of these options. Reviews are sent by `client`.
    pub(crate) fn handler(
        &self,
        metrics: Metrics,
        extra: ExtraHandlers,
        client: kube::Client,
        rng: fastrand::Rng,
    ) -> BoxHandler {
        for (path, handler) in &self.extra_handlers {
            extra.insert(path.clone(), Arc::clone(handler));
        }
        let access = self.is_guarded().then(|| Arc::new(Access::new(client, rng)));
        let filters = self.filters.clone();
        Arc::new(move |mut request: HttpRequest| {
            let (metrics, access, filters) = (metrics.clone(), access.clone(), filters.clone());
            // Chosen before filters run, which may change the path: a public path must not lead to a handler that needs a token.
            let path = request.uri().path();
            let (is_metrics, public, extra) = (path == METRICS_PATH, extra.get_public(path), extra.get(path));
            let answered = async move {
                // A public path needs no token. Filters apply to it nevertheless.
                if let Some(access) = access.filter(|_| public.is_none())
                    && let Err(refusal) = access.check(&request).await
                {
                    return whole(refusal);
                }
                for filter in filters {
                    request = match filter(request).await {
                        Ok(request) => request,
                        Err(refusal) => return whole(refusal),
                    };
                }
                match public.or(extra) {
                    _ if is_metrics && request.method() != Method::GET => {
                        whole(text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n"))
                    }
                    _ if is_metrics => whole(exposition(&metrics)),
                    Some(handler) => handler(request).await,
                    None => whole(text(StatusCode::NOT_FOUND, "404 page not found\n")),
                }
            };
            answered.boxed()
        })
    }
}

fn whole(response: HttpResponse) -> ServerResponse {
    response.map(ResponseBody::from)
}

/// Returns the metrics in Prometheus' text format, as in Go, whichever format was requested: OpenMetrics writes the
/// bounds of buckets differently (`1.0` for `1`), and queries that compare them would find nothing.
fn exposition(metrics: &Metrics) -> HttpResponse {
    let mut response = text(StatusCode::OK, metrics.encode_prometheus());
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

impl std::fmt::Debug for MetricsServerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetricsServerOptions")
            .field("listen", &self.listen)
            .field("serving", &self.serving)
            .field("enable_http2", &self.enable_http2)
            .field("allowed_to", &self.allowed_to)
            .field("filters", &self.filters.len())
            .field("extra_handlers", &self.extra_handlers.keys())
            .finish()
    }
}
