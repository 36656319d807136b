//! Links of the book to files of the repository: a preprocessor of mdBook (`docs/book/book.toml`).
//!
//! Pages link to files outside of the book by relative paths, which lead to the files in a checkout. In the built book these links have
//! to lead to the repository's site, `output.html.git-repository-url`. As long as that is not set, a link becomes its text.

use std::{
    io::Read,
    path::{Component, Path, PathBuf},
};

use serde_json::Value;

/// Folder of the pages, below the root of the repository.
const SOURCE: &str = "docs/book/src";

/// Reads a book from standard input, as mdBook passes it, and returns it with its links changed.
pub(crate) fn preprocess() -> Result<String, String> {
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input).map_err(|error| format!("cannot read the book: {error}"))?;
    let parsed: Value =
        serde_json::from_str(&input).map_err(|error| format!("the book is not JSON: {error}"))?;
    let [context, book] = parsed.as_array().map_or(&[][..], Vec::as_slice) else {
        return Err("the input is not a context and a book: this command is for mdBook 0.5".to_owned());
    };
    let site = context.pointer("/config/output/html/git-repository-url").and_then(Value::as_str);
    let mut book = book.clone();
    change_chapters(&mut book, site);
    Ok(book.to_string())
}

/// Changes the links of all chapters below a value.
fn change_chapters(value: &mut Value, site: Option<&str>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| change_chapters(item, site)),
        Value::Object(fields) => {
            let page = fields.get("path").and_then(Value::as_str).map(PathBuf::from);
            if let (Some(page), Some(Value::String(content))) = (page, fields.get_mut("content")) {
                *content = with_links_to(site, &page, content);
            }
            fields.values_mut().for_each(|field| change_chapters(field, site));
        }
        _ => {}
    }
}

/// Returns the text of `page` with its links to files of the repository leading to `site`.
fn with_links_to(site: Option<&str>, page: &Path, text: &str) -> String {
    let folder = Path::new(SOURCE).join(page.parent().unwrap_or(Path::new("")));
    // Every second piece is a code block. Its brackets are not links.
    let pieces = text.split("```").enumerate().map(|(index, piece)| match index % 2 {
        0 => prose_with_links_to(site, &folder, piece),
        _ => piece.to_owned(),
    });
    pieces.collect::<Vec<_>>().join("```")
}

fn prose_with_links_to(site: Option<&str>, folder: &Path, text: &str) -> String {
    let mut changed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(middle) = rest.find("](") {
        let (before, link) = rest.split_at(middle);
        let Some(end) = link.find(')') else { break };
        let (target, after) = (&link[2..end], &link[end + 1..]);
        match (outside(folder, target), site) {
            // mdBook writes a page README.md as index.html, but leaves the names in links.
            (None, _) => match readme(target) {
                Some(index) => changed.push_str(&format!("{before}]({index})")),
                None => changed.push_str(&rest[..=middle + end]),
            },
            (Some(file), Some(site)) => {
                changed.push_str(&format!("{before}]({}/blob/HEAD/{file})", site.trim_end_matches('/')));
            }
            (Some(_), None) => match before.rsplit_once('[') {
                Some((before, label)) => changed.push_str(&format!("{before}{label}")),
                None => changed.push_str(before),
            },
        }
        rest = after;
    }
    changed + rest
}

/// The target of a link to a page README.md, with the name that mdBook gives it.
fn readme(target: &str) -> Option<String> {
    let (path, place) = target.split_at(target.find('#').unwrap_or(target.len()));
    let folder =
        path.strip_suffix("README.md").filter(|folder| folder.is_empty() || folder.ends_with('/'))?;
    (!path.contains(':')).then(|| format!("{folder}index.md{place}"))
}

/// Path below the root of the repository of a link's target that is not a page of the book.
fn outside(folder: &Path, target: &str) -> Option<String> {
    if target.contains(':') || target.starts_with('#') {
        return None;
    }
    let mut path = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    (!path.starts_with(SOURCE)).then(|| path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(site: Option<&str>, text: &str, expected: &str) {
        assert_eq!(with_links_to(site, Path::new("guides/testing.md"), text), expected);
    }

    #[test]
    fn links_to_files_of_the_repository_lead_to_its_site() {
        let site = Some("https://example.com/operators/");
        check(
            site,
            "See [the tests](../../../../examples/a/tests.rs) and [rights](rights.md#roles).",
            "See [the tests](https://example.com/operators/blob/HEAD/examples/a/tests.rs) and [rights](rights.md#roles).",
        );
        check(
            site,
            "[b](../reference/bounds.md) [c](https://a.b/) [d](#e)",
            "[b](../reference/bounds.md) [c](https://a.b/) [d](#e)",
        );
        check(site, "```\nx[0](../../../../a)\n```\n", "```\nx[0](../../../../a)\n```\n");
    }

    #[test]
    fn pages_called_readme_are_the_indexes_of_their_folders() {
        check(
            None,
            "[a](README.md) [b](../tutorial/README.md#tests) [c](https://a.b/README.md) [d](MYREADME.md)",
            "[a](index.md) [b](../tutorial/index.md#tests) [c](https://a.b/README.md) [d](MYREADME.md)",
        );
    }

    #[test]
    fn without_a_site_their_text_stays() {
        check(
            None,
            "See [`crd_compat`](../../../../crates/x.rs), [rights](rights.md).",
            "See `crd_compat`, [rights](rights.md).",
        );
    }
}
