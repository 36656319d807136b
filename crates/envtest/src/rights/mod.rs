//! What the roles of manifests allow, held against what a program asks for.

mod asked;
mod manifests;
mod rules;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use http::{Request, Response};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::client::Body;
use serde_json::json;

pub(crate) use self::asked::Asked;
pub use self::manifests::ManifestError;
use self::rules::named;

/// The rights that manifests give by their roles, and which of them are used.
///
/// The embedded API server lets its users do everything. A test that runs an operator under its own manifests shows that
/// these allow what it does, and that they do not allow more:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::{Pod, Secret};
/// use kube::{Api, api::ListParams};
/// use kube_envtest::{Environment, Rights};
///
/// let manifests = r#"
/// kind: ClusterRole
/// apiVersion: rbac.authorization.k8s.io/v1
/// metadata: {name: operator}
/// rules:
/// - {apiGroups: [""], resources: [pods], verbs: [list, watch]}
/// ---
/// kind: ClusterRoleBinding
/// apiVersion: rbac.authorization.k8s.io/v1
/// metadata: {name: operator}
/// roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: operator}
/// "#;
/// let env = Environment::builder().start().await?;
/// let rights = Rights::of_manifests(manifests, "default")?;
/// let client = rights.client(env.client()); // what the operator is given
///
/// Api::<Pod>::all(client.clone()).list(&ListParams::default()).await?;
/// assert!(Api::<Secret>::all(client).list(&ListParams::default()).await.is_err());
/// assert_eq!(rights.unused(), ["watch pods"]);
/// # Ok(())
/// # }
/// ```
///
/// Rules are evaluated as RBAC does, for one account: a role counts if a binding names it, whoever the subject is. Roles that
/// are not among the manifests give nothing, and aggregated ones have no rules. What every user of a cluster may do is
/// allowed besides: read what kinds there are, the version and the state of health, and review the own rights.
#[derive(Clone)]
pub struct Rights {
    grants: Arc<Vec<Grant>>,
    used: Arc<Mutex<BTreeSet<String>>>,
}

/// A rule, and where it holds.
struct Grant {
    rule: PolicyRule,
    /// `None` everywhere.
    namespace: Option<String>,
}

impl Rights {
    /// The rights that `text` gives, one or more YAML documents. What is not about roles is left out; objects without a
    /// namespace are applied to `namespace`.
    ///
    /// # Errors
    ///
    /// It is no YAML of objects, or a role or binding is none.
    pub fn of_manifests(text: &str, namespace: &str) -> Result<Self, ManifestError> {
        let grants = manifests::grants(text, namespace)?;
        Ok(Self { grants: Arc::new(grants), used: Arc::default() })
    }

    /// `client`, as far as the rights go: other requests are refused with 403, and not sent.
    #[must_use]
    pub fn client(&self, client: kube::Client) -> kube::Client {
        let namespace = client.default_namespace().to_owned();
        kube::Client::new(Restricted { rights: self.clone(), client }, namespace)
    }

    /// What may be done and has not been, in order: `delete secrets`, `get /metrics`,
    /// `patch guestbooks.example.com/status`.
    ///
    /// `update deployments.apps/finalizers` is among it wherever it is given: no request asks for it; the API server does,
    /// of who makes owner references.
    #[must_use]
    pub fn unused(&self) -> Vec<String> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut given: BTreeSet<_> = self.grants.iter().flat_map(|grant| named(&grant.rule)).collect();
        given.retain(|right| !used.contains(right));
        given.into_iter().collect()
    }

    /// Whether a request is allowed; if so, notes by what.
    fn allows(&self, asked: &Asked) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut allowed = rules::of_everybody().iter().any(|rule| rules::grant(rule, asked).is_some());
        for grant in self.grants.iter() {
            let here = grant.namespace.as_ref().is_none_or(|namespace| *namespace == asked.namespace);
            if here && let Some(right) = rules::grant(&grant.rule, asked) {
                used.insert(right);
                allowed = true;
            }
        }
        allowed
    }
}

/// A client that sends what is allowed.
struct Restricted {
    rights: Rights,
    client: kube::Client,
}

impl Restricted {
    fn refused(asked: &Asked) -> Response<Body> {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": asked.refusal(), "reason": "Forbidden", "code": 403,
        });
        let mut response = Response::new(Body::from(status.to_string().into_bytes()));
        *response.status_mut() = http::StatusCode::FORBIDDEN;
        response
    }
}

impl tower_service::Service<Request<Body>> for Restricted {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (head, body) = request.into_parts();
        let asked = Asked::of(&head);
        if !self.rights.allows(&asked) {
            let refused = Self::refused(&asked);
            return Box::pin(async { Ok(refused) });
        }
        let client = self.client.clone();
        Box::pin(async move { client.send(Request::from_parts(head, body)).await })
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given: BTreeSet<_> = self.grants.iter().flat_map(|grant| named(&grant.rule)).collect();
        f.debug_struct("Rights").field("given", &given).finish_non_exhaustive()
    }
}
