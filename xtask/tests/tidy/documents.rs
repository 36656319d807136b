//! Documents: quoted code is tested, quoted commands and versions are current, links lead to files.

use std::path::PathBuf;

use super::{Offences, files, read, root};

/// Readers copy the README's Rust code, so it must compile and be short. It is compiled as a doc test of the crate that includes
/// the README.
#[test]
fn rust_in_the_readme_is_a_doc_test_of_at_most_40_lines() {
    let included = |file: &PathBuf| read(file).contains("#[doc = include_str!(\"../../../README.md\")]");
    assert!(files("crates", "rs").iter().any(included), "README.md: no crate has it as a doc test");
    let readme = read(&root().join("README.md"));
    for block in readme.split("```rust").skip(1) {
        let lines = block.lines().skip(1).take_while(|line| !line.starts_with("```")).count();
        assert!(lines <= 40, "README.md: a block of Rust has {lines} lines");
    }
}

/// The guides quote a project that is compiled and tested in this workspace, so that copied code works.
#[test]
fn guides_quote_the_example_that_is_tested() {
    let example = root().join("examples/getting-started");
    // In the guide the project has its own name and finds the crates in a checkout beside it.
    let manifest = read(&example.join("Cargo.toml"))
        .replace("name = \"getting-started\"", "name = \"team-operator\"")
        .replace("\"../../crates/", "\"../controller-runtime/crates/");
    let manifest: Vec<&str> = manifest.lines().filter(|line| !line.starts_with("description")).collect();
    let (manifest, main) = (manifest.join("\n"), read(&example.join("src/main.rs")));
    let tests = read(&example.join("src/tests.rs"));
    let webhooks = root().join("examples/webhooks/tests");
    let webhooks = ["common/mod.rs", "in_process.rs"].map(|file| read(&webhooks.join(file)));
    let all_tests = format!("{tests}{}", webhooks.concat());
    let mut offences = Offences::default();
    for (guide, whole, rust) in [
        (
            "docs/book/src/guides/getting-started.md",
            [("toml", &*manifest), ("rust", &*main)].as_slice(),
            &*main,
        ),
        ("docs/book/src/guides/testing.md", &[], &*all_tests),
    ] {
        let text = read(&root().join(guide));
        let blocks = |language: &str| -> Vec<String> {
            let fence = format!("```{language}\n");
            let ends = |block: &str| block.split("\n```").next().unwrap_or_default().to_owned();
            text.split(&*fence).skip(1).map(ends).collect()
        };
        for (language, file) in whole {
            if blocks(language) != [file.trim()] {
                offences
                    .add(&root().join(guide), &format!("its {language} differs from that of the example"));
            }
        }
        for (language, file) in [("toml", &*manifest), ("rust", rust)] {
            for block in blocks(language).iter().filter(|block| !file.contains(&***block)) {
                let line = block.lines().last().unwrap_or_default();
                offences.add(
                    &root().join(guide),
                    &format!("the {language} that ends with {line:?} is not in the example"),
                );
            }
        }
        for test in tests.split("async fn ").skip(1).filter_map(|rest| rest.split('(').next()) {
            if whole.is_empty() && !text.contains(test) {
                offences.add(&root().join(guide), &format!("lacks the test {test}"));
            }
        }
    }
    offences.assert_none();
}

/// The documents recommend the test command that CI runs.
#[test]
fn the_test_command_of_the_documents_is_the_one_of_ci() {
    for document in ["README.md", "CONTRIBUTING.md", ".ci/run", "justfile"] {
        assert!(
            read(&root().join(document)).contains("cargo test --workspace"),
            "{document}: has another test command"
        );
    }
}

/// Cargo.toml states the minimum Rust version, and the documents repeat it.
#[test]
fn documents_state_the_minimum_rust_version_of_cargo_toml() {
    let manifest = read(&root().join("Cargo.toml"));
    let stated = manifest.lines().find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'));
    let stated = stated.expect("Cargo.toml states a rust-version");
    for document in ["README.md", "CONTRIBUTING.md"] {
        assert!(
            read(&root().join(document)).contains(&format!("Rust {stated}")),
            "{document}: lacks `Rust {stated}`"
        );
    }
}

/// Relative links lead to existing files.
#[test]
fn links_between_documents_lead_to_files() {
    let mut offences = Offences::default();
    for document in files("", "md") {
        let text = read(&document);
        // Skip code blocks, where `](` is not a link.
        let prose: String = text.split("```").step_by(2).collect();
        let targets = prose.split("](").skip(1).filter_map(|rest| rest.split([')', ' ', '#']).next());
        for target in targets.filter(|target| !target.is_empty() && !target.contains(':')) {
            if !document.with_file_name("").join(target).exists() {
                offences.add(&document, &format!("{target} does not exist"));
            }
        }
    }
    offences.assert_none();
}
