//! Explanations of why a request is not reconciled, in Rust and at the metrics server.

use std::{
    borrow::Cow,
    sync::{Arc, Weak},
};

use http::{HeaderValue, Method, StatusCode, header::CONTENT_TYPE};
use serde::Serialize;
use tokio::time::Instant;

use super::Manager;
use crate::{
    request_queue::{Explain, Explanation, Overview},
    runnable::Runnables,
    serving::{HttpRequest, HttpResponse, text},
};

/// Path of explanations on the metrics server.
pub(super) const PATH: &str = "/explain";

/// Reason why there is no explanation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// The manager has no controller of that name.
    #[error("there is no controller {name}: the manager has {}", list(known))]
    UnknownController {
        /// The requested name.
        name: String,
        /// Names of the manager's controllers.
        known: Vec<String>,
    },
    /// The controller has no such request, and had none recently.
    #[error(
        "controller {controller} has no request {request} in its queue or among the 1024 that ran last: {}",
        proposal(near)
    )]
    UnknownRequest {
        /// Name of the controller.
        controller: String,
        /// The request as it was given.
        request: String,
        /// At most three requests of the controller with a similar name.
        near: Vec<String>,
    },
}

impl Manager {
    /// Explains why `request` is not being reconciled by the controller of this name: its state in the queue, the rule that delays
    /// it, the events that led to it, and the outcomes of its last runs.
    ///
    /// `request` is its `Debug` form: `Deployment default/web`, or `default/web` for short. With the controller's
    /// [`ControllerHandle`](crate::controller::ControllerHandle) you can pass the request itself. If metrics are served to
    /// [authorized clients](crate::serving::AllowedTo::Authorized), the metrics server answers the same at `/explain`:
    ///
    /// ```console
    /// $ curl -H "Authorization: Bearer $TOKEN" "https://$HOST:8443/explain?controller=guestbook&request=default/mine"
    /// {"controller":"guestbook","request":"Guestbook default/mine","state":{"waiting":{"until":"…","left":…
    /// $ curl -H "Authorization: Bearer $TOKEN" "https://$HOST:8443/explain?controller=guestbook&request=default/mine&format=text"
    /// Guestbook default/mine of controller guestbook waits 5ms more, until …: the rate limiter set the delay
    /// $ curl -H "Authorization: Bearer $TOKEN" "https://$HOST:8443/explain?format=text"
    /// controller guestbook: 0 running, 0 queued, 1 waiting, 1 failing
    ///   Guestbook default/mine: no luck
    /// ```
    ///
    /// The token needs the verb `get` on the `nonResourceURLs` `/explain`. At `/explain/` there is a page for browsers, which asks for a
    /// token, and below `/explain/v1` a JSON API; they need `/explain/*`. `docs/book/src/guides/explain.md` describes both.
    ///
    /// An [unmanaged](crate::manager::UnmanagedController) controller is included from when it is made until it is dropped.
    ///
    /// # Errors
    ///
    /// There is no such controller, or it has no such request.
    pub fn explain(&self, controller: &str, request: &str) -> Result<Explanation, ExplainError> {
        explain(&self.shared.registry, controller, request)
    }

    /// Names of the controllers that reconcile even while another process holds the lease, for simulations. None without leader election.
    #[doc(hidden)]
    #[must_use]
    pub fn controllers_on_standby(&self) -> Vec<String> {
        if self.shared.election.is_none() {
            return Vec::new();
        }
        let controllers = self.shared.registry.controllers().into_iter();
        let on_standby = controllers.filter(|(_, controller)| !controller.needs_leader_election());
        on_standby.map(|(name, _)| name.to_string()).collect()
    }

    /// Summary of the requests of each controller, including unmanaged ones, ordered by name.
    #[must_use]
    pub fn overview(&self) -> Vec<Overview> {
        overview(&self.shared.registry)
    }

    /// Latest time up to `limit` at which a request that waits in a controller is due, for simulations. Visits all queues.
    #[doc(hidden)]
    #[must_use]
    pub fn last_due(&self, limit: Instant) -> Option<Instant> {
        let controllers = self.shared.registry.controllers();
        controllers.iter().filter_map(|(_, controller)| controller.last_due(limit)).max()
    }
}

fn overview(registry: &Runnables) -> Vec<Overview> {
    let mut all: Vec<_> =
        registry.controllers().iter().map(|(_, controller)| controller.overview()).collect();
    // The registry lists the controllers in the order in which they were added.
    all.sort_by(|one, other| one.controller.cmp(&other.controller));
    all
}

fn explain(registry: &Runnables, name: &str, request: &str) -> Result<Explanation, ExplainError> {
    let controllers = registry.controllers();
    let controller = find_controller(&controllers, name)?;
    controller.explain_named(request).map_err(|near| unknown_request(name, request, near))
}

/// Explains a request like [`explain`], but yields while it searches.
pub(super) async fn explain_in_steps(
    registry: &Runnables,
    name: &str,
    request: &str,
) -> Result<Explanation, ExplainError> {
    let controllers = registry.controllers();
    let controller = find_controller(&controllers, name)?;
    controller.explain_text(request).await.map_err(|near| unknown_request(name, request, near))
}

/// Lets a request run now, and explains it.
pub(super) async fn retry(
    registry: &Runnables,
    name: &str,
    request: &str,
) -> Result<Explanation, ExplainError> {
    let controllers = registry.controllers();
    let controller = find_controller(&controllers, name)?;
    controller.retry(request).await.map_err(|near| unknown_request(name, request, near))
}

/// The controller of this name.
pub(super) fn find_controller<'c>(
    controllers: &'c [(Arc<str>, Arc<dyn Explain>)],
    name: &str,
) -> Result<&'c Arc<dyn Explain>, ExplainError> {
    let found = controllers.iter().find(|(known, _)| **known == *name).map(|(_, found)| found);
    found.ok_or_else(|| {
        let mut known: Vec<_> = controllers.iter().map(|(name, _)| name.to_string()).collect();
        known.sort();
        ExplainError::UnknownController { name: name.to_owned(), known }
    })
}

fn unknown_request(controller: &str, request: &str, near: Vec<String>) -> ExplainError {
    ExplainError::UnknownRequest { controller: controller.to_owned(), request: request.to_owned(), near }
}

/// Answers a request to [`PATH`]. The registry is held weakly, because it holds the server that calls this.
pub(super) fn answer(registry: &Weak<Runnables>, request: &HttpRequest) -> HttpResponse {
    if request.method() != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n");
    }
    let query = request.uri().query().unwrap_or_default();
    let parameter = |wanted: &str| -> Option<Cow<'_, str>> {
        form_urlencoded::parse(query.as_bytes()).find_map(|(name, value)| (name == wanted).then_some(value))
    };
    let as_text = match parameter("format").as_deref() {
        None | Some("json") => false,
        Some("text") => true,
        Some(other) => {
            return refuse(StatusCode::BAD_REQUEST, &format!("unknown format {other}: give json or text"));
        }
    };
    // The server may answer a last request while the manager is dropped.
    let Some(registry) = registry.upgrade() else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the manager has been dropped");
    };
    match (parameter("controller"), parameter("request")) {
        (Some(controller), Some(request)) => match explain(&registry, &controller, &request) {
            Ok(explanation) if as_text => text(StatusCode::OK, explanation.to_string()),
            Ok(explanation) => json(&explanation),
            Err(unknown) => refuse(StatusCode::NOT_FOUND, &unknown.to_string()),
        },
        (None, Some(_)) => {
            refuse(StatusCode::BAD_REQUEST, "the parameter controller is missing: give controller=NAME")
        }
        (controller, None) => {
            let mut all = overview(&registry);
            if let Some(name) = controller {
                all.retain(|known| known.controller == name);
                if all.is_empty() {
                    let known = overview(&registry).into_iter().map(|known| known.controller).collect();
                    let unknown = ExplainError::UnknownController { name: name.into_owned(), known };
                    return refuse(StatusCode::NOT_FOUND, &unknown.to_string());
                }
            }
            if as_text {
                text(StatusCode::OK, all.iter().map(ToString::to_string).collect::<String>())
            } else {
                json(&all)
            }
        }
    }
}

/// Response of a metrics server that does not authorize its clients. Explanations contain names and errors, so they are not
/// served there.
pub(super) fn not_for_everybody() -> HttpResponse {
    refuse(
        StatusCode::FORBIDDEN,
        "explanations are served only to clients that the API server authorizes: serve metrics with AllowedTo::Authorized",
    )
}

fn refuse(status: StatusCode, message: &str) -> HttpResponse {
    text(status, format!("{message}\n"))
}

fn json(value: &impl Serialize) -> HttpResponse {
    match serde_json::to_vec(value) {
        Ok(body) => {
            let mut response = text(StatusCode::OK, body);
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Err(error) => refuse(
            StatusCode::INTERNAL_SERVER_ERROR,
            &format!("the explanation cannot be serialised: {error}"),
        ),
    }
}

fn proposal(near: &[String]) -> String {
    if near.is_empty() {
        "no event has enqueued it, or it is spelt differently (default/web, for example)".to_owned()
    } else {
        format!("it has {}", near.join(", "))
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
