//! Rules about the repository as a whole that no lint can hold. Each test is one rule and says why it exists.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Applications choose the version of the Kubernetes types. A library that chose one would force it on all of them, and
/// two libraries that chose differently could not be used together.
#[test]
fn libraries_choose_no_version_of_k8s_openapi() {
    let chooses = |dependency: &Dependency| {
        let is_version =
            |feature: &String| feature.starts_with("v1_") || ["latest", "earliest"].contains(&&**feature);
        dependency.name == "k8s-openapi" && !dependency.is_dev && dependency.features.iter().any(is_version)
    };
    let mut offences = Offences::default();
    for package in packages().iter().filter(|package| package.is_library()) {
        if package.dependencies.iter().any(chooses) {
            offences.add(&package.manifest, "[dependencies] of a library: k8s-openapi has a version feature");
        }
    }
    offences.assert_none();
}

/// The arrows of ARCHITECTURE.md: the server and the controllers meet at `kube::Client` alone, and the queue knows
/// nothing of Kubernetes.
#[test]
fn crates_depend_only_on_what_lies_below_them() {
    let forbidden = [
        (
            "kube-workqueue",
            ["kube", "k8s-openapi", "controller-runtime", "kube-apiserver-embedded", "kube-envtest"]
                .as_slice(),
        ),
        (
            "kube-clock",
            &["kube", "k8s-openapi", "controller-runtime", "kube-apiserver-embedded", "kube-envtest"],
        ),
        ("kube-apiserver-embedded", &["controller-runtime", "kube-workqueue", "kube-envtest"]),
        ("kube-envtest", &["controller-runtime", "kube-workqueue"]),
        ("controller-runtime", &["kube-apiserver-embedded", "kube-envtest"]),
    ];
    let mut offences = Offences::default();
    for package in packages() {
        let banned =
            forbidden.iter().find(|(name, _)| *name == package.name).map_or(&[][..], |(_, banned)| banned);
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.is_dev) {
            if banned.contains(&&*dependency.name) {
                offences.add(&package.manifest, &format!("must not depend on {}", dependency.name));
            }
        }
    }
    offences.assert_none();
}

/// A second TLS stack doubles the longest part of a cold build, and some need more of the system than a C compiler.
#[test]
fn there_is_one_tls_stack() {
    let lock = read(&root().join("Cargo.lock"));
    for package in ["aws-lc-rs", "aws-lc-sys", "native-tls", "openssl", "openssl-sys"] {
        assert!(
            !lock.contains(&format!("name = \"{package}\"\n")),
            "Cargo.lock: {package} came in: see `cargo tree -i {package}`"
        );
    }
}

/// Readers copy the README's Rust, so it has to compile, which the doc tests of a crate that includes it see to, and be
/// short enough to be read.
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

/// The guides quote a project that is compiled and tested in this workspace, so that what readers copy works.
#[test]
fn guides_quote_the_example_that_is_tested() {
    let example = root().join("examples/getting-started");
    // A project elsewhere has a name of its own, and finds the crates in a checkout beside it.
    let manifest = read(&example.join("Cargo.toml"))
        .replace("name = \"getting-started\"", "name = \"team-operator\"")
        .replace("\"../../crates/", "\"../controller-runtime/crates/");
    let manifest: Vec<&str> = manifest.lines().filter(|line| !line.starts_with("description")).collect();
    let (manifest, main) = (manifest.join("\n"), read(&example.join("src/main.rs")));
    let tests = read(&example.join("src/tests.rs"));
    let mut offences = Offences::default();
    for (guide, whole, rust) in [
        ("docs/getting-started.md", [("toml", &*manifest), ("rust", &*main)].as_slice(), &*main),
        ("docs/testing.md", &[], &*tests),
    ] {
        let text = read(&root().join(guide));
        let blocks = |language: &str| -> Vec<String> {
            let fence = format!("```{language}\n");
            let ends = |block: &str| block.split("\n```").next().unwrap_or_default().to_owned();
            text.split(&*fence).skip(1).map(ends).collect()
        };
        for (language, file) in whole {
            if blocks(language) != [file.trim()] {
                offences.add(&root().join(guide), &format!("its {language} is not that of the example"));
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

/// The commands that newcomers are told to run are those that CI runs.
#[test]
fn the_test_command_of_the_documents_is_the_one_of_ci() {
    for document in ["README.md", "CONTRIBUTING.md", ".ci/run", "justfile"] {
        assert!(
            read(&root().join(document)).contains("cargo test --workspace"),
            "{document}: has another test command"
        );
    }
}

/// Stated in one place, quoted in others.
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

/// A link inside the repository leads somewhere.
#[test]
fn links_between_documents_lead_to_files() {
    let mut offences = Offences::default();
    for document in files("", "md") {
        let text = read(&document);
        // Between fences is code, in which `](` is no link.
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

/// Whoever opens a crate or a folder of modules learns from the first line what it is for.
#[test]
fn crates_and_folders_of_modules_begin_with_their_purpose() {
    let mut offences = Offences::default();
    for file in files("", "rs") {
        let heads = ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| file.ends_with(name));
        if heads && !read(&file).starts_with("//! ") {
            offences.add(&file, "does not begin with `//! ` and a sentence");
        }
    }
    offences.assert_none();
}

/// What is unfinished is an issue, not a comment or a skipped test; what happened on one machine stays there.
#[test]
fn no_notes_to_self_remain() {
    let home = ["/home/", "/Users/", "/root/"];
    let checkout = root();
    let this_file = checkout.join("xtask/tests/tidy.rs");
    let mut offences = Offences::default();
    for file in ["rs", "md", "toml", "yml", "yaml"].iter().flat_map(|extension| files("", extension)) {
        if file == this_file {
            continue;
        }
        for (index, line) in read(&file).lines().enumerate() {
            let notes =
                ["TODO", "FIXME", "XXX", "HACK", "#[ignore"].iter().filter(|note| line.contains(**note));
            let paths = home.iter().copied().chain(checkout.to_str()).filter(|path| line.contains(path));
            for found in notes.copied().chain(paths) {
                offences.add(&file, &format!("line {}: {found}", index + 1));
            }
        }
    }
    offences.assert_none();
}

/// A package of this workspace as `cargo metadata` has it.
struct Package {
    name: String,
    manifest: PathBuf,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    features: Vec<String>,
    is_dev: bool,
}

impl Package {
    fn is_library(&self) -> bool {
        self.manifest.starts_with(root().join("crates"))
    }
}

fn packages() -> Vec<Package> {
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output();
    let output = output.expect("cargo, which runs this test, runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let dependency = |value: &Value| Dependency {
        name: text(&value["name"]),
        features: list(&value["features"]).iter().map(text).collect(),
        is_dev: value["kind"] == "dev",
    };
    let package = |value: &Value| Package {
        name: text(&value["name"]),
        manifest: text(&value["manifest_path"]).into(),
        dependencies: list(&value["dependencies"]).iter().map(dependency).collect(),
    };
    let packages: Vec<Package> = list(&metadata["packages"]).iter().map(package).collect();
    assert!(packages.len() > 1, "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    packages
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the repository").to_owned()
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// All files with an extension below a folder of the repository, build output and hidden folders apart.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry.expect("a folder can be read to its end").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// All places that break a rule, so that one run shows them all.
#[derive(Default)]
struct Offences(String);

impl Offences {
    fn add(&mut self, file: &Path, what: &str) {
        let root = root();
        let file = file.strip_prefix(&root).unwrap_or(file);
        let _ = writeln!(self.0, "{}: {what}", file.display());
    }

    fn assert_none(self) {
        assert!(self.0.is_empty(), "\n{}", self.0);
    }
}
