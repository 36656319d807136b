//! The JSON API below `/explain/v1`, and the page that shows it at `/explain/`.
//!
//! | path below `/explain/v1` | answer |
//! |---|---|
//! | `/overview` | the operator, its findings, and numbers of each controller |
//! | `/findings` | [`Finding`](crate::findings::Finding)s |
//! | `/controllers/{name}` | more numbers of a controller: waiting requests by rule, runs by cause, errors |
//! | `/controllers/{name}/requests?state=&rule=&contains=&after=&limit=` | a page of its requests |
//! | `/controllers/{name}/requests/{request}` | [`Explanation`](crate::controller::Explanation) of a request |
//! | `/objects/{group}/{resource}/{namespace}/{name}` | metadata of a cached object, and the requests it leads to; `core` is the core group, `-` no namespace |
//! | `/caches` | caches, and the state of their lists and watches |
//! | `/cluster` | calls to the API server, leadership and webhooks |
//! | `/events?controller=&request=` | server-sent events: `overview`, and with both parameters `request`, each when it has changed |
//! | `POST /retry?controller=&request=` | the request runs now; the answer is its explanation |
//!
//! All others are read with `GET`, and change nothing. Clients need the right to `post` `/explain/v1/retry`, which no rendered role
//! grants. Contents of objects are never shown, nor labels and annotations.

mod events;
mod object_details;
mod page;
mod shapes;

use std::{borrow::Cow, sync::Arc};

use http::{
    HeaderValue, Method, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use percent_encoding::percent_decode_str;
use serde::Serialize;

pub(super) use self::page::{PAGE, answer as page};
use self::shapes::{CacheItem, ClusterAnswer, Items};
pub(super) use self::{events::Subscriptions, shapes::RecentAnswers};
use super::{ExplainError, explain_lookup, explainer::Explainer};
use crate::{
    request_queue::{Cursor, DelayReason, Explain, RequestFilter, StateFilter},
    serving::{HttpRequest, HttpResponse, ResponseBody, ServerResponse, text},
};

/// Paths of the API begin with this.
pub(super) const PREFIX: &str = "/explain/v1/";
/// Path that lets a request run.
const RETRY: &str = "/explain/v1/retry";
/// Default and largest number of requests in an answer.
const LIMIT: usize = 100;
const MOST: usize = 1000;

/// Reason why there is no answer, with its status code.
pub(super) struct Refusal(StatusCode, String);

impl Refusal {
    fn not_found(message: impl Into<String>) -> Self {
        Self(StatusCode::NOT_FOUND, message.into())
    }

    fn bad(message: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, message.into())
    }
}

impl From<Refusal> for ServerResponse {
    fn from(Refusal(code, message): Refusal) -> Self {
        whole(text(code, format!("{message}\n")))
    }
}

impl From<ExplainError> for Refusal {
    fn from(error: ExplainError) -> Self {
        Self::not_found(error.to_string())
    }
}

/// Answers a request to a path that begins with [`PREFIX`].
pub(super) async fn answer(explainer: Arc<Explainer>, request: HttpRequest) -> ServerResponse {
    let is_retry = request.uri().path() == RETRY;
    let answer = match (is_retry, request.method()) {
        (true, &Method::POST) => retry(&explainer, &request).await,
        (false, &Method::GET) => route(&explainer, &request).await,
        (is_retry, _) => {
            let method = if is_retry { "POST" } else { "GET" };
            return whole(text(StatusCode::METHOD_NOT_ALLOWED, format!("only {method} is allowed\n")));
        }
    };
    match answer {
        Ok(response) => response,
        Err(refusal) => refusal.into(),
    }
}

async fn retry(explainer: &Explainer, request: &HttpRequest) -> Result<ServerResponse, Refusal> {
    let query = QueryString(request.uri().query().unwrap_or_default());
    let (Some(controller), Some(name)) = (query.get("controller"), query.get("request")) else {
        return Err(Refusal::bad("a parameter is missing: give controller=NAME&request=REQUEST"));
    };
    let registry = explainer.registry.upgrade().ok_or_else(dropped)?;
    Ok(whole(json(&explain_lookup::retry(&registry, &controller, &name).await?)))
}

async fn route(explainer: &Arc<Explainer>, request: &HttpRequest) -> Result<ServerResponse, Refusal> {
    let path = request.uri().path().strip_prefix(PREFIX).unwrap_or_default();
    // Split before decoding, so that an escaped slash separates no parts.
    let parts: Vec<Cow<'_, str>> =
        path.split('/').map(|part| percent_decode_str(part).decode_utf8_lossy()).collect();
    let parts: Vec<&str> = parts.iter().map(|part| &**part).collect();
    let query = QueryString(request.uri().query().unwrap_or_default());
    let answer = match &parts[..] {
        ["overview"] => json(&*explainer.recent_overview().await),
        ["findings"] => json(&Items { items: explainer.recent_findings().await.as_slice() }),
        ["cluster"] => json(&ClusterAnswer::of(explainer)),
        ["caches"] => json(&Items { items: &CacheItem::all(explainer) }),
        ["events"] => return events::answer(explainer, &query),
        ["controllers", name] => json(&controller(explainer, name)?.detail()),
        ["controllers", name, "requests"] => {
            let filter = filter(&query)?;
            json(&controller(explainer, name)?.requests(&filter).await)
        }
        // The name of a request contains slashes, escaped or not.
        ["controllers", name, "requests", request @ ..] if !request.is_empty() => {
            let registry = explainer.registry.upgrade().ok_or_else(dropped)?;
            json(&explain_lookup::explain_in_steps(&registry, name, &request.join("/")).await?)
        }
        ["objects", group, resource, namespace, name] => {
            json(&object_details::object(explainer, group, resource, namespace, name).await?)
        }
        _ => {
            return Err(Refusal::not_found(
                "there is no such path: see overview, findings, caches, cluster, controllers/NAME, controllers/NAME/requests, \
                 controllers/NAME/requests/REQUEST, objects/GROUP/RESOURCE/NAMESPACE/NAME and events below /explain/v1",
            ));
        }
    };
    Ok(whole(answer))
}

pub(super) fn dropped() -> Refusal {
    Refusal(StatusCode::SERVICE_UNAVAILABLE, "the manager has been dropped".to_owned())
}

fn controller(explainer: &Explainer, name: &str) -> Result<Arc<dyn Explain>, Refusal> {
    let controllers = explainer.registry.upgrade().ok_or_else(dropped)?.controllers();
    Ok(Arc::clone(explain_lookup::find_controller(&controllers, name)?))
}

/// The query of a request.
struct QueryString<'q>(&'q str);

impl QueryString<'_> {
    /// A parameter; `None` if it is absent or empty.
    fn get(&self, wanted: &str) -> Option<Cow<'_, str>> {
        let mut all = form_urlencoded::parse(self.0.as_bytes());
        all.find_map(|(name, value)| (name == wanted && !value.is_empty()).then_some(value))
    }
}

fn filter(query: &QueryString<'_>) -> Result<RequestFilter, Refusal> {
    let state = query.get("state").unwrap_or_default();
    let state = StateFilter::parse(&state)
        .ok_or_else(|| Refusal::bad(format!("unknown state {state}: give {}", StateFilter::NAMES)))?;
    let rule = query.get("rule").map(|rule| {
        DelayReason::parse(&rule)
            .ok_or_else(|| Refusal::bad(format!("unknown rule {rule}: give {}", DelayReason::NAMES)))
    });
    let after = query.get("after").map(|after| {
        Cursor::parse(&after)
            .ok_or_else(|| Refusal::bad(format!("{after} is not the `next` of an earlier answer")))
    });
    let limit = query.get("limit").map(|limit| {
        let number = limit.parse().ok().filter(|limit| (1..=MOST).contains(limit));
        number.ok_or_else(|| Refusal::bad(format!("limit {limit} is not from 1 to {MOST}")))
    });
    Ok(RequestFilter {
        state,
        rule: rule.transpose()?,
        contains: query.get("contains").map(Cow::into_owned),
        after: after.transpose()?,
        limit: limit.transpose()?.unwrap_or(LIMIT),
    })
}

fn json(value: &impl Serialize) -> HttpResponse {
    match serde_json::to_vec(value) {
        Ok(body) => {
            let mut response = text(StatusCode::OK, body);
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(error) => {
            text(StatusCode::INTERNAL_SERVER_ERROR, format!("the answer cannot be serialised: {error}\n"))
        }
    }
}

fn whole(response: HttpResponse) -> ServerResponse {
    response.map(ResponseBody::from)
}
