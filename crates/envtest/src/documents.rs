//! Reads the documents of YAML and JSON files.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;
use serde_saphyr::MessageFormatter;

/// Failure to read a file or a folder.
#[derive(Debug)]
pub(crate) enum DocumentError {
    Read { path: PathBuf, source: io::Error },
    Parse { path: PathBuf, reason: String },
}

/// Returns the path itself, or the YAML and JSON files of a folder, sorted by name.
pub(crate) fn files_of(path: &Path) -> Result<Vec<PathBuf>, DocumentError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut files: Vec<PathBuf> = entries.map_err(unreadable(path))?;
    files.retain(|file| file.extension().is_some_and(|ext| ext == "yaml" || ext == "yml" || ext == "json"));
    // The order of a folder differs between file systems.
    files.sort();
    Ok(files)
}

/// Reads all documents of a file.
pub(crate) fn documents_of(path: &Path) -> Result<Vec<Value>, DocumentError> {
    let text = fs::read_to_string(path).map_err(unreadable(path))?;
    documents_of_text(&text).map_err(|reason| DocumentError::Parse { path: path.to_owned(), reason })
}

/// Reads all documents in a text.
pub(crate) fn documents_of_text(text: &str) -> Result<Vec<Value>, String> {
    serde_saphyr::from_multiple(text).map_err(|error| describe(&error))
}

/// The line and the reason, with a remedy for known errors.
fn describe(error: &serde_saphyr::Error) -> String {
    let location = error.location().map(|location| (location.line(), location.column()));
    // The snippet would repeat lines of the file, and the location is enough to find them.
    let error = error.without_snippet();
    let reason = match (error, location) {
        // A repeated key at the top level: usually the first key of another object.
        (serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. }, Some((_, 1))) => {
            format!("{key} is given a second time: remove it, or write --- on a line before another object")
        }
        (serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. }, _) => {
            format!("{key} is given a second time: remove one of the two")
        }
        _ => serde_saphyr::UserMessageFormatter.format_message(error).into_owned(),
    };
    match location {
        Some((line, _)) => format!("line {line}: {reason}"),
        None => reason,
    }
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> DocumentError {
    |source| DocumentError::Read { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users see these errors after the name of the file, so they must not mention the library or its options.
    #[test]
    fn errors_have_the_line_and_the_cure() {
        let object = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";
        for (text, expected) in [
            (
                format!("{object}{object}"),
                "line 5: apiVersion is given a second time: remove it, or write --- on a line before another object",
            ),
            (format!("{object}  name: b\n"), "line 5: name is given a second time: remove one of the two"),
            (format!("{object}data: *missing\n"), "line 5: "),
            (format!("{object}data: [a\n"), "line "),
        ] {
            let error = documents_of_text(&text).expect_err(&text);
            assert!(error.starts_with(expected), "{text}: {error}");
            for part in ["error:", "Options", "Policy", "\n"] {
                assert!(!error.contains(part), "{text}: {error}");
            }
        }
    }

    #[test]
    fn documents_are_separated_by_dashes() {
        let documents = documents_of_text("a: 1\n---\n---\nb: 2\n").expect("YAML");
        assert_eq!(documents.iter().filter(|document| !document.is_null()).count(), 2);
    }
}
