//! `cargo operator api` and `cargo operator webhook`. That the added code compiles and works is part of the test of new projects.

use std::{fs, path::Path};

use tempfile::TempDir;

use crate::support::{cargo_operator, errors, files};

/// A folder with a new project `album`.
fn album() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let made = cargo_operator("new album --group photos.example.com", folder.path());
    assert!(made.status.success(), "{}", errors(&made));
    folder
}

fn read(project: &Path, file: &str) -> String {
    fs::read_to_string(project.join(file)).expect("text")
}

#[test]
fn a_kind_is_added_with_its_files_and_lines_in_the_library() {
    let folder = album();
    let project = folder.path().join("album");
    let lib = read(&project, "src/lib.rs");
    let before = files(&project);
    let added = cargo_operator("api PhotoPrint --cluster-scoped", &project);
    let text = errors(&added);
    assert!(added.status.success(), "{text}");
    let expected = [
        "       Added src/photo_print.rs, src/photo_print/controller.rs, tests/photo_print.rs, samples/photo_print.yaml",
        "      Edited src/lib.rs:16 (.crd::<PhotoPrint>().setup(photo_print::add_to))",
        "        Next cargo test   # now also tests PhotoPrints",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    let mut after = files(&project);
    after.retain(|file| !before.contains(file));
    assert_eq!(
        after,
        [
            "samples/photo_print.yaml",
            "src/photo_print.rs",
            "src/photo_print/controller.rs",
            "tests/photo_print.rs"
        ]
    );
    let new: Vec<_> = read(&project, "src/lib.rs").lines().map(str::to_owned).collect();
    let old: Vec<_> = lib.lines().collect();
    let inserted: Vec<_> = new.iter().map(String::as_str).filter(|line| !old.contains(line)).collect();
    assert_eq!(
        inserted,
        [
            "pub mod photo_print;",
            "pub use photo_print::PhotoPrint;",
            "        .crd::<PhotoPrint>()",
            "        .setup(photo_print::add_to)",
        ]
    );
    let kind = read(&project, "src/photo_print.rs");
    assert!(kind.contains("group = \"photos.example.com\"") && !kind.contains("namespaced"), "{kind}");

    // A second time nothing changes.
    let before = read(&project, "src/lib.rs");
    let again = cargo_operator("api PhotoPrint", &project);
    assert_eq!(again.status.code(), Some(1));
    assert!(errors(&again).contains("src/lib.rs has a module photo_print already"), "{}", errors(&again));
    assert_eq!(read(&project, "src/lib.rs"), before);
}

#[test]
fn webhooks_are_a_file_and_a_call_in_the_controller() {
    for (flags, calls, absent) in [
        ("--defaulting", "        .defaulted()\n", "Validator"),
        ("--validation", "        .validated()\n", "Defaulter"),
        ("--defaulting --validation", "        .defaulted()\n        .validated()\n", "//"),
    ] {
        let folder = album();
        let project = folder.path().join("album");
        fs::create_dir(project.join("deploy")).expect("a folder");
        let added = cargo_operator(&format!("webhook Album {flags}"), &project);
        let text = errors(&added);
        assert!(added.status.success(), "{text}");
        assert!(
            text.contains("cargo operator manifests --out deploy   # renders the manifests again"),
            "{text}"
        );
        assert!(text.contains("Added src/album/webhooks.rs"), "{text}");
        let controller = read(&project, "src/album/controller.rs");
        assert!(controller.contains(&format!(".for_kind::<Album>()\n{calls}")), "{controller}");
        assert!(read(&project, "src/album.rs").contains("\nmod controller;\nmod webhooks;\n"));
        let webhooks = read(&project, "src/album/webhooks.rs");
        assert!(absent == "//" || !webhooks.contains(absent), "{webhooks}");
        assert!(!webhooks.contains("// --") && !webhooks.to_lowercase().contains("widget"), "{webhooks}");

        let again = cargo_operator("webhook Album --validation", &project);
        assert_eq!(again.status.code(), Some(1));
        let text = errors(&again);
        assert!(text.contains("Album has webhooks already"), "{text}");
        assert!(
            text.contains("Hint implement Defaulter in src/album/webhooks.rs and add .defaulted() after "),
            "{text}"
        );
    }
}

#[test]
fn a_conversion_is_a_copy_of_the_type_and_calls_in_three_files() {
    let folder = album();
    let project = folder.path().join("album");
    let added = cargo_operator("webhook Album --conversion v2", &project);
    let text = errors(&added);
    assert!(added.status.success(), "{text}");
    assert!(text.contains("Added src/album/v1.rs\n"), "{text}");
    let edited = "Edited src/album.rs (version v2, definition of both), src/album/controller.rs:22 (.converted::<(super::v1::Album,)>()), \
                  src/lib.rs:12 (.definition(album::definition()))\n";
    assert!(text.contains(edited), "{text}");
    let kind = read(&project, "src/album.rs");
    assert!(kind.contains("version = \"v2\"") && !kind.contains("version = \"v1\""), "{kind}");
    assert!(kind.contains("\nmod controller;\npub mod v1;\n"), "{kind}");
    let before = read(&project, "src/album/v1.rs");
    assert!(before.contains("version = \"v1\"") && before.contains("use super::AlbumStatus;"), "{before}");
    for conversion in ["impl From<Album> for super::Album {", "impl From<super::Album> for Album {"] {
        assert!(before.contains(conversion), "{before}");
    }
    let lib = read(&project, "src/lib.rs");
    assert!(lib.contains("        .definition(album::definition())\n") && !lib.contains(".crd::<"), "{lib}");

    for (words, code, reason) in [
        ("webhook Album --conversion v3", 1, "Album has several versions already"),
        ("webhook Album --conversion 3", 2, "\"3\" cannot be a version"),
    ] {
        let again = cargo_operator(words, &project);
        assert_eq!(again.status.code(), Some(code), "{words}");
        assert!(errors(&again).contains(reason), "{words}: {}", errors(&again));
    }
    assert_eq!(read(&project, "src/album.rs"), kind);
}

#[test]
fn problems_are_named_and_change_nothing() {
    let folder = album();
    let project = folder.path().join("album");
    fs::write(project.join("tests/photo.rs"), "mine").expect("a file");
    let state = || -> Vec<(String, String)> {
        files(&project).into_iter().map(|file| (file.clone(), read(&project, &file))).collect()
    };
    let before = state();
    for (words, code, reason) in [
        ("api photo", 2, "\"photo\" cannot be a kind: use letters and digits"),
        ("api ConfigMap", 2, "the generated code uses the name ConfigMap for something else"),
        ("api Photo --group example", 2, "\"example\" cannot be an API group"),
        ("api Photo --version 2", 2, "\"2\" cannot be a version"),
        ("api Photo", 1, "tests/photo.rs exists already, so nothing was changed"),
        ("api Album", 1, "src/lib.rs has a module album already"),
        ("webhook Photo --defaulting", 2, "there is no kind Photo: the file "),
        ("webhook Album", 2, "<--defaulting|--validation|--conversion <VERSION>>"),
        ("webhook Album --conversion v1", 2, "Album has version v1 already"),
    ] {
        let refused = cargo_operator(words, &project);
        let text = errors(&refused);
        assert_eq!(refused.status.code(), Some(code), "{words}: {text}");
        assert!(text.contains(reason), "{words}: {text}");
        assert_eq!(state(), before, "{words}");
    }

    fs::write(project.join("src/lib.rs"), "pub mod album;\nfn operator( {}\n").expect("a file");
    let broken = cargo_operator("api Photo", &project);
    assert_eq!(broken.status.code(), Some(1));
    assert!(errors(&broken).contains("src/lib.rs is not valid Rust: line 2: "), "{}", errors(&broken));
    assert!(errors(&broken).contains("Hint cargo check shows the problem"), "{}", errors(&broken));
}

#[test]
fn a_library_without_an_operator_gets_the_kind_and_its_user_the_lines_to_add() {
    let folder = album();
    let project = folder.path().join("album");
    fs::write(project.join("src/lib.rs"), "//! Kinds.\n\npub mod album;\n").expect("a file");
    let added = cargo_operator("api Photo", &project);
    let text = errors(&added);
    assert!(added.status.success(), "{text}");
    let hint = "src/lib.rs does not contain exactly one Operator::new(…): add .crd::<Photo>().setup(photo::add_to) to that";
    assert!(text.contains(hint), "{text}");
    let lib = read(&project, "src/lib.rs");
    assert_eq!(lib, "//! Kinds.\n\npub use photo::Photo;\n\npub mod album;\npub mod photo;\n");
}
