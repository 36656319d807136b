//! Reads the documents of YAML and JSON files.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

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
    // The first line of the error has the position and the reason; the other lines quote the file.
    serde_saphyr::from_multiple(text)
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> DocumentError {
    |source| DocumentError::Read { path: path.to_owned(), source }
}
