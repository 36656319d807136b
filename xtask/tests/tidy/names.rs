//! Names of types and files. A search for a name leads to one place of a crate if no other type or file has that name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Offences, files, read, root};

/// Names that every module may use: the errors and options of the module that the folder belongs to, and its tests.
const OF_THEIR_FOLDER: [&str; 6] = ["lib", "main", "error", "options", "tests", "simulation"];

/// Folders with files named by a noun of Kubernetes, with the reason. Other files of the crate may have the same noun.
const NAMED_BY_NOUN: [(&str, &str); 3] = [
    ("apiserver/src/kinds/builtin/columns", "columns of a kind"),
    ("apiserver/src/api/admission", "an admission plugin, named as in Kubernetes"),
    ("controller-runtime/src/client/requests", "requests with one verb"),
];

/// Types with equal names in a crate make each error message, search and review ambiguous.
#[test]
fn no_two_types_of_a_crate_share_a_name() {
    let mut offences = Offences::default();
    for sources in sources_by_crate() {
        let mut seen: BTreeMap<String, PathBuf> = BTreeMap::new();
        for file in sources.iter().filter(|file| !is_test(file) && !replaces_another(file)) {
            for name in types(&read(file)) {
                match seen.get(&name) {
                    // Twice in one file: one definition for each platform or feature.
                    Some(other) if other != file => {
                        let other = in_repository(other).display();
                        offences
                            .add(file, &format!("{name} is also a type in {other}: name it by its meaning"));
                    }
                    _ => {
                        seen.insert(name, file.clone());
                    }
                }
            }
        }
    }
    offences.assert_none();
}

/// Editors and code reviews show the name of a file without its folder.
#[test]
fn no_two_files_of_a_crate_share_a_name() {
    let mut offences = Offences::default();
    for sources in sources_by_crate() {
        let mut seen: BTreeMap<String, PathBuf> = BTreeMap::new();
        for file in sources.iter().filter(|file| !is_test(file)) {
            let Some(name) = module_name(file) else { continue };
            if let Some(other) = seen.insert(name.clone(), file.clone()) {
                let other = in_repository(&other).display();
                offences.add(file, &format!("{other} has the name {name}, too: name it by its content"));
            }
        }
    }
    offences.assert_none();
}

/// A list of exceptions that no longer apply hides new violations.
#[test]
fn folders_named_by_nouns_exist() {
    for (folder, reason) in NAMED_BY_NOUN {
        assert!(root().join("crates").join(folder).is_dir(), "crates/{folder} ({reason}) does not exist");
    }
}

#[test]
fn types_are_found_at_their_definitions() {
    let source = "pub(crate) struct Name;\nenum Kind<T> {\n    Other,\n}\npub type Short = u8;\n\
                  impl Name {\n    type Inner = u8;\n}\n// struct Comment\nlet x = struct_like;\n\
                  #[cfg(test)]\nmod tests {\n    struct OfTests;\n}\n";
    assert_eq!(types(source), ["Name", "Kind", "Short"]);
}

/// Rust sources of each crate.
fn sources_by_crate() -> Vec<Vec<PathBuf>> {
    let mut crates: Vec<PathBuf> = std::fs::read_dir(root().join("crates"))
        .expect("the folder of the crates")
        .map(|entry| entry.expect("a folder can be read to its end").path().join("src"))
        .filter(|folder| folder.is_dir())
        .collect();
    crates.sort();
    assert!(crates.len() > 5, "{} crates", crates.len());
    crates.iter().map(|folder| files(&folder.display().to_string(), "rs")).collect()
}

/// Names of the structs, enums, traits and aliases that a source defines, without those of its tests and without associated types.
fn types(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    for line in code.lines() {
        let is_nested = line.starts_with(' ');
        let mut words = line.trim_start();
        if let Some(public) = words.strip_prefix("pub") {
            words = match public.strip_prefix('(').and_then(|rest| rest.split_once(") ")) {
                Some((_, rest)) => rest,
                None => public.trim_start(),
            };
        }
        let Some((keyword, rest)) = words.split_once(' ') else { continue };
        let defines =
            ["struct", "enum", "trait", "union"].contains(&keyword) || (keyword == "type" && !is_nested);
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if defines && name.starts_with(char::is_uppercase) {
            found.push(name);
        }
    }
    found
}

/// Path of a file in the repository, so that the names of the folders around a checkout do not matter.
fn in_repository(file: &Path) -> &Path {
    file.strip_prefix(root()).expect("files are below the root")
}

/// Whether a file contains only tests.
fn is_test(file: &Path) -> bool {
    in_repository(file).components().any(|part| part.as_os_str() == "tests")
        || ["tests.rs", "simulation.rs"].iter().any(|name| file.ends_with(name))
}

/// Whether the file stands in for another one in builds without a feature (`no_tls.rs`) or under loom (`model.rs`): its types have the
/// names of that file's types.
fn replaces_another(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("no_") || file.ends_with("workqueue/src/sync/model.rs")
}

/// Name of the module in a file, if it must be unique.
fn module_name(file: &Path) -> Option<String> {
    let folder = in_repository(file).parent().expect("a file is in a folder");
    let stem = if file.ends_with("mod.rs") { folder.file_name() } else { file.file_stem() };
    let name = stem.expect("a file has a name").to_str().expect("a name in UTF-8");
    // `client/transport/client.rs` holds the type after which the folder is named.
    let is_main_file = !file.ends_with("mod.rs") && folder.components().any(|part| part.as_os_str() == name);
    let named_by_noun =
        |(named, _): &(&str, &str)| !file.ends_with("mod.rs") && folder == Path::new("crates").join(named);
    let is_exempt =
        OF_THEIR_FOLDER.contains(&name) || is_main_file || NAMED_BY_NOUN.iter().any(named_by_noun);
    (!is_exempt).then(|| name.to_owned())
}
