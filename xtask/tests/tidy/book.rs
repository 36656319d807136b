//! Rules for the pages of the book, which can be checked without mdBook.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use crate::{Offences, files, read, root};

/// mdBook leaves out a page that the summary does not name, and shows a page that it names twice twice.
#[test]
fn the_summary_of_the_book_names_each_page_once() {
    let source = root().join("docs/book/src");
    let summary = source.join("SUMMARY.md");
    let mut offences = Offences::default();
    let mut named = BTreeSet::new();
    for (target, _) in links(&read(&summary)) {
        if !named.insert(source.join(&target)) {
            offences.add(&summary, &format!("names {target} twice"));
        }
    }
    let pages: BTreeSet<PathBuf> =
        files("docs/book/src", "md").into_iter().filter(|page| *page != summary).collect();
    for page in pages.difference(&named) {
        offences.add(page, "is not in SUMMARY.md");
    }
    for page in named.difference(&pages) {
        offences.add(page, "is in SUMMARY.md and does not exist");
    }
    offences.assert_none();
}

/// A link to a section that was renamed would lead to the top of a long page.
#[test]
fn links_to_sections_lead_to_headings() {
    let mut offences = Offences::default();
    for document in files("", "md") {
        for (target, section) in links(&read(&document)) {
            let Some(section) = section else { continue };
            let page =
                if target.is_empty() { document.clone() } else { document.with_file_name("").join(&target) };
            let is_markdown = page.extension().is_some_and(|extension| extension == "md");
            if is_markdown && page.is_file() && !anchors(&page).contains(&section) {
                offences.add(&document, &format!("{target}#{section}: there is no such heading"));
            }
        }
    }
    offences.assert_none();
}

/// Relative links outside of code, each with its section.
fn links(text: &str) -> Vec<(String, Option<String>)> {
    let prose: String = text.split("```").step_by(2).collect();
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let relative = targets.filter(|target| !target.is_empty() && !target.contains(':'));
    relative
        .map(|target| match target.split_once('#') {
            Some((page, section)) => (page.to_owned(), Some(section.to_owned())),
            None => (target.to_owned(), None),
        })
        .collect()
}

/// Names of the headings of a page, as GitHub and mdBook make them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let text = read(page);
    let mut anchors = BTreeSet::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if in_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        anchors.insert(kept.collect::<String>().to_lowercase().replace(' ', "-"));
    }
    anchors
}
