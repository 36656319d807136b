//! Plugins `MutatingAdmissionPolicy` and `ValidatingAdmissionPolicy`: expressions of policies that change or refuse requests.
//!
//! Rules, in the order in which they apply:
//!
//! - Policies and their bindings, and reviews of users and access, are never intercepted. Mutating policies do not see deletions.
//! - A policy acts through its bindings. It is evaluated once for each binding and parameter, if the rules and selectors of the policy and
//!   of the binding match the request, and the match conditions of the policy hold. With `matchPolicy: Equivalent` the expressions see the
//!   objects in the version of the policy's rule.
//! - A policy is misconfigured for a request if its parameters cannot be found, or an expression has no value. With `failurePolicy: Fail`
//!   the request is refused, otherwise this evaluation counts for nothing.
//! - Mutating policies run before mutating webhooks, one after the other. If one changes the object, the plugins of the server run once
//!   more, and so do the policies with `reinvocationPolicy: IfNeeded`. Changes have no owner in `metadata.managedFields`.
//! - Validating policies run before validating webhooks. All are evaluated; the first denial is the answer.
//!
//! Policies and bindings are evaluated in the order of their names (kube-apiserver has no fixed order), and take effect with their commit.
//! Parameters are read from the store at each request.

mod compiled_policy;
mod mutating_policies;
mod policy_binding;
mod policy_hooks;
mod policy_mutation;
mod policy_params;
mod policy_validation;
mod validating_policies;

use serde_json::Value;

use super::Attributes;
use crate::store::{Key, TypeMeta};
use kube_apimachinery::status::ApiError;

pub(super) use self::mutating_policies::{MutatingPolicies, PolicyRound};
pub(crate) use self::policy_hooks::PolicyHooks;
pub(super) use self::validating_policies::ValidatingPolicies;

/// Resources that policies never intercept, by group.
const EXCLUDED: [(&str, &[&str]); 3] = [
    (
        "admissionregistration.k8s.io",
        &[
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
        ],
    ),
    ("authentication.k8s.io", &["selfsubjectreviews", "tokenreviews"]),
    (
        "authorization.k8s.io",
        &[
            "localsubjectaccessreviews",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
            "subjectaccessreviews",
        ],
    ),
];

/// Whether policies never intercept requests for the resource.
fn is_excluded(attributes: &Attributes<'_>) -> bool {
    let resource = &attributes.served.resource;
    EXCLUDED.iter().any(|(group, plurals)| *group == resource.group && plurals.contains(&&*resource.plural))
}

/// Returns the value of `namespaceObject`: the namespace of the object, without its type, owners and field managers; `None` for objects
/// without a namespace, and for namespaces.
///
/// # Errors
/// 404 if the namespace does not exist.
fn namespace_object(attributes: &Attributes<'_>) -> Result<Option<Value>, ApiError> {
    let kind = &attributes.kind;
    if attributes.namespace.is_empty() || (kind.group, kind.version, kind.kind) == ("", "v1", "Namespace") {
        return Ok(None);
    }
    let name = attributes.namespace;
    let table = crate::kinds::namespace::table();
    let stored = attributes.cluster.read(|store| store.get(&table, &Key::new("", name)).cloned());
    let stored = stored.ok_or_else(|| ApiError::not_found("", "namespaces", name))?;
    let mut namespace = stored.document.to_value(&TypeMeta::new("v1", "Namespace"), stored.revision);
    if let Some(fields) = namespace.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    let metadata = kube_apimachinery::metadata::of(&mut namespace);
    metadata.remove("managedFields");
    metadata.remove("ownerReferences");
    Ok(Some(namespace))
}
