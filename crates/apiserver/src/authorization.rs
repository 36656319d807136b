//! Whether who asks may: the stage between authentication and everything else.
//!
//! Everybody who is known may do everything; that is kube-apiserver's mode `AlwaysAllow`. Those of whom nothing is known see
//! what is public.

use http::Method;
use http::request::Parts;

use crate::authentication::UserInfo;
use crate::faults::Facts;
use crate::status::ApiError;

/// Who those are of whom nothing is known.
pub(crate) const ANONYMOUS: &str = "system:anonymous";

/// What the role `system:public-info-viewer` of every cluster shows to everybody.
const PUBLIC: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// Refuses a request that its user may not send.
///
/// # Errors
/// 403 that says what the user may not do.
pub(crate) fn authorize(user: &UserInfo, head: &Parts) -> Result<(), ApiError> {
    if user.name == ANONYMOUS { only_public(user, head) } else { Ok(()) }
}

/// Refuses what is not public, in the words of an authorizer that knows no rule for it.
fn only_public(user: &UserInfo, head: &Parts) -> Result<(), ApiError> {
    let path = head.uri.path();
    if head.method == Method::GET && PUBLIC.contains(&path) {
        return Ok(());
    }
    let user = &user.name;
    let Some(facts) = Facts::of(head) else {
        let verb = head.method.as_str().to_ascii_lowercase();
        let message = format!("forbidden: User \"{user}\" cannot {verb} path \"{path}\"");
        return Err(ApiError::new(403, "Forbidden", message).with_details("", "", ""));
    };
    let Facts { verb, group, name, .. } = &facts;
    let mut what = facts.resource.clone();
    if !group.is_empty() {
        what = format!("{what}.{group}");
    }
    if !name.is_empty() {
        what = format!("{what} \"{name}\"");
    }
    let mut resource = facts.resource.clone();
    if !facts.subresource.is_empty() {
        // The rest of a path below `proxy` is not a part of the name.
        resource.extend(["/", facts.subresource.split('/').next().unwrap_or_default()]);
    }
    // A namespace is within itself.
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
