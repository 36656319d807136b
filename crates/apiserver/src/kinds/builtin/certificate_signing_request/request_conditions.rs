//! Conditions of a CertificateSigningRequest.

use kube_apimachinery::go::quote;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use crate::kinds::builtin::shared::field_checks::duplicate;
use crate::kinds::builtin::shared::fields::text;

/// Conditions that only `/approval` sets.
pub(super) const DECISIONS: [&str; 2] = ["Approved", "Denied"];
/// Conditions that cannot be removed, and whose status is always `True`.
const PERMANENT: [&str; 3] = ["Approved", "Denied", "Failed"];

const FIELD: &str = "status.conditions";

/// Validates each condition. Contradicting decisions, missing types and duplicates are accepted if the old state has any of that fault.
pub(super) fn validate(old: &[Value], new: &[Value]) -> Vec<FieldError> {
    // Older servers stored such conditions, and these requests must stay writable.
    let had_both = DECISIONS.iter().all(|kind| count(old, kind) > 0);
    let had_no_type = old.iter().any(|condition| text(condition, "type").is_empty());
    let had_duplicates = old.iter().any(|condition| count(old, text(condition, "type")) > 1);
    let mut errors = Vec::new();
    for (index, condition) in new.iter().enumerate() {
        let (kind, earlier) = (text(condition, "type"), &new[..index]);
        let field = |name: &str| format!("{FIELD}[{index}].{name}");
        if kind.is_empty() && !had_no_type {
            errors.push(FieldError::required(field("type"), ""));
        }
        let allowed: &[&str] =
            if PERMANENT.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        match text(condition, "status") {
            "" => errors.push(FieldError::required(field("status"), "")),
            status if allowed.contains(&status) => {}
            status => errors.push(FieldError::not_supported(field("status"), status, allowed)),
        }
        let contradicts = DECISIONS.contains(&kind)
            && DECISIONS.iter().any(|other| *other != kind && count(earlier, other) > 0);
        if contradicts && !had_both {
            let why = "Approved and Denied conditions are mutually exclusive";
            errors.push(FieldError::invalid(FIELD, &quote(kind), why));
        }
        if count(earlier, kind) > 0 && !had_duplicates {
            errors.push(duplicate(field("type"), kind));
        }
    }
    errors
}

/// Checks that no permanent condition is removed, and that only `/approval` adds decisions.
pub(super) fn validate_decisions(old: &[Value], new: &[Value], by_approval: bool) -> Vec<FieldError> {
    let changed = |kind: &str, change: &str| {
        FieldError::forbidden(FIELD, &format!("updates may not {change} a condition of type {}", quote(kind)))
    };
    let removed = PERMANENT.iter().filter(|kind| count(new, kind) < count(old, kind));
    let added = DECISIONS.iter().filter(|kind| !by_approval && count(new, kind) > count(old, kind));
    let removed = removed.map(|kind| changed(kind, "remove"));
    removed.chain(added.map(|kind| changed(kind, "add"))).collect()
}

fn count(conditions: &[Value], kind: &str) -> usize {
    conditions.iter().filter(|condition| text(condition, "type") == kind).count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn conditions(pairs: &[(&str, &str)]) -> Vec<Value> {
        pairs.iter().map(|(kind, status)| json!({"type": kind, "status": status})).collect()
    }

    #[test]
    fn conditions_have_a_type_and_a_status() {
        let errors = |old: &[(&str, &str)], new: &[(&str, &str)]| -> Vec<String> {
            validate(&conditions(old), &conditions(new)).iter().map(ToString::to_string).collect()
        };
        let none = [""; 0];
        assert_eq!(errors(&[], &[("Approved", "True"), ("Other", "False")]), none);
        assert_eq!(errors(&[], &[("Approved", "")]), ["status.conditions[0].status: Required value"]);
        assert_eq!(
            errors(&[], &[("Denied", "False")]),
            ["status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\""]
        );
        assert_eq!(
            errors(&[], &[("Other", "Maybe")]),
            [
                "status.conditions[0].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\""
            ]
        );
        assert_eq!(errors(&[], &[("", "True")]), ["status.conditions[0].type: Required value"]);
        assert_eq!(errors(&[("", "True")], &[("", "True")]), none, "the old state had the fault");
        assert_eq!(
            errors(&[], &[("Other", "True"), ("Other", "True")]),
            ["status.conditions[1].type: Duplicate value: \"Other\""]
        );
        let both = [("Denied", "True"), ("Approved", "True")];
        assert_eq!(
            errors(&[], &both),
            [
                "status.conditions: Invalid value: \"Approved\": Approved and Denied conditions are mutually exclusive"
            ]
        );
        assert_eq!(errors(&both, &both), none, "the old state had the fault");
    }
}
