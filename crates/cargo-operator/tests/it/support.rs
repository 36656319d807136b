//! Runs programs in temporary folders.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

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

/// Projects in a workspace of their own, which builds into this repository's target folder, without network, with its versions of
/// dependencies.
pub(crate) struct Projects {
    folder: TempDir,
}

impl Projects {
    /// A workspace for projects with these names. They do not exist yet. No program of this repository may have such a name: the
    /// projects' programs would take its place in the target folder.
    pub(crate) fn new(names: &[&str]) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
        // The profiles of this repository, so that dependencies are built once; and of new projects, which are built several times.
        let manifest = format!(
            "[workspace]\nresolver = \"3\"\nmembers = {names:?}\n\n[profile.dev]\ndebug = \"line-tables-only\"\nincremental = true\n\n\
             [profile.dev.package.\"*\"]\ndebug = false\nincremental = false\n"
        );
        fs::write(folder.path().join("Cargo.toml"), manifest).expect("a file is written");
        fs::copy(repository().join("Cargo.lock"), folder.path().join("Cargo.lock"))
            .expect("a file is copied");
        Self { folder }
    }

    /// Folder of the workspace.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A cargo command in the workspace.
    pub(crate) fn cargo(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO"));
        command
            .args(words.split_whitespace())
            .current_dir(self.path())
            .env("CARGO_TARGET_DIR", Self::target());
        for_projects(&mut command);
        command
    }

    /// `cargo operator` with these words in a folder of the workspace.
    pub(crate) fn operator(&self, words: &str, folder: &str) -> Output {
        self.operator_command(words, folder).output().expect("the program runs")
    }

    /// The command `cargo operator` with these words in a folder of the workspace.
    pub(crate) fn operator_command(&self, words: &str, folder: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-operator"));
        command.arg("operator").args(words.split_whitespace()).current_dir(self.path().join(folder));
        command.env("CARGO_TARGET_DIR", Self::target());
        for_projects(&mut command);
        command
    }

    /// A program that runs these commands of a shell. Returns its path.
    pub(crate) fn script(&self, name: &str, commands: &str) -> PathBuf {
        script(self.path(), name, commands)
    }

    /// Runs a cargo command, which succeeds, and returns its output.
    #[track_caller]
    pub(crate) fn succeed(&self, words: &str) -> String {
        let output = self.cargo(words).output().expect("cargo runs");
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), errors(&output));
        assert!(output.status.success(), "cargo {words}:\n{text}");
        text
    }

    /// Path of a program that a build made.
    pub(crate) fn program(name: &str) -> PathBuf {
        Self::target().join("debug").join(name)
    }

    /// The target folder of this repository.
    pub(crate) fn target() -> &'static Path {
        Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a folder in the target folder")
    }
}

/// Sets the environment of cargo in a project: no network, no colours, and incremental builds, which CI turns off for the repository. A
/// project is built many times, and an incremental build takes a quarter of the time.
pub(crate) fn for_projects(command: &mut Command) {
    command.env("CARGO_NET_OFFLINE", "true").env("CARGO_TERM_COLOR", "never").env_remove("CARGO_INCREMENTAL");
}

/// A program in a folder that runs commands of a shell. Returns its path.
pub(crate) fn script(folder: &Path, name: &str, commands: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{commands}\n")).expect("a file is written");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it can be run");
    path
}
