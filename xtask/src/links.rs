//! Links of the built book: each leads to a file, and to a place in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

/// Checks the links between the files of a folder, and returns their number.
pub(crate) fn check(folder: &Path) -> Result<String, String> {
    let mut pages = BTreeMap::new();
    read(folder, &mut pages).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    if pages.is_empty() {
        return Err(format!("{} has no pages: mdbook build docs/book writes them", folder.display()));
    }
    let places: BTreeMap<&Path, BTreeSet<&str>> =
        pages.iter().map(|(path, text)| (&**path, attributes(text, "id").collect())).collect();
    let (mut links, mut broken) = (0, Vec::new());
    for (page, text) in &pages {
        let targets = attributes(text, "href").chain(attributes(text, "src"));
        // Links to sites have a scheme; that of the page 404 depends on the site.
        for target in targets.filter(|target| !target.contains(':') && !target.starts_with('/')) {
            links += 1;
            if !leads_somewhere(page, target, &places) {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    match broken.is_empty() {
        true => Ok(format!("{} pages, {links} links", pages.len())),
        false => Err(format!("links that lead nowhere:\n  {}", broken.join("\n  "))),
    }
}

/// Reads the pages of a folder and below it.
fn read(folder: &Path, pages: &mut BTreeMap<PathBuf, String>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(&path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            let text = fs::read_to_string(&path)?;
            pages.insert(path, text);
        }
    }
    Ok(())
}

/// Values of an attribute.
fn attributes<'t>(text: &'t str, name: &str) -> impl Iterator<Item = &'t str> {
    let parts: Vec<&str> = text.split(&format!(" {name}=\"")).skip(1).collect();
    parts.into_iter().filter_map(|part| Some(part.split_once('"')?.0))
}

fn leads_somewhere(page: &Path, target: &str, places: &BTreeMap<&Path, BTreeSet<&str>>) -> bool {
    let (path, place) = target.split_once('#').unwrap_or((target, ""));
    let mut file = if path.is_empty() { page.to_owned() } else { PathBuf::new() };
    if !path.is_empty() {
        for part in page.parent().unwrap_or(page).join(path).components() {
            match part {
                Component::ParentDir => drop(file.pop()),
                part => file.push(part),
            }
        }
    }
    match places.get(&*file) {
        Some(ids) => place.is_empty() || ids.contains(place),
        None => file.is_file(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_missing_files_and_places_are_named() {
        let folder = std::env::temp_dir().join(format!("xtask-links-{}", std::process::id()));
        fs::create_dir_all(folder.join("a")).expect("a folder");
        let index = r##"<a href="a/b.html#there">x</a> <a href="#top" id="top">x</a> <a href="https://a.b/c">x</a> <img src="c.png">"##;
        fs::write(folder.join("index.html"), index).expect("a file");
        fs::write(folder.join("c.png"), "").expect("a file");
        let page = r#"<h1 id="there"></h1> <a href="../index.html">x</a>"#;
        fs::write(folder.join("a/b.html"), page).expect("a file");
        assert_eq!(check(&folder), Ok("2 pages, 4 links".to_owned()));

        fs::write(folder.join("a/b.html"), r#"<a href="README.html">x</a>"#).expect("a file");
        let broken = check(&folder).expect_err("broken links");
        fs::remove_dir_all(&folder).expect("it is removed");
        let lines: Vec<&str> = broken.lines().map(|line| line.rsplit('/').next().unwrap_or(line)).collect();
        assert_eq!(lines, ["links that lead nowhere:", "b.html: README.html", "b.html#there"]);
    }
}
