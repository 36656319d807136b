//! Permissions that manifests grant a user.

use serde_json::Value;

use super::UserError;
use super::roles::{RbacObject, Roles, Subject};

/// Parses roles and bindings, written one per line as `Role a/r get pods` and `RoleBinding a/b Role r ServiceAccount system/m`.
fn objects(lines: &[&str]) -> Vec<RbacObject> {
    let mut text = String::new();
    for line in lines {
        let words: Vec<_> = line.split(' ').collect();
        let [kind, name, first, second, subject @ ..] = &words[..] else { panic!("four words: {line}") };
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        let namespace_field =
            if namespace.is_empty() { String::new() } else { format!(", namespace: {namespace}") };
        text += &format!(
            "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {name}{namespace_field}}}\n"
        );
        text += &match kind.ends_with("Binding") {
            true => {
                let [kind, name] = subject else { panic!("a subject: {line}") };
                let (namespace, name) = name.split_once('/').unwrap_or(("", name));
                format!(
                    "roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {first}, name: {second}}}\n\
                     subjects: [{{kind: {kind}, name: {name}, namespace: '{namespace}'}}]\n"
                )
            }
            false => {
                format!("rules: [{{apiGroups: [\"\"], resources: [\"{second}\"], verbs: [\"{first}\"]}}]\n")
            }
        };
    }
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    RbacObject::among(documents, "home").expect("roles and bindings")
}

fn account() -> Subject {
    Subject::ServiceAccount { namespace: "system".to_owned(), name: "m".to_owned() }
}

/// Checks the permissions that manifests grant a member of the group `devs`, or the error.
#[track_caller]
fn check(subject: &Subject, lines: &[&str], expected: &[&str]) {
    let shown: Vec<String> = match Roles::of(objects(lines), subject, &["devs".to_owned()]) {
        Ok(roles) => roles.granted.iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    };
    assert_eq!(shown, expected, "{lines:?}");
}

#[test]
fn a_service_account_has_the_rights_of_the_bindings_that_name_it() {
    let role = "ClusterRole r get pods";
    for (binding, expected) in [
        ("ClusterRoleBinding b ClusterRole r ServiceAccount system/m", "get pods"),
        ("ClusterRoleBinding b ClusterRole r User system:serviceaccount:system:m", "get pods"),
        ("RoleBinding a/b ClusterRole r Group devs", "get pods in a"),
        ("RoleBinding b ClusterRole r ServiceAccount system/m", "get pods in home"),
    ] {
        check(&account(), &[role, binding], &[expected]);
    }
    check(
        &account(),
        &[
            role,
            "ClusterRoleBinding b ClusterRole r ServiceAccount other/m",
            "RoleBinding a/b ClusterRole r User jane",
        ],
        &[
            "no binding of the manifests names system:serviceaccount:system:m: they name ServiceAccount other/m, User jane",
        ],
    );
    check(
        &account(),
        &[role],
        &[
            "no binding of the manifests names system:serviceaccount:system:m: they contain none with subjects",
        ],
    );
}

#[test]
fn a_user_has_the_rights_of_all_bindings() {
    let user = Subject::User("operator".to_owned());
    check(&user, &["Role a/r get pods", "RoleBinding a/b Role r User jane"], &["get pods in a"]);
    check(
        &user,
        &["ClusterRole r * *", "Role r get pods", "RoleBinding b Role r Group x"],
        &["get pods in home"],
    );
    check(&user, &["Role a/r get pods", "RoleBinding c/b Role r User jane"], &[""; 0]);
    check(&user, &["Role a/r get pods", "ClusterRoleBinding b Role r User jane"], &[""; 0]);
}

#[test]
fn roles_of_a_user_are_renamed_with_the_bindings_that_refer_to_them() {
    let lines = [
        "RoleBinding a/b Role r ServiceAccount system/m",
        "Role a/r get pods",
        "ClusterRoleBinding c ClusterRole view User x",
    ];
    let roles = Roles::of(objects(&lines), &Subject::User("jane".to_owned()), &[]).expect("roles");
    let shown: Vec<String> = roles
        .objects
        .iter()
        .map(|object| {
            let (role, subjects) = (&object.value["roleRef"]["name"], &object.value["subjects"]);
            format!("{} {role} {}", object.title(), subjects[0]["name"])
        })
        .collect();
    let expected = [
        r#"Role a/jane:r null null"#,
        r#"RoleBinding a/jane:b "jane:r" "jane""#,
        r#"ClusterRoleBinding jane:c "view" "jane""#,
    ];
    assert_eq!(shown, expected);
    let foreign: Vec<_> =
        roles.foreign.iter().map(|(role, binding)| (role.title(), binding.as_str())).collect();
    assert_eq!(foreign, [("ClusterRole view".to_owned(), "ClusterRoleBinding c")]);
}

#[test]
fn other_kinds_are_skipped_and_lists_are_opened() {
    let text = "# a comment alone\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a}\n---\n\
        apiVersion: iam.example.com/v1\nkind: Role\nmetadata: {name: r}\nrules: none of RBAC\n---\n\
        kind: List\napiVersion: v1\nitems: [{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: q}}]\n";
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
    let found = RbacObject::among(documents, "home").expect("roles");
    assert_eq!(found.iter().map(RbacObject::title).collect::<Vec<_>>(), ["Role home/q"]);
}

#[test]
fn an_invalid_role_is_named() {
    let error = |object: Value| {
        let objects = RbacObject::among(vec![object], "home")?;
        Roles::of(objects, &Subject::User("x".to_owned()), &[]).map(drop)
    };
    let role = serde_json::json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"});
    let nameless = error(role).expect_err("no name");
    assert!(matches!(nameless, UserError::Nameless { kind: "Role" }), "{nameless}");
}
