//! The registered webhooks of a manager, and their answers to requests.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::FutureExt;
use http::{
    HeaderValue, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE},
};
use http_body::Body;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use parking_lot::RwLock;
use serde_json::Value;
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, timeout_at},
};
use tracing::Instrument;

use super::{
    admission::Admission,
    admission_review::{self, ReviewReply},
    conversion,
    registration::{AdmitFn, CONVERT, Hook, RegisterError, Registration, WebhookRegistrations},
    rejection::{Rejection, Verdict},
    rule::{AdmissionPhase, Rule},
    timeout::timeout_of,
};
use crate::{
    error::BoxError,
    metrics::WebhookMetrics,
    panics,
    serving::{HttpResponse, text},
};

/// Largest body of an admission request, as in controller-runtime: twice the largest object of etcd, and room for the rest.
const MAX_ADMISSION_BYTES: usize = 7 << 20;
/// Bodies of all running requests together; further requests wait.
const MAX_BYTES_IN_FLIGHT: usize = 128 << 20;
/// Unit in which bodies are counted.
const UNIT: usize = 1 << 10;

/// The webhooks of a manager: [`Manager::webhooks`](crate::Manager::webhooks).
///
/// A handle: clones are the same webhooks. Those of a kind are registered by the builder
/// ([`defaulted`](crate::ControllerBuilder::defaulted), [`validated`](crate::ControllerBuilder::validated),
/// [`converted`](crate::ControllerBuilder::converted)), handlers of any kind by the methods of this type.
#[derive(Clone)]
#[doc(alias = "webhook.Server")]
pub struct Webhooks {
    inner: Arc<WebhooksInner>,
}

struct WebhooksInner {
    registrations: RwLock<WebhookRegistrations>,
    /// Whether there are any.
    registered: watch::Sender<bool>,
    metrics: WebhookMetrics,
    max_conversion_bytes: usize,
    bodies: Semaphore,
}

impl Webhooks {
    pub(crate) fn new(metrics: WebhookMetrics, max_conversion_bytes: usize) -> Self {
        Self {
            inner: Arc::new(WebhooksInner {
                registrations: RwLock::default(),
                registered: watch::Sender::new(false),
                metrics,
                max_conversion_bytes,
                bodies: Semaphore::new(MAX_BYTES_IN_FLIGHT / UNIT),
            }),
        }
    }

    /// Adds a handler that may change objects: it returns the changed object, or `None`. Handlers with the same rule run in the
    /// order of registration, each on the object that the one before returned.
    ///
    /// ```
    /// use controller_runtime::webhook::{Admission, RegisterError, Rule, Webhooks};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// fn register(webhooks: &Webhooks) -> Result<(), RegisterError> {
    ///     webhooks.mutating(Rule::of::<Pod>(), async |cx: Admission| {
    ///         let before: Pod = cx.object()?;
    ///         let mut after = before.clone();
    ///         after.metadata.labels.get_or_insert_default().insert("example.com/seen".into(), "true".into());
    ///         cx.changed(&before, &after)
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The path is invalid or taken by another rule; the rule has no operations.
    pub fn mutating<F, A>(&self, rule: Rule, handler: F) -> Result<(), RegisterError>
    where
        F: Fn(Admission) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Option<Value>, Rejection>> + Send + 'static,
    {
        self.add(AdmissionPhase::Mutating, rule, Box::new(move |cx| handler(cx).boxed()))
    }

    /// Adds a handler that validates operations. All handlers with the same rule run, and all must accept.
    ///
    /// ```
    /// use controller_runtime::webhook::{Admission, Operation, RegisterError, Rejection, Rule, Webhooks};
    /// use k8s_openapi::api::core::v1::Namespace;
    ///
    /// fn register(webhooks: &Webhooks) -> Result<(), RegisterError> {
    ///     let deletions = Rule::of::<Namespace>().operations(&[Operation::Delete]);
    ///     webhooks.validating(deletions, async |cx: Admission| {
    ///         let namespace: Namespace = cx.old_object()?;
    ///         match namespace.metadata.labels.is_some_and(|labels| labels.contains_key("example.com/keep")) {
    ///             true => Err(Rejection::forbidden("the namespace has the label example.com/keep")),
    ///             false => Ok(()),
    ///         }
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The path is invalid or taken by another rule; the rule has no operations.
    pub fn validating<F, A>(&self, rule: Rule, handler: F) -> Result<(), RegisterError>
    where
        F: Fn(Admission) -> A + Send + Sync + 'static,
        A: Future<Output = Verdict> + Send + 'static,
    {
        let admit: AdmitFn = Box::new(move |cx| handler(cx).map(|verdict| verdict.map(|()| None)).boxed());
        self.add(AdmissionPhase::Validating, rule, admit)
    }

    fn add(&self, phase: AdmissionPhase, rule: Rule, admit: AdmitFn) -> Result<(), RegisterError> {
        let hook = Hook { phase, rule, role: None, admit };
        self.register(vec![Registration::Admission(Arc::new(hook))]).map(drop)
    }

    /// Registers all, or none if one is refused. Returns a number by which they can be removed.
    pub(crate) fn register(&self, all: Vec<Registration>) -> Result<u64, RegisterError> {
        let mut registrations = self.inner.registrations.write();
        let registered = registrations.register(all)?;
        for path in registrations.paths.keys() {
            self.inner.metrics.of(path);
        }
        self.inner.registered.send_replace(!registrations.is_empty());
        Ok(registered)
    }

    pub(crate) fn unregister(&self, registered: u64) {
        let mut registrations = self.inner.registrations.write();
        registrations.unregister(registered);
        self.inner.registered.send_replace(!registrations.is_empty());
    }

    /// Reads the registrations.
    pub(super) fn look<T>(&self, look: impl FnOnce(&WebhookRegistrations) -> T) -> T {
        look(&self.inner.registrations.read())
    }

    /// Returns whether there is no webhook.
    pub(crate) fn is_empty(&self) -> bool {
        self.look(WebhookRegistrations::is_empty)
    }

    /// Waits until there is a webhook to serve.
    pub(crate) async fn registered(&self) {
        // The sender lives in `self`, so the wait ends only by the condition.
        let _ = self.inner.registered.subscribe().wait_for(|registered| *registered).await;
    }

    /// Answers a request as the server does, without sockets: for tests, and for servers of your own.
    ///
    /// # Cancellation
    ///
    /// Dropping the future drops the handlers at their next `.await`.
    pub async fn answer(&self, request: http::Request<Bytes>) -> HttpResponse {
        self.serve(request.map(Full::new)).await
    }

    /// Answers a request whose body has not been read.
    pub(crate) async fn serve<B>(&self, request: http::Request<B>) -> HttpResponse
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let path = request.uri().path();
        let known = path == CONVERT || self.look(|registrations| registrations.paths.contains_key(path));
        if !known || (path == CONVERT && self.look(|registrations| registrations.converters.is_empty())) {
            // Without metrics: a client must not be able to create series.
            return text(StatusCode::NOT_FOUND, "404 page not found\n");
        }
        let (path, span) = (path.to_owned(), tracing::info_span!("webhook", path));
        // Ends the request in the metrics when dropped, also if the client goes away.
        let measured = self.inner.metrics.of(&path).begin();
        let reply = self.reply(&path, request).instrument(span).await;
        measured.end(reply.status.as_u16());
        let mut response = HttpResponse::new(reply.body.into());
        *response.status_mut() = reply.status;
        let is_json = response.body().first() == Some(&b'{');
        let kind = if is_json { "application/json" } else { "text/plain; charset=utf-8" };
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }

    async fn reply<B>(&self, path: &str, request: http::Request<B>) -> ReviewReply
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let is_conversion = path == CONVERT;
        let refuse = |status: StatusCode, message: &str| {
            tracing::warn!(status = status.as_u16(), "the webhook refused a request: {message}");
            if is_conversion {
                conversion::plain(status, message)
            } else {
                admission_review::refusal(status, message)
            }
        };
        let timeout = timeout_of(request.uri().query().unwrap_or_default());
        // From the request's head on, because the API server's time is running.
        let deadline = Instant::now() + timeout;
        let limit = if is_conversion { self.inner.max_conversion_bytes } else { MAX_ADMISSION_BYTES };
        let content_type = request.headers().get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        let media_type = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
        if !media_type.trim_ascii().eq_ignore_ascii_case(b"application/json") {
            let content_type = String::from_utf8_lossy(content_type);
            let message = format!("contentType={content_type}, expected application/json");
            return refuse(StatusCode::BAD_REQUEST, &message);
        }
        let length =
            request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let too_large = || {
            let message = format!("request entity is too large; limit is {limit} bytes");
            refuse(StatusCode::PAYLOAD_TOO_LARGE, &message)
        };
        if length.is_some_and(|length: usize| length > limit) {
            return too_large();
        }
        // A body of unknown length may need the limit.
        let units = length.unwrap_or(limit).div_ceil(UNIT).min(MAX_BYTES_IN_FLIGHT / UNIT);
        let units = u32::try_from(units).expect("the limit of all bodies is far below 4 TiB");
        let read = async {
            let room = self.inner.bodies.acquire_many(units).await?;
            let body = Limited::new(request.into_body(), limit).collect().await?;
            Ok::<_, BoxError>((room, body.to_bytes()))
        };
        let (_room, body) = match timeout_at(deadline, read).await {
            Ok(Ok(read)) => read,
            Ok(Err(error)) if error.is::<LengthLimitError>() => return too_large(),
            Ok(Err(error)) => {
                return refuse(StatusCode::BAD_REQUEST, &format!("the body cannot be read: {error}"));
            }
            Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"),
        };
        match is_conversion {
            true => self.convert(&body, deadline, timeout).await,
            false => self.admit(path, &body, deadline, timeout).await,
        }
    }

    async fn admit(&self, path: &str, body: &[u8], deadline: Instant, timeout: Duration) -> ReviewReply {
        let review = match admission_review::read(body) {
            Ok(review) => review,
            Err(reply) => {
                tracing::warn!("the webhook refused a request: {}", String::from_utf8_lossy(&reply.body));
                return reply;
            }
        };
        let found =
            self.look(|registrations| registrations.paths.get(path).map(|path| (path.phase, path.hooks())));
        let Some((phase, hooks)) = found else {
            return admission_review::refusal(StatusCode::NOT_FOUND, "the webhook was removed");
        };
        let cx = &review.admission;
        let (kind, resource) = (cx.kind(), cx.resource());
        // The names of Go's log fields.
        let span = tracing::info_span!(
            "admission",
            webhookGroup = kind.group,
            webhookKind = kind.kind,
            resource = resource.resource,
            namespace = cx.namespace(),
            name = cx.name(),
            operation = cx.operation().as_str(),
            user = cx.user().username.as_deref(),
            requestID = cx.uid(),
        );
        let admitted = async {
            let handled =
                timeout_at(deadline, panics::recovered(admission_review::admit(phase, &hooks, cx))).await;
            let admitted = match handled {
                Ok(Ok(admitted)) => admitted,
                Ok(Err(panic)) => {
                    self.inner.metrics.admission_panicked();
                    tracing::error!("a webhook handler panicked: {panic}");
                    Err(Rejection::internal(format!("panic: {panic} [recovered]")))
                }
                Err(_) => {
                    tracing::warn!("the webhook handlers did not finish within {timeout:?}");
                    Err(Rejection::timeout(format!("the webhook did not finish within {timeout:?}")))
                }
            };
            if let Err(rejection) = &admitted {
                let message = rejection.to_status(Some(cx)).message.unwrap_or_default();
                tracing::debug!(code = rejection.code(), "the webhook refused the operation: {message}");
            }
            admitted
        };
        let admitted = admitted.instrument(span).await;
        admission_review::respond(&review, admitted)
    }

    async fn convert(&self, body: &[u8], deadline: Instant, timeout: Duration) -> ReviewReply {
        let request = match conversion::read(body) {
            Ok(request) => request,
            Err(reply) => {
                tracing::warn!("the webhook refused a request: {}", String::from_utf8_lossy(&reply.body));
                return reply;
            }
        };
        let converters = self.look(|registrations| {
            registrations
                .converters
                .iter()
                .map(|(key, (_, converter))| (key.clone(), Arc::clone(converter)))
                .collect()
        });
        let converting = panics::recovered(conversion::convert(&converters, &request));
        let converted = match timeout_at(deadline, converting).await {
            Ok(Ok(converted)) => converted,
            Ok(Err(panic)) => {
                self.inner.metrics.conversion_panicked();
                tracing::error!(requestID = request.uid(), "a conversion panicked: {panic}");
                Err(format!("panic: {panic} [recovered]"))
            }
            Err(_) => Err(format!("the conversion did not finish within {timeout:?}")),
        };
        if let Err(message) = &converted {
            tracing::error!(requestID = request.uid(), "the conversion failed: {message}");
        }
        request.respond(converted)
    }
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.look(|registrations| {
            let kinds = registrations.converters.keys().map(|(group, kind)| format!("{kind}.{group}"));
            f.debug_struct("Webhooks")
                .field("paths", &registrations.paths.keys())
                .field("converters", &kinds.collect::<Vec<_>>())
                .finish()
        })
    }
}
