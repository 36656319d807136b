use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use proptest::prelude::*;
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

#[expect(clippy::needless_pass_by_value, reason = "`expect!` returns values")]
fn check_missing(held: &[&str], granted: &[&str], expected: Expect) {
    let user = Identity { name: "bob", groups: &["system:authenticated".to_owned()] };
    let refusal = escalation::refusal(user, &(rules(held), Vec::new()), &rules(granted), "roles");
    expected.assert_eq(&refusal.unwrap_or_else(|| "covered".to_owned()));
}

#[test]
fn a_grant_is_covered_by_rules_that_permit_at_least_as_much() {
    let covered = || expect!["covered"];
    check_missing(&["* *:*"], &["get,list core:pods", "get apps:deployments/scale x"], covered());
    check_missing(&["get core:pods", "get core:secrets"], &["get core:pods,secrets"], covered());
    check_missing(&["get core:pods"], &["get core:pods x"], covered());
    check_missing(&["patch apps:*/scale"], &["patch apps:deployments/scale"], covered());
    check_missing(&["get /apis/*"], &["get /apis/apps /apis/b/*"], covered());
    check_missing(&[], &[], covered());
}

#[test]
fn a_refusal_lists_what_is_missing_with_the_verbs_of_a_resource_together() {
    check_missing(
        &["get core:pods"],
        &["get,delete core:pods,secrets", "get apps:deployments web"],
        expect![[r#"
            user "bob" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:
            {APIGroups:[""], Resources:["pods"], Verbs:["delete"]}
            {APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}
            {APIGroups:["apps"], Resources:["deployments"], ResourceNames:["web"], Verbs:["get"]}"#]],
    );
    check_missing(
        &["get core:pods x", "get /apis/*"],
        &["get core:pods", "get /apis", "* *:*"],
        expect![[r#"
            user "bob" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:
            {APIGroups:[""], Resources:["pods"], Verbs:["get"]}
            {APIGroups:["*"], Resources:["*"], Verbs:["*"]}
            {NonResourceURLs:["/apis"], Verbs:["get"]}"#]],
    );
}

#[test]
fn errors_of_the_owners_own_bindings_are_part_of_the_refusal() {
    let user = Identity { name: "bob", groups: &[] };
    let gone = |name: &str| Unresolved::NotFound { resource: "role", name: name.to_owned() };
    let held = (Vec::new(), vec![gone("a"), gone("b"), gone("a")]);
    let refusal = escalation::refusal(user, &held, &[rule("get core:pods")], "rolebindings").unwrap();
    expect![[r#"
        user "bob" (groups=[]) is attempting to grant RBAC permissions not currently held:
        {APIGroups:[""], Resources:["pods"], Verbs:["get"]}; resolution errors: [[rolebindings.rbac.authorization.k8s.io "a" not found, rolebindings.rbac.authorization.k8s.io "b" not found]]"#]]
    .assert_eq(&refusal);
}

#[test]
fn a_rule_with_too_many_permissions_is_not_divided() {
    let many: Vec<String> = (0..1000).map(|index| index.to_string()).collect();
    let huge = PolicyRule {
        verbs: many.clone(),
        api_groups: many.clone(),
        resources: many.clone(),
        resource_names: many,
        non_resource_urls: Vec::new(),
    };
    let granted = [huge.clone()];
    assert_eq!(escalation::missing(&[rule("get core:pods")], &granted), granted);
    assert!(escalation::missing(&[rule("* *:*")], &granted).is_empty());
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

// Property tests use small alphabets, so that rules and actions often match.

fn words(words: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(prop::sample::select(words).prop_map(str::to_owned), 0..=most)
}

fn any_rule() -> impl Strategy<Value = PolicyRule> {
    let objects = (
        words(&["get", "list", "*"], 2),
        words(&["", "apps", "*"], 2),
        words(&["pods", "pods/log", "*/log", "*"], 2),
        words(&["x", "y"], 2),
    );
    let objects = objects.prop_map(|(verbs, api_groups, resources, resource_names)| PolicyRule {
        verbs,
        api_groups,
        resources,
        resource_names,
        non_resource_urls: Vec::new(),
    });
    let paths = (words(&["get", "list", "*"], 2), words(&["/a", "/a/*", "/a*", "*"], 2));
    let paths = paths.prop_map(|(verbs, non_resource_urls)| PolicyRule {
        verbs,
        non_resource_urls,
        ..PolicyRule::default()
    });
    prop_oneof![3 => objects, 1 => paths]
}

/// All actions over the alphabets of the rules, and values that only `*` matches.
fn actions() -> Vec<Action<'static>> {
    let mut all = Vec::new();
    for verb in ["get", "list", "odd"] {
        for path in ["/a", "/a/b", "/ab", "/odd"] {
            all.push(Action::Path { verb, path });
        }
        for group in ["", "apps", "odd"] {
            for resource in ["pods", "odds"] {
                for subresource in ["", "log", "odd"] {
                    for name in ["", "x", "y", "z"] {
                        for namespace in ["", "a", "b"] {
                            all.push(Action::Resource(ResourceAction {
                                verb,
                                group,
                                resource,
                                subresource,
                                namespace,
                                name,
                            }));
                        }
                    }
                }
            }
        }
    }
    all
}

/// The documented meaning of a rule, without shortcuts.
fn naive_allows(rule: &PolicyRule, action: &Action<'_>) -> bool {
    let has =
        |list: &[String], value: &str| list.contains(&"*".to_owned()) || list.contains(&value.to_owned());
    match action {
        Action::Path { verb, path } => {
            let matches = |url: &String| match url.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => url == path,
            };
            has(&rule.verbs, verb) && rule.non_resource_urls.iter().any(matches)
        }
        Action::Resource(action) => {
            let combined = if action.subresource.is_empty() {
                action.resource.to_owned()
            } else {
                format!("{}/{}", action.resource, action.subresource)
            };
            let any_parent = format!("*/{}", action.subresource);
            has(&rule.verbs, action.verb)
                && has(&rule.api_groups, action.group)
                && (has(&rule.resources, &combined)
                    || !action.subresource.is_empty() && rule.resources.contains(&any_parent))
                && (rule.resource_names.is_empty() || rule.resource_names.contains(&action.name.to_owned()))
        }
    }
}

#[derive(Debug, Clone)]
enum PolicyChange {
    Role(Role),
    Binding(Binding),
    Remove(Kind, String, String),
}

fn any_change() -> impl Strategy<Value = PolicyChange> {
    let place = || prop::sample::select(&["", "a", "b"][..]);
    let name = || prop::sample::select(&["r", "s", "t"][..]);
    let subject = prop::sample::select(
        &[
            "User u",
            "User system:serviceaccount:a:u",
            "Group g",
            "Group h",
            "ServiceAccount u",
            "ServiceAccount a/u",
            "Robot u",
        ][..],
    );
    let role_ref =
        prop::sample::select(&["Role r", "Role s", "ClusterRole r", "ClusterRole t", "Robot r"][..]);
    prop_oneof![
        (place(), name(), prop::collection::vec(any_rule(), 0..3)).prop_map(|(namespace, name, rules)| {
            PolicyChange::Role(Role {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                rules: rules.into(),
            })
        }),
        (place(), name(), role_ref, prop::collection::vec(subject, 0..3)).prop_map(
            |(namespace, name, role, subjects)| PolicyChange::Binding(binding(
                namespace, name, role, &subjects
            ))
        ),
        (prop::sample::select(&Kind::ALL[..]), place(), name()).prop_map(|(kind, namespace, name)| {
            PolicyChange::Remove(kind, namespace.to_owned(), name.to_owned())
        }),
    ]
}

/// Roles and bindings as plain lists.
#[derive(Default)]
struct Naive {
    roles: BTreeMap<(String, String), Role>,
    bindings: BTreeMap<(String, String), Binding>,
}

impl Naive {
    fn apply(&mut self, change: &PolicyChange) {
        match change {
            PolicyChange::Role(role) => {
                self.roles.insert((role.namespace.clone(), role.name.clone()), role.clone());
            }
            PolicyChange::Binding(binding) => {
                self.bindings.insert((binding.namespace.clone(), binding.name.clone()), binding.clone());
            }
            PolicyChange::Remove(Kind::Role | Kind::ClusterRole, namespace, name) => {
                self.roles.remove(&(namespace.clone(), name.clone()));
            }
            PolicyChange::Remove(_, namespace, name) => {
                self.bindings.remove(&(namespace.clone(), name.clone()));
            }
        }
    }

    fn allows(&self, user: Identity<'_>, action: &Action<'_>) -> bool {
        self.bindings.values().any(|binding| {
            let is_subject = binding.subjects.iter().any(|subject| match subject.kind.as_str() {
                "User" => subject.name == user.name,
                "Group" => user.groups.contains(&subject.name),
                "ServiceAccount" => {
                    let own =
                        if subject.namespace.is_empty() { &binding.namespace } else { &subject.namespace };
                    !own.is_empty() && user.name == format!("system:serviceaccount:{own}:{}", subject.name)
                }
                _ => false,
            });
            let applies = binding.namespace.is_empty() || binding.namespace == action.namespace();
            let role = match binding.role.kind.as_str() {
                "Role" if !binding.namespace.is_empty() => {
                    self.roles.get(&(binding.namespace.clone(), binding.role.name.clone()))
                }
                "ClusterRole" => self.roles.get(&(String::new(), binding.role.name.clone())),
                _ => None,
            };
            let permits = |role: &Role| role.rules.iter().any(|rule| naive_allows(rule, action));
            is_subject && applies && role.is_some_and(permits)
        })
    }
}

proptest! {
    #[test]
    fn a_rule_means_what_its_documentation_says(rule in any_rule()) {
        for action in actions() {
            prop_assert_eq!(rule.allows(&action), naive_allows(&rule, &action), "{:?}", action);
        }
    }

    #[test]
    fn permissions_that_are_not_missing_are_held(
        held in prop::collection::vec(any_rule(), 0..3),
        granted in prop::collection::vec(any_rule(), 0..3),
    ) {
        let missing = escalation::missing(&held, &granted);
        for action in actions() {
            let allows = |rules: &[PolicyRule]| rules.iter().any(|rule| rule.allows(&action));
            if allows(&granted) && !allows(&missing) {
                prop_assert!(allows(&held), "{:?}", action);
            }
            if allows(&missing) {
                prop_assert!(allows(&granted), "{:?}", action);
            }
        }
    }

    #[test]
    fn an_index_decides_like_a_search_of_all_bindings(changes in prop::collection::vec(any_change(), 0..12)) {
        let (mut policy, mut naive) = (Policy::default(), Naive::default());
        for change in &changes {
            naive.apply(change);
            match change.clone() {
                PolicyChange::Role(role) => policy.put_role(role),
                PolicyChange::Binding(binding) => policy.put_binding(binding),
                PolicyChange::Remove(kind, namespace, name) => policy.remove(kind, &namespace, &name),
            }
        }
        let groups = [Vec::new(), vec!["g".to_owned(), "h".to_owned()]];
        for name in ["u", "v", "system:serviceaccount:a:u", "system:serviceaccount:b:u"] {
            for groups in &groups {
                let user = Identity { name, groups };
                for action in actions() {
                    let decision = policy.decide(user, &action);
                    prop_assert_eq!(decision.is_allowed(), naive.allows(user, &action), "{} {:?}", name, action);
                    let (rules, _) = policy.rules_for(user, action.namespace());
                    prop_assert_eq!(decision.is_allowed(), rules.iter().any(|rule| rule.allows(&action)));
                }
            }
        }
    }
}
