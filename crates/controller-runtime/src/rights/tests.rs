//! Roles grant exactly what was declared, by the evaluation of kube-apiserver.

use std::collections::BTreeSet;

use kube_apimachinery::rbac::{self, Action, Binding, Identity, Policy, ResourceAction, Role};
use proptest::{prelude::*, sample::subsequence};
use serde_json::json;

use super::*;

const GROUPS: [&str; 2] = ["", "apps"];
const RESOURCES: [&str; 3] = ["a", "b", "a/status"];
const NAMES: [&str; 2] = ["x", "y"];
const VERBS: [&str; 3] = ["get", "list", "patch"];
const NAMESPACES: [&str; 3] = ["one", "two", "own"];
const ACCOUNT: &str = "system:serviceaccount:own:operator";

fn right() -> impl Strategy<Value = Right> {
    let scope = prop_oneof![
        Just(RightScope::Cluster),
        Just(RightScope::OwnNamespace),
        subsequence(NAMESPACES.to_vec(), 0..=2).prop_map(|names| RightScope::Namespaces {
            names: names.into_iter().map(Into::into).collect(),
            may_change: false,
        }),
    ];
    let objects = (0..GROUPS.len(), 0..RESOURCES.len(), subsequence(NAMES.to_vec(), 0..=2)).prop_map(
        |(group, resource, names)| {
            let (plural, subresource) =
                RESOURCES[resource].split_once('/').unwrap_or((RESOURCES[resource], ""));
            Right::of_resource(GROUPS[group], plural, []).subresource(subresource).named(names)
        },
    );
    let url = Just(Right::of_url("/metrics", []));
    (prop_oneof![8 => objects.boxed(), 1 => url.boxed()], subsequence(VERBS.to_vec(), 1..=3), scope).prop_map(
        |(right, verbs, scope)| {
            let right = verbs.into_iter().fold(right, Right::verb);
            Right { scope, ..right }
        },
    )
}

/// Returns whether one of the declared rights includes the action, by their definition.
fn is_declared(rights: &[Right], action: &ResourceAction<'_>) -> bool {
    rights.iter().any(|right| {
        let Target::Objects { group, resource, subresource, names } = &right.target else { return false };
        let in_scope = match &right.scope {
            RightScope::Cluster => true,
            RightScope::OwnNamespace => action.namespace == "own",
            RightScope::Namespaces { names, .. } => names.contains(action.namespace),
        };
        in_scope
            && (group.as_str(), resource.as_str(), subresource.as_str())
                == (action.group, action.resource, action.subresource)
            && (names.is_empty() || names.contains(action.name))
            && right.verbs.contains(action.verb)
    })
}

/// Every combination of the constants above, also without a namespace, without a name, and with an undeclared name.
fn actions() -> Vec<ResourceAction<'static>> {
    let mut all = Vec::new();
    for group in GROUPS {
        for resource in RESOURCES {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            for verb in VERBS {
                for namespace in NAMESPACES.into_iter().chain([""]) {
                    for name in NAMES.into_iter().chain(["z", ""]) {
                        all.push(ResourceAction { verb, group, resource, subresource, namespace, name });
                    }
                }
            }
        }
    }
    all
}

fn policy(roles: &Roles) -> Policy {
    let bindings = roles.bindings("operator", "own");
    let mut policy = Policy::default();
    if let Some(role) = &roles.cluster_role {
        policy.put_role(Role::from_object(&json!(role)));
    }
    for role in &roles.roles {
        policy.put_role(Role::from_object(&json!(role)));
    }
    if let Some(binding) = &bindings.cluster_role_binding {
        policy.put_binding(Binding::from_object(&json!(binding)));
    }
    for binding in &bindings.role_bindings {
        policy.put_binding(Binding::from_object(&json!(binding)));
    }
    policy
}

fn declarations(rights: &[Right]) -> Declarations {
    let place = std::panic::Location::caller();
    rights.iter().map(|right| Declaration::new(right.clone(), "needs", place)).collect()
}

proptest! {
    #[test]
    fn roles_grant_exactly_the_declared_rights(rights in prop::collection::vec(right(), 0..8)) {
        let roles = declarations(&rights).roles("operator", "own");
        let policy = policy(&roles);
        let operator = Identity { name: ACCOUNT, groups: &[] };
        for action in actions() {
            let allowed = policy.decide(operator, &Action::Resource(action)).is_allowed();
            prop_assert_eq!(allowed, is_declared(&rights, &action), "{:?} {:?}", action, roles);
        }
        for verb in VERBS {
            let declared = rights.iter().any(|right| {
                matches!(right.target, Target::Url(_)) && right.verbs.contains(verb)
            });
            let allowed = policy.decide(operator, &Action::Path { verb, path: "/metrics" }).is_allowed();
            prop_assert_eq!(allowed, declared, "{} {:?}", verb, roles);
        }
    }

    /// No rule has a verb that other rules already grant for the same resource.
    #[test]
    fn roles_grant_nothing_twice(rights in prop::collection::vec(right(), 0..8)) {
        let roles = declarations(&rights).roles("operator", "own");
        let everywhere = roles.cluster_role.as_ref().map(|role| json!(role));
        for role in roles.roles.iter().map(|role| json!(role)).chain(everywhere.clone()) {
            let is_cluster = role["metadata"]["namespace"].is_null();
            let rules = rbac::PolicyRule::list(&role["rules"]);
            for (index, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.non_resource_urls.is_empty()) {
                let others = rules.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, rule)| rule.clone());
                let above = everywhere.iter().filter(|_| !is_cluster).flat_map(|role| rbac::PolicyRule::list(&role["rules"]));
                let others: Vec<_> = others.chain(above).collect();
                for verb in &rule.verbs {
                    for resource in &rule.resources {
                        let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                        let names = if rule.resource_names.is_empty() { vec!["unnamed".to_owned()] } else { rule.resource_names.clone() };
                        let group = &rule.api_groups[0];
                        let is_twice = |name: &String| {
                            let action = ResourceAction { verb, group, resource: plural, subresource, namespace: "one", name };
                            others.iter().any(|other| other.allows(&Action::Resource(action)))
                        };
                        prop_assert!(!names.iter().any(is_twice), "{} {} {:?}", verb, resource, roles);
                    }
                }
            }
        }
    }
}

#[test]
fn roles_do_not_depend_on_the_order_of_declarations() {
    let rights = [
        Right::of_resource("", "a", [Verb::Get]).in_namespaces(["one"]),
        Right::of_resource("", "a", [Verb::List]).in_own_namespace(),
        Right::of_resource("apps", "b", [Verb::Watch]),
    ];
    let reversed: Vec<Right> = rights.iter().rev().cloned().collect();
    assert_eq!(declarations(&rights).roles("o", "own"), declarations(&reversed).roles("o", "own"));
}

#[test]
fn resources_with_equal_verbs_share_a_rule() {
    let rights = [
        Right::of_resource("apps", "b", [Verb::Apply, Verb::Watch]),
        Right::of_resource("apps", "a", [Verb::Watch, Verb::Create, Verb::Patch]),
        Right::of_resource("", "a", [Verb::Watch, Verb::Apply]),
        Right::of_resource("", "c", [Verb::Update]).named(["x"]),
        Right::of_resource("", "c", [Verb::Update]).named(["y"]),
    ];
    let roles = declarations(&rights).roles("o", "own");
    let rules = rbac::PolicyRule::list(&json!(roles.cluster_role)["rules"]);
    let shown: Vec<String> = rules.iter().map(ToString::to_string).collect();
    expect_test::expect![[r#"
        {APIGroups:[""], Resources:["a"], Verbs:["watch" "create" "patch"]}
        {APIGroups:[""], Resources:["c"], ResourceNames:["x" "y"], Verbs:["update"]}
        {APIGroups:["apps"], Resources:["a" "b"], Verbs:["watch" "create" "patch"]}"#]]
    .assert_eq(&shown.join("\n"));
}

#[test]
fn reasons_of_several_controllers_stay_apart() {
    let place = std::panic::Location::caller();
    let both = ["one", "two"].map(|controller| {
        Declaration::new(Right::of_resource("", "a", [Verb::Get]), "needs", place).of(controller)
    });
    let declarations: Declarations = both.into_iter().collect();
    assert_eq!(declarations.iter().count(), 2);
    let rules = declarations.roles("o", "own").cluster_role.and_then(|role| role.rules).unwrap_or_default();
    assert_eq!(rules.len(), 1);
    let reasons: BTreeSet<_> = declarations.iter().filter_map(|one| one.controller.as_deref()).collect();
    assert_eq!(reasons, BTreeSet::from(["one", "two"]));
}
