//! The last part of a call's way: turn, permit, request, answer, and once more if the server asks for it.

use std::{error::Error as StdError, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use kube::{client::Body, core::Status};
use tokio::time::{Instant, sleep};

use super::{
    Answer, Call, Client, Error, ErrorKind, NoPermit, Verb,
    builder::Settings,
    call::Content,
    deadline::Deadline,
    decode::decode,
    error::{innermost, unreachable},
    gate::WritePermit,
    throttle::Throttle,
};

impl Client {
    /// Sends a call that has passed all interceptors.
    pub(super) async fn exchange(&self, call: Call) -> Result<Answer, Error> {
        let settings = self.settings();
        let mut throttle = Throttle::default();
        let timeout = call.timeout.unwrap_or(settings.timeout);
        let mut deadline = Deadline::after(timeout);
        loop {
            wait_for_turn(settings, &call).await;
            let permit = permit(settings, &call)?;
            let sent = Instant::now();
            let got = tokio::select! {
                // An answer that is there counts, even if the permit or the time has ended at the same moment.
                biased;
                got = once(settings, &call) => got?,
                ended = permit.ended() => return Err(interrupted(&call, ended)),
                () = sleep(deadline.left()) => return Err(out_of_time(settings, &call, timeout)),
            };
            deadline.spend(sent.elapsed());
            let refusal = match got {
                Ok(answer) => return Ok(answer),
                Err(refusal) => refusal,
            };
            let Refusal { code, retry_after, .. } = refusal;
            let delay = throttle.step(code.as_u16(), retry_after, call.verb.is_write());
            let Some(delay) = delay.filter(|delay| deadline.allows(*delay)) else {
                return Err(refusal.into_error(&call));
            };
            settings.metrics.retry(code.as_str(), call.verb.method().as_str(), &settings.host);
            tracing::debug!(verb = %call.verb, subject = call.subject(), "answered {code}: again in {delay:?}");
            sleep(delay).await;
            deadline.spend(delay);
        }
    }
}

/// A bad answer.
struct Refusal {
    code: StatusCode,
    retry_after: Option<Duration>,
    text: Bytes,
}

async fn wait_for_turn(settings: &Settings, call: &Call) {
    if let Some(limiter) = &settings.limiter {
        let waited = limiter.wait().await;
        settings.metrics.rate_limiter_duration(call.verb.method().as_str(), &settings.host, waited);
    }
}

fn permit(settings: &Settings, call: &Call) -> Result<WritePermit, Error> {
    if !call.verb.is_write() || call.dry_run {
        return Ok(WritePermit::unlimited());
    }
    let permits = settings.gates.iter().map(|gate| gate.permit(call));
    let all = permits.into_iter().try_fold(WritePermit::unlimited(), |all, permit| Ok(all.and(permit?)));
    all.map_err(|no_permit: NoPermit| match no_permit.is_misuse() {
        true => Error::not_sent(call, no_permit.to_string()),
        false => Error::make(call, ErrorKind::NotPermitted(no_permit), None),
    })
}

/// One answer, read to its end unless it is a watch.
async fn once(settings: &Settings, call: &Call) -> Result<Result<Answer, Refusal>, Error> {
    let response =
        settings.kube.send(call.to_http()?).await.map_err(|error| no_answer(settings, call, error))?;
    let (parts, body) = response.into_parts();
    settings.warnings.take(call, &parts.headers, &settings.said);
    if parts.status.is_success() && call.verb == Verb::Watch {
        return Ok(Ok(Answer { code: parts.status, body: Content::Stream(body) }));
    }
    let text = read(settings, call, body).await?;
    Ok(if parts.status.is_success() {
        Ok(Answer { code: parts.status, body: Content::Whole(text) })
    } else {
        Err(Refusal { code: parts.status, retry_after: retry_after(&parts.headers), text })
    })
}

async fn read(settings: &Settings, call: &Call, body: Body) -> Result<Bytes, Error> {
    let collected = body.collect().await.map_err(|error| no_answer(settings, call, error))?;
    Ok(collected.to_bytes())
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

fn no_answer(settings: &Settings, call: &Call, error: kube::Error) -> Error {
    let cause: &(dyn StdError + 'static) = match &error {
        kube::Error::Service(source) => &**source,
        other => other,
    };
    let host = unreachable(cause).unwrap_or(&settings.host);
    Error::make(call, ErrorKind::NoAnswer(innermost(cause).to_string()), None).of_host(host).caused_by(error)
}

pub(super) fn out_of_time(settings: &Settings, call: &Call, timeout: Duration) -> Error {
    Error::make(call, ErrorKind::DeadlineExceeded { timeout }, None).of_host(&settings.host)
}

fn interrupted(call: &Call, ended: NoPermit) -> Error {
    Error::make(call, ErrorKind::Interrupted(ended), None)
}

impl Refusal {
    fn into_error(self, call: &Call) -> Error {
        let Self { code, retry_after, text } = self;
        // A proxy on the way may answer in words of its own.
        let told = decode::<Status>(&text).ok().filter(|status| status.code != 0);
        let status = told.unwrap_or_else(|| {
            let text = String::from_utf8_lossy(&text);
            let line: String = text.trim().lines().next().unwrap_or_default().chars().take(200).collect();
            let nothing = line.is_empty().then(|| code.canonical_reason().unwrap_or("no reason given"));
            Status::failure(nothing.unwrap_or(&line), "").with_code(code.as_u16())
        });
        Error::refused(call, status, retry_after)
    }
}
