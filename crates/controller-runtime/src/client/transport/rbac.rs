//! Missing RBAC rules for error messages, in a form to copy into a role.

use super::call::Verb;

/// Returns advice with the rule that allows `verbs` on a resource such as `widgets/status`.
pub(crate) fn rule(group: &str, resource: &str, verbs: &[&str], namespace: Option<&str>) -> String {
    let role = namespace.map_or_else(
        || "a ClusterRole bound by a ClusterRoleBinding".to_owned(),
        |namespace| format!("a Role in namespace {namespace}"),
    );
    let verbs = verbs.iter().map(|verb| format!("\"{verb}\"")).collect::<Vec<_>>().join(", ");
    format!(
        "give the operator's ServiceAccount {role} with the rule \
         {{apiGroups: [\"{group}\"], resources: [\"{resource}\"], verbs: [{verbs}]}}"
    )
}

/// A right that the API server found missing, from the message of its refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusedRight<'m> {
    pub(crate) verb: &'m str,
    /// Resource, and subresource after a slash.
    pub(crate) resource: &'m str,
    pub(crate) group: &'m str,
    /// `None` at the cluster scope.
    pub(crate) namespace: Option<&'m str>,
}

impl<'m> RefusedRight<'m> {
    /// Reads a message; `None` if the refusal has another cause, such as an admission plugin.
    ///
    /// Authorization uses this wording, with `at the cluster scope` for a request without a namespace:
    /// `… User "x" cannot create resource "widgets/status" in API group "example.com" in the namespace "demo"`.
    pub(crate) fn of(message: &'m str) -> Option<Self> {
        let (_, refused) = message.split_once(" cannot ")?;
        let (verb, rest) = refused.split_once(" resource \"")?;
        let (resource, rest) = rest.split_once("\" in API group \"")?;
        let (group, scope) = rest.split_once('"')?;
        let namespace = match scope.trim_start().strip_prefix("in the namespace \"") {
            Some(rest) => Some(rest.split_once('"')?.0),
            None if scope.trim_start().starts_with("at the cluster scope") => None,
            None => return None,
        };
        Some(Self { verb, resource, group, namespace })
    }

    /// The rule to add, for a request with this verb.
    pub(crate) fn rule(&self, requested: Verb) -> String {
        // An apply that may create the object needs both permissions, but a refusal names only one of them.
        let verbs: &[&str] = if requested == Verb::Apply { &["create", "patch"] } else { &[self.verb] };
        rule(self.group, self.resource, verbs, self.namespace)
    }
}

/// The missing rule that caused a refusal with this message; `None` if the refusal has another cause.
pub(in crate::client) fn missing_rule(verb: Verb, message: &str) -> Option<String> {
    Some(RefusedRight::of(message)?.rule(verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(verb: Verb, message: &str, expected: Option<&str>) {
        let expected = expected.map(|role_and_rule| {
            let (role, rule) = role_and_rule.split_once(": ").expect("role: rule");
            format!("give the operator's ServiceAccount {role} with the rule {{{rule}}}")
        });
        assert_eq!(missing_rule(verb, message), expected, "{message}");
    }

    #[test]
    fn the_missing_rule_is_read_from_the_refusal() {
        let user = "User \"system:serviceaccount:a:b\" cannot";
        check(
            Verb::Create,
            &format!(
                "widgets.example.com is forbidden: {user} create resource \"widgets\" in API group \"example.com\" in the namespace \"demo\""
            ),
            Some(
                "a Role in namespace demo: apiGroups: [\"example.com\"], resources: [\"widgets\"], verbs: [\"create\"]",
            ),
        );
        check(
            Verb::Apply,
            &format!(
                "configmaps \"a\" is forbidden: {user} patch resource \"configmaps\" in API group \"\" in the namespace \"demo\""
            ),
            Some(
                "a Role in namespace demo: apiGroups: [\"\"], resources: [\"configmaps\"], verbs: [\"create\", \"patch\"]",
            ),
        );
        check(
            Verb::Update,
            &format!(
                "nodes \"n\" is forbidden: {user} update resource \"nodes/status\" in API group \"\" at the cluster scope: RBAC: no such role"
            ),
            Some(
                "a ClusterRole bound by a ClusterRoleBinding: apiGroups: [\"\"], resources: [\"nodes/status\"], verbs: [\"update\"]",
            ),
        );
    }

    #[test]
    fn refusals_for_other_reasons_name_no_rule() {
        for message in [
            "pods \"a\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1",
            "configmaps \"a\" is forbidden: unable to create new content in namespace a because it is being terminated",
            "admission webhook \"x.example.com\" denied the request: you cannot change the resource \"a\"",
            "",
        ] {
            check(Verb::Create, message, None);
        }
    }
}
