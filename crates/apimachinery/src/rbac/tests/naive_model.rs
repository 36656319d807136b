//! Decisions for generated rules and bindings, compared with those of a naive implementation.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::*;
use super::binding;

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
