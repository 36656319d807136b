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
            offences.add(
                &package.manifest,
                "[dependencies] of a library: k8s-openapi has a version feature",
            );
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
            [
                "kube",
                "k8s-openapi",
                "controller-runtime",
                "kube-apiserver-embedded",
                "kube-envtest",
            ]
            .as_slice(),
        ),
        (
            "kube-apiserver-embedded",
            &["controller-runtime", "kube-workqueue", "kube-envtest"],
        ),
        ("kube-envtest", &["controller-runtime", "kube-workqueue"]),
        ("controller-runtime", &["kube-apiserver-embedded", "kube-envtest"]),
    ];
    let mut offences = Offences::default();
    for package in packages() {
        let banned = forbidden
            .iter()
            .find(|(name, _)| *name == package.name)
            .map_or(&[][..], |(_, banned)| banned);
        for dependency in package
            .dependencies
            .iter()
            .filter(|dependency| !dependency.is_dev)
        {
            if banned.contains(&&*dependency.name) {
                offences.add(
                    &package.manifest,
                    &format!("must not depend on {}", dependency.name),
                );
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

/// Whoever opens a file learns from its first line what it is for; the name says it of `tests.rs` beside a module.
#[test]
fn every_source_file_begins_with_its_purpose() {
    let mut offences = Offences::default();
    for file in files("", "rs") {
        let text = read(&file);
        if !text.starts_with("//! ") && !file.ends_with("tests.rs") {
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
    for file in ["rs", "md", "toml", "yml", "yaml"]
        .iter()
        .flat_map(|extension| files("", extension))
    {
        if file == this_file {
            continue;
        }
        for (index, line) in read(&file).lines().enumerate() {
            let notes = ["TODO", "FIXME", "XXX", "HACK", "#[ignore"]
                .iter()
                .filter(|note| line.contains(**note));
            let paths = home
                .iter()
                .copied()
                .chain(checkout.to_str())
                .filter(|path| line.contains(path));
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
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root())
        .output();
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
    assert!(
        packages.len() > 1,
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    packages
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is a folder of the repository")
        .to_owned()
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
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
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
