//! How long a request may take, the sending of its body included.
//!
//! As kube-apiserver has it: `--request-timeout` is a minute, which `?timeout=` can shorten but not lengthen. Watches have a
//! deadline of their own, `timeoutSeconds`. What waits while a write is carried out, its body having come, has 34 s.

use http::request::Parts;
use tokio::time::{Duration, timeout};

use crate::faults::{Facts, Verb};
use crate::go;
use crate::request::query::Query;
use crate::status::ApiError;

/// `--request-timeout` of kube-apiserver.
const LONGEST: Duration = Duration::from_secs(60);
/// A number close to 30 that is told apart when it shows.
const LONGEST_WRITE: Duration = Duration::from_secs(34);

/// How long the request with this head may take.
///
/// # Errors
/// 400 for a `timeout` that is no duration.
pub(super) fn of(head: &Parts) -> Result<Duration, ApiError> {
    let query = head.uri.query().unwrap_or_default();
    // Few requests have it, and none needs to be parsed to know that.
    if !query.contains("timeout") {
        return Ok(LONGEST);
    }
    let query = Query::parse(query);
    let asked = query.text("timeout");
    // A watch answers at once, and what it sends then is not bounded here.
    if asked.is_empty() || Facts::of(head).is_some_and(|facts| facts.verb == Verb::Watch) {
        return Ok(LONGEST);
    }
    let asked = go::duration(asked).map_err(|why| {
        ApiError::bad_request(format!("invalid timeout specified in the request URL - {why}"))
    })?;
    // Zero, and less, is no wish.
    let asked = Duration::try_from(asked).ok().filter(|asked| !asked.is_zero());
    Ok(asked.map_or(LONGEST, |asked| asked.min(LONGEST)))
}

/// Carries out a write whose body is there, within the time that kube-apiserver gives the handlers of writes.
///
/// # Errors
/// Those of the write, and 504 if it takes longer.
pub(super) async fn of_write<T>(write: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    timeout(LONGEST_WRITE, write).await.unwrap_or_else(|_elapsed| {
        Err(passed("request did not complete within requested timeout - context deadline exceeded"))
    })
}

/// 504 for a request that took too long.
pub(super) fn passed(why: &str) -> ApiError {
    ApiError::new(504, "Timeout", format!("Timeout: {why}")).with_details("", "", "")
}
