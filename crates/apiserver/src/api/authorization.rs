//! Authorization: the stage after authentication.
//!
//! Authenticated users may do everything, as with kube-apiserver's mode `AlwaysAllow`. Anonymous users may only
//! read health and version.

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use http::Method;
use http::request::Parts;
use kube_apimachinery::status::ApiError;

use crate::request::info::RequestInfo;
use crate::state::ClusterState;
use crate::user::{ANONYMOUS, UserInfo};

/// Paths that the role `system:public-info-viewer` of every cluster shows to all users.
const PUBLIC: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// Decides which requests are allowed.
pub(crate) trait Authorizer: Send + Sync {
    /// Refuses a request that its user may not send. The decision may depend on objects, such as roles.
    ///
    /// # Errors
    /// 403 with the action that the user may not perform.
    fn authorize<'a>(
        &'a self,
        cluster: &'a ClusterState,
        user: &'a UserInfo,
        head: &'a Parts,
    ) -> BoxFuture<'a, Result<(), ApiError>>;
}

/// Allows everything to authenticated users.
pub(crate) struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize<'a>(
        &'a self,
        _cluster: &'a ClusterState,
        user: &'a UserInfo,
        head: &'a Parts,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        ready(allow_authenticated(user, head)).boxed()
    }
}

/// Decides for [`AlwaysAllow`].
pub(crate) fn allow_authenticated(user: &UserInfo, head: &Parts) -> Result<(), ApiError> {
    if user.name == ANONYMOUS { only_public(user, head) } else { Ok(()) }
}

/// Refuses paths that are not public, with the message of an authorizer without a matching rule.
fn only_public(user: &UserInfo, head: &Parts) -> Result<(), ApiError> {
    let path = head.uri.path();
    if head.method == Method::GET && PUBLIC.contains(&path) {
        return Ok(());
    }
    let user = &user.name;
    let Some(facts) = RequestInfo::of(head) else {
        let verb = head.method.as_str().to_ascii_lowercase();
        let message = format!("forbidden: User \"{user}\" cannot {verb} path \"{path}\"");
        return Err(ApiError::new(403, "Forbidden", message).with_details("", "", ""));
    };
    let RequestInfo { verb, group, name, .. } = &facts;
    let mut what = facts.resource.clone();
    if !group.is_empty() {
        what = format!("{what}.{group}");
    }
    if !name.is_empty() {
        what = format!("{what} \"{name}\"");
    }
    let mut resource = facts.resource.clone();
    if !facts.subresource.is_empty() {
        // Below `proxy`, the rest of the path is not part of the subresource's name.
        resource.extend(["/", facts.subresource.split('/').next().unwrap_or_default()]);
    }
    // A request for a namespace object counts as being in that namespace.
    let is_namespace = group.is_empty() && facts.resource == "namespaces";
    let namespace = if is_namespace { name } else { &facts.namespace };
    let place = if namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{namespace}\"")
    };
    let message = format!(
        "{what} is forbidden: User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {place}"
    );
    Err(ApiError::new(403, "Forbidden", message).with_details(name, group, &facts.resource))
}
