//! Places that ARCHITECTURE.md and CONTRIBUTING.md name. A reader that follows them must find the file.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Offences, files, read, root};

/// Extensions of files that the documents name.
const EXTENSIONS: [&str; 7] = ["rs", "md", "txt", "html", "yaml", "toml", "json"];

#[test]
fn files_in_the_documents_exist() {
    let places = places();
    let mut offences = Offences::default();
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md", "RELEASING.md"] {
        let path = root().join(document);
        for (index, line) in read(&path).lines().enumerate() {
            for name in quoted(line).filter(|name| is_path(name)) {
                if !is_place(&places, name) {
                    offences.add(&path, &format!("line {}: there is no {name}", index + 1));
                }
            }
        }
    }
    offences.assert_none();
}

/// The first column of a table of the code map names modules of the crate in the heading above; in tables of floors it is the second
/// column.
#[test]
fn modules_in_the_code_map_exist() {
    let places = places();
    let path = root().join("ARCHITECTURE.md");
    let mut offences = Offences::default();
    let mut folder = None;
    for (index, line) in read(&path).lines().enumerate() {
        if line.starts_with('#') {
            folder = quoted(line)
                .next()
                .filter(|name| name.starts_with("crates/"))
                .map(|name| format!("{name}/src"));
        }
        let Some(folder) = folder.as_deref().filter(|_| line.starts_with('|')) else { continue };
        let names = line.split('|').skip(1).find(|cell| cell.contains('`')).unwrap_or_default();
        for name in quoted(names) {
            let module = name.trim_end_matches('/');
            let is_module = places.iter().any(|place| {
                let place = place.trim_end_matches(".rs");
                place.starts_with(folder) && (place.ends_with(&format!("/{module}")))
            });
            if !is_module {
                offences.add(&path, &format!("line {}: there is no module {name} in {folder}", index + 1));
            }
        }
    }
    offences.assert_none();
}

/// All files and folders of the repository.
fn places() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for extension in EXTENSIONS {
        for file in files("", extension) {
            let file = file.strip_prefix(root()).expect("files are below the root");
            let parts = file.ancestors().filter(|part| *part != Path::new(""));
            found.extend(parts.map(|part| part.display().to_string()));
        }
    }
    found
}

/// Texts between backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Whether a text between backticks is the path of a file or folder: no command, no URL path, no type.
fn is_path(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let has_extension =
        Path::new(name).extension().is_some_and(|found| EXTENSIONS.iter().any(|one| found == *one));
    name.chars().all(is_word) && !name.starts_with('/') && (has_extension || name.ends_with('/'))
}

/// Whether a path of the repository ends with a name: documents leave out folders that are clear from the context.
fn is_place(places: &BTreeSet<String>, name: &str) -> bool {
    let name = name.trim_end_matches('/');
    places.iter().any(|place| place == name || place.ends_with(&format!("/{name}")))
}

#[test]
fn paths_are_recognised() {
    for path in ["a/b.rs", "b.rs", "src/x/", "data/columns.txt"] {
        assert!(is_path(path), "{path}");
    }
    for other in ["/healthz", "kubectl", "a::b", "cargo test", "apps/v1", "--flag"] {
        assert!(!is_path(other), "{other}");
    }
}
