//! Language of comments, log lines and errors.

use std::path::Path;

use super::{Offences, files, read, root, sources};

/// The first line of a crate or module folder states its purpose.
#[test]
fn crates_and_folders_of_modules_begin_with_their_purpose() {
    let mut offences = Offences::default();
    for file in files("", "rs") {
        let heads = ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| file.ends_with(name));
        if heads && !read(&file).starts_with("//! ") {
            offences.add(&file, "does not begin with `//! ` and a sentence");
        }
    }
    offences.assert_none();
}

/// A doc comment that opens with `What`, `Those` or `The same` has no subject: readers need the code to understand it. The
/// limit allows for a few lines that begin with such a word for good reason.
#[test]
fn doc_comments_open_with_a_noun_or_a_verb() {
    const PERCENT: usize = 2;
    let mut offences = Offences::default();
    for folder in language_folders() {
        let (mut total, mut found) = (0, Vec::new());
        for file in files(&folder, "rs") {
            for opener in sources::openers(&read(&file)) {
                total += 1;
                if lacks_subject(&opener.text) {
                    found.push((file.clone(), opener));
                }
            }
        }
        if found.len() * 100 > PERCENT * total {
            for (file, opener) in found {
                offences.add(&file, &format!("line {}: {}", opener.line, opener.text));
            }
        }
    }
    offences.assert_none();
}

/// Operators read log lines and errors without knowing the code. The words below stand for a component or an action that the
/// text should name.
#[test]
fn log_lines_and_errors_name_components_and_actions() {
    const STOP: [&str; 14] = [
        "what",
        "who",
        "whom",
        "whose",
        "whoever",
        "somebody",
        "nobody",
        "anybody",
        "told",
        "tell",
        "tells",
        "telling",
        "anew",
        "the present",
    ];
    let mut offences = Offences::default();
    for file in language_folders().iter().flat_map(|folder| files(folder, "rs")) {
        for message in sources::messages(&read(&file)) {
            let words = format!(" {} ", words(&message.text).join(" "));
            for stop in STOP.iter().filter(|stop| words.contains(&format!(" {stop} "))) {
                offences.add(&file, &format!("line {}: {stop:?} in {:?}", message.line, message.text));
            }
        }
    }
    offences.assert_none();
}

/// Folders of all packages. A package inside of another's folder belongs to the outer one.
fn language_folders() -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for manifest in files("", "toml").iter().filter(|file| file.ends_with("Cargo.toml")) {
        let folder = manifest.parent().expect("a manifest is in a folder");
        let folder = folder.strip_prefix(root()).expect("files are below the root").display().to_string();
        let is_inner = found.iter().any(|outer| Path::new(&folder).starts_with(outer));
        if !folder.is_empty() && !is_inner {
            found.push(folder);
        }
    }
    found
}

/// Whether a doc comment opens with a pronoun or a relative clause. Questions such as `Whether` and `How many` are usual for
/// functions that return the answer.
fn lacks_subject(text: &str) -> bool {
    const OPENERS: [&str; 14] = [
        "what",
        "who",
        "whom",
        "whose",
        "of",
        "those",
        "that of",
        "that which",
        "the same",
        "the one",
        "as of",
        "by what",
        "to whom",
        "how",
    ];
    const QUESTIONS: [&str; 4] = ["how many", "how much", "how long", "how often"];
    let text = format!("{} ", words(text).join(" "));
    let begins = |with: &&str| text.starts_with(&format!("{with} "));
    OPENERS.iter().any(begins) && !QUESTIONS.iter().any(begins)
}

/// Words of a text in lower case.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '\'');
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}
