//! Checks requests against the RBAC roles in manifests, and reports unused permissions.

mod request_attributes;
mod role_manifests;
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

use http::{Request, Response, StatusCode, request::Parts};
use kube::client::Body;
use kube_apimachinery::rbac::PolicyRule;
use serde_json::json;

pub(crate) use self::request_attributes::RequestAttributes;
pub use self::role_manifests::ManifestError;
use self::rules::permission_names;

/// The permissions that the roles in manifests grant, and a record of which ones were used.
///
/// The client of an [`Environment`](crate::Environment) may do everything. A test that runs an operator with its own manifests
/// shows that they grant enough permissions, and no more than needed:
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
/// let client = rights.client(env.client()); // the operator's client
///
/// Api::<Pod>::all(client.clone()).list(&ListParams::default()).await?;
/// assert!(Api::<Secret>::all(client).list(&ListParams::default()).await.is_err());
/// assert_eq!(rights.unused(), ["watch pods"]);
/// # Ok(())
/// # }
/// ```
///
/// Rules are evaluated as in RBAC, for a single account: a role counts if any binding refers to it, whatever its subjects
/// are. Roles outside of the manifests grant nothing, and aggregated roles have no rules. The default permissions of every
/// authenticated user are granted in addition: reading discovery, version and health endpoints, and reviewing one's own
/// permissions.
#[derive(Clone)]
pub struct Rights {
    grants: Arc<Vec<Grant>>,
    used: Arc<Mutex<BTreeSet<String>>>,
}

/// A rule and its scope.
struct Grant {
    rule: PolicyRule,
    /// `None` for all namespaces.
    namespace: Option<String>,
}

impl Rights {
    /// Reads the roles and bindings in `text`, which can hold several YAML documents. Other kinds are skipped. Objects without a
    /// namespace are placed in `namespace`.
    ///
    /// # Errors
    ///
    /// `text` is not YAML of Kubernetes objects, or a role or binding is invalid.
    pub fn of_manifests(text: &str, namespace: &str) -> Result<Self, ManifestError> {
        let grants = role_manifests::grants(text, namespace)?;
        Ok(Self { grants: Arc::new(grants), used: Arc::default() })
    }

    /// Returns a client that sends permitted requests and answers all others with 403.
    #[must_use]
    pub fn client(&self, client: kube::Client) -> kube::Client {
        let namespace = client.default_namespace().to_owned();
        kube::Client::new(Restricted { rights: self.clone(), client }, namespace)
    }

    /// Returns the response of 403 to a request that is not permitted, and `None` if it is permitted. For transports other than
    /// [`client`](Self::client).
    #[must_use]
    pub fn refusal(&self, request: &Parts) -> Option<Response<Vec<u8>>> {
        let attributes = RequestAttributes::of(request);
        if self.allows(&attributes) {
            return None;
        }
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": attributes.refusal(), "reason": "Forbidden", "code": 403,
        });
        let mut response = Response::new(status.to_string().into_bytes());
        *response.status_mut() = StatusCode::FORBIDDEN;
        Some(response)
    }

    /// Permissions that are granted and were not used, sorted by their text: `delete secrets`, `get /metrics`,
    /// `patch guestbooks.example.com/status`.
    ///
    /// `update deployments.apps/finalizers` is always listed if it is granted, because no request needs it: the API server
    /// checks it when an owner reference is set.
    #[must_use]
    pub fn unused(&self) -> Vec<String> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut granted: BTreeSet<_> =
            self.grants.iter().flat_map(|grant| permission_names(&grant.rule)).collect();
        granted.retain(|right| !used.contains(right));
        granted.into_iter().collect()
    }

    /// Returns whether a request is permitted, and records the permissions that it uses.
    fn allows(&self, attributes: &RequestAttributes) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut allowed =
            PolicyRule::of_authenticated_users().iter().any(|rule| rule.allows(&attributes.action()));
        // No early return: every grant that permits the request counts as used.
        for grant in self.grants.iter() {
            let action = attributes.action();
            let in_scope = grant.namespace.as_ref().is_none_or(|namespace| namespace == action.namespace());
            if in_scope && let Some(right) = rules::permission_for(&grant.rule, attributes) {
                used.insert(right);
                allowed = true;
            }
        }
        allowed
    }
}

/// Transport that sends permitted requests only.
struct Restricted {
    rights: Rights,
    client: kube::Client,
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
        if let Some(refusal) = self.rights.refusal(&head) {
            return Box::pin(async { Ok(refusal.map(Body::from)) });
        }
        let client = self.client.clone();
        Box::pin(async move { client.send(Request::from_parts(head, body)).await })
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given: BTreeSet<_> = self.grants.iter().flat_map(|grant| permission_names(&grant.rule)).collect();
        f.debug_struct("Rights").field("given", &given).finish_non_exhaustive()
    }
}
