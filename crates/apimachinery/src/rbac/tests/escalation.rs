//! Refusals of permissions that the granting user does not hold.

use expect_test::{Expect, expect};

use super::super::*;
use super::{rule, rules};

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
