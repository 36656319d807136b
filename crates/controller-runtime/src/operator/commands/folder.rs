//! Reading and writing the folder of a layout.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{manifests::Files, operator::CommandError};

/// Writes the files, and removes those that are not rendered any more. A file with an equal text is not touched. Returns the paths of
/// the files that changed.
pub(super) fn write(folder: &Path, files: &Files) -> Result<Vec<String>, CommandError> {
    let mut written = Vec::new();
    for (name, file) in &files.files {
        let path = folder.join(name);
        let existing = read(&path)?;
        let text = file.over(existing.as_deref());
        if existing.as_ref() == Some(&text) {
            continue;
        }
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent)
            .map_err(|error| CommandError::file("create the folder", parent, &error))?;
        replace(&path, &text).map_err(|error| CommandError::file("write", &path, &error))?;
        written.push(path.display().to_string());
    }
    for stale in stale(folder, files)? {
        fs::remove_file(&stale).map_err(|error| CommandError::file("remove", &stale, &error))?;
        written.push(stale.display().to_string());
    }
    Ok(written)
}

/// Writes beside the file and renames, so that a failure leaves the old text.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = path.with_file_name(name);
    fs::write(&beside, text)?;
    fs::rename(&beside, path)
}

/// Text of a file; `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>, CommandError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CommandError::file("read", path, &error)),
    }
}

/// Files in the generated folder that are not rendered any more, sorted.
pub(super) fn stale(folder: &Path, files: &Files) -> Result<Vec<PathBuf>, CommandError> {
    let Some(generated) = files.generated else { return Ok(Vec::new()) };
    let within = folder.join(generated);
    let entries = match fs::read_dir(&within) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(CommandError::file("read the folder", &within, &error)),
    };
    let mut stale = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| CommandError::file("read the folder", &within, &error))?.path();
        let name = path.file_name().map(|name| format!("{generated}/{}", name.to_string_lossy()));
        if path.is_file() && name.is_none_or(|name| !files.files.contains_key(&name)) {
            stale.push(path);
        }
    }
    stale.sort();
    Ok(stale)
}
