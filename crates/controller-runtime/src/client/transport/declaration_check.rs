//! Check of requests against the rights that the program declares, before they are sent.

use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};

use http::{Request, Response};
use kube::client::Body;
use kube_apimachinery::rbac::{Action, OwnedAction, PolicyRule, ResourceAction};
use parking_lot::Mutex;

use super::{call::Call, client_metrics::ClientMetrics, declared_rights};
use crate::rights::{DeclarationLog, Declarations};

/// Handling of requests that need a right which no registration and no [`needs`](crate::ControllerBuilder::needs) declares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UndeclaredRequests {
    /// They are sent, and the API server decides.
    #[default]
    Send,
    /// They are sent, counted in `controller_runtime_undeclared_requests_total`, and logged with the line that declares them: once for each
    /// verb, resource and line of the program, at most 100 times.
    Report,
    /// They are counted, and fail before they are sent, with code 403 and the line that declares them. When the manager stops, its run fails
    /// with [`ManagerError::UndeclaredRequests`](crate::manager::ManagerError::UndeclaredRequests). Meant for tests and development.
    Refuse,
}

/// End of the message of a refused request.
pub(super) const NOT_SENT: &str = "the operator did not send the request";

/// Most different requests that are recorded or logged.
const MAX_REPORTED: usize = 100;

/// Rules of the group `system:authenticated`, which need no declaration.
static AUTHENTICATED_USERS: LazyLock<[PolicyRule; 3]> = LazyLock::new(PolicyRule::of_authenticated_users);

/// Check of requests against the rights that the program declares, by the evaluator of API servers.
#[derive(Debug)]
pub(crate) struct DeclarationCheck {
    pub(crate) declared: Arc<DeclarationLog>,
    /// Name of the operator.
    pub(crate) operator: Arc<str>,
    /// Namespace in which the operator runs.
    pub(crate) namespace: String,
    pub(crate) handling: UndeclaredRequests,
    /// Refused requests with advice, or logged requests: at most [`MAX_REPORTED`].
    pub(crate) reported: Mutex<BTreeSet<String>>,
}

impl DeclarationCheck {
    /// Removes and returns the requests that were refused, each with the line that declares it.
    pub(crate) fn take_refused(&self) -> Vec<String> {
        match self.handling {
            UndeclaredRequests::Refuse => std::mem::take(&mut *self.reported.lock()).into_iter().collect(),
            UndeclaredRequests::Report | UndeclaredRequests::Send => Vec::new(),
        }
    }

    /// Counts and reports a request that no registration declares. Returns the response if it must not be sent.
    pub(super) fn refusal<B>(
        &self,
        request: &Request<B>,
        metrics: &dyn ClientMetrics,
    ) -> Option<Response<Body>> {
        let uri = request.uri();
        let action =
            OwnedAction::of_request(request.method().as_str(), uri.path(), uri.query().unwrap_or_default());
        let action = action.as_action();
        let is_declared = self.declared.allows(&action, &self.namespace);
        if is_declared || AUTHENTICATED_USERS.iter().any(|rule| rule.allows(&action)) {
            return None;
        }
        metrics.undeclared(action.verb(), &resource_of(&action));
        let call = request.extensions().get::<Call>();
        match self.handling {
            UndeclaredRequests::Refuse => Some(self.refuse(&action, call)),
            UndeclaredRequests::Report | UndeclaredRequests::Send => {
                self.log(&action, call);
                None
            }
        }
    }

    fn refuse(&self, action: &Action<'_>, call: Option<&Call>) -> Response<Body> {
        let advice = self.advice(action, call);
        // The client adds the advice to the errors of its own calls. Other requests have it in the message.
        let reason = match call {
            Some(_) => NOT_SENT.to_owned(),
            None => format!("{advice}; {NOT_SENT}"),
        };
        // Called for its effect: `take_refused` returns the line at the end of the run.
        self.is_new(format!("{}: {advice}", brief(action)));
        let error = action.forbidden(&self.operator, &reason);
        let mut response = Response::new(Body::from(error.to_json().to_string().into_bytes()));
        *response.status_mut() = http::StatusCode::FORBIDDEN;
        response
    }

    fn log(&self, action: &Action<'_>, call: Option<&Call>) {
        let place = call.and_then(Call::place);
        if self.is_new(format!("{} {} {place:?}", action.verb(), resource_of(action))) {
            let (request, advice) = (brief(action), self.advice(action, call));
            tracing::warn!(%request, "the operator sends a request without a declaration: {advice}");
        }
    }

    fn advice(&self, action: &Action<'_>, call: Option<&Call>) -> String {
        advice(call, action, &self.operator, &self.declared.all())
    }

    /// Adds a line to the report. Returns `false` if the report has the line already, or is full.
    fn is_new(&self, line: String) -> bool {
        let mut reported = self.reported.lock();
        reported.len() < MAX_REPORTED && reported.insert(line)
    }
}

/// Returns advice with the line that declares the request. `call` is known for requests of this client.
fn advice(call: Option<&Call>, action: &Action<'_>, operator: &str, declarations: &Declarations) -> String {
    let message = action.forbidden(operator, NOT_SENT).message().to_owned();
    let of_call = call.and_then(|call| declared_rights::advice(call, &message, declarations));
    of_call.unwrap_or_else(|| {
        let verb = verb_in_code(action.verb());
        let line = match action {
            Action::Path { path, .. } => format!("manager.needs_url({path:?}, [{verb}])"),
            Action::Resource(ResourceAction { group, resource, subresource, .. }) => {
                let below = match *subresource {
                    "" => String::new(),
                    name => format!(".subresource({name:?})"),
                };
                format!(".needs_right(Right::of_resource({group:?}, {resource:?}, [{verb}]){below})")
            }
        };
        let problem = "no registration declares this right";
        declared_rights::with_place(call, format!("{problem}: add {line} and render the manifests again"))
    })
}

/// The [`Verb`](crate::Verb) for a verb of RBAC or a method of HTTP.
fn verb_in_code(verb: &str) -> &'static str {
    match verb {
        "list" => "Verb::List",
        "watch" => "Verb::Watch",
        "create" | "post" => "Verb::Create",
        "update" | "put" => "Verb::Update",
        "patch" => "Verb::Patch",
        "delete" => "Verb::Delete",
        "deletecollection" => "Verb::DeleteCollection",
        _ => "Verb::Get",
    }
}

/// Formats as `delete configmaps in shop`.
fn brief(action: &Action<'_>) -> String {
    let (verb, resource) = (action.verb(), resource_of(action));
    match action {
        Action::Path { path, .. } => format!("{verb} {path}"),
        Action::Resource(ResourceAction { namespace: "", .. }) => format!("{verb} {resource}"),
        Action::Resource(ResourceAction { namespace, .. }) => format!("{verb} {resource} in {namespace}"),
    }
}

/// Formats as `deployments.apps/scale`; empty for paths outside of the resource API.
fn resource_of(action: &Action<'_>) -> String {
    let Action::Resource(ResourceAction { group, resource, subresource, .. }) = action else {
        return String::new();
    };
    let dot = if group.is_empty() { "" } else { "." };
    let slash = if subresource.is_empty() { "" } else { "/" };
    format!("{resource}{dot}{group}{slash}{subresource}")
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::client::transport::client_metrics::NoMetrics;
    use crate::rights::{Declaration, Right, ScopeOf, Verb};

    fn check(rights: impl IntoIterator<Item = Right>) -> DeclarationCheck {
        let log = DeclarationLog::default();
        for right in rights {
            let scope = ScopeOf::Fixed(right.scope.clone());
            log.record(Declaration::new(right, "needs", Location::caller()), &scope);
        }
        DeclarationCheck {
            declared: Arc::new(log),
            operator: Arc::from("guestbook"),
            namespace: "own".to_owned(),
            handling: UndeclaredRequests::Refuse,
            reported: Mutex::default(),
        }
    }

    fn request(text: &str, call: Option<Call>) -> Request<()> {
        let (method, uri) = text.split_once(' ').expect("method and path");
        let mut request = Request::builder().method(method).uri(uri).body(()).expect("a request");
        if let Some(call) = call {
            request.extensions_mut().insert(call);
        }
        request
    }

    #[test]
    fn declared_requests_pass_in_their_scope() {
        let right = || Right::on::<ConfigMap>([Verb::Delete]);
        for (right, request_text, passes) in [
            (right(), "DELETE /api/v1/namespaces/shop/configmaps/a", true),
            (right(), "PATCH /api/v1/namespaces/shop/configmaps/a", false),
            (right(), "DELETE /api/v1/namespaces/shop/secrets/a", false),
            (right().subresource("scale"), "DELETE /api/v1/namespaces/shop/configmaps/a", false),
            (right().subresource("scale"), "DELETE /api/v1/namespaces/shop/configmaps/a/scale", true),
            (right().in_namespaces(["shop"]), "DELETE /api/v1/namespaces/shop/configmaps/a", true),
            (right().in_namespaces(["blog"]), "DELETE /api/v1/namespaces/shop/configmaps/a", false),
            (right().in_own_namespace(), "DELETE /api/v1/namespaces/shop/configmaps/a", false),
            (right().in_own_namespace(), "DELETE /api/v1/namespaces/own/configmaps/a", true),
            (right().named(["a"]), "DELETE /api/v1/namespaces/shop/configmaps/a", true),
            (right().named(["b"]), "DELETE /api/v1/namespaces/shop/configmaps/a", false),
            (Right::of_url("/metrics", [Verb::Get]), "GET /metrics", true),
            (Right::of_url("/metrics", [Verb::Get]), "GET /logs", false),
            (right(), "GET /apis/apps/v1", true),
            (right(), "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", true),
        ] {
            let refusal = check([right.clone()]).refusal(&request(request_text, None), &NoMetrics);
            assert_eq!(refusal.is_none(), passes, "{right} {request_text}");
        }
    }

    #[test]
    fn a_refusal_is_recorded_once_with_the_line_to_add() {
        let check = check([]);
        for name in ["a", "b"] {
            let call = Call::about_object::<ConfigMap>(Verb::Apply, "shop", name);
            let path = format!("PATCH /api/v1/namespaces/shop/configmaps/{name}");
            let refusal = check.refusal(&request(&path, Some(call)), &NoMetrics).expect("it is refused");
            assert_eq!(refusal.status(), 403);
        }
        let scale = "PUT /apis/apps/v1/namespaces/shop/deployments/a/scale";
        for text in [scale, "GET /metrics"] {
            assert!(check.refusal(&request(text, None), &NoMetrics).is_some());
        }
        let problem = "no registration declares this right: add";
        let expected = [
            format!(
                "get /metrics: {problem} manager.needs_url(\"/metrics\", [Verb::Get]) and render the manifests again"
            ),
            format!(
                "patch configmaps in shop: {problem} .needs::<ConfigMap>([Verb::Apply]) to the controller's builder and render the manifests again"
            ),
            format!(
                "update deployments.apps/scale in shop: {problem} .needs_right(Right::of_resource(\"apps\", \"deployments\", \
                 [Verb::Update]).subresource(\"scale\")) and render the manifests again"
            ),
        ];
        assert_eq!(check.take_refused(), expected);
        assert_eq!(check.take_refused(), Vec::<String>::new());
    }

    #[test]
    fn the_record_is_bounded() {
        let check = check([]);
        for number in 0..2 * MAX_REPORTED {
            let text = format!("GET /api/v1/namespaces/n{number}/configmaps");
            assert!(check.refusal(&request(&text, None), &NoMetrics).is_some());
        }
        assert_eq!(check.take_refused().len(), MAX_REPORTED);
    }
}
