//! Finds the modules that a Rust source names, for the rule about floors. It is not a full parser: it recognises comments, `use`
//! statements and paths that begin with `crate`, `super` or `self`.

/// A path from the root of the crate, and the line on which its statement begins, counted from 1.
#[derive(Debug, PartialEq)]
pub(crate) struct Import {
    pub(crate) line: usize,
    pub(crate) path: Vec<String>,
}

/// Paths that the source of `module` names outside of its comments and its test module.
pub(crate) fn imports(source: &str, module: &[&str]) -> Vec<Import> {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: Vec<&str> = source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let mut found = Vec::new();
    let mut lines = code.iter().enumerate();
    while let Some((index, line)) = lines.next() {
        let mut add = |tree: &str| {
            for path in expand(tree) {
                found.extend(from_root(&path, module).map(|path| Import { line: index + 1, path }));
            }
        };
        let begins_use = line.trim_start().split_once("use ").filter(|(before, _)| {
            before.is_empty() || before.starts_with("pub") && before.split_whitespace().count() == 1
        });
        match begins_use {
            Some((_, tree)) => {
                let mut tree = tree.to_owned();
                while !tree.contains(';') {
                    let Some((_, line)) = lines.next() else { break };
                    tree.push_str(line);
                }
                add(tree.split(';').next().unwrap_or_default());
            }
            None => paths_in(line).for_each(&mut add),
        }
    }
    found
}

/// Paths in a line of code.
fn paths_in(line: &str) -> impl Iterator<Item = &str> {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = line.split(move |c| !is_path(c));
    words.filter(|word| ["crate::", "super::", "self::"].iter().any(|root| word.starts_with(root)))
}

/// Paths of a `use` tree without its braces.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((before, inner)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or_default().to_owned()];
    };
    let inner = inner.trim_end().trim_end_matches('}');
    // The braces that were trimmed from the end of nested trees too.
    let lacking = inner.matches('{').count() - inner.matches('}').count();
    let inner = format!("{inner}{}", "}".repeat(lacking));
    let (mut depth, mut start, mut branches) = (0_usize, 0, Vec::new());
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                branches.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    branches.push(&inner[start..]);
    let branches = branches.into_iter().filter(|branch| !branch.trim().is_empty());
    branches.flat_map(expand).map(|branch| format!("{}{branch}", before.trim())).collect()
}

/// Resolves a path in `module`. `None` if it is of another crate.
fn from_root(path: &str, module: &[&str]) -> Option<Vec<String>> {
    let mut parts = path.split("::").map(str::trim).peekable();
    let mut root: Vec<String> = match *parts.peek()? {
        "crate" => Vec::new(),
        "super" | "self" => module.iter().map(ToString::to_string).collect(),
        _ => return None,
    };
    for part in parts {
        match part {
            "crate" | "self" => {}
            "super" => drop(root.pop()),
            other => root.push(other.to_owned()),
        }
    }
    Some(root)
}

#[test]
fn imports_are_the_paths_of_use_statements_and_of_code() {
    let source = "use std::fmt;\npub(crate) use crate::{\n    a::{self, B as C}, // crate::x\n    d::e,\n};\nfn f() { super::g(crate::h::I) }\n#[cfg(test)]\nmod tests {\nuse crate::t;\n}\n";
    let found: Vec<_> =
        imports(source, &["m", "n"]).into_iter().map(|found| (found.line, found.path.join("::"))).collect();
    let expected = [(2, "a"), (2, "a::B"), (2, "d::e"), (6, "m::g"), (6, "h::I")];
    assert_eq!(found, expected.map(|(line, path)| (line, path.to_owned())));
}
