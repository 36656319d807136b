//! `cargo operator import`. `tests/projects` compiles and uses the written types.

use std::{fs, path::Path, process::Command};

use expect_test::expect_file;
use serde_json::json;
use tempfile::TempDir;

use crate::support::{cargo_operator, errors, files, script};

const DEFINITIONS: &str = include_str!("../import/definitions.yaml");

/// A folder with a new project `net` and the definitions.
fn project() -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let made = cargo_operator("new net", folder.path());
    assert!(made.status.success(), "{}", errors(&made));
    let project = folder.path().join("net");
    fs::write(project.join("definitions.yaml"), DEFINITIONS).expect("a file");
    (folder, project)
}

fn read(project: &Path, file: &str) -> String {
    fs::read_to_string(project.join(file)).expect("text")
}

#[test]
fn types_of_definitions_are_written_and_declared() {
    let (_folder, project) = project();
    let added = cargo_operator("import definitions.yaml --kind Tunnel", &project);
    let text = errors(&added);
    assert!(added.status.success(), "{text}");
    let expected = [
        "       Added src/imported/tunnel.rs: Tunnel v1, 7 types",
        "        Note .spec.maybe[] has type Value (null items)",
        "        Note .spec.nothing has type Value (the definition names no fields of it)",
        "        Note .spec.pod has type Value (x-kubernetes-embedded-resource)",
        "        Note .spec.values has type Value (x-kubernetes-preserve-unknown-fields)",
        "        Next use net::imported::tunnel::Tunnel;",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    let added = cargo_operator("import definitions.yaml --kind Gateway", &project);
    assert!(
        errors(&added).contains("Added src/imported/gateway.rs: Gateway v1, 3 types"),
        "{}",
        errors(&added)
    );

    expect_file!["../import/tunnel.rs"].assert_eq(&read(&project, "src/imported/tunnel.rs"));
    expect_file!["../import/gateway.rs"].assert_eq(&read(&project, "src/imported/gateway.rs"));
    let module = read(&project, "src/imported.rs");
    assert!(module.ends_with("\npub mod gateway;\npub mod tunnel;\n"), "{module}");
    assert!(read(&project, "src/lib.rs").contains("\npub mod imported;\n"));

    let other = cargo_operator("import definitions.yaml --kind Tunnel --version v1alpha1", &project);
    assert!(
        errors(&other).contains("Replaced src/imported/tunnel.rs: Tunnel v1alpha1, 1 type"),
        "{}",
        errors(&other)
    );
}

#[test]
fn a_changed_definition_is_noticed() {
    let (_folder, project) = project();
    let check = || cargo_operator("import definitions.yaml --kind Tunnel --check", &project);
    let missing = check();
    assert_eq!(missing.status.code(), Some(3), "{}", errors(&missing));
    assert!(errors(&missing).contains("src/imported/tunnel.rs does not exist"), "{}", errors(&missing));
    assert!(cargo_operator("import definitions.yaml --kind Tunnel", &project).status.success());
    let before = read(&project, "src/imported/tunnel.rs");
    let fresh = check();
    assert!(fresh.status.success(), "{}", errors(&fresh));

    let changed = DEFINITIONS.replace("format: int32, minimum: 576", "format: int64");
    fs::write(project.join("definitions.yaml"), changed).expect("a file");
    let differs = check();
    assert_eq!(differs.status.code(), Some(3), "{}", errors(&differs));
    assert!(errors(&differs).contains("src/imported/tunnel.rs differs from the types of definitions.yaml"));
    assert_eq!(read(&project, "src/imported/tunnel.rs"), before);
}

#[test]
fn definitions_that_cannot_be_read_are_named_in_one_line_and_nothing_is_written() {
    let (_folder, project) = project();
    let part = |from: &str, to: &str| {
        let (_, rest) = DEFINITIONS.split_once(from).expect("a part");
        rest.split(to).next().unwrap_or_default().to_owned()
    };
    let gateway = part("v1\nkind: CustomResourceDefinition\nmetadata:\n  name: gateways", "\u{0}");
    let gateway = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: gateways{gateway}"
    );
    let spec = gateway.replace("spec: { type: object, ", "spec: { type: string, ");
    let spec: Vec<&str> = spec.lines().filter(|line| !line.contains("data: {")).collect();
    let spec = spec.join("\n");
    for (file, text) in [
        ("broken.yaml", "kind: [".to_owned()),
        ("pod.yaml", "apiVersion: v1\nkind: Pod\n".to_owned()),
        ("old.yaml", gateway.replace("apiextensions.k8s.io/v1\n", "apiextensions.k8s.io/v1beta1\n")),
        ("schema.yaml", gateway.replace("openAPIV3Schema", "other")),
        ("stored.yaml", gateway.replace("storage: true", "storage: false")),
        ("spec.yaml", spec),
        ("name.yaml", gateway.replace("kind: Gateway", "kind: Option")),
        ("word.yaml", gateway.replace("kind: Gateway", "kind: Type")),
        ("bytes.yaml", "\u{1}".to_owned()),
    ] {
        fs::write(project.join(file), text).expect("a file");
    }
    fs::write(project.join("latin.yaml"), [0xff, 0xfe]).expect("a file");
    let before = files(&project);
    for (words, code, reason) in [
        ("missing.yaml", 1, "cannot read missing.yaml: No such file"),
        (".", 1, "cannot read .: Is a directory"),
        ("broken.yaml", 1, "error: broken.yaml: line 1 column"),
        ("bytes.yaml", 1, "error: bytes.yaml: line 1 column"),
        ("latin.yaml", 1, "latin.yaml is not text"),
        ("pod.yaml", 1, "pod.yaml: there is no CustomResourceDefinition in it"),
        (
            "old.yaml",
            1,
            "gateways.net.example.com has apiVersion apiextensions.k8s.io/v1beta1, but only apiextensions.k8s.io/v1 is supported",
        ),
        ("schema.yaml", 2, "version v1 of Gateway has no schema"),
        ("stored.yaml", 2, "Gateway has no stored version; it has v1"),
        (
            "spec.yaml",
            1,
            "Gateway: .spec has type string in the schema, but the Rust type needs an object there",
        ),
        ("name.yaml", 1, "Option: the generated file uses this name for something else"),
        (
            "word.yaml",
            2,
            "\"Type\" cannot be imported: its module would be named type, which is a keyword of Rust",
        ),
        ("definitions.yaml", 2, "definitions.yaml has 2 kinds: Tunnel, Gateway"),
        ("definitions.yaml --kind Pod", 2, "definitions.yaml has no kind Pod; it has Tunnel, Gateway"),
        ("definitions.yaml --kind Tunnel --version v3", 2, "Tunnel has no version v3; it has v1alpha1, v1"),
        ("http://example.com/crd.yaml", 2, "http is not encrypted"),
        ("https://127.0.0.1:1/crd.yaml", 1, "curl: "),
        ("definitions.yaml -- --flag", 2, "this command takes no flags for the operator"),
    ] {
        let refused = cargo_operator(&format!("import {words}"), &project);
        let text = errors(&refused);
        assert_eq!(refused.status.code(), Some(code), "{words}: {text}");
        assert!(text.contains(reason), "{words}: {text}");
        assert!(text.starts_with("error: ") && text.lines().count() <= 2, "{words}: {text}");
        assert_eq!(files(&project), before, "{words}");
    }

    // A file of the user is not overwritten.
    fs::create_dir(project.join("src/imported")).expect("a folder");
    fs::write(project.join("src/imported/tunnel.rs"), "mine").expect("a file");
    let refused = cargo_operator("import definitions.yaml --kind Tunnel", &project);
    assert!(
        errors(&refused)
            .contains("src/imported/tunnel.rs exists and was not written by cargo operator import")
    );
    assert_eq!(read(&project, "src/imported/tunnel.rs"), "mine");
}

/// Kinds of different groups may have one name, and a source may repeat a definition.
#[test]
fn kinds_with_one_name_are_selected_with_their_groups() {
    let (_folder, project) = project();
    let definition = |group: &str, field: &str| {
        let spec = json!({ "type": "object", "properties": { field: { "type": "string" } } });
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("gateways.{group}") },
            "spec": {
                "group": group, "scope": "Namespaced", "names": { "kind": "Gateway", "plural": "gateways" },
                "versions": [{ "name": "v1", "storage": true, "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } } }],
            },
        })
    };
    let (one, other) = (definition("one.example.com", "first"), definition("other.example.com", "second"));
    let changed = definition("one.example.com", "third");
    fs::write(project.join("both.yaml"), format!("{one}\n---\n{other}\n---\n{one}\n")).expect("a file");
    fs::write(project.join("twice.yaml"), format!("{one}\n---\n{changed}\n")).expect("a file");
    let import = |words: &str| {
        let output = cargo_operator(&format!("import {words}"), &project);
        (output.status.code(), errors(&output))
    };

    let names = "Gateway.one.example.com, Gateway.other.example.com";
    let hint = "Hint select one with --kind, such as --kind Gateway.one.example.com";
    for words in ["both.yaml", "both.yaml --kind Gateway"] {
        let (code, text) = import(words);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(&format!("both.yaml has 2 kinds: {names}\n")) && text.contains(hint), "{text}");
    }
    let (code, text) = import("both.yaml --kind Gateway.third.example.com");
    assert!(
        code == Some(2) && text.contains(&format!("no kind Gateway.third.example.com; it has {names}")),
        "{text}"
    );
    let (code, text) = import("twice.yaml --kind Gateway");
    assert!(
        code == Some(1) && text.contains("has 2 different definitions of Gateway.one.example.com"),
        "{text}"
    );

    let (code, text) = import("both.yaml --kind Gateway.other.example.com");
    assert!(code == Some(0) && text.contains("Added src/imported/gateway.rs: Gateway v1, 1 type"), "{text}");
    let types = read(&project, "src/imported/gateway.rs");
    assert!(types.contains("group = \"other.example.com\"") && types.contains("pub second:"), "{types}");

    // The other kind would have the same module.
    let (code, text) = import("both.yaml --kind Gateway.one.example.com");
    let reason = "src/imported/gateway.rs has the types of Gateway.other.example.com, and the types of Gateway.one.example.com would replace";
    assert!(code == Some(1) && text.contains(reason), "{text}");
    assert_eq!(read(&project, "src/imported/gateway.rs"), types);
}

#[test]
fn a_definition_of_a_cluster_is_read_through_kubectl() {
    let (folder, project) = project();
    let cluster = folder.path().join("bin");
    fs::create_dir(&cluster).expect("a folder");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "pools.example.com", "resourceVersion": "7" },
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": { "kind": "Pool", "plural": "pools" },
            "versions": [{ "name": "v1", "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "properties": { "spec": { "type": "object", "properties": { "size": { "type": "integer" } } } },
            } } }],
        },
    });
    script(
        &cluster,
        "kubectl",
        &format!(
            "case \"$*\" in\n'--context c get crd pools.example.com -o json') echo '{definition}' ;;\n\
             *) echo 'error: no such definition' >&2; exit 1 ;;\nesac"
        ),
    );
    let path = format!("{}:{}", cluster.display(), std::env::var("PATH").expect("a path"));
    let import = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-operator"));
        command.args(["operator", "import", name, "--context", "c"]).current_dir(&project).env("PATH", &path);
        command.output().expect("the program runs")
    };
    let added = import("pools.example.com");
    assert!(errors(&added).contains("Added src/imported/pool.rs: Pool v1, 1 type"), "{}", errors(&added));
    assert!(read(&project, "src/imported/pool.rs").contains("source: pools.example.com of a cluster\n"));
    let refused = import("other");
    assert_eq!(refused.status.code(), Some(1));
    assert!(errors(&refused).contains("error: kubectl: no such definition"), "{}", errors(&refused));
}
