//! Programs of projects that are older than `kube_envtest::dev::run`. Pure.
//!
//! In these projects, `cargo run` called `kube_envtest::dev::Dev`, and the oldest have no `Operator`. A program that the user has not
//! changed is replaced by that of a new project. The user's code stays as it is, except that the library gets an additional function.

use std::collections::BTreeSet;

use crate::{edit::RustFile, template};

/// `src/bin/dev.rs` of the first projects.
const DEV: &str = include_str!("../../template/past/dev.rs");

/// `src/main.rs` of the first projects.
const MAIN: &str = include_str!("../../template/past/main.rs");

/// Changes that made the first `src/bin/dev.rs` into that of projects with an `Operator`.
const WITH_OPERATOR: [(&str, &str); 2] = [
    ("use widget_operator::Widget;", "use widget_operator::{Widget, operator};"),
    ("widget_operator::add_to(&manager)?", "operator().add_to(&manager)?"),
];

/// Programs and library of a package, as text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Programs<'p> {
    pub(super) package: &'p str,
    /// Name of the library in code.
    pub(super) library: &'p str,
    pub(super) dev: &'p str,
    pub(super) main: &'p str,
    /// First file of the library.
    pub(super) root: &'p str,
}

/// New texts of a package with a program for development that no longer compiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OldProgram {
    /// `None` if the user has changed the program.
    pub(super) dev: Option<String>,
    /// `None` if it can stay.
    pub(super) main: Option<String>,
    /// `None` if it can stay.
    pub(super) root: Option<String>,
}

impl Programs<'_> {
    /// Returns the new texts if the program for development no longer compiles.
    pub(super) fn outdated(&self) -> Option<OldProgram> {
        let dev = RustFile::parse(self.dev).ok()?;
        if !(dev.imports("Dev") && self.dev.contains("kube_envtest") && self.dev.contains("Dev::new()")) {
            return None;
        }
        let mut changed = OldProgram { dev: None, main: None, root: None };
        let kinds = dev.type_arguments("crd");
        let Some(mut root) = RustFile::parse(self.root).ok() else { return Some(changed) };
        let has_operator = root.has_function("operator");
        let is_as_made = |kind: &str| {
            let mut made = DEV.to_owned();
            if has_operator {
                for (from, to) in WITH_OPERATOR {
                    made = made.replace(from, to);
                }
            }
            is_same(&self.renamed(&made).replace("Widget", kind), self.dev)
        };
        if !has_operator {
            let main = RustFile::parse(self.main).ok();
            let Some([name, lease]) = main.and_then(|main| main.text_arguments("manager")) else {
                return Some(changed);
            };
            if !root.has_function("add_to") {
                return Some(changed);
            }
            root.add_use("use controller_runtime::operator::Operator;");
            root.append(&operator(&name, &lease, &kinds));
            changed.root = Some(root.into_text());
            let made = self.renamed(MAIN).replace(&format!("{}.example.com", self.package), &lease);
            changed.main = is_same(&made, self.main).then(|| self.renamed(template::MAIN));
        }
        if let [kind] = &*kinds {
            changed.dev = is_as_made(kind).then(|| self.renamed(template::DEV));
        }
        Some(changed)
    }

    /// A text of the template with the names of this package.
    fn renamed(&self, text: &str) -> String {
        text.replace("widget_operator", self.library).replace("widget-operator", self.package)
    }
}

/// The function that a library of the first projects lacks.
fn operator(name: &str, lease: &str, kinds: &[String]) -> String {
    let kinds: String = kinds.iter().map(|kind| format!("        .crd::<{kind}>()\n")).collect();
    format!(
        "/// The operator. Each kind has a definition here.\npub fn operator() -> Operator {{\n    Operator::new({name:?}, {lease:?})\n        \
         .version(env!(\"CARGO_PKG_VERSION\"))\n{kinds}        .setup(add_to)\n}}\n"
    )
}

/// Whether two files have the same code and comments. Line breaks and the order of imports do not count, because a formatter chooses
/// them by the lengths of names.
fn is_same(left: &str, right: &str) -> bool {
    normalized(left) == normalized(right)
}

fn normalized(text: &str) -> (BTreeSet<String>, String) {
    let compact = |text: &str| text.replace(|c: char| c.is_whitespace() || c == ',', "");
    let (mut imports, mut rest) = (BTreeSet::new(), String::new());
    let mut left = text;
    while let Some(start) = left.find("\nuse ") {
        let Some(length) = left[start..].find(';') else { break };
        rest.push_str(&left[..start]);
        imports.insert(compact(&left[start..start + length]));
        left = &left[start + length + 1..];
    }
    rest.push_str(left);
    (imports, compact(&rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANAGER: &str = "fn main() { flags.manager(\"album\", \"lease\"); }\n";
    const LIBRARY: &str =
        "//! Albums.\n\npub use album::Album;\n\npub fn add_to(_: &Manager) {\n    // mine\n}\n";

    fn outdated(dev: &str, main: &str, root: &str) -> Option<OldProgram> {
        Programs { package: "the-album", library: "the_album", dev, main, root }.outdated()
    }

    fn made(text: &str) -> String {
        let names = [("widget_operator", "the_album"), ("widget-operator", "the-album"), ("Widget", "Album")];
        names.into_iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    #[test]
    fn the_library_of_the_first_projects_gets_an_operator_and_keeps_its_text() {
        let changed = outdated(&made(DEV), &made(MAIN), LIBRARY).expect("it is old");
        assert_eq!(changed.dev, Some(made(template::DEV)));
        assert_eq!(changed.main, Some(made(template::MAIN)));
        let root = changed.root.expect("a function is added");
        let expected = "use controller_runtime::operator::Operator;\n\npub fn add_to(_: &Manager) {\n    // mine\n}\n\n\
            /// The operator. Each kind has a definition here.\npub fn operator() -> Operator {\n    \
            Operator::new(\"the-album\", \"the-album.example.com\")\n        .version(env!(\"CARGO_PKG_VERSION\"))\n        \
            .crd::<Album>()\n        .setup(add_to)\n}\n";
        assert_eq!(root, format!("//! Albums.\n\npub use album::Album;\n{expected}"));
    }

    #[test]
    fn programs_that_the_user_changed_stay() {
        let commented = made(DEV).replace("    Ok(run", "    // mine\n    Ok(run");
        let changed = outdated(&commented, MANAGER, LIBRARY).expect("it is old");
        assert_eq!((changed.dev, changed.main), (None, None));
        assert!(changed.root.is_some_and(|root| root.contains("Operator::new(\"album\", \"lease\")")));
        // Without the names of the operator nothing can be added.
        let changed = outdated(&made(DEV), "fn main() {}\n", LIBRARY).expect("it is old");
        assert_eq!(changed, OldProgram { dev: None, main: None, root: None });
    }

    #[test]
    fn line_breaks_and_the_order_of_imports_may_differ() {
        let lines: Vec<_> = DEV.lines().collect();
        let import = lines.iter().position(|line| line.starts_with("use kube_envtest")).expect("an import");
        let mut moved = lines.clone();
        moved.swap(import, import + 1);
        let moved = moved.join("\n").replace("let dev = Dev::new()", "let dev =\n        Dev::new()") + "\n";
        assert_ne!(moved, DEV);
        let root = "pub fn operator() {}\n";
        let with_operator = WITH_OPERATOR.into_iter().fold(moved, |text, (from, to)| text.replace(from, to));
        let changed = outdated(&made(&with_operator), "", root).expect("it is old");
        assert_eq!(changed, OldProgram { dev: Some(made(template::DEV)), main: None, root: None });
    }

    #[test]
    fn programs_of_new_projects_are_not_old() {
        assert_eq!(outdated(&made(template::DEV), &made(template::MAIN), LIBRARY), None);
        assert_eq!(outdated("not Rust", "", ""), None);
    }
}
