//! Refusal of requests that no registration declares, before they are sent.

use std::{
    collections::BTreeSet,
    pin::Pin,
    sync::{Arc, LazyLock},
    task::{Context, Poll},
};

use http::{Request, Response};
use kube::client::Body;
use kube_apimachinery::rbac::{Action, OwnedAction, PolicyRule, ResourceAction};
use parking_lot::Mutex;
use tower_service::Service;

use super::{call::Call, declared_rights};
use crate::rights::{DeclarationLog, Declarations};

/// End of the message of a refused request.
pub(super) const NOT_SENT: &str = "the operator did not send the request";

/// Most different requests that are recorded.
const MAX_RECORDED: usize = 100;

/// Rules that need no declaration.
static EVERYBODY: LazyLock<[PolicyRule; 3]> = LazyLock::new(PolicyRule::of_everybody);

/// Check of requests against the rights that the program declares, by the evaluator of API servers.
#[derive(Debug)]
pub(crate) struct DeclaredOnly {
    declared: Arc<DeclarationLog>,
    /// Name of the operator.
    operator: Arc<str>,
    /// Namespace in which the operator runs.
    namespace: String,
    /// Refused requests with advice, at most [`MAX_RECORDED`].
    refused: Mutex<BTreeSet<String>>,
}

impl DeclaredOnly {
    pub(crate) fn new(declared: Arc<DeclarationLog>, operator: Arc<str>, namespace: &str) -> Self {
        Self { declared, operator, namespace: namespace.to_owned(), refused: Mutex::default() }
    }

    /// Removes and returns the requests that were refused, each with the line that declares it.
    pub(crate) fn take_refused(&self) -> Vec<String> {
        std::mem::take(&mut *self.refused.lock()).into_iter().collect()
    }

    /// Returns the response to a request that nothing declares; `None` for other requests.
    fn refusal<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        let uri = request.uri();
        let action =
            OwnedAction::of_request(request.method().as_str(), uri.path(), uri.query().unwrap_or_default());
        let action = action.as_action();
        let declarations = self.declared.all();
        let is_declared = declarations.iter().any(|one| one.right.allows(&action, &self.namespace));
        if is_declared || EVERYBODY.iter().any(|rule| rule.allows(&action)) {
            return None;
        }
        let call = request.extensions().get::<Call>();
        let advice = advice(call, &action, &self.operator, &declarations);
        // The client adds the advice to the errors of its own calls. Other requests have it in the message.
        let reason = match call {
            Some(_) => NOT_SENT.to_owned(),
            None => format!("{advice}; {NOT_SENT}"),
        };
        let mut refused = self.refused.lock();
        if refused.len() < MAX_RECORDED {
            refused.insert(format!("{}: {advice}", brief(&action)));
        }
        drop(refused);
        let error = action.forbidden(&self.operator, &reason);
        let mut response = Response::new(Body::from(error.to_json().to_string().into_bytes()));
        *response.status_mut() = http::StatusCode::FORBIDDEN;
        Some(response)
    }
}

/// The line that declares a request. `call` is known for requests of this client.
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
        format!("no registration declares this right: add {line} and render the manifests again")
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
    match action {
        Action::Path { verb, path } => format!("{verb} {path}"),
        Action::Resource(ResourceAction { verb, group, resource, subresource, namespace, .. }) => {
            let dot = if group.is_empty() { "" } else { "." };
            let slash = if subresource.is_empty() { "" } else { "/" };
            let scope = if namespace.is_empty() { String::new() } else { format!(" in {namespace}") };
            format!("{verb} {resource}{dot}{group}{slash}{subresource}{scope}")
        }
    }
}

/// Wraps `kube` so that `check` answers requests that no registration declares.
pub(in crate::client) fn declared_only(kube: kube::Client, check: Arc<DeclaredOnly>) -> kube::Client {
    let namespace = kube.default_namespace().to_owned();
    kube::Client::new(Checked { kube, check }, namespace)
}

struct Checked {
    kube: kube::Client,
    check: Arc<DeclaredOnly>,
}

impl Service<Request<Body>> for Checked {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(())) // `send` waits until `kube` is ready
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if let Some(refusal) = self.check.refusal(&request) {
            return Box::pin(async { Ok(refusal) });
        }
        let kube = self.kube.clone();
        Box::pin(async move { kube.send(request).await })
    }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::rights::{Declaration, Right, ScopeOf, Verb};

    fn check(rights: impl IntoIterator<Item = Right>) -> DeclaredOnly {
        let log = DeclarationLog::default();
        for right in rights {
            let scope = ScopeOf::Fixed(right.scope.clone());
            log.record(Declaration::new(right, "needs", Location::caller()), &scope);
        }
        DeclaredOnly::new(Arc::new(log), Arc::from("guestbook"), "own")
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
            let refusal = check([right.clone()]).refusal(&request(request_text, None));
            assert_eq!(refusal.is_none(), passes, "{right} {request_text}");
        }
    }

    #[test]
    fn a_refusal_is_recorded_once_with_the_line_to_add() {
        let check = check([]);
        for name in ["a", "b"] {
            let call = Call::about_object::<ConfigMap>(Verb::Apply, "shop", name);
            let path = format!("PATCH /api/v1/namespaces/shop/configmaps/{name}");
            let refusal = check.refusal(&request(&path, Some(call))).expect("it is refused");
            assert_eq!(refusal.status(), 403);
        }
        let scale = "PUT /apis/apps/v1/namespaces/shop/deployments/a/scale";
        for text in [scale, "GET /metrics"] {
            assert!(check.refusal(&request(text, None)).is_some());
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
        for number in 0..2 * MAX_RECORDED {
            let text = format!("GET /api/v1/namespaces/n{number}/configmaps");
            assert!(check.refusal(&request(&text, None)).is_some());
        }
        assert_eq!(check.take_refused().len(), MAX_RECORDED);
    }
}
