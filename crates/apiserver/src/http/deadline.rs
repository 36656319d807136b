//! Request timeouts, which include the time to send the body.
//!
//! As in kube-apiserver, a request has a minute (`--request-timeout`), which the parameter `timeout` can shorten but not extend. Watches
//! have a deadline of their own (`timeoutSeconds`). A write has 34 s from the arrival of its body.

use http::{Response, header};
use kube_apimachinery::go;
use kube_apimachinery::status::ApiError;
use tokio::time::{Duration, timeout};

use crate::api::verbs::reply::Reply;
use crate::request::info::RequestTarget;
use crate::request::verb::Verb;
use crate::response::ResponseBody;

/// Default and maximum timeout, kube-apiserver's `--request-timeout`.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of kube-apiserver's handlers of writes: not a round number, so that it is recognizable in logs.
const LONGEST_WRITE: Duration = Duration::from_secs(34);

/// Resolution of timers. A shorter timeout counts as passed before the request is handled.
pub(crate) const SHORTEST: Duration = Duration::from_millis(1);

/// Returns the timeout of a request.
///
/// # Errors
/// 400 if `timeout` is not a duration.
pub(crate) fn of(target: &RequestTarget) -> Result<Duration, ApiError> {
    let asked = target.query.text("timeout");
    // A watch responds at once, and this timeout does not cover its stream.
    if asked.is_empty() || target.verb == Some(Verb::Watch) {
        return Ok(MAX_TIMEOUT);
    }
    let asked = go::duration(asked).map_err(|why| {
        ApiError::bad_request(format!("invalid timeout specified in the request URL - {why}"))
    })?;
    // Zero or less counts as unset.
    let asked = Duration::try_from(asked).ok().filter(|asked| !asked.is_zero());
    Ok(asked.map_or(MAX_TIMEOUT, |asked| asked.min(MAX_TIMEOUT)))
}

/// Runs a write after its body has arrived, within kube-apiserver's timeout for handlers of writes.
///
/// # Errors
/// The write's errors, or 504 if it takes too long.
pub(crate) async fn of_write<T>(write: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    timeout(LONGEST_WRITE, write).await.unwrap_or_else(|_elapsed| {
        Err(passed("request did not complete within requested timeout - context deadline exceeded"))
    })
}

/// Answers a request that took too long. The handler around all others writes the `Status` without its type, as plain text.
pub(crate) fn too_late() -> Response<ResponseBody> {
    let mut status = passed("request did not complete within the allotted timeout").to_json();
    if let Some(fields) = status.as_object_mut() {
        fields.retain(|field, _| !matches!(field.as_str(), "kind" | "apiVersion"));
    }
    let mut response = Reply::text(504, &go::json(&status)).into_response();
    response.headers_mut().remove(header::X_CONTENT_TYPE_OPTIONS);
    response
}

/// Builds the error for a request that took too long.
fn passed(why: &str) -> ApiError {
    ApiError::new(504, "Timeout", format!("Timeout: {why}")).with_details("", "", "")
}
