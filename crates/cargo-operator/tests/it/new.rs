//! `cargo operator new`.

use std::{fs, process::Command};

use crate::support::{cargo_operator, errors, files, repository};

/// The figures of the design: few files, which a newcomer reads in minutes.
const MAX_FILES: usize = 12;
const MAX_LINES: usize = 450;

#[test]
fn a_new_project_is_small_and_its_output_names_the_next_steps() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = cargo_operator("new photo-album --group photos.example.com", folder.path());
    let text = errors(&made);
    assert!(made.status.success(), "{text}");
    assert!(text.contains("Next cd photo-album && cargo run"), "{text}");
    let project = folder.path().join("photo-album");
    let made = files(&project);
    assert!(made.contains(&"src/photo_album/controller.rs".to_owned()), "{made:?}");
    assert!(made.contains(&".github/workflows/ci.yml".to_owned()), "{made:?}");
    assert!(made.len() <= MAX_FILES, "{made:?}");
    let lines: usize =
        made.iter().map(|file| fs::read_to_string(project.join(file)).expect("text").lines().count()).sum();
    assert!(lines <= MAX_LINES, "{lines} lines");
    let created = format!("Created photo-album: {} files, {lines} lines\n", made.len());
    assert!(text.contains(&created), "{lines} lines: {text}");
    for file in &made {
        let text = fs::read_to_string(project.join(file)).expect("text");
        assert!(!text.to_lowercase().contains("widget"), "{file} has a name of the template");
    }
    let sample = fs::read_to_string(project.join("samples/photo_album.yaml")).expect("text");
    assert!(sample.starts_with("apiVersion: photos.example.com/v1\nkind: PhotoAlbum\n"), "{sample}");
}

#[test]
fn libraries_come_from_a_checkout_if_one_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = repository().display();
    let made = cargo_operator(&format!("new guestbook --path {root}"), folder.path());
    assert!(made.status.success(), "{}", errors(&made));
    let manifest = fs::read_to_string(folder.path().join("guestbook/Cargo.toml")).expect("text");
    assert!(
        manifest.contains(&format!("controller-runtime = {{ path = \"{root}/crates/controller-runtime\",")),
        "{manifest}"
    );
    assert!(!manifest.contains("version = \"0.1.0\", features"), "{manifest}");
    let made = cargo_operator("new other --path .", folder.path());
    assert_eq!(made.status.code(), Some(2));
    assert!(errors(&made).contains(". is not a checkout of controller-runtime"), "{}", errors(&made));
    assert!(!folder.path().join("other").exists());
}

#[test]
fn bad_names_are_refused_with_one_line_and_nothing_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    for (words, reason) in [
        ("new Guestbook", "\"Guestbook\" cannot name an operator: use lower-case letters"),
        ("new 2fast", "\"2fast\" cannot name an operator: use lower-case letters"),
        ("new a_b", "\"a_b\" cannot name an operator: use lower-case letters"),
        ("new a/b", "\"a/b\" cannot name an operator: use lower-case letters"),
        ("new ..", "\"..\" cannot name an operator: use lower-case letters"),
        ("new end-", "\"end-\" cannot name an operator: use lower-case letters"),
        ("new über", "\"über\" cannot name an operator: use lower-case letters"),
        (
            "new an-operator-with-a-name-that-is-much-too-long",
            "it has 45 characters: the names of its Services and pods leave room for 40",
        ),
        (
            "new loop",
            "\"loop\" cannot name an operator: it is a keyword of Rust: use loop-operator, for example",
        ),
        ("new serde", "\"serde\" cannot name an operator: cargo or a package that the operator uses"),
        ("new test", "\"test\" cannot name an operator: cargo or a package that the operator uses"),
        (
            "new a --kind photo",
            "\"photo\" cannot be a kind: use letters and digits, beginning with a capital",
        ),
        ("new a --kind Photo-Album", "\"Photo-Album\" cannot be a kind: use letters"),
        (
            "new a --kind Type",
            "\"Type\" cannot be a kind: its module would be named type, which is a keyword of Rust",
        ),
        ("new a --kind ConfigMap", "the generated code uses the name ConfigMap for something else"),
        ("new a --kind Condition", "the generated code uses the name Condition for something else"),
        ("new a --kind Key", "the generated code uses the name key for something else"),
        ("new a --kind Vec", "the generated code uses the name Vec for something else"),
        ("new a --kind Kube", "the generated code uses the name kube for something else"),
        ("new a --group example", "\"example\" cannot be an API group: use a domain of yours"),
        ("new a --group Example.com", "\"Example.com\" cannot be an API group: use a domain of yours"),
        ("new a --group apps.k8s.io", "groups of k8s.io and kubernetes.io belong to the Kubernetes project"),
        ("new a --version 1", "\"1\" cannot be a version: use v1, v1alpha1, v2beta3"),
        ("new a --version v0", "\"v0\" cannot be a version"),
        ("new a --version v1gamma1", "\"v1gamma1\" cannot be a version"),
    ] {
        let refused = cargo_operator(words, folder.path());
        let text = errors(&refused);
        assert_eq!(refused.status.code(), Some(2), "{words}: {text}");
        assert!(text.contains(reason), "{words}: {text}");
        assert_eq!(text.lines().count(), 1, "{words}: {text}");
        assert!(refused.stdout.is_empty());
        assert_eq!(files(folder.path()), Vec::<String>::new(), "{words}");
    }
}

#[test]
fn a_folder_that_is_not_empty_stays_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("guestbook")).expect("a folder");
    fs::write(folder.path().join("guestbook/notes.txt"), "mine").expect("a file");
    fs::write(folder.path().join("album"), "a file").expect("a file");
    for (name, shown) in
        [("guestbook", "guestbook exists and is not an empty folder"), ("album", "album exists")]
    {
        let refused = cargo_operator(&format!("new {name}"), folder.path());
        let text = errors(&refused);
        assert_eq!(refused.status.code(), Some(1), "{text}");
        assert!(text.contains(shown), "{text}");
        assert!(text.contains("Hint choose another name"), "{text}");
    }
    assert_eq!(files(folder.path()), ["album", "guestbook/notes.txt"]);

    // An empty one is used.
    fs::create_dir(folder.path().join("shop")).expect("a folder");
    assert!(cargo_operator("new shop", folder.path()).status.success());
}

/// Cargo agrees, once all members exist.
#[test]
fn a_workspace_around_the_project_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let workspace = "[workspace]\nresolver = \"3\"\nmembers = [\"member\", \"operators/*\", \"./dotted\", \"outside/kept\"]\n\
         exclude = [\"left-out\", \"outside\"]\n";
    fs::write(folder.path().join("Cargo.toml"), workspace).expect("a file");
    let projects = [
        (".", "member", "named"),
        (".", "dotted", "named"),
        ("operators", "album", "named"),
        ("outside", "kept", "named"),
        (".", "stranger", "unnamed"),
        ("other", "album", "unnamed"),
        (".", "left-out", "outside"),
        ("outside", "album", "outside"),
        ("outside/deep", "album", "outside"),
    ];
    for (parent, name, expected) in projects {
        let parent = folder.path().join(parent);
        fs::create_dir_all(&parent).expect("a folder");
        let made = cargo_operator(&format!("new {name}"), &parent);
        let text = errors(&made);
        assert!(made.status.success(), "{text}");
        let note = format!("is a workspace: add {name} to its members");
        let manifest = fs::read_to_string(parent.join(name).join("Cargo.toml")).expect("text");
        let found = match (text.contains(&note), manifest.contains("[profile.dev]")) {
            (false, false) => "named",
            (true, false) => "unnamed",
            (false, true) => "outside",
            (true, true) => "a note about a workspace that the project is not in",
        };
        assert_eq!(found, expected, "{}/{name}", parent.display());
    }
    for (parent, name, expected) in projects {
        let metadata = Command::new(env!("CARGO"))
            .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
            .current_dir(folder.path().join(parent).join(name))
            .output();
        let metadata = metadata.expect("cargo runs");
        let root = format!("\"workspace_root\":{:?}", folder.path());
        let found = match (crate::support::answer(&metadata).contains(&root), errors(&metadata)) {
            (true, _) => "named",
            (false, text) if text.contains("believes it's in a workspace when it's not") => "unnamed",
            (false, text) if metadata.status.success() && text.is_empty() => "outside",
            (false, text) => panic!("{parent}/{name}: {text}"),
        };
        assert_eq!(found, expected, "{parent}/{name}");
    }
}
