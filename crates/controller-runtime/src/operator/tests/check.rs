//! `manifests --out` and `manifests --check`.

use std::{fs, path::Path};

use serde_json::json;

use super::*;
use crate::manifests::{objects_of, risks};

/// A folder with the rendered file.
async fn folder(layout: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let line = format!("manifests --layout {layout} --out {}", folder.path().display());
    let written = answer(&guestbook(), &line).await.expect("files");
    assert!(written.lines().count() > 0);
    assert_eq!(answer(&guestbook(), &line).await, Ok(String::new()), "the second time nothing changes");
    folder
}

async fn check(operator: &Operator, folder: &Path, rest: &str) -> Result<String, (u8, String)> {
    answer(operator, &format!("manifests --check --out {} {rest}", folder.display())).await
}

/// Edits of the file and the line that reports each.
const DRIFTS: [(&str, &str, &str); 16] = [
    ("replicas: 1", "replicas: 2", "Deployment guestbook has .spec.replicas: 2 instead of 1"),
    (
        "image: guestbook:latest",
        "image: other",
        "has .spec.template.spec.containers[operator].image: other instead of guestbook:latest",
    ),
    (
        "          readOnlyRootFilesystem: true\n",
        "",
        "lacks .spec.template.spec.containers[operator].securityContext.readOnlyRootFilesystem: true",
    ),
    ("drop: [ALL]", "drop: [NET_RAW]", "capabilities.drop: NET_RAW"),
    ("type: Recreate", "type: RollingUpdate", "has .spec.strategy.type: RollingUpdate instead of Recreate"),
    (
        "terminationGracePeriodSeconds: 45",
        "terminationGracePeriodSeconds: 5",
        "has .spec.template.spec.terminationGracePeriodSeconds: 5 instead of 45",
    ),
    (
        "        livenessProbe:",
        "        startupProbe:",
        "lacks .spec.template.spec.containers[operator].livenessProbe",
    ),
    (
        "patch, delete]",
        "patch, deletecollection]",
        "ClusterRole guestbook lacks .rules: {apiGroups: [\"\"], resources: [configmaps], verbs: [delete]}   registered at ",
    ),
    (
        "patch, delete]",
        "patch, deletecollection]",
        "ClusterRole guestbook has .rules: {apiGroups: [\"\"], resources: [configmaps], verbs: [deletecollection]}",
    ),
    (
        "aggregate-to-view: \"true\"",
        "aggregate-to-view: \"false\"",
        "ClusterRole guestbook-view has .metadata.labels",
    ),
    (
        "kind: ClusterRole, ",
        "kind: Role, ",
        "ClusterRoleBinding guestbook has .roleRef.kind: Role instead of ClusterRole",
    ),
    (
        "kind: ServiceAccount\nmetadata:\n",
        "kind: ServiceAccount\nautomountServiceAccountToken: false\nmetadata:\n",
        "ServiceAccount guestbook has .automountServiceAccountToken: false",
    ),
    (
        "pod-security.kubernetes.io/enforce: restricted",
        "pod-security.kubernetes.io/enforce: baseline",
        "Namespace guestbook has .metadata.labels",
    ),
    ("kind: Namespace\n", "kind: Namespaces\n", "Namespace guestbook is missing"),
    ("kind: Namespace\n", "kind: Namespaces\n", "Namespaces guestbook is not rendered"),
    (
        "kind: Guestbook,",
        "kind: Book,",
        "CustomResourceDefinition guestbooks.example.com has .spec.names.kind: Book instead of Guestbook   registered at ",
    ),
];

#[tokio::test]
async fn each_drift_of_the_file_is_reported() {
    let folder = folder("yaml").await;
    assert_eq!(check(&guestbook(), folder.path(), "").await, Ok(String::new()));
    let file = folder.path().join("operator.yaml");
    let rendered = fs::read_to_string(&file).expect("the file");
    for (from, to, expected) in DRIFTS {
        assert!(rendered.contains(from), "{from} is not in {rendered}");
        fs::write(&file, rendered.replacen(from, to, 1)).expect("written");
        let (code, text) = check(&guestbook(), folder.path(), "").await.expect_err(expected);
        assert!(code == 3 && text.contains(expected), "{expected} is not in {text}");
        assert!(
            text.starts_with(&format!("error: {} differs from the output of the program\n", file.display())),
            "{text}"
        );
        assert!(text.contains("hint: the same command with --out"), "{text}");
    }
}

#[tokio::test]
async fn comments_order_and_quotes_are_no_drift() {
    let folder = folder("yaml").await;
    let file = folder.path().join("operator.yaml");
    let rendered = fs::read_to_string(&file).expect("the file");
    let documents: Vec<&str> = rendered.split("---\n").collect();
    let reversed: Vec<&str> = documents.iter().rev().copied().collect();
    let json: Vec<String> = objects_of(&rendered).expect("YAML").iter().map(ToString::to_string).collect();
    for harmless in [
        format!("# Rendered.\n---\n{rendered}"),
        reversed.join("---\n"),
        json.join("\n---\n"),
        rendered.replace("replicas: 1", "replicas: 1 # one"),
        rendered.replace("name: guestbook\n", "name: \"guestbook\"\n"),
        rendered.replace(", sha256:", ", sha256:0"),
    ] {
        assert_ne!(harmless, rendered);
        fs::write(&file, &harmless).expect("written");
        assert_eq!(check(&guestbook(), folder.path(), "").await, Ok(String::new()), "{harmless}");
    }
}

#[tokio::test]
async fn files_that_are_missing_or_no_yaml_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, text) = check(&guestbook(), folder.path(), "").await.expect_err("no file");
    assert!(code == 3 && text.contains("operator.yaml does not exist"), "{text}");
    fs::write(folder.path().join("operator.yaml"), "kind: A\n---\n{").expect("written");
    let (code, text) = check(&guestbook(), folder.path(), "").await.expect_err("no YAML");
    assert!(code == 1 && text.contains("operator.yaml: the document at line 3"), "{text}");
    let (code, text) =
        check(&guestbook(), folder.path(), "--baseline /nowhere").await.expect_err("no baseline");
    assert!(code == 1 && text.contains("operator.yaml"), "{text}");
}

#[test]
fn a_document_may_begin_beside_its_marker() {
    let objects = |text: &str| objects_of(text).expect("YAML");
    let [a, b] = &objects("--- {kind: A,\n  x: 1}\n--- # a comment\nkind: B\n---\n")[..] else {
        panic!("two")
    };
    assert_eq!((&a["kind"], &a["x"], &b["kind"]), (&json!("A"), &json!(1), &json!("B")));
    assert_eq!(objects("---not: a marker\n").len(), 1);
    let error = objects_of("kind: A\n--- {\n").expect_err("no YAML");
    assert!(error.contains("the document at line 2"), "{error}");
}

/// The definition with another schema of `spec`.
fn released(spec: &Value) -> Operator {
    let mut definition = serde_json::to_value(&guestbook().definitions()[0]).expect("JSON");
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec.clone();
    let definition = serde_json::from_value(definition).expect("a definition");
    Operator::new("guestbook", "guestbook.example.com").version("0.3.1").definition(definition).setup(add_to)
}

#[tokio::test]
async fn changes_that_break_the_last_release_are_reported() {
    let schema = serde_json::json!({
        "type": "object", "required": ["greeting"],
        "properties": { "greeting": { "type": "string" }, "theme": { "type": "string" } },
    });
    let folder = tempfile::tempdir().expect("a folder");
    let baseline = folder.path().join("released.yaml");
    let text = answer(&released(&schema), "manifests").await.expect("manifests");
    fs::write(&baseline, text).expect("written");
    answer(&guestbook(), &format!("manifests --out {}", folder.path().display())).await.expect("files");

    let against = format!("--baseline {}", baseline.display());
    let (code, text) = check(&guestbook(), folder.path(), &against).await.expect_err("a field is gone");
    let line = "error: guestbooks.example.com v1: .spec.theme is gone (field-removed): stored objects lose it. Keep it, \
                or allow it in Cargo.toml with a reason   registered at ";
    assert!(code == 3 && text.starts_with(line), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");

    let allow = r#"[{"at":"guestbooks/v1_.spec.theme","rule":"field-removed","reason":"never_released"}]"#;
    let arguments: Vec<String> =
        format!("manifests --check --out {} {against} --allow", folder.path().display())
            .split_whitespace()
            .map(str::to_owned)
            .chain([allow.replace('_', " ")])
            .collect();
    let output = guestbook().answer(arguments.iter().map(OsString::from)).await;
    let output = output.unwrap_or_else(|_| panic!("the command succeeds"));
    assert_eq!(
        (output.differs, &*output.text),
        (false, "allowed: .spec.theme is gone (field-removed): never released\n")
    );
}

#[tokio::test]
async fn an_answer_in_json_has_all_parts() {
    let folder = folder("yaml").await;
    let file = folder.path().join("operator.yaml");
    let rendered = fs::read_to_string(&file).expect("the file");
    fs::write(&file, rendered.replacen("patch, delete]", "patch]", 1)).expect("written");
    let (code, text) = check(&guestbook(), folder.path(), "--format json").await.expect_err("a drift");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((code, &value["schema"]), (3, &"operator/v1".into()));
    let lacks = &value["files"][0]["differences"][0];
    assert_eq!(lacks["path"], ".rules[]");
    assert!(
        lacks["places"][0].as_str().is_some_and(|place| place.contains("operator/tests/mod.rs:")),
        "{text}"
    );
}

#[tokio::test]
async fn risky_rights_are_warnings_with_their_line() {
    use k8s_openapi::api::core::v1::{Pod, Secret};

    use crate::rights::Right;
    let flags = arguments::run_flags(&guestbook(), &[]).unwrap_or_else(|_| panic!("the flags are good"));
    let found = |add: fn(&Manager)| {
        let manager = guestbook().setup(move |manager| {
            add(manager);
            Ok::<_, AddError>(())
        });
        let declarations = manager.manager_offline(&flags, "guestbook").expect("it is set up").declarations();
        risks(&declarations).iter().map(|risk| risk.rule).collect::<Vec<_>>()
    };
    assert_eq!(found(|_| {}), [""; 0]);
    assert_eq!(found(|manager| drop(manager.cached::<Secret>())), ["cluster-secrets"]);
    assert_eq!(found(|manager| manager.needs_right(Right::on::<Secret>([Verb::Get]).named(["a"]))), [""; 0]);
    assert_eq!(
        found(|manager| manager.needs_right(Right::on::<Secret>([Verb::Get]).in_own_namespace())),
        [""; 0]
    );
    assert_eq!(found(|manager| manager.needs::<Secret>([Verb::Delete])), [""; 0]);
    assert_eq!(found(|manager| manager.needs_subresource::<Pod>("exec", [Verb::Create])), ["pods-exec"]);
    assert_eq!(
        found(
            |manager| manager.needs_right(Right::of_resource("", "nodes", [Verb::Get]).subresource("proxy"))
        ),
        ["nodes-proxy"]
    );
    assert_eq!(found(|manager| manager.needs_right(Right::of_resource("*", "*", [Verb::Get]))), ["wildcard"]);
    assert_eq!(
        found(|manager| manager
            .needs_right(Right::of_resource("rbac.authorization.k8s.io", "roles", []).verb("bind"))),
        ["bind"]
    );
    assert_eq!(
        found(|manager| manager
            .needs_right(Right::of_resource("rbac.authorization.k8s.io", "roles", []).verb("escalate"))),
        ["escalate"]
    );
    assert_eq!(
        found(|manager| manager.needs_right(Right::of_resource("", "users", []).verb("impersonate"))),
        ["impersonate"]
    );
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("written");
    let line = format!("manifests --out {}/below", file.display());
    let (code, text) = answer(&guestbook(), &line).await.expect_err("a file is in the way");
    assert!(code == 1 && text.contains("file"), "{text}");
}
