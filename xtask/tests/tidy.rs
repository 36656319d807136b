//! Rules for the whole repository that lints cannot check. Each test checks one rule; its documentation states the reason.

#[path = "tidy/book.rs"]
mod book;
#[path = "tidy/data.rs"]
mod data;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/floors.rs"]
mod floors;
#[path = "tidy/imports.rs"]
mod imports;
#[path = "tidy/language.rs"]
mod language;
#[path = "tidy/names.rs"]
mod names;
#[path = "tidy/packages.rs"]
mod packages;
#[path = "tidy/places.rs"]
mod places;
#[cfg(unix)]
#[path = "tidy/public_api.rs"]
mod public_api;
#[path = "tidy/sources.rs"]
mod sources;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Applications choose the version of the Kubernetes types. A library with a version would impose it on all applications, and
/// two libraries with different versions could not be combined.
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

/// Dependencies between crates as in ARCHITECTURE.md: the API server and the runtime meet only at `kube::Client`, the queue does not
/// depend on Kubernetes, transformations of objects stay pure, and `cargo operator` is compiled in a short time.
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
        (
            "kube-apimachinery",
            &[
                "kube",
                "k8s-openapi",
                "tokio",
                "http",
                "controller-runtime",
                "kube-apiserver-embedded",
                "kube-clock",
                "kube-envtest",
                "kube-workqueue",
            ],
        ),
        (
            "kube-apiserver-embedded",
            &["controller-runtime", "kube-workqueue", "kube-envtest", "kube-simulator"],
        ),
        ("kube-envtest", &["controller-runtime", "kube-workqueue", "kube-simulator"]),
        ("controller-runtime", &["kube-apiserver-embedded", "kube-envtest", "kube-simulator"]),
        (
            "cargo-operator",
            &[
                "kube",
                "k8s-openapi",
                "controller-runtime",
                "kube-apiserver-embedded",
                "kube-clock",
                "kube-envtest",
            ],
        ),
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

/// Without `biased`, `select!` picks the first branch at random, and stable tokio offers no seed: a simulation would not repeat. Test
/// code is exempt.
#[test]
fn every_select_is_biased() {
    let mut offences = Offences::default();
    let sources = ["crates/apiserver/src", "crates/controller-runtime/src", "crates/simulator/src"];
    for file in sources.iter().flat_map(|folder| files(folder, "rs")) {
        let is_test = file.components().any(|part| part.as_os_str() == "tests") || file.ends_with("tests.rs");
        let text = read(&file);
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines: Vec<&str> = code.lines().map(str::trim).collect();
        for (index, _) in lines.iter().enumerate().filter(|(_, line)| line.contains("select! {")) {
            if is_test || lines[index].starts_with("//") {
                continue;
            }
            let first = lines[index + 1..].iter().find(|line| !line.is_empty() && !line.starts_with("//"));
            if first != Some(&"biased;") {
                offences.add(&file, &format!("line {}: a select! without `biased;`", index + 1));
            }
        }
    }
    offences.assert_none();
}

/// A second TLS stack would double the longest part of a cold build, and some need more than a C compiler.
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

/// Unfinished work belongs into an issue, not into a comment or a skipped test. Paths of one machine mean nothing on others.
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

/// A package of this workspace, from `cargo metadata`.
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
        let crates = root().join("crates");
        self.manifest.starts_with(&crates) && !self.manifest.starts_with(crates.join("cargo-operator"))
    }
}

/// The packages of this workspace, as `cargo metadata` prints them.
fn metadata() -> Value {
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output();
    let output = output.expect("cargo, which runs this test, runs");
    let reason = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "cargo metadata: {reason}");
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn packages() -> Vec<Package> {
    let metadata = metadata();
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
    assert!(packages.len() > 1, "{} packages", packages.len());
    packages
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the repository").to_owned()
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Lists all files with an extension below a folder of the repository, except build output and hidden folders.
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

/// Violations of a rule, collected so that one run reports all of them.
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
