//! What the roles of manifests allow, held against what a program asks for.

use std::{
    collections::BTreeSet,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use http::{Method, Request, Response, request::Parts};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use kube::{client::Body, core::DynamicObject};
use serde_json::json;

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
/// Everybody may besides read what kinds there are, as on every cluster. Rules are evaluated as RBAC does, for one account:
/// a role counts if a binding names it, whoever the subject is. Aggregated roles have no rules.
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

/// A text is no manifest.
#[derive(Debug, thiserror::Error)]
#[error("it is no YAML of Kubernetes objects: {0}")]
pub struct ManifestError(String);

impl Rights {
    /// The rights that `text` gives, one or more YAML documents. What is not about roles is left out; objects without a
    /// namespace are applied to `namespace`.
    ///
    /// # Errors
    ///
    /// It is no YAML of objects, or a role is none.
    pub fn of_manifests(text: &str, namespace: &str) -> Result<Self, ManifestError> {
        let wrong = |error: &dyn fmt::Display| ManifestError(error.to_string());
        let objects: Vec<DynamicObject> = serde_saphyr::from_multiple(text).map_err(|error| wrong(&error))?;
        let of_kind = |kind: &str| {
            let is_kind =
                |object: &&DynamicObject| object.types.as_ref().is_some_and(|types| types.kind == kind);
            objects.iter().filter(is_kind).cloned().collect::<Vec<_>>()
        };
        let parsed = |error: kube::core::dynamic::ParseDynamicObjectError| wrong(&error);
        let mut grants = Vec::new();
        let mut grant = |rules: Option<Vec<PolicyRule>>, namespace: Option<&str>| {
            let grant = |rule| Grant { rule, namespace: namespace.map(ToOwned::to_owned) };
            grants.extend(rules.into_iter().flatten().map(grant));
        };
        let place = |object: &DynamicObject| {
            object.metadata.namespace.clone().unwrap_or_else(|| namespace.to_owned())
        };
        let mut bindings = Vec::new();
        for object in of_kind("ClusterRoleBinding") {
            let binding: ClusterRoleBinding = object.try_parse().map_err(parsed)?;
            bindings.push((binding.role_ref, None));
        }
        for object in of_kind("RoleBinding") {
            let place = place(&object);
            let binding: RoleBinding = object.try_parse().map_err(parsed)?;
            bindings.push((binding.role_ref, Some(place)));
        }
        for object in of_kind("ClusterRole") {
            let role: ClusterRole = object.try_parse().map_err(parsed)?;
            for (of, place) in &bindings {
                if of.kind == "ClusterRole" && Some(&of.name) == role.metadata.name.as_ref() {
                    grant(role.rules.clone(), place.as_deref());
                }
            }
        }
        for object in of_kind("Role") {
            let home = place(&object);
            let role: Role = object.try_parse().map_err(parsed)?;
            for (of, place) in &bindings {
                let is_here = place.as_ref() == Some(&home);
                if is_here && of.kind == "Role" && Some(&of.name) == role.metadata.name.as_ref() {
                    grant(role.rules.clone(), Some(&home));
                }
            }
        }
        Ok(Self { grants: Arc::new(grants), used: Arc::default() })
    }

    /// `client`, as far as the rights go: other requests are refused with 403, and not sent.
    #[must_use]
    pub fn client(&self, client: kube::Client) -> kube::Client {
        let namespace = client.default_namespace().to_owned();
        kube::Client::new(Restricted { rights: self.clone(), client }, namespace)
    }

    /// What may be done and has not been, in order: `delete secrets`, `patch guestbooks.example.com/status`.
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
        let mut allowed = false;
        for grant in self.grants.iter() {
            let here = grant.namespace.as_ref().is_none_or(|namespace| *namespace == asked.namespace);
            if here && let Some(right) = asked.granted_by(&grant.rule) {
                used.insert(right);
                allowed = true;
            }
        }
        allowed
    }
}

/// Each verb of each resource that a rule names.
fn named(rule: &PolicyRule) -> Vec<String> {
    let (groups, resources) = (rule.api_groups.iter().flatten(), rule.resources.iter().flatten());
    let resources: Vec<_> = groups
        .flat_map(|group| resources.clone().map(move |resource| right_about(group, resource)))
        .collect();
    rule.verbs.iter().flat_map(|verb| resources.iter().map(move |about| format!("{verb} {about}"))).collect()
}

/// `pods`, `deployments.apps`, `deployments.apps/status`.
fn right_about(group: &str, resource: &str) -> String {
    let (plural, below) = resource.split_once('/').map_or((resource, None), |(p, b)| (p, Some(b)));
    let dot = if group.is_empty() { "" } else { "." };
    let slash = if below.is_some() { "/" } else { "" };
    format!("{plural}{dot}{group}{slash}{}", below.unwrap_or_default())
}

/// A request, as RBAC sees it.
struct Asked {
    verb: &'static str,
    group: String,
    /// With a subresource: `deployments/status`.
    resource: String,
    namespace: String,
    name: String,
}

impl Asked {
    /// `None` for what is not about a resource.
    fn of(head: &Parts) -> Option<Self> {
        let mut path = head.uri.path().trim_matches('/').split('/');
        let group = match path.next()? {
            "api" => "",
            "apis" => path.next()?,
            _ => return None,
        };
        let _version = path.next()?;
        let mut rest: Vec<_> = path.collect();
        let mut namespace = "";
        if rest.len() >= 2 && rest[0] == "namespaces" {
            namespace = rest[1];
            // The object of that name itself, or below it what is in it.
            if rest.len() > 2 && !matches!(rest[2], "status" | "finalize") {
                rest.drain(..2);
            }
        }
        let (plural, name, below) = (rest.first()?, rest.get(1).copied(), rest.get(2));
        let query = head.uri.query().unwrap_or_default();
        let watches = query.split('&').any(|part| matches!(part, "watch=true" | "watch=1"));
        let verb = match (&head.method, name) {
            (&Method::GET, None) if watches => "watch",
            (&Method::GET, None) => "list",
            (&Method::GET, Some(_)) => "get",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, None) => "deletecollection",
            (&Method::DELETE, Some(_)) => "delete",
            _ => return None,
        };
        Some(Self {
            verb,
            group: group.to_owned(),
            resource: below.map_or_else(|| (*plural).to_owned(), |below| format!("{plural}/{below}")),
            namespace: namespace.to_owned(),
            name: name.unwrap_or_default().to_owned(),
        })
    }

    /// The right of the rule that allows it, if one does.
    fn granted_by(&self, rule: &PolicyRule) -> Option<String> {
        let covers = |all: &Option<Vec<String>>, wanted: &str| {
            all.iter().flatten().find(|known| *known == "*" || *known == wanted).cloned()
        };
        let verb = covers(&Some(rule.verbs.clone()), self.verb)?;
        let group = covers(&rule.api_groups, &self.group)?;
        let resource = covers(&rule.resources, &self.resource)?;
        let names = rule.resource_names.as_deref().unwrap_or_default();
        (names.is_empty() || names.contains(&self.name))
            .then(|| format!("{verb} {}", right_about(&group, &resource)))
    }

    /// In RBAC's words.
    fn refusal(&self) -> String {
        let Self { verb, group, resource, namespace, .. } = self;
        let place = match &**namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        let what = right_about(group, resource.split('/').next().unwrap_or_default());
        format!(
            "{what} is forbidden: the manifests do not allow to {verb} resource \"{resource}\" in API group \"{group}\" {place}"
        )
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
        if let Some(asked) = Asked::of(&head)
            && !self.rights.allows(&asked)
        {
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
