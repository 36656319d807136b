//! Reads roles and bindings from YAML manifests.

use std::error::Error;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef};
use kube::core::DynamicObject;
use serde::de::DeserializeOwned;

use super::{Grant, rules};

/// Manifests that are not YAML, or that contain an invalid role or binding.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct ManifestError {
    what: String,
    source: Box<dyn Error + Send + Sync>,
}

/// A Role or ClusterRole.
struct AnyRole {
    kind: &'static str,
    name: Option<String>,
    /// Namespace of a Role; `None` for a ClusterRole.
    namespace: Option<String>,
    rules: Option<Vec<PolicyRule>>,
}

/// A RoleBinding or ClusterRoleBinding.
struct AnyBinding {
    role: RoleRef,
    /// Namespace of a RoleBinding; `None` for a ClusterRoleBinding.
    namespace: Option<String>,
}

impl AnyBinding {
    /// Returns whether the binding refers to this role. A binding reaches ClusterRoles, and Roles of its own namespace.
    fn refers_to(&self, role: &AnyRole) -> bool {
        let is_in_reach = role.namespace.is_none() || role.namespace == self.namespace;
        is_in_reach && self.role.kind == role.kind && Some(&self.role.name) == role.name.as_ref()
    }
}

/// Combines the roles in `text` with their bindings. Objects without a namespace are placed in `namespace`.
pub(super) fn grants(text: &str, namespace: &str) -> Result<Vec<Grant>, ManifestError> {
    let objects: Vec<DynamicObject> = serde_saphyr::from_multiple(text).map_err(|error| ManifestError {
        what: "the text is not YAML of Kubernetes objects".to_owned(),
        source: error.into(),
    })?;
    let (mut roles, mut bindings) = (Vec::new(), Vec::new());
    for object in objects {
        let Some(types) = &object.types else { continue };
        // Manifests of an operator also contain other kinds, such as its Deployment.
        if !types.api_version.starts_with("rbac.authorization.k8s.io/") {
            continue;
        }
        let namespace = Some(object.metadata.namespace.clone().unwrap_or_else(|| namespace.to_owned()));
        match types.kind.as_str() {
            "ClusterRole" => {
                let ClusterRole { metadata, rules, .. } = parsed(object)?;
                roles.push(AnyRole { kind: "ClusterRole", name: metadata.name, namespace: None, rules });
            }
            "Role" => {
                let Role { metadata, rules } = parsed(object)?;
                roles.push(AnyRole { kind: "Role", name: metadata.name, namespace, rules });
            }
            "ClusterRoleBinding" => {
                let ClusterRoleBinding { role_ref, .. } = parsed(object)?;
                bindings.push(AnyBinding { role: role_ref, namespace: None });
            }
            "RoleBinding" => {
                let RoleBinding { role_ref, .. } = parsed(object)?;
                bindings.push(AnyBinding { role: role_ref, namespace });
            }
            _ => {}
        }
    }
    let mut grants = Vec::new();
    for role in &roles {
        // A role may be bound several times, in different namespaces.
        for binding in bindings.iter().filter(|binding| binding.refers_to(role)) {
            let grant = |rule: &PolicyRule| Grant {
                rule: rules::of_role(rule),
                namespace: binding.namespace.clone(),
            };
            grants.extend(role.rules.iter().flatten().map(grant));
        }
    }
    Ok(grants)
}

/// Decodes an object as kind `K`.
fn parsed<K: kube::Resource + DeserializeOwned>(object: DynamicObject) -> Result<K, ManifestError> {
    let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
    let what = format!("{kind} {} is invalid", object.metadata.name.as_deref().unwrap_or("(without a name)"));
    object.try_parse().map_err(|error| ManifestError { what, source: error.into() })
}

#[cfg(test)]
mod tests {
    use super::{super::rules::permission_names, *};

    /// Checks the grants of roles and bindings, written one per line as `Role a/r get pods` and `RoleBinding a/b Role r`.
    #[track_caller]
    fn check(lines: &[&str], expected: &[&str]) {
        let mut text = String::new();
        for line in lines {
            let words: Vec<_> = line.split(' ').collect();
            let [kind, name, first, second] = words[..] else { panic!("four words: {line}") };
            let (namespace, name) = name.split_once('/').unwrap_or(("", name));
            let namespace_field =
                if namespace.is_empty() { String::new() } else { format!(", namespace: {namespace}") };
            text += &format!(
                "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {name}{namespace_field}}}\n"
            );
            text += &match kind.ends_with("Binding") {
                true => format!("roleRef: {{apiGroup: rbac, kind: {first}, name: {second}}}\n"),
                false => format!("rules: [{{apiGroups: [\"\"], resources: [{second}], verbs: [{first}]}}]\n"),
            };
        }
        assert_eq!(shown(&text), expected, "{text}");
    }

    fn shown(text: &str) -> Vec<String> {
        let grants = grants(text, "home").expect("manifests");
        let shown = |grant: Grant| {
            let place =
                grant.namespace.map_or("everywhere".to_owned(), |namespace| format!("in {namespace}"));
            format!("{} {place}", permission_names(&grant.rule).join(", "))
        };
        grants.into_iter().map(shown).collect()
    }

    #[test]
    fn a_role_grants_nothing_until_it_is_bound() {
        check(&["ClusterRole r get pods"], &[]);
        check(&["ClusterRole r get pods", "ClusterRoleBinding b ClusterRole other"], &[]);
        check(&["ClusterRoleBinding b ClusterRole r", "ClusterRole r get pods"], &["get pods everywhere"]);
    }

    #[test]
    fn a_role_binding_grants_a_role_in_its_namespace() {
        check(&["ClusterRole r get pods", "RoleBinding a/b ClusterRole r"], &["get pods in a"]);
        check(&["Role a/r get pods", "RoleBinding a/b Role r"], &["get pods in a"]);
        check(&["Role r get pods", "RoleBinding b Role r"], &["get pods in home"]);
        check(&["Role a/r get pods", "RoleBinding c/b Role r"], &[]);
        check(&["Role a/r get pods", "RoleBinding a/b ClusterRole r"], &[]);
        check(&["Role a/r get pods", "ClusterRoleBinding b Role r"], &[]);
        check(
            &[
                "ClusterRole r get pods",
                "RoleBinding a/b ClusterRole r",
                "ClusterRoleBinding b ClusterRole r",
            ],
            &["get pods in a", "get pods everywhere"],
        );
    }

    #[test]
    fn other_kinds_are_skipped() {
        let text = "# a comment alone\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a}\n---\n\
            apiVersion: iam.example.com/v1\nkind: Role\nmetadata: {name: r}\nrules: none of RBAC\n";
        assert_eq!(shown(text), [""; 0]);
        assert_eq!(shown(""), [""; 0]);
    }

    #[test]
    fn an_error_names_the_object_and_the_problem() {
        let error = |text: &str| grants(text, "home").err().expect("no manifests");
        let broken = error("kind: [");
        assert_eq!(broken.to_string(), "the text is not YAML of Kubernetes objects");
        let api = "apiVersion: rbac.authorization.k8s.io/v1";
        let wrong = error(&format!("{api}\nkind: Role\nmetadata: {{name: r}}\nrules: all\n"));
        assert_eq!(wrong.to_string(), "Role r is invalid");
        assert!(wrong.source().is_some_and(|source| source.to_string().contains("expected a sequence")));
    }
}
