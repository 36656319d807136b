//! Server-sent events of the API.
//!
//! Each event holds a whole state, not a change. So a client that reads slowly misses states in between, but never needs to ask
//! again, and the server stores nothing for it.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{
    HeaderValue, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Duration, Instant, Interval, MissedTickBehavior, interval, sleep},
};

use super::{QueryString, Refusal};
use crate::{
    manager::{explain_lookup, explainer::Explainer},
    serving::{ResponseBody, ServerResponse},
};

/// Largest number of streams of a manager.
const MAX_CLIENTS: usize = 8;
/// Interval at which the state is compared with the one that was sent last.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Longest time without a byte, so that proxies keep the connection and the client knows that it works.
const QUIET: Duration = Duration::from_secs(15);

/// Longest time that a stream lasts, so that the permission of a client is checked again: as long as the metrics server caches it.
const LONGEST: Duration = Duration::from_secs(300);

/// Limits the number of streams.
pub(in crate::manager) struct Subscriptions(Arc<Semaphore>);

impl Default for Subscriptions {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_CLIENTS)))
    }
}

/// State of one stream.
struct StreamState {
    explainer: Arc<Explainer>,
    /// Controller and request to explain.
    request: Option<(String, String)>,
    ticks: Interval,
    /// The overview that was sent last.
    overview: String,
    /// The explanation that was sent last.
    explanation: String,
    /// Time at which bytes were sent last.
    spoke: Instant,
    _permit: OwnedSemaphorePermit,
}

pub(super) fn answer(explainer: &Arc<Explainer>, query: &QueryString<'_>) -> Result<ServerResponse, Refusal> {
    let request = match (query.get("controller"), query.get("request")) {
        (Some(controller), Some(request)) => Some((controller.into_owned(), request.into_owned())),
        (None, Some(_)) => {
            return Err(Refusal::bad("the parameter controller is missing: give controller=NAME"));
        }
        (_, None) => None,
    };
    let permit = Arc::clone(&explainer.subscriptions.0).try_acquire_owned().map_err(|_| {
        let message = format!(
            "{MAX_CLIENTS} clients receive events already: close one, or ask for /explain/v1/overview"
        );
        Refusal(StatusCode::SERVICE_UNAVAILABLE, message)
    })?;
    let mut ticks = interval(CHECK_EVERY);
    // A slow client must not cause a burst of the ticks that it missed.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let state = StreamState {
        explainer: Arc::clone(explainer),
        request,
        ticks,
        overview: String::new(),
        explanation: String::new(),
        spoke: Instant::now(),
        _permit: permit,
    };
    let events = stream::unfold(state, async |mut state| {
        let events = state.next().await;
        Some((events, state))
    });
    let events = events.take_until(sleep(LONGEST));
    let mut response = ServerResponse::new(ResponseBody::Stream(events.boxed()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Otherwise nginx, as a proxy, collects events in a buffer.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

impl StreamState {
    /// Waits for a change, and returns the events about it.
    async fn next(&mut self) -> Bytes {
        loop {
            self.ticks.tick().await;
            let overview = json(&*self.explainer.recent_overview().await);
            let explanation = self.explain().await;
            let mut events = event("overview", overview, &mut self.overview);
            events += &event("request", explanation, &mut self.explanation);
            if events.is_empty() && self.spoke.elapsed() >= QUIET {
                events += ":\n\n"; // a comment, which clients ignore
            }
            if !events.is_empty() {
                self.spoke = Instant::now();
                return events.into();
            }
        }
    }

    async fn explain(&self) -> String {
        let (Some((controller, request)), Some(registry)) =
            (&self.request, self.explainer.registry.upgrade())
        else {
            return String::new();
        };
        match explain_lookup::explain_in_steps(&registry, controller, request).await {
            Ok(explanation) => json(&explanation),
            Err(error) => json(&serde_json::json!({ "error": error.to_string() })),
        }
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The event of a state; empty if the state equals the one that was sent last.
fn event(name: &str, state: String, sent: &mut String) -> String {
    if state == *sent {
        return String::new();
    }
    let event = format!("event: {name}\ndata: {state}\n\n");
    *sent = state;
    event
}
