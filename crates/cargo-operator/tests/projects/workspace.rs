//! A workspace of projects that are built with the libraries of this repository.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

use crate::support::{errors, repository, script};

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
