//! Rules, bindings and aggregated roles by example.

mod escalation;
mod naive_model;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

/// Reads a rule: `verbs group/resources [names]`, or `verbs /path /path`. Lists are separated by commas, the core group is `core`.
fn rule(text: &str) -> PolicyRule {
    let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let mut words = text.split(' ');
    let verbs = list(words.next().unwrap());
    let rest: Vec<&str> = words.collect();
    if rest[0].starts_with('/') || rest[0] == "*" {
        let non_resource_urls = rest.iter().map(|url| (*url).to_owned()).collect();
        return PolicyRule { verbs, non_resource_urls, ..PolicyRule::default() };
    }
    let (groups, resources) = rest[0].split_once(':').unwrap();
    let api_groups = list(&groups.replace("core", ""));
    let resource_names = rest.get(1).map(|names| list(names)).unwrap_or_default();
    PolicyRule {
        verbs,
        api_groups,
        resources: list(resources),
        resource_names,
        non_resource_urls: Vec::new(),
    }
}

fn rules(texts: &[&str]) -> Vec<PolicyRule> {
    texts.iter().map(|text| rule(text)).collect()
}

/// Reads an action: `verb group:resource/subresource namespace/name`, or `verb /path`.
fn action(text: &str) -> Action<'_> {
    let (verb, rest) = text.split_once(' ').unwrap();
    if rest.starts_with('/') {
        return Action::Path { verb, path: rest };
    }
    let (what, place) = rest.split_once(' ').unwrap_or((rest, "/"));
    let (group, resource) = what.split_once(':').unwrap();
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (namespace, name) = place.split_once('/').unwrap();
    let group = if group == "core" { "" } else { group };
    Action::Resource(ResourceAction { verb, group, resource, subresource, namespace, name })
}

#[test]
fn a_rule_allows_actions_that_match_each_of_its_lists() {
    for (rule_text, allowed, denied) in [
        (
            "get,list core:pods",
            &["get core:pods a/x", "list core:pods"][..],
            &["watch core:pods", "get apps:pods"][..],
        ),
        ("* core:pods", &["escalate core:pods"], &["get core:pods/log"]),
        ("get *:*", &["get apps:deployments/scale a/x", "get core:nodes /n"], &["get /healthz"]),
        ("get core:pods/log", &["get core:pods/log a/x"], &["get core:pods a/x", "get core:pods/status a/x"]),
        (
            "get core,apps:*/scale",
            &["get apps:deployments/scale a/x"],
            &["get apps:deployments a/x", "get core:pods/log"],
        ),
        (
            "get core:pods x,y",
            &["get core:pods a/x", "get core:pods a/y"],
            &["get core:pods a/z", "get core:pods"],
        ),
        (
            "get /healthz /apis/*",
            &["get /healthz", "get /apis/", "get /apis/apps/v1"],
            &["get /apis", "post /healthz", "get /healthz/ping"],
        ),
        ("get *", &["get /anything"], &["get core:pods"]),
    ] {
        let rule = rule(rule_text);
        allowed.iter().for_each(|text| assert!(rule.allows(&action(text)), "{rule_text}: {text}"));
        denied.iter().for_each(|text| assert!(!rule.allows(&action(text)), "{rule_text}: {text}"));
    }
}

fn binding(namespace: &str, name: &str, role: &str, subjects: &[&str]) -> Binding {
    let subjects: Vec<Value> = subjects
        .iter()
        .map(|subject| {
            let (kind, name) = subject.split_once(' ').unwrap();
            match name.split_once('/') {
                Some((namespace, name)) => json!({"kind": kind, "name": name, "namespace": namespace}),
                None => json!({"kind": kind, "name": name}),
            }
        })
        .collect();
    let (kind, role) = role.split_once(' ').unwrap();
    Binding::from_object(&json!({
        "metadata": {"namespace": namespace, "name": name},
        "roleRef": {"kind": kind, "name": role}, "subjects": subjects,
    }))
}

fn role(namespace: &str, name: &str, texts: &[&str]) -> Role {
    Role { namespace: namespace.to_owned(), name: name.to_owned(), rules: rules(texts).into() }
}

#[expect(clippy::needless_pass_by_value, reason = "`expect!` returns values")]
fn check(policy: &Policy, user: &str, attempt: &str, expected: Expect) {
    let mut names = user.split('+');
    let name = names.next().unwrap();
    let groups: Vec<String> = names.map(str::to_owned).collect();
    let action = action(attempt);
    let decision = policy.decide(Identity { name, groups: &groups }, &action);
    let shown = if decision.is_allowed() {
        decision.reason()
    } else {
        action.forbidden(name, &decision.reason()).message().to_owned()
    };
    expected.assert_eq(&shown);
}

#[test]
fn bindings_grant_roles_to_users_groups_and_service_accounts() {
    let mut policy = Policy::default();
    policy.put_role(role("", "view", &["get,list core:pods"]));
    policy.put_role(role("a", "edit", &["delete core:pods"]));
    policy.put_binding(binding(
        "",
        "all",
        "ClusterRole view",
        &["Group devs", "User jane", "ServiceAccount robot"],
    ));
    policy.put_binding(binding(
        "a",
        "local",
        "ClusterRole view",
        &["ServiceAccount robot", "ServiceAccount b/cook"],
    ));
    policy.put_binding(binding("a", "edits", "Role edit", &["User jane"]));
    check(
        &policy,
        "jane",
        "list core:pods",
        expect![[r#"RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "view" to User "jane""#]],
    );
    check(
        &policy,
        "bob+ops+devs",
        "list core:pods b/",
        expect![[r#"RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "view" to Group "devs""#]],
    );
    check(
        &policy,
        "jane",
        "delete core:pods a/x",
        expect![[r#"RBAC: allowed by RoleBinding "edits/a" of Role "edit" to User "jane""#]],
    );
    check(
        &policy,
        "jane",
        "delete core:pods b/x",
        expect![[
            r#"pods "x" is forbidden: User "jane" cannot delete resource "pods" in API group "" in the namespace "b""#
        ]],
    );
    check(
        &policy,
        "system:serviceaccount:a:robot",
        "get core:pods a/x",
        expect![[
            r#"RBAC: allowed by RoleBinding "local/a" of ClusterRole "view" to ServiceAccount "robot/a""#
        ]],
    );
    check(
        &policy,
        "system:serviceaccount:b:cook",
        "get core:pods a/x",
        expect![[
            r#"RBAC: allowed by RoleBinding "local/a" of ClusterRole "view" to ServiceAccount "cook/b""#
        ]],
    );
    check(
        &policy,
        "system:serviceaccount:a:robot",
        "list core:pods",
        expect![[
            r#"pods is forbidden: User "system:serviceaccount:a:robot" cannot list resource "pods" in API group "" at the cluster scope"#
        ]],
    );
    check(&policy, "<b>", "get /x", expect![[r#"forbidden: User "&lt;b&gt;" cannot get path "/x""#]]);
}

#[test]
fn a_missing_role_is_part_of_the_refusal_and_nothing_more() {
    let mut policy = Policy::default();
    policy.put_binding(binding("a", "x", "Role gone", &["User bob"]));
    policy.put_binding(binding("a", "y", "ClusterRole lost", &["User bob"]));
    policy.put_binding(binding("", "z", "Role gone", &["User bob"]));
    policy.put_role(role("", "gone", &["* *:*"]));
    check(
        &policy,
        "bob",
        "list apps:deployments a/",
        expect![[
            r#"deployments.apps is forbidden: User "bob" cannot list resource "deployments" in API group "apps" in the namespace "a": RBAC: [role.rbac.authorization.k8s.io "gone" not found, clusterrole.rbac.authorization.k8s.io "lost" not found]"#
        ]],
    );
    policy.put_role(role("", "lost", &["list apps:deployments"]));
    check(
        &policy,
        "bob",
        "list apps:deployments a/",
        expect![[r#"RBAC: allowed by RoleBinding "y/a" of ClusterRole "lost" to User "bob""#]],
    );
}

#[test]
fn an_aggregated_role_has_each_rule_of_the_selected_roles_once() {
    let part = |name: &str, label: &str, rules: &[&str]| {
        let rules: Vec<Value> = rules.iter().map(|text| rule(text).to_value()).collect();
        json!({"metadata": {"name": name, "labels": {label: "true"}}, "rules": rules})
    };
    let sum = json!({
        "metadata": {"name": "b", "labels": {"x": "true"}}, "rules": [rule("* *:*").to_value()],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"y": "true"}}, {"matchLabels": {"x": "true"}}]},
    });
    let roles = [
        part("a", "x", &["get core:pods", "list core:pods"]),
        sum.clone(),
        part("c", "y", &["list core:pods", "get /x"]),
        part("d", "z", &["get core:secrets"]),
    ];
    let rules = aggregate(&sum, &roles).unwrap();
    assert_eq!(rules, [rule("list core:pods"), rule("get /x"), rule("get core:pods")]);
    assert_eq!(aggregate(&roles[0], &roles), None);
    let invalid = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [{"key": "x", "operator": "Odd"}]}]}});
    assert_eq!(aggregate(&invalid, &roles), None);
}
