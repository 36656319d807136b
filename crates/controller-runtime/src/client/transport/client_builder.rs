//! Options of a [`Client`], and its construction.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use kube::client::Body;
use kube_workqueue::BucketError;
use parking_lot::Mutex;
use tower_service::Service;

use super::{
    call::FieldValidation,
    call_observer::CallObserver,
    client::Client,
    client_metrics::{ClientMetrics, NoMetrics},
    deadline,
    declaration_check::DeclarationCheck,
    direct,
    interceptor::Interceptor,
    layers::Layers,
    limiter::Limiter,
    own_writes::OwnWrites,
    send_once::SendOnce,
    warnings::{LoggedWarnings, Warnings},
    write_gate::WriteGate,
};
use crate::{error::BoxError, rights::DeclarationLog};

/// Options of a [`Client`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use controller_runtime::{Client, client::Warnings};
///
/// let env = kube_envtest::Environment::builder().start().await?;
/// let client = Client::builder(env.client(), "guestbook-operator")
///     .rate_limit(20.0, 30)? // 20 requests a second, 30 at once
///     .warnings(Warnings::LogOnce)
///     .build();
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    settings: ClientSettings,
}

/// Settings of a client. Methods that return a restricted client change a copy.
#[derive(Clone)]
pub(in crate::client) struct ClientSettings {
    /// Sends requests to the API server.
    pub(in crate::client) layers: Layers,
    /// Client that sends its requests through the layers. Before [`ClientBuilder::build`] it is the client underneath.
    pub(in crate::client) kube: kube::Client,
    pub(in crate::client) field_manager: Arc<str>,
    pub(in crate::client) field_validation: Option<FieldValidation>,
    pub(in crate::client) dry_run: bool,
    /// The only namespace that the client may reach, if it is restricted to one.
    pub(in crate::client) namespace: Option<Arc<str>>,
    pub(in crate::client) interceptors: Vec<Arc<dyn Interceptor>>,
    pub(in crate::client) gates: Vec<Arc<dyn WriteGate>>,
    /// Time that a request may take, unless the request sets its own.
    pub(in crate::client) timeout: Duration,
    pub(in crate::client) limiter: Option<Arc<Limiter>>,
    pub(in crate::client) warnings: Warnings,
    pub(in crate::client) logged_warnings: Arc<LoggedWarnings>,
    pub(in crate::client) own_writes: Option<Arc<dyn OwnWrites>>,
    pub(in crate::client) observer: Option<Arc<dyn CallObserver>>,
    /// Rights that the program declares, for advice on a right that is missing.
    pub(in crate::client) declared: Option<Arc<DeclarationLog>>,
    pub(in crate::client) rng: Arc<Mutex<fastrand::Rng>>,
}

impl ClientBuilder {
    pub(in crate::client) fn new(kube: kube::Client, field_manager: Arc<str>) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the jitter of conflicts, unless `seed` is called")]
        let rng = fastrand::Rng::new();
        let layers = Layers {
            sender: SendOnce::through(kube.clone()),
            service: None,
            check: None,
            metrics: Arc::new(NoMetrics),
            host: Arc::from(""),
        };
        let settings = ClientSettings {
            layers,
            kube,
            field_manager,
            field_validation: None,
            dry_run: false,
            namespace: None,
            interceptors: Vec::new(),
            gates: Vec::new(),
            timeout: deadline::DEFAULT,
            limiter: None,
            warnings: Warnings::default(),
            logged_warnings: Arc::default(),
            own_writes: None,
            observer: None,
            declared: None,
            rng: Arc::new(Mutex::new(rng)),
        };
        Self { settings }
    }

    /// Calls `service`, such as an API server in process, instead of the [`kube::Client`], whose default namespace still applies. A
    /// [`kube::Client`] hands each request to a task of its own, and may repeat it, which a wrapper around each body prevents. A request to a
    /// service is a plain call without either. The service must not repeat requests. Default: the [`kube::Client`].
    pub fn service<S, B>(mut self, service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send>
            + Clone
            + Send
            + Sync
            + 'static,
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        self.settings.layers.service = Some(direct::through(service));
        self
    }

    /// Limits requests to `burst` at once and `rate` a second on average, reads and retries included. Default: no limit, as in
    /// controller-runtime; the API server protects itself by priority and fairness.
    ///
    /// # Errors
    ///
    /// `rate` is not positive, or `burst` is zero.
    #[doc(alias = "QPS")]
    #[doc(alias = "Burst")]
    pub fn rate_limit(mut self, rate: f64, burst: u32) -> Result<Self, BucketError> {
        self.settings.limiter = Some(Arc::new(Limiter::try_new(rate, burst)?));
        Ok(self)
    }

    /// Sets the time that each request may take, from when it is first sent until its response has been read. Default: 60 s,
    /// the request timeout of kube-apiserver. [`Client::request_timeout`] and the `request_timeout` of a request override it.
    ///
    /// The time covers all attempts of a request, and the waits between them that the API server asks for (`Retry-After`): a
    /// response that asks for a longer wait than the time left is returned at once. It does not include the wait for this
    /// client's own [rate limit](Self::rate_limit). For a watch it covers the time until the response begins; the events that
    /// follow have no deadline here.
    ///
    /// A request that exceeds it fails with [`ErrorKind::DeadlineExceeded`](crate::client::ErrorKind::DeadlineExceeded)
    /// ([`ClientError::is_timeout`](crate::ClientError::is_timeout)) and is cancelled on its connection. It is then unknown
    /// whether a write was carried out ([`ClientError::is_outcome_unknown`](crate::ClientError::is_outcome_unknown)).
    #[doc(alias = "Timeout")]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// Sets how warnings of the API server are handled. Default: each is logged.
    #[doc(alias = "WarningHandler")]
    pub fn warnings(mut self, warnings: Warnings) -> Self {
        self.settings.warnings = warnings;
        self
    }

    /// Asks `gate` before each write, after the gates added before: all of them must permit it. Default: no gate.
    pub fn write_gate(mut self, gate: Arc<dyn WriteGate>) -> Self {
        self.settings.gates.push(gate);
        self
    }

    /// Passes every call to `interceptor` first, and then to those that were added before. Default: none.
    ///
    /// Interceptors receive the call before the write gates and the rate limit.
    /// [`Client::intercepted`] adds one to a single client.
    ///
    /// ```
    /// use controller_runtime::{ManagerOptions, Verb, client::{Call, Next}};
    ///
    /// let options = ManagerOptions::new("guestbook-operator").client(|client| {
    ///     client.interceptor(async |call: Call, next: Next| match call.verb() {
    ///         Verb::DeleteCollection => Err(call.refusal(403, "Forbidden", "delete objects one by one")),
    ///         _ => next.run(call).await,
    ///     })
    /// });
    /// ```
    #[doc(alias = "interceptor.NewClient")]
    pub fn interceptor(mut self, interceptor: impl Interceptor) -> Self {
        self.settings.interceptors.push(Arc::new(interceptor));
        self
    }

    /// Reports every request to `metrics`, including those made through [`Client::kube`]. Replaces the metrics set before.
    /// Default: none.
    pub fn metrics(mut self, metrics: Arc<dyn ClientMetrics>) -> Self {
        self.settings.layers.metrics = metrics;
        self
    }

    /// Sets the name of the API server in metrics, such as `10.96.0.1:443`. Default: empty, because a [`kube::Client`] does not
    /// reveal its server.
    pub fn host(mut self, host: impl Into<Arc<str>>) -> Self {
        self.settings.layers.host = host.into();
        self
    }

    /// Notifies `own_writes` of the client's writes. Default: none.
    pub(crate) fn own_writes(mut self, own_writes: Arc<dyn OwnWrites>) -> Self {
        self.settings.own_writes = Some(own_writes);
        self
    }

    /// Notifies `observer` of the outcomes of the client's calls. Default: none.
    pub(crate) fn observer(mut self, observer: Arc<dyn CallObserver>) -> Self {
        self.settings.observer = Some(observer);
        self
    }

    /// Adds to the error for a missing right whether `declared` contains it, and what to do. Default: the error names only the
    /// rule to add to a role.
    pub(crate) fn declared(mut self, declared: Arc<DeclarationLog>) -> Self {
        self.settings.declared = Some(declared);
        self
    }

    /// Lets `check` refuse or report requests that the program does not declare, including those through [`Client::kube`]. Default: all are
    /// sent.
    pub(crate) fn declaration_check(mut self, check: Arc<DeclarationCheck>) -> Self {
        self.settings.layers.check = Some(check);
        self
    }

    /// Sets the seed of the jitter, so that it is the same in every run. Default: a random seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.rng = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
        self
    }

    /// Makes the client.
    #[must_use]
    pub fn build(self) -> Client {
        let Self { mut settings } = self;
        settings.kube = settings.layers.to_kube();
        Client { settings: Arc::new(settings) }
    }
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("field_manager", &self.settings.field_manager)
            .finish_non_exhaustive()
    }
}
