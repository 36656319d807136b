//! RoleBindings and ClusterRoleBindings.

use kube_apimachinery::go::quote;
use kube_apimachinery::names::{self, NameRule};
use kube_apimachinery::rbac::GROUP;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{elements, list, set, text, within};
use crate::kind::resource::Resource;

/// RoleBinding or ClusterRoleBinding.
#[derive(Debug)]
pub(super) struct RoleBinding;

impl BuiltinKind for RoleBinding {
    fn default(&self, binding: &mut Value) {
        within(binding, "roleRef", |role| set(role, "apiGroup", json!(GROUP)));
        for subject in elements(binding, "subjects") {
            if ["User", "Group"].contains(&text(subject, "kind")) {
                set(subject, "apiGroup", json!(GROUP));
            }
        }
    }

    fn validate(&self, resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validate(resource, new, old)
    }
}

fn validate(resource: &Resource, binding: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let role = &binding["roleRef"];
    let (group, kind, name) = (text(role, "apiGroup"), text(role, "kind"), text(role, "name"));
    let kinds: &[&str] = if resource.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let mut errors = Vec::new();
    if group != GROUP {
        errors.push(FieldError::not_supported("roleRef.apiGroup", group, &[GROUP]));
    }
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported("roleRef.kind", kind, kinds));
    }
    if name.is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    } else {
        let why = names::name(NameRule::PathSegment, name);
        errors.extend(why.iter().map(|why| FieldError::invalid("roleRef.name", &quote(name), why)));
    }
    for (index, subject) in list(binding, "subjects").iter().enumerate() {
        errors.extend(validate_subject(resource, subject, &format!("subjects[{index}]")));
    }
    // The role is immutable: whoever may change the subjects must not be able to grant them another role.
    if old.is_some_and(|old| old["roleRef"] != *role) {
        // The message shows the JSON of Go's internal struct.
        let shown =
            format!("{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}", quote(group), quote(kind), quote(name));
        errors.push(FieldError::invalid("roleRef", &shown, "cannot change roleRef"));
    }
    errors
}

fn validate_subject(resource: &Resource, subject: &Value, field: &str) -> Vec<FieldError> {
    let (kind, group, name) = (text(subject, "kind"), text(subject, "apiGroup"), text(subject, "name"));
    let mut errors = Vec::new();
    if name.is_empty() {
        errors.push(FieldError::required(format!("{field}.name"), ""));
    }
    let unsupported = |value: &str| FieldError::not_supported(format!("{field}.apiGroup"), group, &[value]);
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                let why = names::subdomain(name);
                let field = format!("{field}.name");
                errors.extend(why.iter().map(|why| FieldError::invalid(field.clone(), &quote(name), why)));
            }
            if !group.is_empty() {
                errors.push(unsupported(""));
            }
            // In a RoleBinding, a service account without a namespace belongs to the namespace of the binding.
            if !resource.namespaced && text(subject, "namespace").is_empty() {
                errors.push(FieldError::required(format!("{field}.namespace"), ""));
            }
        }
        "User" | "Group" if group != GROUP => errors.push(unsupported(GROUP)),
        "User" | "Group" => {}
        _ => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(format!("{field}.kind"), kind, &kinds));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::check;

    #[test]
    fn users_and_groups_are_subjects_of_the_group_of_roles() {
        let mut binding =
            json!({"roleRef": {"kind": "Role"}, "subjects": [{"kind": "User"}, {"kind": "ServiceAccount"}]});
        RoleBinding.default(&mut binding);
        let expected = json!({
            "roleRef": {"kind": "Role", "apiGroup": GROUP},
            "subjects": [{"kind": "User", "apiGroup": GROUP}, {"kind": "ServiceAccount"}],
        });
        assert_eq!(binding, expected);
    }

    #[test]
    fn a_binding_of_the_cluster_names_cluster_roles_and_accounts_with_a_namespace() {
        let binding = |kind: &str, subjects: Value| json!({"roleRef": {"apiGroup": GROUP, "kind": kind, "name": "r"}, "subjects": subjects});
        let account = json!([{"kind": "ServiceAccount", "name": "a"}]);
        check("RoleBinding", &binding("Role", account.clone()), None, &[]);
        check(
            "ClusterRoleBinding",
            &binding("Role", account),
            None,
            &[
                "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
                "subjects[0].namespace: Required value",
            ],
        );
    }

    #[test]
    fn a_binding_keeps_its_role() {
        let binding =
            |name: &str| json!({"roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}});
        for kind in ["RoleBinding", "ClusterRoleBinding"] {
            let why = "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"ClusterRole\",\"Name\":\"two\"}: \
                       cannot change roleRef";
            check(kind, &binding("two"), Some(&binding("one")), &[why]);
            check(kind, &binding("two"), Some(&binding("two")), &[]);
        }
    }
}
