use expect_test::{Expect, expect};
use kube_apimachinery::rbac::Kind;
use serde_json::json;

use super::*;
use crate::api::authorization::{AuthorizationMode, Authorizer, RoleIndex};
use crate::testing;

/// Creates access control with ClusterRoles of one rule each, bound to the user `robot`.
fn permissions(rules: &[(&str, &str, &str, &str)]) -> Permissions {
    let server = testing::server();
    let roles = Arc::new(RoleIndex::default());
    for (index, (verb, group, resource, name)) in rules.iter().enumerate() {
        let names: Vec<&str> = if name.is_empty() { Vec::new() } else { vec![*name] };
        let rule =
            json!({"verbs": [verb], "apiGroups": [group], "resources": [resource], "resourceNames": names});
        let role = json!({"metadata": {"name": format!("r{index}")}, "rules": [rule]});
        let binding = json!({
            "metadata": {"name": format!("b{index}")},
            "roleRef": {"kind": "ClusterRole", "name": format!("r{index}")},
            "subjects": [{"kind": "User", "name": "robot"}, {"kind": "User", "name": "system:serviceaccount:a:robot"}],
        });
        for (kind, object) in [(Kind::ClusterRole, role), (Kind::ClusterRoleBinding, binding)] {
            let path = format!("/apis/rbac.authorization.k8s.io/v1/{}", kind.plural());
            testing::create(&server, &path, &object).unwrap();
        }
    }
    roles.restore(&server);
    Permissions::new(&Arc::new(Authorizer::new(AuthorizationMode::Rbac, roles)), None)
}

/// Compares the user of a request to list pods in the namespace `a` with these headers.
#[expect(clippy::needless_pass_by_value, reason = "`expect!` returns values")]
fn check(permissions: &Permissions, requestor: &UserInfo, headers: &[(&str, &str)], expected: Expect) {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
    }
    let action =
        ResourceAction { verb: "list", resource: "pods", namespace: "a", ..ResourceAction::default() };
    let found = Impersonation::default().user_of(permissions, requestor, &Action::Resource(action), &map);
    expected.assert_eq(&match found {
        Ok(Some(user)) => format!("{} {} {:?}", user.name, user.groups.join("+"), user.extra),
        Ok(None) => "nobody".to_owned(),
        Err(error) => format!("{} {}", error.code(), error.message()),
    });
}

fn robot() -> UserInfo {
    UserInfo::new("robot", "", [""; 0])
}

#[tokio::test]
async fn an_administrator_impersonates_any_user_and_groups_are_derived() {
    let all = permissions(&[]);
    let admin = UserInfo::admin();
    check(&all, &admin, &[], expect!["nobody"]);
    check(&all, &admin, &[("impersonate-user", "")], expect!["nobody"]);
    check(&all, &admin, &[("impersonate-user", "bob")], expect!["bob system:authenticated {}"]);
    check(
        &all,
        &admin,
        &[("impersonate-user", "bob"), ("impersonate-group", "system:masters"), ("impersonate-group", "b")],
        expect!["bob system:masters+b+system:authenticated {}"],
    );
    check(
        &all,
        &admin,
        &[
            ("impersonate-user", "bob"),
            ("impersonate-extra-Example.com%2fTeam", "a"),
            ("impersonate-extra-x", "y"),
        ],
        expect![[r#"bob system:authenticated {"example.com/team": ["a"], "x": ["y"]}"#]],
    );
    check(
        &all,
        &admin,
        &[("impersonate-user", "system:serviceaccount:a:b")],
        expect![
            "system:serviceaccount:a:b system:serviceaccounts+system:serviceaccounts:a+system:authenticated {}"
        ],
    );
    check(
        &all,
        &admin,
        &[("impersonate-user", "system:serviceaccount:a:b"), ("impersonate-group", "g")],
        expect!["system:serviceaccount:a:b g+system:authenticated {}"],
    );
    check(
        &all,
        &admin,
        &[("impersonate-user", "system:node:n")],
        expect!["system:node:n system:nodes+system:authenticated {}"],
    );
    check(
        &all,
        &admin,
        &[("impersonate-group", "a"), ("impersonate-extra-b", "c")],
        expect![[
            r#"400 requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"a"}, Extra:map[string][]string{"b":[]string{"c"}}} without impersonating a user name"#
        ]],
    );
}

#[tokio::test]
async fn a_refusal_is_that_of_the_first_mode_that_applies() {
    let none = permissions(&[]);
    check(
        &none,
        &robot(),
        &[("impersonate-user", "bob")],
        expect![[
            r#"403 pods is forbidden: User "robot" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "a""#
        ]],
    );
    check(
        &none,
        &robot(),
        &[("impersonate-user", "system:node:n")],
        expect![[
            r#"403 pods is forbidden: User "robot" cannot impersonate-on:arbitrary-node:list resource "pods" in API group "" in the namespace "a""#
        ]],
    );
    let on = permissions(&[
        ("impersonate-on:user-info:list", "", "pods", ""),
        ("impersonate:user-info", AUTHENTICATION, "users", "bob"),
    ]);
    check(&on, &robot(), &[("impersonate-user", "bob")], expect!["bob system:authenticated {}"]);
    check(
        &on,
        &robot(),
        &[("impersonate-user", "bob"), ("impersonate-group", "system:masters")],
        expect![[
            r#"403 groups.authentication.k8s.io "system:masters" is forbidden: User "robot" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope: impersonating the system:masters group is not allowed"#
        ]],
    );
    check(
        &on,
        &robot(),
        &[("impersonate-user", "bob"), ("impersonate-extra-scopes", "view")],
        expect![[
            r#"403 userextras.authentication.k8s.io is forbidden: User "robot" cannot impersonate:user-info resource "userextras" in API group "authentication.k8s.io" at the cluster scope: impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "scopes": must be a domain-prefixed path (such as "acme.io/foo")"#
        ]],
    );
}

#[tokio::test]
async fn the_legacy_verb_is_enough_and_covers_each_header() {
    let legacy = permissions(&[
        ("impersonate", "", "users", "bob"),
        ("impersonate", "", "groups", "devs"),
        ("impersonate", AUTHENTICATION, "uids", "u1"),
        ("impersonate", AUTHENTICATION, "userextras/scopes", "view"),
    ]);
    check(
        &legacy,
        &robot(),
        &[
            ("impersonate-user", "bob"),
            ("impersonate-group", "devs"),
            ("impersonate-uid", "u1"),
            ("impersonate-extra-scopes", "view"),
        ],
        expect![[r#"bob devs+system:authenticated {"scopes": ["view"]}"#]],
    );
    for header in
        [("impersonate-group", "ops"), ("impersonate-uid", "u2"), ("impersonate-extra-scopes", "edit")]
    {
        check(
            &legacy,
            &robot(),
            &[("impersonate-user", "bob"), header],
            expect![[
                r#"403 pods is forbidden: User "robot" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "a""#
            ]],
        );
    }
}

#[tokio::test]
async fn a_service_account_impersonates_the_node_of_its_token() {
    let own = permissions(&[
        ("impersonate-on:associated-node:list", "", "pods", ""),
        ("impersonate:associated-node", AUTHENTICATION, "nodes", "*"),
    ]);
    let mut account = UserInfo::new("system:serviceaccount:a:robot", "", [""; 0]);
    account.extra.insert("authentication.kubernetes.io/node-name".to_owned(), vec!["n".to_owned()]);
    check(
        &own,
        &account,
        &[("impersonate-user", "system:node:n")],
        expect!["system:node:n system:nodes+system:authenticated {}"],
    );
    check(
        &own,
        &account,
        &[("impersonate-user", "system:node:other")],
        expect![[
            r#"403 pods is forbidden: User "system:serviceaccount:a:robot" cannot impersonate-on:arbitrary-node:list resource "pods" in API group "" in the namespace "a""#
        ]],
    );
}

#[tokio::test]
async fn the_mode_that_worked_last_is_tried_first() {
    let legacy = permissions(&[("impersonate", "", "users", "bob")]);
    let impersonation = Impersonation::default();
    let action = Action::Path { verb: "get", path: "/x" };
    let ask = |name: &'static str| {
        let headers = HeaderMap::from_iter([(
            http::HeaderName::from_static(USER),
            http::HeaderValue::from_static(name),
        )]);
        impersonation
            .user_of(&legacy, &robot(), &action, &headers)
            .map(drop)
            .map_err(|error| error.message().to_owned())
    };
    assert_eq!(
        ask("carol").unwrap_err(),
        "forbidden: User \"robot\" cannot impersonate-on:user-info:get path \"/x\""
    );
    ask("bob").unwrap();
    assert_eq!(
        ask("carol").unwrap_err(),
        "users \"carol\" is forbidden: User \"robot\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
    );
}

#[test]
fn the_mode_of_the_least_recent_requestor_is_forgotten() {
    let mut last = LastModes::default();
    // The smallest name is not the oldest one.
    last.set("z", Mode::Legacy);
    last.set("a", Mode::UserInfo);
    for number in 2..MAX_REMEMBERED {
        last.set(&format!("user {number}"), Mode::UserInfo);
    }
    assert_eq!(last.get("z"), Some(Mode::Legacy));
    last.set("b", Mode::Legacy);
    assert_eq!(last.get("a"), None, "unused since its only request");
    assert_eq!((last.get("z"), last.get("b")), (Some(Mode::Legacy), Some(Mode::Legacy)));
    last.set("user 2", Mode::Legacy);
    last.set("c", Mode::Legacy);
    assert_eq!((last.get("user 2"), last.get("user 3")), (Some(Mode::Legacy), None));
    assert_eq!((last.modes.len(), last.requestors.len()), (MAX_REMEMBERED, MAX_REMEMBERED));
}
