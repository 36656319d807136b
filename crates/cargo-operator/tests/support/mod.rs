//! Helpers that run `cargo operator` and return its output.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Folder of the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/cargo-operator is two folders deep")
}

/// `cargo operator` with these words, as cargo runs it.
pub(crate) fn cargo_operator(words: &str, folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-operator"));
    command
        .arg("operator")
        .args(words.split_whitespace())
        .current_dir(folder)
        .output()
        .expect("the program runs")
}

/// Standard output as text.
pub(crate) fn answer(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error as text.
pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Names in a folder and below it.
pub(crate) fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(&inner).expect("the folder can be read") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("below the folder");
                found.push(name.to_str().expect("a name in UTF-8").to_owned());
            }
        }
    }
    found.sort();
    found
}

/// A program in a folder that runs commands of a shell. Returns its path.
pub(crate) fn script(folder: &Path, name: &str, commands: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{commands}\n")).expect("a file is written");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it can be run");
    path
}
