//! The template of a new project: the files of a tested operator for the kind Widget, with names to replace.

use std::collections::BTreeSet;

use toml_edit::{DocumentMut, Item, value};

use crate::{
    library::Library,
    names::{KindName, OperatorName},
};

/// Files of a project: path and text.
pub type Files = Vec<(String, String)>;

/// Scope of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindScope {
    /// Objects belong to namespaces.
    Namespaced,
    /// Objects belong to the cluster.
    Cluster,
}

/// Whether a project gets a workflow of GitHub Actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workflow {
    /// Tests, lints and manifests are checked for each push.
    GitHub,
    /// None.
    Absent,
}

const MANIFEST: &str = include_str!("../template/manifest.toml");

/// The program for a cluster.
pub(crate) const MAIN: &str = include_str!("../template/src/main.rs");

/// The program for development.
pub(crate) const DEV: &str = include_str!("../template/src/bin/dev.rs");

/// Files of the template, with their paths in a project.
const FILES: [(&str, &str); 12] = [
    ("Cargo.toml", MANIFEST),
    (".gitignore", include_str!("../template/gitignore")),
    ("README.md", include_str!("../template/README.md")),
    (WORKFLOW, include_str!("../template/ci.yml")),
    ("src/lib.rs", include_str!("../template/src/lib.rs")),
    ("src/main.rs", MAIN),
    ("src/bin/dev.rs", DEV),
    ("src/widget.rs", include_str!("../template/src/widget.rs")),
    ("src/widget/controller.rs", include_str!("../template/src/widget/controller.rs")),
    (COMMON, include_str!("../template/tests/common/mod.rs")),
    ("tests/widget.rs", include_str!("../template/tests/widget.rs")),
    ("samples/widget.yaml", include_str!("../template/samples/widget.yaml")),
];

const WORKFLOW: &str = ".github/workflows/ci.yml";

/// Code that all tests share: it runs the operator on an API server.
const COMMON: &str = "tests/common/mod.rs";

/// Files of a kind. A project has them for each of its kinds.
const OF_KIND: [&str; 4] =
    ["src/widget.rs", "src/widget/controller.rs", "tests/widget.rs", "samples/widget.yaml"];

/// Webhooks of a kind. Lines such as `// --defaulting` begin a part for these webhooks alone.
const WEBHOOKS: &str = include_str!("../template/webhooks.rs");

/// Changes for a kind without namespaces: its ConfigMaps are in namespace `default`.
const CLUSTER_SCOPED: [(&str, &str, &str); 6] = [
    ("src/widget.rs", "    namespaced,\n", ""),
    (
        "src/widget/controller.rs",
        "config_map.metadata.namespace = widget.namespace();",
        "config_map.metadata.namespace = Some(\"default\".to_owned());",
    ),
    ("samples/widget.yaml", "  namespace: default\n", ""),
    ("tests/widget.rs", "    let mut widget = ", "    "),
    (
        "tests/widget.rs",
        ";\n    widget.metadata.namespace = Some(\"default\".to_owned());\n    widget\n",
        "\n",
    ),
    ("tests/widget.rs", "Api::<Widget>::default_namespaced(", "Api::<Widget>::all("),
];

/// Names of Rust's prelude, which a kind must not have.
const PRELUDE: [&str; 16] = [
    "Box", "Clone", "Copy", "Default", "Drop", "Err", "Fn", "Into", "Iterator", "None", "Ok", "Option",
    "Result", "Some", "String", "Vec",
];

/// Names of packages that the template depends on, which a new package must not have.
///
/// # Panics
///
/// The manifest of the template is not TOML; a test reads it.
#[must_use]
pub fn dependencies() -> Vec<String> {
    let manifest = manifest();
    manifest["dependencies"]
        .as_table_like()
        .map_or_else(Vec::new, |table| table.iter().map(|(name, _)| name.to_owned()).collect())
}

/// Names in the template's code that do not derive from its kind. No kind may have one of these names.
#[must_use]
pub fn used_names() -> BTreeSet<String> {
    let mut used: BTreeSet<String> = PRELUDE.iter().map(|name| (*name).to_owned()).collect();
    for (_, text) in FILES.iter().filter(|(path, _)| path.ends_with(".rs")) {
        for line in text.lines() {
            let code = line.split("//").next().unwrap_or_default();
            // Every second piece is inside quotes.
            for piece in code.split('"').step_by(2) {
                used.extend(identifiers(piece));
            }
        }
    }
    used
}

/// Identifiers in a piece of code that are neither fields, methods nor paths of other crates, and not the template's own.
fn identifiers(code: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(start) = rest.find(is_part) {
        let qualified = rest[..start].ends_with("::") || rest[..start].ends_with('.');
        let end = rest[start..].find(|c| !is_part(c)).map_or(rest.len(), |length| start + length);
        let word = &rest[start..end];
        if !qualified && !word.to_lowercase().contains("widget") {
            found.push(word.to_owned());
        }
        rest = &rest[end..];
    }
    found
}

/// Returns the files of a project.
///
/// # Panics
///
/// The template lacks a text that a kind without namespaces changes; a test makes such a project.
#[must_use]
pub fn project(
    name: &OperatorName,
    kind: &KindName,
    scope: KindScope,
    workflow: Workflow,
    library: &Library,
) -> Files {
    let files = FILES.iter().filter(|(path, _)| *path != WORKFLOW || workflow == Workflow::GitHub);
    files
        .map(|(path, text)| match *path {
            "Cargo.toml" => (*path, depending_on(library)),
            _ => (*path, scoped(path, text, scope)),
        })
        .map(|(path, text)| (renamed(path, path, name, kind), renamed(path, &text, name, kind)))
        .collect()
}

/// Returns the files of another kind of a project, and the shared code of its tests, which older projects may lack.
///
/// # Panics
///
/// Like [`project`].
#[must_use]
pub fn kind(name: &OperatorName, kind: &KindName, scope: KindScope) -> (Files, Files) {
    let of = |paths: &[&str]| {
        let files = FILES.iter().filter(|(path, _)| paths.contains(path));
        files
            .map(|(path, text)| {
                (renamed(path, path, name, kind), renamed(path, &scoped(path, text, scope), name, kind))
            })
            .collect()
    };
    (of(&OF_KIND), of(&[COMMON]))
}

/// Webhooks of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Webhooks {
    /// Sets fields that an object leaves out.
    pub defaulting: bool,
    /// Refuses invalid objects.
    pub validation: bool,
}

/// Returns the file with the webhooks of a kind: its path below the folder of the library, and its text.
#[must_use]
pub fn webhooks(name: &OperatorName, kind: &KindName, wanted: Webhooks) -> (String, String) {
    let mut text = String::new();
    let mut is_wanted = true;
    for line in WEBHOOKS.lines() {
        match line {
            "// --defaulting" => is_wanted = wanted.defaulting,
            "// --validation" => is_wanted = wanted.validation,
            "// --" => is_wanted = true,
            _ if is_wanted => {
                text.push_str(line);
                text.push('\n');
            }
            _ => {}
        }
    }
    let path = renamed(".rs", "widget/webhooks.rs", name, kind);
    (path, renamed(".rs", &text, name, kind))
}

/// Returns a text of the template for kinds of this scope.
fn scoped(path: &str, text: &str, scope: KindScope) -> String {
    let mut text = text.to_owned();
    if scope == KindScope::Cluster {
        for (_, from, to) in CLUSTER_SCOPED.iter().filter(|(file, ..)| *file == path) {
            assert!(text.contains(from), "{path} of the template lacks {from:?}");
            text = text.replace(from, to);
        }
    }
    text
}

/// The manifest of a new project.
pub(crate) fn manifest() -> DocumentMut {
    MANIFEST.parse().expect("the template's manifest is TOML")
}

/// The manifest of a project that is a member of a workspace. Cargo ignores profiles there, with a warning.
///
/// # Panics
///
/// The text is not that of a new project.
#[must_use]
pub fn of_member(manifest: &str) -> String {
    let mut manifest: DocumentMut = manifest.parse().expect("the manifest of a new project is TOML");
    manifest.remove("profile");
    manifest.to_string()
}

/// The manifest with dependencies on `library`.
fn depending_on(library: &Library) -> String {
    let mut manifest = manifest();
    for table in ["dependencies", "dev-dependencies"] {
        for (package, folder) in Library::PACKAGES {
            if let Some(dependency) =
                manifest[table].as_table_like_mut().and_then(|table| table.get_mut(package))
            {
                set_source(dependency, library, folder);
            }
        }
    }
    manifest.to_string()
}

/// Sets the source of a dependency: a version in the registry, or a folder of a checkout.
fn set_source(dependency: &mut Item, library: &Library, folder: &str) {
    let (key, from) = match library {
        Library::Registry { version } => ("version", version.clone()),
        Library::Checkout { root } => ("path", root.join("crates").join(folder).display().to_string()),
    };
    match dependency.as_inline_table_mut() {
        Some(table) => {
            table.remove("version");
            let others: Vec<_> = table.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect();
            table.clear();
            table.insert(key, from.into());
            table.extend(others);
            table.fmt();
        }
        None if key == "version" => *dependency = value(from),
        None => {
            let mut table = toml_edit::InlineTable::new();
            table.insert(key, from.into());
            *dependency = value(table);
        }
    }
}

/// Replaces the names of the template in one pass, so that no replacement is replaced again.
fn renamed(path: &str, text: &str, name: &OperatorName, kind: &KindName) -> String {
    let in_code = path.ends_with(".rs");
    let names = [
        ("widget_operator", name.crate_name().to_owned()),
        ("widget-operator", name.as_str().to_owned()),
        ("widget-", format!("{}-", kind.module.replace('_', "-"))),
        ("widgets.example.com", format!("{}.{}", kind.plural, kind.group)),
        ("widgets", if in_code { kind.modules.clone() } else { kind.plural.clone() }),
        ("widget", kind.module.clone()),
        ("Widgets", kind.kinds()),
        ("Widget", kind.kind.clone()),
        ("example.com/v1", format!("{}/{}", kind.group, kind.version)),
        ("example.com", kind.group.clone()),
        ("version = \"v1\"", format!("version = \"{}\"", kind.version)),
    ];
    let mut renamed = String::with_capacity(text.len());
    let mut rest = text;
    'text: while let Some(first) = rest.chars().next() {
        for (from, to) in &names {
            if let Some(after) = rest.strip_prefix(from) {
                renamed.push_str(to);
                rest = after;
                continue 'text;
            }
        }
        renamed.push(first);
        rest = &rest[first.len_utf8()..];
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The workspace member that compiles and tests the template has the dependencies and features of new projects.
    #[test]
    fn the_member_that_tests_the_template_has_its_manifest() {
        let mut member: DocumentMut = include_str!("../tests/template/Cargo.toml").parse().expect("TOML");
        let root = std::path::PathBuf::from("checkout");
        let mut project: DocumentMut =
            depending_on(&Library::Checkout { root }).parse().expect("a project's manifest is TOML");
        for manifest in [&mut member, &mut project] {
            for (package, folder) in Library::PACKAGES {
                for table in ["dependencies", "dev-dependencies"] {
                    if let Some(dependency) =
                        manifest[table].as_table_like_mut().and_then(|table| table.get_mut(package))
                    {
                        assert!(
                            dependency["path"].as_str().is_some_and(|path| path.ends_with(folder)),
                            "{dependency}"
                        );
                        dependency["path"] = value(folder);
                    }
                }
            }
        }
        for table in ["package", "features", "dependencies", "dev-dependencies"] {
            let text = |manifest: &DocumentMut| {
                let lines = manifest[table].to_string();
                lines.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(text(&member), text(&project), "{table}");
        }
    }

    /// "a Widget" would become "a Album".
    #[test]
    fn no_article_stands_before_a_name_that_is_replaced() {
        for (path, text) in FILES {
            for article in [" a Widget", " A Widget", " a widget", "a `Widget"] {
                assert!(!text.contains(article), "{path} has {article:?}");
            }
        }
    }

    #[test]
    fn names_in_paths_comments_and_strings_are_free() {
        let line = "    let ready = kube_envtest::Instance::new(self.field, \"Quoted\"); // Comment";
        let code = line.split("//").next().expect("code");
        let found: Vec<_> = code.split('"').step_by(2).flat_map(identifiers).collect();
        assert_eq!(found, ["let", "ready", "kube_envtest", "self"]);
    }
}
