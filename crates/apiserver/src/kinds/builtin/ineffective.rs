//! Warnings for objects that have no effect in this server, although kube-apiserver acts on them.
//!
//! Without the warning, a test that creates such an object could mistake the missing effect for success.

use crate::kind::resource::Resource;

/// Prefix of these warnings, which kube-apiserver does not give.
const PREFIX: &str = "kube-apiserver-embedded: ";

/// Returns the warning for a new object of a kind without effect.
pub(super) fn warning(resource: &Resource) -> Option<String> {
    let what = match (resource.group.as_str(), resource.kind.as_str()) {
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicy"
            | "ValidatingAdmissionPolicyBinding"
            | "MutatingAdmissionPolicy"
            | "MutatingAdmissionPolicyBinding",
        ) => "no admission policy is evaluated",
        _ => return None,
    };
    Some(format!("{PREFIX}this {} has no effect: {what}", resource.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_without_effect_have_a_warning() {
        let warned = |kind: &str| {
            let served = super::super::served();
            let (resource, _) = served.iter().find(|(resource, _)| resource.kind == kind).unwrap();
            warning(resource)
        };
        for kind in [
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
        ] {
            let told = warned(kind).unwrap();
            assert!(told.starts_with(&format!("{PREFIX}this {kind} has no effect: no ")), "{told}");
        }
        assert_eq!(warned("ConfigMap"), None);
    }
}
