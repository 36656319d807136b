//! Rules for crates of the registry. Nothing is published by tests; RELEASING.md has the steps of a release.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{Offences, files, metadata, read, root};

/// Packages larger than this are refused by the registry (10 MiB compressed).
const MAX_BYTES: u64 = 4 << 20;

/// Features that are not part of a library's documentation: the server's program, and defaults.
const UNDOCUMENTED: [&str; 2] = ["default", "program"];

/// Packages that a release publishes.
fn published() -> Vec<Value> {
    let all = metadata()["packages"].as_array().cloned().unwrap_or_default();
    let crates = root().join("crates");
    let is_crate = |package: &Value| folder(package).parent() == Some(&crates);
    let found: Vec<Value> = all.into_iter().filter(is_crate).collect();
    assert!(found.len() >= 8, "{} crates", found.len());
    found
}

fn manifest(package: &Value) -> PathBuf {
    package["manifest_path"].as_str().expect("a manifest has a path").into()
}

fn folder(package: &Value) -> PathBuf {
    manifest(package).parent().expect("a manifest is in a folder").to_owned()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The registry shows these fields, and refuses crates without some of them.
#[test]
fn crates_have_the_metadata_of_a_registry() {
    let mut offences = Offences::default();
    for package in published() {
        let manifest = manifest(&package);
        for field in ["description", "license", "readme", "rust_version"] {
            if package[field].as_str().is_none_or(str::is_empty) {
                offences.add(&manifest, &format!("has no {field}"));
            }
        }
        let keywords = texts(&package["keywords"]);
        if !(3..=5).contains(&keywords.len()) || keywords.iter().any(|keyword| keyword.len() > 20) {
            offences.add(&manifest, "needs three to five keywords of at most 20 characters");
        }
        if !(1..=5).contains(&texts(&package["categories"]).len()) {
            offences.add(&manifest, "needs one to five categories");
        }
        // docs.rs gets no other features, and libraries choose no version of k8s-openapi.
        let docs = &package["metadata"]["docs"]["rs"];
        let documented: BTreeSet<&str> = texts(&docs["features"]).into_iter().collect();
        let features = package["features"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        for feature in features.filter(|feature| !UNDOCUMENTED.contains(feature)) {
            if docs["all-features"] != true && !documented.contains(feature) {
                offences.add(&manifest, &format!("[package.metadata.docs.rs] lacks feature {feature}"));
            }
        }
    }
    offences.assert_none();
}

/// Crates that `cargo install` of cargo-operator compiles at most: it is the first step of a new user.
const MAX_INSTALLED: usize = 110;

/// Neither the API server nor a Kubernetes client is part of cargo-operator. The operator's programs hold them, and are compiled anyway.
#[test]
fn cargo_operator_is_compiled_from_few_crates() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "tree",
        "--package",
        "cargo-operator",
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--locked",
    ]);
    let output = cargo.current_dir(root()).output().expect("cargo, which runs this test, runs");
    let text = String::from_utf8(output.stdout).expect("names in UTF-8");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // A crate that is compiled with two sets of features is compiled twice, and counted once.
    let crates: BTreeSet<&str> =
        text.lines().filter_map(|line| line.split(" v").next()).filter(|name| !name.is_empty()).collect();
    assert!(crates.contains("clap"), "{text}");
    assert!(crates.len() <= MAX_INSTALLED, "{} crates: {crates:?}", crates.len());
}

/// A published crate depends on the same version of the others. Without a version it cannot be packaged.
#[test]
fn crates_depend_on_the_version_of_the_workspace() {
    let mut offences = Offences::default();
    for package in published() {
        let expected = format!("^{}", package["version"].as_str().expect("a package has a version"));
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let is_ours = dependency["path"].is_string() && dependency["name"] != package["name"];
            if is_ours && dependency["req"] != *expected {
                let text = format!("{} needs version {expected}", dependency["name"]);
                offences.add(&manifest(&package), &text);
            }
        }
    }
    offences.assert_none();
}

/// `.ci/packages` takes `publish.workspace = true` out of the manifests in these folders of its copy. In another folder it would break the
/// workspace.
#[test]
fn members_that_are_not_published_are_where_the_packaging_looks() {
    let mut offences = Offences::default();
    let script = read(&root().join(".ci/packages"));
    assert!(
        script.contains(r#""$copy"/{bench,xtask,examples} "$copy"/crates/*/tests"#),
        "its folders are known here"
    );
    for package in metadata()["packages"].as_array().into_iter().flatten() {
        let manifest = manifest(package);
        let folder = folder(package);
        let parts: Vec<&str> =
            folder.strip_prefix(root()).into_iter().flatten().filter_map(|part| part.to_str()).collect();
        let is_known = match parts[..] {
            ["crates", _] | ["crates", _, "tests", ..] => true,
            [first, ..] => ["bench", "xtask", "examples"].contains(&first),
            [] => false,
        };
        if !is_known && read(&manifest).contains("publish.workspace = true") {
            offences.add(&manifest, "is in no folder that .ci/packages knows");
        }
    }
    offences.assert_none();
}

/// A package has its sources, data, licence and README, and neither tests nor their data.
#[test]
fn packages_hold_what_users_need_and_nothing_else() {
    let mut offences = Offences::default();
    for package in published() {
        let folder = folder(&package);
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["package", "--list", "--allow-dirty", "--offline", "--quiet"]).current_dir(&folder);
        let output = cargo.output().expect("cargo, which runs this test, runs");
        let listed = String::from_utf8(output.stdout).expect("names in UTF-8").replace('\\', "/");
        let listed: BTreeSet<&str> = listed.lines().collect();
        for needed in ["Cargo.toml", "LICENSE", "README.md", "src/lib.rs"] {
            if !listed.contains(needed) {
                let reason = String::from_utf8_lossy(&output.stderr).into_owned();
                offences.add(&folder, &format!("its package lacks {needed} {reason}"));
            }
        }
        for name in &listed {
            let generated = ["Cargo.lock", "Cargo.toml.orig", ".cargo_vcs_info.json"].contains(name);
            let known = ["Cargo.toml", "LICENSE", "README.md"].contains(name);
            let folders = ["src/", "data/", "template/"];
            if !generated && !known && !folders.iter().any(|folder| name.starts_with(folder)) {
                offences.add(&folder, &format!("its package has {name}"));
            }
        }
        let size = |name: &&&str| folder.join(name).metadata().map_or(0, |file| file.len());
        let bytes: u64 = listed.iter().map(|name| size(&name)).sum();
        if bytes > MAX_BYTES {
            offences.add(&folder, &format!("its package has {bytes} bytes"));
        }
        for (file, included) in included(&folder) {
            let target = normal(&file.with_file_name("").join(&included));
            let name = target.strip_prefix(&folder).ok().and_then(Path::to_str).unwrap_or_default();
            if !listed.contains(&*name.replace('\\', "/")) {
                offences.add(&file, &format!("includes {included}, which is not in the package"));
            }
        }
    }
    offences.assert_none();
}

/// Files that the code of a crate includes, except in tests.
fn included(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let below = folder.strip_prefix(root()).expect("below the root").join("src");
    for file in files(below.to_str().expect("a name in UTF-8"), "rs") {
        let is_test = |part: &std::ffi::OsStr| {
            part.to_str().is_some_and(|name| name == "tests" || name == "tests.rs" || name == "testing.rs")
        };
        if file.iter().any(is_test) {
            continue;
        }
        let text = read(&file);
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let mut attributes = String::new();
        for line in code.lines() {
            for macro_name in ["include_str!(\"", "include_bytes!(\""] {
                let is_code = !line.trim_start().starts_with("//") && !attributes.contains("doctest");
                if let Some((_, rest)) = line.split_once(macro_name).filter(|_| is_code) {
                    let path = rest.split('"').next().expect("split gives a piece");
                    found.push((file.clone(), path.to_owned()));
                }
            }
            if line.starts_with("#[") { attributes.push_str(line) } else { attributes.clear() }
        }
    }
    found
}

/// A path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path {
        if part == ".." {
            normal.pop();
        } else {
            normal.push(part);
        }
    }
    normal
}
