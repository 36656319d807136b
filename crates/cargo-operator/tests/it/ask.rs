//! Commands that the operator's program carries out, and how it is found.

use std::fs;

use crate::support::{answer, cargo_operator, errors};

/// A kind behind a default feature is rendered only if the image has it.
#[test]
fn the_rendering_program_has_the_features_of_an_image() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    fs::create_dir_all(folder.path().join("src/bin")).expect("a folder");
    let code =
        "fn main() { print!(\"dev {} extra {}\", cfg!(feature = \"dev\"), cfg!(feature = \"extra\")) }\n";
    write("src/main.rs", code);
    write("src/bin/dev.rs", code);
    for (default, words, expected) in [
        (r#"["dev"]"#, "crds", "dev true extra false"),
        (r#"["dev", "extra"]"#, "crds", "dev false extra false"),
        (r#"["dev", "extra"]"#, "rbac --features extra", "dev false extra true"),
        (r#"["dev", "extra"]"#, "manifests --all-features", "dev true extra true"),
        (r#"["extra"]"#, "manifests --no-default-features", "dev false extra false"),
    ] {
        write(
            "Cargo.toml",
            &format!(
                "[package]\nname = \"plain\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[features]\ndefault = {default}\n\
                 dev = []\nextra = []\n\n[[bin]]\nname = \"dev\"\nrequired-features = [\"dev\"]\n\n[workspace]\n"
            ),
        );
        let asked = cargo_operator(words, folder.path());
        assert_eq!(answer(&asked), expected, "{default} {words}: {}", errors(&asked));
    }
}

#[test]
fn a_folder_without_a_package_is_named_with_the_next_step() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = cargo_operator("manifests", folder.path());
    let text = errors(&refused);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("could not find `Cargo.toml`"), "{text}");
    assert!(text.contains("Hint cargo operator new NAME makes a project"), "{text}");
}

#[test]
fn a_broken_manifest_is_quoted() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("Cargo.toml"), "[package\nname = 1\n").expect("a file");
    let refused = cargo_operator("crds", folder.path());
    assert_eq!(refused.status.code(), Some(1));
    assert!(errors(&refused).contains("Cargo.toml"), "{}", errors(&refused));
}

#[test]
fn a_package_without_a_program_and_unknown_names_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = "[package]\nname = \"library\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    fs::write(folder.path().join("Cargo.toml"), manifest).expect("a file");
    fs::create_dir(folder.path().join("src")).expect("a folder");
    fs::write(folder.path().join("src/lib.rs"), "").expect("a file");
    for (words, reason) in [
        ("crds", "package library has no program other than dev"),
        ("crds --bin other", "package library has no program other; it has none"),
        ("crds -p other", "the workspace has no package other"),
    ] {
        let refused = cargo_operator(words, folder.path());
        assert_eq!(refused.status.code(), Some(2), "{words}");
        assert!(errors(&refused).contains(reason), "{words}: {}", errors(&refused));
    }
}

#[test]
fn completions_name_the_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "zsh", "fish"] {
        let script = cargo_operator(&format!("completions {shell}"), folder.path());
        assert!(script.status.success(), "{}", errors(&script));
        assert!(answer(&script).contains("manifests"), "{shell}");
    }
}
