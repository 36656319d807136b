use expect_test::{Expect, expect};
use kube_apimachinery::rbac::GROUP;
use serde_json::{Value, json};

use super::*;
use crate::testing;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Returns a cluster in which `bob` has rules, each `verbs group/resources names`, and the authorizer.
fn cluster(rules: &[Value]) -> (testing::Running, Permissions) {
    let server = testing::server();
    let role = json!({"metadata": {"name": "bob"}, "rules": rules});
    testing::create(&server, &format!("{ROLES}/clusterroles"), &role).unwrap();
    let binding = json!({
        "metadata": {"name": "bob"}, "roleRef": {"kind": "ClusterRole", "name": "bob"},
        "subjects": [{"kind": "User", "name": "bob"}],
    });
    testing::create(&server, &format!("{ROLES}/clusterrolebindings"), &binding).unwrap();
    let roles = Arc::new(RoleIndex::default());
    roles.restore(&server);
    let authorizer = Authorizer::new(AuthorizationMode::Rbac, roles);
    (server, Permissions::new(&Arc::new(authorizer), None))
}

fn rule(verbs: &[&str], group: &str, resource: &str) -> Value {
    json!({"verbs": verbs, "apiGroups": [group], "resources": [resource]})
}

#[expect(clippy::needless_pass_by_value, reason = "`expect!` returns values")]
fn check(permissions: &Permissions, plural: &str, old: Option<&Value>, new: &Value, expected: Expect) {
    let user = UserInfo::new("bob", "", [""; 0]);
    let write = RequestedWrite { user: &user, resource: (GROUP, plural), namespace: "a", name: "", old, new };
    expected.assert_eq(&match check_escalation(permissions, &write) {
        Ok(()) => "ok".to_owned(),
        Err(error) => format!("{} {}", error.code(), error.message()),
    });
}

#[tokio::test]
async fn a_role_can_grant_only_permissions_of_its_writer() {
    let (_server, permissions) = cluster(&[rule(&["get", "list"], "", "configmaps")]);
    let role = |rules: Value| json!({"metadata": {"name": "r"}, "rules": rules});
    let held = role(json!([rule(&["get"], "", "configmaps")]));
    check(&permissions, "roles", None, &held, expect!["ok"]);
    let more = role(json!([rule(&["get", "delete"], "", "configmaps"), rule(&["get"], "", "secrets")]));
    let refused = || {
        expect![[r#"
        403 roles.rbac.authorization.k8s.io "r" is forbidden: user "bob" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:
        {APIGroups:[""], Resources:["configmaps"], Verbs:["delete"]}
        {APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#]]
    };
    check(&permissions, "roles", None, &more, refused());
    check(&permissions, "roles", Some(&held), &more, refused());
    let mut owned = more.clone();
    owned["metadata"]["ownerReferences"] = json!([{"name": "x"}]);
    check(&permissions, "roles", Some(&more), &owned, expect!["ok"]);
    owned["metadata"]["labels"] = json!({"a": "b"});
    check(&permissions, "roles", Some(&more), &owned, refused());
    check(&permissions, "configmaps", None, &more, expect!["ok"]);
}

#[tokio::test]
async fn an_aggregation_rule_needs_every_permission() {
    let (_server, permissions) = cluster(&[rule(&["*"], "", "*")]);
    let sum = json!({
        "metadata": {"name": "sum"}, "rules": null, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
    });
    let plain = json!({"metadata": {"name": "sum"}, "rules": null});
    let refused = || {
        expect![[
            r#"403 clusterroles.rbac.authorization.k8s.io "sum" is forbidden: must have cluster-admin privileges to use the aggregationRule"#
        ]]
    };
    check(&permissions, "clusterroles", None, &sum, refused());
    check(&permissions, "clusterroles", Some(&sum), &plain, refused());
    check(&permissions, "clusterroles", None, &plain, expect!["ok"]);
}

#[tokio::test]
async fn a_binding_grants_what_its_writer_holds_or_may_bind() {
    let bind = json!({"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["view"]});
    let (_server, permissions) = cluster(&[bind, rule(&["list"], "", "configmaps")]);
    let binding = |kind: &str, name: &str| json!({"metadata": {"name": "x"}, "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name}});
    check(&permissions, "rolebindings", None, &binding("ClusterRole", "view"), expect!["ok"]);
    check(&permissions, "rolebindings", None, &binding("ClusterRole", "bob"), expect!["ok"]);
    check(
        &permissions,
        "rolebindings",
        None,
        &binding("Role", "view"),
        expect![[r#"404 rolebindings.rbac.authorization.k8s.io "view" not found"#]],
    );
    check(&permissions, "rolebindings", None, &binding("ClusterRole", "system:basic-user"), expect!["ok"]);
    check(
        &permissions,
        "clusterrolebindings",
        None,
        &binding("ClusterRole", "system:service-account-issuer-discovery"),
        expect![[r#"
            403 clusterrolebindings.rbac.authorization.k8s.io "x" is forbidden: user "bob" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:
            {NonResourceURLs:["/.well-known/openid-configuration"], Verbs:["get"]}
            {NonResourceURLs:["/.well-known/openid-configuration/"], Verbs:["get"]}
            {NonResourceURLs:["/openid/v1/jwks"], Verbs:["get"]}
            {NonResourceURLs:["/openid/v1/jwks/"], Verbs:["get"]}"#]],
    );
}

#[tokio::test]
async fn the_mode_allows_everything_except_to_anonymous_users() {
    let (_server, rbac) = cluster(&[]);
    let open = Authorizer::new(AuthorizationMode::AlwaysAllow, Arc::clone(&rbac.authorizer().roles));
    let open = Permissions::new(&Arc::new(open), None);
    let list =
        Action::Resource(ResourceAction { verb: "list", resource: "pods", ..ResourceAction::default() });
    let version = Action::Path { verb: "get", path: "/version" };
    let (jane, anonymous) = (UserInfo::new("jane", "", [""; 0]), UserInfo::anonymous());
    assert!(open.authorize(&jane, &list).is_ok() && rbac.authorize(&jane, &list).is_err());
    for authorizer in [&open, &rbac] {
        assert!(authorizer.authorize(&anonymous, &list).is_err());
        assert!(authorizer.authorize(&anonymous, &version).is_ok());
        assert!(authorizer.authorize(&UserInfo::admin(), &list).is_ok());
    }
    assert_eq!(open.decide(&jane, &list).reason(), NOT_ENFORCED);
    assert_eq!(rbac.decide(&UserInfo::admin(), &list).reason(), "");
    assert_eq!("RBAC".parse(), Ok(AuthorizationMode::Rbac));
    assert_eq!(
        "Node".parse::<AuthorizationMode>().unwrap_err().to_string(),
        "authorization mode \"Node\" is not supported: use RBAC or AlwaysAllow"
    );
}
