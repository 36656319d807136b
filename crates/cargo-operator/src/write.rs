//! Writing files of a project: all of them, or none.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{failure::Failure, shell::Shell};

/// A file to write.
#[derive(Debug, Clone)]
pub struct FileChange {
    /// Path below the folder of the project.
    path: String,
    text: String,
    is_new: bool,
}

impl FileChange {
    /// A file that must not exist yet.
    #[must_use]
    pub fn new(path: impl Into<String>, text: String) -> Self {
        Self { path: path.into(), text, is_new: true }
    }

    /// A file that exists, with another text.
    #[must_use]
    pub fn edited(path: &str, text: String) -> Self {
        Self { path: path.to_owned(), text, is_new: false }
    }
}

/// Writes the files of an existing project. Returns the paths of the new ones, which are formatted.
///
/// # Errors
///
/// A new file exists, or one cannot be written. Files that were already written are then restored or removed, and so are new folders.
pub fn all(folder: &Path, changes: &[FileChange]) -> Result<Vec<String>, Failure> {
    let new = || changes.iter().filter(|change| change.is_new);
    if let Some(existing) = new().find(|change| folder.join(&change.path).exists()) {
        return Err(Failure::new(format!(
            "{} exists already, so nothing was changed: move the file, or choose another name",
            existing.path
        )));
    }
    let mut undo: Vec<Undo> = Vec::new();
    for change in changes {
        let path = folder.join(&change.path);
        undo.push(Undo::of(path.clone()));
        if let Err(failure) = one(&path, &change.text) {
            undo.iter().rev().for_each(Undo::run);
            return Err(failure);
        }
    }
    format(folder, new().map(|change| folder.join(&change.path)));
    Ok(new().map(|change| change.path.clone()).collect())
}

/// State of a file before it was written.
struct Undo {
    path: PathBuf,
    /// Contents of the file, if it existed.
    before: Option<Vec<u8>>,
    /// Folders above it that did not exist, the deepest first.
    missing: Vec<PathBuf>,
}

impl Undo {
    fn of(path: PathBuf) -> Self {
        let missing = path.ancestors().skip(1).take_while(|above| !above.exists());
        Self { before: fs::read(&path).ok(), missing: missing.map(Path::to_owned).collect(), path }
    }

    fn run(&self) {
        // Failures are ignored, because the error that led here is reported. A folder that is not empty is not removed.
        let _ = match &self.before {
            Some(contents) => fs::write(&self.path, contents),
            None => fs::remove_file(&self.path),
        };
        for folder in &self.missing {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Writes one file, and creates its parent folders.
///
/// # Errors
///
/// The file cannot be written.
pub fn one(path: &Path, text: &str) -> Result<(), Failure> {
    bytes(path, text.as_bytes())
}

/// Writes one file with any bytes, and creates its parent folders.
///
/// # Errors
///
/// The file cannot be written.
pub fn bytes(path: &Path, contents: &[u8]) -> Result<(), Failure> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, contents));
    written.map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

/// Writes a file that only its owner can read, and creates its parent folders.
///
/// # Errors
///
/// The file cannot be written.
pub fn secret(path: &Path, text: &str) -> Result<(), Failure> {
    // An existing file would keep its permissions.
    if path.exists() {
        fs::remove_file(path)
            .map_err(|error| Failure::new(format!("cannot replace {}: {error}", path.display())))?;
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = path.parent().map_or(Ok(()), fs::create_dir_all);
    let written = written.and_then(|()| Write::write_all(&mut options.open(path)?, text.as_bytes()));
    written.map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

/// Formats the Rust files, because the names change the lengths of lines. Without rustfmt they stay as they are.
pub fn format(folder: &Path, files: impl Iterator<Item = PathBuf>) {
    let rust: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect();
    if rust.is_empty() {
        // Without files rustfmt would format the standard input.
        return;
    }
    // `--config skip_children` is unstable, and a new file has no children yet.
    let _ = Command::new("rustfmt")
        .args(["--edition", "2024"])
        .args(rust)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// Formats the new text of a Rust file if the old one was formatted.
pub(crate) fn as_formatted_as(before: &str, after: String, folder: &Path) -> String {
    match formatted(before, folder) {
        Some(text) if text == before => formatted(&after, folder).unwrap_or(after),
        _ => after,
    }
}

/// The text of a new Rust file, formatted if rustfmt is installed.
pub(crate) fn as_new_file(text: String, folder: &Path) -> String {
    formatted(&text, folder).unwrap_or(text)
}

/// A formatted Rust text. `None` without rustfmt, or if it cannot be formatted.
fn formatted(text: &str, folder: &Path) -> Option<String> {
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition", "2024"]).current_dir(folder);
    let mut child =
        rustfmt.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    // No deadlock: rustfmt reads its whole input before it writes.
    child.stdin.take()?.write_all(text.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).ok())?
}

/// Prints a note that the manifests of the project, if it has any, must be rendered again.
pub fn remind_of_manifests(folder: &Path, shell: &Shell) {
    if folder.join("deploy").is_dir() {
        shell.note("", "cargo operator manifests --out deploy   # renders the manifests again");
    }
}

/// Path of a file as its user sees it: below the folder of the project.
#[must_use]
pub fn relative(path: &Path, folder: &Path) -> String {
    path.strip_prefix(folder).unwrap_or(path).display().to_string()
}

/// Rust files in a folder and below it. Folders behind symbolic links are left out, because a link may lead back to a folder around it.
#[must_use]
pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(&inner).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && path.is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_neither_texts_nor_files_nor_folders() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        fs::create_dir(path.join("mine")).expect("a folder");
        for file in ["old.rs", "mine/plain"] {
            fs::write(path.join(file), "before").expect("a file");
        }
        let new = |path: &str| FileChange::new(path, "new".to_owned());
        // The last one would be in a file, not in a folder.
        let changes = [
            FileChange::edited("old.rs", "after".to_owned()),
            new("src/deep/a.rs"),
            new("src/deep/b.rs"),
            new("mine/inner/c.rs"),
            new("mine/plain/d.rs"),
        ];
        let failure = all(path, &changes).expect_err("the last file cannot be written");
        assert!(failure.message.contains("mine/plain/d.rs"), "{}", failure.message);
        let names = |folder: &Path| {
            let entries = fs::read_dir(folder).expect("a folder");
            let names =
                entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
            names.collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(names(path), ["mine", "old.rs"].map(str::to_owned).into());
        assert_eq!(names(&path.join("mine")), ["plain".to_owned()].into());
        for file in ["old.rs", "mine/plain"] {
            assert_eq!(fs::read_to_string(path.join(file)).expect("text"), "before", "{file}");
        }
        let written = all(path, &changes[..4]).expect("all can be written");
        assert_eq!(written, ["src/deep/a.rs", "src/deep/b.rs", "mine/inner/c.rs"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_folder_around_it_repeats_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        fs::create_dir(path.join("src")).expect("a folder");
        fs::write(path.join("src/a.rs"), "").expect("a file");
        std::os::unix::fs::symlink(path, path.join("src/around")).expect("a link");
        std::os::unix::fs::symlink(path.join("src/a.rs"), path.join("src/b.rs")).expect("a link");
        assert_eq!(rust_files(path), [path.join("src/a.rs"), path.join("src/b.rs")]);
    }
}
