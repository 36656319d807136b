//! ValidatingAdmissionPolicies, MutatingAdmissionPolicies and their bindings. This server stores them without evaluating them.

mod policy_rules;

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use policy_rules::PolicyKind;

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{elements, set, text, within};
use crate::kind::STATUS_METADATA;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct AdmissionPolicy;

impl BuiltinKind for AdmissionPolicy {
    fn default(&self, policy: &mut Value) {
        within(policy, "spec", |spec| {
            set(spec, "failurePolicy", json!("Fail"));
            within(spec, "matchConstraints", default_match_resources);
        });
    }

    fn validate(&self, resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        policy_rules::validate_policy(kind_of(resource), new, old)
    }

    fn warnings(&self, resource: &Resource, policy: &Value, old: Option<&Value>) -> Vec<String> {
        warnings(resource, policy, old)
    }

    fn status_keeps(&self) -> &'static [&'static str] {
        &STATUS_METADATA
    }

    fn resets(&self, subresource: &str) -> Option<&'static [&'static str]> {
        (subresource == "status").then_some(&["metadata", "spec"])
    }
}

#[derive(Debug)]
pub(super) struct AdmissionPolicyBinding;

impl BuiltinKind for AdmissionPolicyBinding {
    fn default(&self, binding: &mut Value) {
        within(binding, "spec", |spec| within(spec, "matchResources", default_match_resources));
    }

    fn validate(&self, resource: &Resource, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        policy_rules::validate_binding(kind_of(resource), new)
    }

    fn warnings(&self, resource: &Resource, binding: &Value, old: Option<&Value>) -> Vec<String> {
        warnings(resource, binding, old)
    }
}

/// Returns whether policies of a resource mutate or validate.
fn kind_of(resource: &Resource) -> PolicyKind {
    if resource.kind.starts_with("Mutating") { PolicyKind::Mutating } else { PolicyKind::Validating }
}

/// Sets defaults of a policy's match criteria.
fn default_match_resources(criteria: &mut Value) {
    set(criteria, "matchPolicy", json!("Equivalent"));
    set(criteria, "namespaceSelector", json!({}));
    set(criteria, "objectSelector", json!({}));
    for rules in ["resourceRules", "excludeResourceRules"] {
        elements(criteria, rules).for_each(|rule| set(rule, "scope", json!("*")));
    }
}

/// Returns the warning for a new object, because kube-apiserver would evaluate it. Without a warning, a test that creates a policy could
/// take the missing effect for success.
fn warnings(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
    let without_effect = old.is_none().then(|| {
        let kind = &resource.kind;
        format!("kube-apiserver-embedded: this {kind} has no effect: no admission policy is evaluated")
    });
    static_name(object).into_iter().chain(without_effect).collect()
}

/// Returns the warning about a name that is reserved for configurations in files of kube-apiserver.
pub(super) fn static_name(object: &Value) -> Option<String> {
    text(&object["metadata"], "name").ends_with(".static.k8s.io").then(|| {
        "metadata.name: names ending with \".static.k8s.io\" are reserved for static manifest-based configurations and \
         cannot be managed via the API"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::served_kind;

    #[test]
    fn new_policies_and_bindings_have_a_warning() {
        for kind in [
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
        ] {
            let served = served_kind(kind);
            let object = json!({});
            let warnings = |old: Option<&Value>| served.strategy.warnings(&served, &object, old, "");
            let expected = format!(
                "kube-apiserver-embedded: this {kind} has no effect: no admission policy is evaluated"
            );
            assert_eq!(warnings(None), [expected]);
            assert_eq!(warnings(Some(&object)), [""; 0]);
        }
    }
}
