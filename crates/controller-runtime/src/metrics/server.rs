use std::{collections::BTreeMap, future::Future, net::TcpListener, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use http::{
    Method, StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use tokio_rustls::rustls::ServerConfig;

use super::{
    Metrics,
    access::Access,
    handlers::{ExtraHandlers, METRICS},
};
use crate::{
    cert::{AdaptTls, Serving},
    http_server::{BoxHandler, Endpoint, Handler, Listen, Request, Response, boxed, text},
};

/// How metrics are served.
///
/// ```
/// use controller_runtime::{manager::Serving, metrics::{AllowedTo, ServerOptions}};
///
/// let options = ServerOptions::default()
///     .bind_address(":8443".parse()?)
///     .serving(Serving::SelfSigned)
///     .allowed_to(AllowedTo::Authorized);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct ServerOptions {
    pub(crate) listen: Listen,
    pub(crate) serving: Serving,
    pub(crate) enable_http2: bool,
    pub(crate) adapt_tls: AdaptTls,
    allowed_to: AllowedTo,
    filters: Vec<Arc<Filter>>,
    extra_handlers: BTreeMap<String, BoxHandler>,
}

/// Lets a request pass, or refuses it.
type Filter = dyn Fn(Request) -> BoxFuture<'static, Result<Request, Response>> + Send + Sync;

/// Who may see metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AllowedTo {
    /// Everybody who reaches the server.
    #[default]
    Everybody,
    /// Who sends a bearer token that the API server knows (TokenReview), of a user who may `get` the path
    /// (SubjectAccessReview for `nonResourceURLs`). The manager needs to `create` both kinds of review. `/explain` is served
    /// to nobody else: see [`Manager::explain`](crate::Manager::explain).
    #[doc(alias = "WithAuthenticationAndAuthorization")]
    Authorized,
}

impl ServerOptions {
    /// Where metrics are served. Default: nowhere. (Go serves them on `:8080` unasked, but its scaffolds do not.)
    #[doc(alias = "BindAddress")]
    pub fn bind_address(mut self, address: Endpoint) -> Self {
        self.listen = Listen::At(address);
        self
    }

    /// Serves metrics on a socket that you made, in place of [`ServerOptions::bind_address`]: one with options of its own, or
    /// one that the process was started with. It stays open for as long as these options, or the manager that has them: clients
    /// of one that has stopped wait until it runs again.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// use std::net::TcpListener;
    /// use controller_runtime::metrics::ServerOptions;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// println!("metrics are served at {}", listener.local_addr()?);
    /// let options = ServerOptions::default().listener(listener);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "ListenConfig")]
    pub fn listener(mut self, listener: TcpListener) -> Self {
        self.listen = Listen::On(Arc::new(listener));
        self
    }

    /// Whether the server encrypts. Default: it does not.
    #[doc(alias = "SecureServing")]
    pub fn serving(mut self, serving: Serving) -> Self {
        self.serving = serving;
        self
    }

    /// Whether clients that ask for HTTP/2 in the handshake of TLS get it; without TLS nobody does. Default: they get HTTP/1.1,
    /// as with kubebuilder's scaffold (Go's library has it on).
    ///
    /// Attacks on HTTP/2, of which CVE-2023-44487 (rapid reset) is the best known, have little to gain here: a connection has at
    /// most 16 requests in work, and ends when its client has taken back 20 that nobody had seen yet.
    #[cfg(feature = "http2")]
    #[doc(alias = "NextProtos")]
    pub fn enable_http2(mut self, enable: bool) -> Self {
        self.enable_http2 = enable;
        self
    }

    /// Changes the TLS configuration that the other options give, and has the last word: which versions are spoken, whose client
    /// certificates are wanted. Several do so one after the other. Without TLS nobody is asked.
    ///
    /// What a [`ServerConfig`] does not let one change, one that replaces it can:
    ///
    /// ```
    /// use controller_runtime::metrics::{ServerOptions, rustls::{ServerConfig, version::TLS13}};
    ///
    /// let options = ServerOptions::default().tls(|config| {
    ///     let builder = ServerConfig::builder_with_provider(config.crypto_provider().clone());
    ///     let newest = builder.with_protocol_versions(&[&TLS13]).expect("the provider speaks it");
    ///     let mut newest = newest.with_no_client_auth().with_cert_resolver(config.cert_resolver.clone());
    ///     newest.alpn_protocols = config.alpn_protocols.clone(); // the versions of HTTP
    ///     *config = newest;
    /// });
    /// ```
    #[doc(alias = "TLSOpts")]
    pub fn tls(mut self, adapt: impl Fn(&mut ServerConfig) + Send + Sync + 'static) -> Self {
        let AdaptTls(before) = self.adapt_tls;
        self.adapt_tls = AdaptTls(Arc::new(move |config| {
            before(config);
            adapt(config);
        }));
        self
    }

    /// Lets `filter` decide on each request, that of an extra handler too: it returns the request to have it answered, or the
    /// answer. Several are asked one after the other, after [`ServerOptions::allowed_to`]. Default: there is none.
    ///
    /// ```
    /// use controller_runtime::{manager::{Request, Response}, metrics::ServerOptions};
    ///
    /// let options = ServerOptions::default().filter(async |request: Request| {
    ///     match request.headers().get("x-scraper") {
    ///         Some(_) => Ok(request),
    ///         None => Err(Response::new("who are you?".into())),
    ///     }
    /// });
    /// ```
    #[doc(alias = "FilterProvider")]
    pub fn filter<F>(mut self, filter: impl Fn(Request) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Request, Response>> + Send + 'static,
    {
        self.filters.push(Arc::new(move |request| filter(request).boxed()));
        self
    }

    /// Who may see metrics, and what the extra handlers show. Default: everybody.
    #[doc(alias = "WithAuthenticationAndAuthorization")]
    pub fn allowed_to(mut self, allowed_to: AllowedTo) -> Self {
        self.allowed_to = allowed_to;
        self
    }

    /// Answers requests to `path` by `handler`, and replaces what answered them before. `/metrics` stays as it is.
    ///
    /// [`Manager::add_metrics_server_extra_handler`](crate::Manager::add_metrics_server_extra_handler) does so later.
    #[doc(alias = "ExtraHandlers")]
    pub fn extra_handler(mut self, path: impl Into<String>, handler: impl Handler) -> Self {
        self.extra_handlers.insert(path.into(), boxed(handler));
        self
    }

    /// Whether it is asked who asks.
    pub(crate) fn is_guarded(&self) -> bool {
        self.allowed_to == AllowedTo::Authorized
    }

    /// What answers the requests: the metrics, and `extra` with the handlers of these options. Reviews are sent by `client`.
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
        boxed(move |mut request: Request| {
            let (metrics, access, filters) = (metrics.clone(), access.clone(), filters.clone());
            let extra = extra.get(request.uri().path());
            async move {
                if let Some(access) = access
                    && let Err(refusal) = access.check(&request).await
                {
                    return refusal;
                }
                for filter in filters {
                    request = match filter(request).await {
                        Ok(request) => request,
                        Err(refusal) => return refusal,
                    };
                }
                match (request.uri().path(), extra) {
                    (METRICS, _) if request.method() != Method::GET => {
                        text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n")
                    }
                    (METRICS, _) => exposition(&metrics),
                    (_, Some(handler)) => handler(request).await,
                    (_, None) => text(StatusCode::NOT_FOUND, "404 page not found\n"),
                }
            }
        })
    }
}

/// The metrics in the text format of Prometheus, whatever else was asked for, as Go answers: in OpenMetrics the bounds of
/// buckets would be other texts (`1.0` for `1`), and queries that compare them would find nothing.
fn exposition(metrics: &Metrics) -> Response {
    let mut response = text(StatusCode::OK, metrics.encode_prometheus());
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

impl std::fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerOptions")
            .field("listen", &self.listen)
            .field("serving", &self.serving)
            .field("enable_http2", &self.enable_http2)
            .field("allowed_to", &self.allowed_to)
            .field("filters", &self.filters.len())
            .field("extra_handlers", &self.extra_handlers.keys())
            .finish()
    }
}
