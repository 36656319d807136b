//! Sending a call: rate limit, write permit, request, response, and retries that the server asks for.

use std::{error::Error as StdError, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use kube::core::Status;
use tokio::time::{Instant, sleep};

use super::{
    call::{Answer, Call, Content, Verb},
    call_observer::{Throttling, WaitingRun},
    client::Client,
    client_builder::ClientSettings,
    client_metrics::CountedBody,
    deadline::Deadline,
    declared_rights,
    decode::decode,
    error::{ClientError, ErrorKind, unreachable},
    read_body::{MAX_ANSWER, UnreadBody, read_body, read_error},
    run_record::RunRecord,
    throttle::Throttle,
    write_gate::{PermitError, WritePermit},
    written_object::WrittenObject,
};
use crate::{brief::Brief, error::innermost};

impl Client {
    /// Sends a call that has passed all interceptors, and records its outcome.
    pub(in crate::client) async fn exchange(&self, call: Call) -> Result<Answer, ClientError> {
        let begun = Instant::now();
        let outcome = self.send_until_answered(&call).await;
        let body = outcome.as_ref().ok().and_then(Answer::body);
        let written = body.filter(|_| call.is_stored()).and_then(|body| WrittenObject::of(body));
        // Failed writes as well: one without an answer may have been carried out.
        if call.is_stored() {
            RunRecord::add_to_current(&call, outcome.as_ref(), written.as_ref());
        }
        if let Some(observer) = &self.settings().observer {
            observer.ended(&call, outcome.as_ref(), written.as_ref(), begun.elapsed());
        }
        outcome
    }

    async fn send_until_answered(&self, call: &Call) -> Result<Answer, ClientError> {
        let settings = self.settings();
        let mut throttle = Throttle::default();
        let timeout = call.timeout.unwrap_or(settings.timeout);
        let mut deadline = Deadline::after(timeout);
        loop {
            // The rate limit comes before the permit, so that the permit is fresh when the request is sent, however
            // long the wait was.
            wait_for_turn(settings, call).await;
            let permit = permit(settings, call)?;
            let sent = Instant::now();
            let got = tokio::select! {
                // A response that has arrived counts, even if the permit or the deadline ended at the same moment.
                biased;
                got = once(settings, call) => got?,
                ended = permit.ended() => return Err(interrupted(call, ended)),
                () = sleep(deadline.left()) => return Err(out_of_time(settings, call, timeout)),
            };
            // The time in flight counts, the wait for the rate limit does not.
            deadline.spend(sent.elapsed());
            let refusal = match got {
                Ok(answer) => return Ok(answer),
                Err(refusal) => refusal,
            };
            let ErrorResponse { code, retry_after, .. } = refusal;
            if let Some(observer) =
                settings.observer.as_ref().filter(|_| code == StatusCode::TOO_MANY_REQUESTS)
            {
                observer
                    .throttled(&Throttling { retry_after, priority_level: refusal.priority_level.clone() });
            }
            let delay = throttle.step(code.as_u16(), retry_after, call.verb);
            // If the wait would exceed the deadline, return the refusal at once: it is more specific than a timeout later.
            let Some(delay) = delay.filter(|delay| deadline.allows(*delay)) else {
                return Err(refusal.into_error(settings, call));
            };
            settings.layers.metrics.retry(code.as_str(), call.verb.method().as_str(), &settings.layers.host);
            tracing::debug!(
                verb = %call.verb,
                subject = call.subject(),
                "the API server answered {code}: sending the request again in {}",
                Brief(delay)
            );
            let waiting = WaitingRun::begin(settings.observer.as_ref());
            sleep(delay).await;
            drop(waiting);
            deadline.spend(delay);
        }
    }
}

/// An error response.
struct ErrorResponse {
    code: StatusCode,
    retry_after: Option<Duration>,
    /// UID of the priority level that the API server assigned to the request.
    priority_level: Option<String>,
    text: Bytes,
}

async fn wait_for_turn(settings: &ClientSettings, call: &Call) {
    if let Some(limiter) = &settings.limiter {
        let waited = limiter.wait().await;
        settings.layers.metrics.rate_limiter_duration(
            call.verb.method().as_str(),
            &settings.layers.host,
            waited,
        );
    }
}

fn permit(settings: &ClientSettings, call: &Call) -> Result<WritePermit, ClientError> {
    // Reads and dry runs change nothing, so any process may send them.
    if !call.verb.is_write() || call.dry_run {
        return Ok(WritePermit::unlimited());
    }
    let permits = settings.gates.iter().map(|gate| gate.permit(call));
    let all = permits.into_iter().try_fold(WritePermit::unlimited(), |all, permit| Ok(all.and(permit?)));
    all.map_err(|no_permit: PermitError| match no_permit.is_misuse() {
        true => ClientError::not_sent(call, no_permit.to_string()),
        false => ClientError::make(call, ErrorKind::NotPermitted(no_permit), None),
    })
}

/// Sends one request and reads the whole response, except for a watch.
async fn once(settings: &ClientSettings, call: &Call) -> Result<Result<Answer, ErrorResponse>, ClientError> {
    let mut request = call.to_http()?;
    // Only the check reads the call, for its advice, so other clients need no clone.
    if settings.layers.check.is_some() {
        request.extensions_mut().insert(call.clone());
    }
    let response = settings.layers.send(request).await.map_err(|error| no_answer(settings, call, error))?;
    let (parts, body) = response.into_parts();
    settings.warnings.take(call, &parts.headers, &settings.logged_warnings);
    // The events of a watch are read by the caller; any other body is read here, under the deadline.
    if parts.status.is_success() && call.verb == Verb::Watch {
        return Ok(Ok(Answer { code: parts.status, body: Content::Stream(body) }));
    }
    Ok(if parts.status.is_success() {
        let body = Content::Whole(read(settings, call, body).await?);
        Ok(Answer { code: parts.status, body })
    } else {
        let text = read_error(body).await.map_err(|error| no_answer(settings, call, error))?;
        let (retry_after, priority_level) = (retry_after(&parts.headers), priority_level(&parts.headers));
        Err(ErrorResponse { code: parts.status, retry_after, priority_level, text })
    })
}

async fn read(settings: &ClientSettings, call: &Call, body: CountedBody) -> Result<Bytes, ClientError> {
    read_body(body, MAX_ANSWER).await.map_err(|unread| match unread {
        UnreadBody::Broken(error) => no_answer(settings, call, error),
        UnreadBody::TooLong => {
            let reason = format!("the answer is longer than {} MiB", MAX_ANSWER >> 20);
            ClientError::make(call, ErrorKind::NoAnswer(reason), None).of_host(&settings.layers.host)
        }
    })
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    // Only seconds: the API server does not send the date form of the header.
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

fn priority_level(headers: &HeaderMap) -> Option<String> {
    Some(headers.get("x-kubernetes-pf-prioritylevel-uid")?.to_str().ok()?.to_owned())
}

fn no_answer(settings: &ClientSettings, call: &Call, error: kube::Error) -> ClientError {
    let cause: &(dyn StdError + 'static) = match &error {
        kube::Error::Service(source) => &**source,
        other => other,
    };
    // The address that failed, if the connection was not made; otherwise the configured name.
    let host = unreachable(cause).unwrap_or(&settings.layers.host);
    ClientError::make(call, ErrorKind::NoAnswer(innermost(cause).to_string()), None)
        .of_host(host)
        .caused_by(error)
}

pub(in crate::client) fn out_of_time(
    settings: &ClientSettings,
    call: &Call,
    timeout: Duration,
) -> ClientError {
    ClientError::make(call, ErrorKind::DeadlineExceeded { timeout }, None).of_host(&settings.layers.host)
}

fn interrupted(call: &Call, ended: PermitError) -> ClientError {
    ClientError::make(call, ErrorKind::Interrupted(ended), None)
}

impl ErrorResponse {
    fn into_error(self, settings: &ClientSettings, call: &Call) -> ClientError {
        let Self { code, retry_after, text, .. } = self;
        // A proxy in between may answer with a body that is not a `Status`.
        let decoded = decode::<Status>(&text).ok().filter(|status| status.code != 0);
        let status = decoded.unwrap_or_else(|| {
            let text = String::from_utf8_lossy(&text);
            let line: String = text.trim().lines().next().unwrap_or_default().chars().take(200).collect();
            let nothing = line.is_empty().then(|| code.canonical_reason().unwrap_or("no reason given"));
            Status::failure(nothing.unwrap_or(&line), "").with_code(code.as_u16())
        });
        let declared = settings.declared.as_ref().filter(|_| code == StatusCode::FORBIDDEN);
        let advice =
            declared.and_then(|declared| declared_rights::advice(call, &status.message, &declared.all()));
        ClientError::refused(call, status, retry_after).with_advice(advice)
    }
}
