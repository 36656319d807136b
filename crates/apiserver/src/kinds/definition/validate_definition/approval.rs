//! Approval annotation of definitions in API groups that the Kubernetes community protects.

use kube_apimachinery::go::{Url, quote};
use kube_apimachinery::status::FieldError;
use serde_json::Value;

const ANNOTATION: &str = "api-approved.kubernetes.io";
const WHERE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Approval {
    Missing,
    Invalid,
    /// The annotation is a URL.
    Given,
    /// The annotation says that there is no approval.
    Declined,
}

/// Status, reason and message of a condition.
pub(crate) type ApprovalCondition = (&'static str, &'static str, String);

/// Returns the `KubernetesAPIApprovalPolicyConformant` condition of a definition in a protected group; `None` for other groups.
pub(crate) fn approval_condition(definition: &Value) -> Option<ApprovalCondition> {
    if !is_protected(definition) {
        return None;
    }
    let text = text(definition);
    Some(match of(definition) {
        Approval::Missing => ("False", "MissingAnnotation", missing()),
        Approval::Invalid => ("False", "InvalidAnnotation", invalid()),
        Approval::Given => ("True", "ApprovedAnnotation", format!("approved in {text}")),
        Approval::Declined => ("False", "UnapprovedAnnotation", format!("not approved: {}", quote(text))),
    })
}

/// Validates the approval of a definition. An update may keep an invalid or a missing approval.
pub(super) fn check(definition: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if !is_protected(definition) {
        return;
    }
    let approval = of(definition);
    // Definitions from before the policy must stay writable.
    if old.map(of) == Some(approval) {
        return;
    }
    let field = format!("metadata.annotations[{ANNOTATION}]");
    match approval {
        Approval::Missing => errors.push(FieldError::required(field, &missing())),
        Approval::Invalid => {
            errors.push(FieldError::invalid(field, &quote(text(definition)), &invalid()));
        }
        Approval::Given | Approval::Declined => {}
    }
}

/// Whether the definition's group is below `k8s.io` or `kubernetes.io`. Groups below `x-k8s.io` are free.
fn is_protected(definition: &Value) -> bool {
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let protected = |domain: &str| group == domain || group.ends_with(&format!(".{domain}"));
    protected("k8s.io") || protected("kubernetes.io")
}

fn missing() -> String {
    format!("protected groups must have approval annotation \"{ANNOTATION}\", {WHERE}")
}

fn invalid() -> String {
    format!(
        "protected groups must have approval annotation \"{ANNOTATION}\" with either a URL or a reason starting with \
         \"unapproved\", {WHERE}"
    )
}

fn text(definition: &Value) -> &str {
    definition["metadata"]["annotations"][ANNOTATION].as_str().unwrap_or_default()
}

fn of(definition: &Value) -> Approval {
    match text(definition) {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Declined,
        text if is_url(text) => Approval::Given,
        _ => Approval::Invalid,
    }
}

/// Whether a text is a URL with a host.
fn is_url(text: &str) -> bool {
    Url::parse_request(text).is_ok_and(|url| !url.scheme().is_empty() && !url.host().is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(group: &str, approval: &str) -> Value {
        json!({"metadata": {"annotations": {ANNOTATION: approval}}, "spec": {"group": group}})
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn the_condition_shows_the_annotation() {
        let of = |group, approval| approval_condition(&definition(group, approval));
        assert_eq!(
            of("x.k8s.io", "unapproved, test"),
            Some(("False", "UnapprovedAnnotation", "not approved: \"unapproved, test\"".to_owned()))
        );
        assert_eq!(
            of("x.k8s.io", "https://x/pull/1"),
            Some(("True", "ApprovedAnnotation", "approved in https://x/pull/1".to_owned()))
        );
        assert_eq!(of("example.com", ""), None);
    }

    #[track_caller]
    fn check_errors(definition: &Value, old: Option<&Value>, expected: &[&str]) {
        let mut errors = Vec::new();
        check(definition, old, &mut errors);
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn groups_of_the_community_need_an_approval() {
        let missing = "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have \
                       approval annotation \"api-approved.kubernetes.io\", see \
                       https://github.com/kubernetes/enhancements/pull/1111";
        for group in ["k8s.io", "gateway.networking.k8s.io", "a.kubernetes.io"] {
            check_errors(&definition(group, ""), None, &[missing]);
            check_errors(&definition(group, "https://github.com/kubernetes/pull/1"), None, &[]);
            check_errors(&definition(group, "unapproved, experimental"), None, &[]);
            check_errors(&definition(group, ""), Some(&definition(group, "")), &[]);
            check_errors(&definition(group, ""), Some(&definition(group, "unapproved")), &[missing]);
        }
        for group in ["example.com", "x-k8s.io", "cluster.x-k8s.io"] {
            check_errors(&definition(group, ""), None, &[]);
        }
        let invalid = "metadata.annotations[api-approved.kubernetes.io]: Invalid value: \"yes\": protected groups must \
                       have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting \
                       with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111";
        check_errors(&definition("k8s.io", "yes"), None, &[invalid]);
    }
}
