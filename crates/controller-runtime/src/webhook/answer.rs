//! Answers to requests: limits of bodies, deadlines and panics.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderValue, Method, StatusCode,
    header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE},
};
use http_body::Body;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use tokio::{
    runtime::Handle,
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout_at},
};
use tracing::Instrument;

use super::{
    Webhooks,
    admission_review::{self, ReviewReply},
    authentication,
    conversion::{self, ConversionRequest},
    registration::ReviewKind,
    rejection::Rejection,
    timeout::timeout_of,
};
use crate::{
    error::BoxError,
    panics,
    serving::{HttpResponse, text},
};

/// Largest body of an admission request, as in controller-runtime: twice the largest object of etcd, and room for the rest.
const MAX_ADMISSION_BYTES: usize = 7 << 20;
/// Largest body of a TokenReview, as in controller-runtime.
const MAX_TOKEN_REVIEW_BYTES: usize = 1 << 20;
/// Largest total size of the bodies of running requests; requests beyond it wait until their deadline.
pub(super) const MAX_BYTES_IN_FLIGHT: usize = 128 << 20;
/// Unit in which bodies are counted.
pub(super) const UNIT: usize = 1 << 10;
/// Largest number of objects of a conversion review that is converted without waiting for a turn.
const OBJECTS_WITHOUT_TURN: usize = 50;

impl Webhooks {
    /// Answers a request as the server does, without sockets: for tests, and for servers of your own.
    ///
    /// # Cancellation
    ///
    /// Dropping the future drops the handlers at their next `.await`.
    pub async fn answer(&self, request: http::Request<Bytes>) -> HttpResponse {
        self.serve(request.map(Full::new)).await
    }

    /// Answers a request before its body is read.
    pub(crate) async fn serve<B>(&self, request: http::Request<B>) -> HttpResponse
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let path = request.uri().path();
        let Some(review) = self.with_registrations(|registrations| registrations.review_at(path)) else {
            // This request is not counted in metrics: a client must not be able to create series.
            return text(StatusCode::NOT_FOUND, "404 page not found\n");
        };
        if request.method() != Method::POST {
            // This request is neither counted nor logged: test environments send it to find out whether the path has a
            // webhook.
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            return response;
        }
        let (path, span) = (path.to_owned(), tracing::info_span!("webhook", path));
        // Counts the request as ended when it is dropped, so also if the client closes the connection.
        let measured = self.inner.metrics.of(&path).begin();
        let reply = self.reply(review, &path, request).instrument(span).await;
        measured.end(reply.status.as_u16());
        let mut response = HttpResponse::new(reply.body.into());
        *response.status_mut() = reply.status;
        let is_json = response.body().first() == Some(&b'{');
        let kind = if is_json { "application/json" } else { "text/plain; charset=utf-8" };
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }

    async fn reply<B>(&self, review: ReviewKind, path: &str, request: http::Request<B>) -> ReviewReply
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let timeout = timeout_of(request.uri().query().unwrap_or_default());
        // The deadline counts from the head of the request, because the API server's timeout has started by then.
        let deadline = Instant::now() + timeout;
        let limit = match review {
            ReviewKind::Admission => MAX_ADMISSION_BYTES,
            ReviewKind::Conversion => self.inner.max_conversion_bytes,
            ReviewKind::Token => MAX_TOKEN_REVIEW_BYTES,
        };
        // The room stays reserved until the answer is complete, because the body is in memory until then.
        let (_room, body) = match self.read_body(request, limit, deadline).await {
            Ok(read) => read,
            Err((status, message)) => {
                tracing::warn!(status = status.as_u16(), "the webhook refused a request: {message}");
                return match review {
                    ReviewKind::Admission => admission_review::refusal(status, &message),
                    ReviewKind::Conversion => conversion::plain(status, &message),
                    ReviewKind::Token => authentication::refusal(status, &message),
                };
            }
        };
        match review {
            ReviewKind::Admission => self.admit(path, &body, deadline, timeout).await,
            ReviewKind::Conversion => self.convert(&body, deadline, timeout).await,
            ReviewKind::Token => self.authenticate(path, &body, deadline, timeout).await,
        }
    }

    /// Reads a body of JSON with at most `limit` bytes, as soon as there is room for it.
    ///
    /// # Errors
    ///
    /// Status and message of the answer.
    async fn read_body<B>(
        &self,
        request: http::Request<B>,
        limit: usize,
        deadline: Instant,
    ) -> Result<(SemaphorePermit<'_>, Bytes), (StatusCode, String)>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let content_type = request.headers().get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        let media_type = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
        if !media_type.trim_ascii().eq_ignore_ascii_case(b"application/json") {
            let content_type = String::from_utf8_lossy(content_type);
            let message = format!("contentType={content_type}, expected application/json");
            return Err((StatusCode::BAD_REQUEST, message));
        }
        let length =
            request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let too_large = || {
            let message = format!("request entity is too large; limit is {limit} bytes");
            Err((StatusCode::PAYLOAD_TOO_LARGE, message))
        };
        if length.is_some_and(|length: usize| length > limit) {
            return too_large();
        }
        // A body of unknown length may be as long as the limit. The minimum is there because more units than the semaphore has
        // would never be available: `max_conversion_bytes` may exceed them.
        let units = length.unwrap_or(limit).div_ceil(UNIT).min(MAX_BYTES_IN_FLIGHT / UNIT);
        let units = u32::try_from(units).expect("the limit of all bodies is far below 4 TiB");
        let read = async {
            let room = self.inner.bodies.acquire_many(units).await?;
            let body = Limited::new(request.into_body(), limit).collect().await?;
            Ok::<_, BoxError>((room, body.to_bytes()))
        };
        match timeout_at(deadline, read).await {
            Ok(Ok(read)) => Ok(read),
            Ok(Err(error)) if error.is::<LengthLimitError>() => too_large(),
            Ok(Err(error)) => Err((StatusCode::BAD_REQUEST, format!("the body cannot be read: {error}"))),
            // The body arrived too slowly, or other requests had all the room.
            Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the body could not be read in time".to_owned())),
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
        let found = self.with_registrations(|registrations| {
            registrations.paths.get(path).map(|path| (path.phase, path.hooks()))
        });
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
                    tracing::warn!(
                        "the webhook handlers did not finish within {timeout:?}, the timeout of the request: make them \
                         faster, or raise timeoutSeconds of the webhook"
                    );
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
        let converters = self.with_registrations(|registrations| {
            registrations
                .converters
                .iter()
                .map(|(key, (_, converter))| (key.clone(), Arc::clone(converter)))
                .collect()
        });
        let converting = panics::recovered(async {
            let _turn = self.conversion_turn(&request).await;
            conversion::convert(&converters, &request).await
        });
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

    /// Waits until a review may be converted.
    ///
    /// The API server sends the objects of a list in several reviews at once. If they were converted side by side, all answers would
    /// be complete only at the end, and the API server would be idle until then. Reviews of few objects, as for a GET, do not wait.
    async fn conversion_turn(&self, request: &ConversionRequest<'_>) -> Option<SemaphorePermit<'_>> {
        if request.objects() <= OBJECTS_WITHOUT_TURN {
            return None;
        }
        let one_per_thread = || Semaphore::new(Handle::current().metrics().num_workers());
        let turns = self.inner.conversions.get_or_init(one_per_thread);
        Some(turns.acquire().await.expect("nothing closes this semaphore"))
    }

    async fn authenticate(
        &self,
        path: &str,
        body: &[u8],
        deadline: Instant,
        timeout: Duration,
    ) -> ReviewReply {
        let review = match authentication::read(body) {
            Ok(review) => review,
            Err(reply) => {
                // The reply has no part of the body, which may hold a token.
                tracing::warn!("the webhook refused a request: {}", String::from_utf8_lossy(&reply.body));
                return reply;
            }
        };
        let found = self.with_registrations(|registrations| registrations.authenticator(path));
        let Some(authenticate) = found else {
            return authentication::refusal(StatusCode::NOT_FOUND, "the webhook was removed");
        };
        let authenticating = panics::recovered(authenticate(review.request.clone()));
        let outcome = match timeout_at(deadline, authenticating).await {
            Ok(Ok(outcome)) => outcome.map_err(|error| error.to_string()),
            Ok(Err(panic)) => {
                self.inner.metrics.admission_panicked();
                tracing::error!("a webhook handler panicked: {panic}");
                Err(format!("panic: {panic} [recovered]"))
            }
            Err(_) => Err(format!("the webhook did not finish within {timeout:?}")),
        };
        if let Err(reason) = &outcome {
            tracing::warn!("the webhook could not check a token: {reason}");
        }
        authentication::respond(&review, outcome)
    }
}
