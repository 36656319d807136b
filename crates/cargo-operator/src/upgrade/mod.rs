//! `cargo operator upgrade`: the libraries of an operator in the versions of this program.
//!
//! Only certain versions of `controller-runtime`, `kube` and `k8s-openapi` are compatible with each other. An older project gets the
//! versions of a new project, in all packages of its workspace. Programs that no longer compile are replaced by those of a new project,
//! unless the user has changed them.

mod old_programs;
mod versions;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use clap::Args;

use self::{
    old_programs::{OldProgram, Programs},
    versions::{VersionChange, upgraded},
};
use crate::{
    failure::Failure,
    project::{PackageSelection, WorkspacePackage, cargo, display},
    shell::Shell,
    template, write,
};

/// Arguments of `cargo operator upgrade`.
#[derive(Debug, Clone, Args)]
pub struct Upgrade {
    /// Print the changes without making them; exit code 3 if there are any
    #[arg(long)]
    check: bool,
    /// Change and lock versions without network
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    package: PackageSelection,
}

/// Changes of a workspace.
#[derive(Debug, Default)]
struct Changes {
    versions: Vec<VersionChange>,
    /// Files with their old and new texts.
    edits: Vec<Edit>,
    /// Rust files in `edits`, as the user sees them.
    programs: Vec<String>,
    /// Programs that no longer compile and that the user has to edit.
    left: Vec<String>,
}

#[derive(Debug)]
struct Edit {
    path: PathBuf,
    before: String,
    after: String,
}

/// Changes versions and old programs, and checks that the workspace compiles.
///
/// # Errors
///
/// A file cannot be read or written, or cargo finds no such versions; the files are then unchanged. The workspace does not compile with
/// the new versions; the files are then changed.
pub fn run(arguments: &Upgrade, here: &Path, shell: &Shell) -> Result<(), Failure> {
    let (packages, root) = arguments.package.packages(here)?;
    let folder = root.parent().unwrap_or(here);
    let changes = Changes::find(&packages, &root, folder)?;
    let is_fresh = changes.edits.is_empty() && changes.left.is_empty();
    if is_fresh {
        shell.status(
            "Fresh",
            format_args!("the libraries have the versions of cargo-operator {}", env!("CARGO_PKG_VERSION")),
        );
        return Ok(());
    }
    if arguments.check {
        return Err(Failure::difference(format!(
            "the project is older than cargo-operator {}: {}",
            env!("CARGO_PKG_VERSION"),
            changes.listed()
        ))
        .hint("cargo operator upgrade makes these changes"));
    }
    changes.make(arguments, folder, shell)?;
    if !changes.versions.is_empty() {
        shell.status("Upgraded", joined(&changes.versions));
    }
    if !changes.programs.is_empty() {
        shell.status("Edited", changes.programs.join(", "));
    }
    for file in &changes.left {
        shell.warn(format_args!(
            "{file} uses kube_envtest::dev::Dev, which was removed. The file was edited, so it is not replaced: call \
             kube_envtest::dev::run in it, whose documentation has an example"
        ));
    }
    let mut check = Command::new(cargo());
    check.args(["check", "--workspace", "--all-targets"]).current_dir(folder);
    if arguments.offline {
        check.arg("--offline");
    }
    shell.running(display(&check));
    match check.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => {
            shell.note("Next", "cargo test, then cargo operator manifests --check");
            Ok(())
        }
        Ok(_) => Err(Failure::new("the project does not compile with the new versions")
            .hint("the changelog of controller-runtime lists renamed items; git restores the old versions")),
        Err(error) => Err(Failure::new(format!("cannot run cargo: {error}"))),
    }
}

impl Changes {
    /// Finds the changes of packages and of the manifest of their workspace, which is in `folder`.
    fn find(packages: &[WorkspacePackage], root: &Path, folder: &Path) -> Result<Self, Failure> {
        let mut changes = Self::default();
        let manifests = packages.iter().map(|package| &*package.manifest);
        let workspace = (!manifests.clone().any(|manifest| manifest == root)).then_some(root);
        for path in manifests.chain(workspace) {
            let before = read(path)?;
            let (after, found) = upgraded(&before, &template::manifest())
                .map_err(|error| Failure::new(format!("{} is not TOML: {error}", path.display())))?;
            if !found.is_empty() {
                changes.edits.push(Edit { path: path.to_owned(), before, after });
            }
            for change in found {
                if !changes.versions.contains(&change) {
                    changes.versions.push(change);
                }
            }
        }
        for package in packages {
            changes.find_programs(package, folder)?;
        }
        Ok(changes)
    }

    /// Finds programs of a package that no longer compile.
    fn find_programs(&mut self, package: &WorkspacePackage, folder: &Path) -> Result<(), Failure> {
        let Some(library) = &package.library else { return Ok(()) };
        let dev = package.folder().join("src/bin/dev.rs");
        let main = package.folder().join("src/main.rs");
        if !dev.is_file() || !main.is_file() {
            return Ok(());
        }
        let programs = Programs {
            package: &package.name,
            library: &library.name,
            dev: &read(&dev)?,
            main: &read(&main)?,
            root: &read(&library.file)?,
        };
        let Some(OldProgram { dev: new_dev, main: new_main, root: new_root }) = programs.outdated() else {
            return Ok(());
        };
        if new_dev.is_none() {
            self.left.push(write::relative(&dev, folder));
        }
        let files = [
            (dev, programs.dev, new_dev),
            (main, programs.main, new_main),
            (library.file.clone(), programs.root, new_root),
        ];
        for (path, before, after) in files {
            let Some(after) = after else { continue };
            let after = write::as_formatted_as(before, after, folder);
            self.programs.push(write::relative(&path, folder));
            self.edits.push(Edit { path, before: before.to_owned(), after });
        }
        Ok(())
    }

    fn listed(&self) -> String {
        let versions = self.versions.iter().map(ToString::to_string);
        versions.chain(self.programs.iter().chain(&self.left).cloned()).collect::<Vec<_>>().join(", ")
    }

    /// Writes the files and locks the versions. If that fails, the files are as before.
    fn make(&self, arguments: &Upgrade, folder: &Path, shell: &Shell) -> Result<(), Failure> {
        let undo = || {
            for Edit { path, before, .. } in &self.edits {
                // The error that led here is reported, not one of the restoration.
                let _ = fs::write(path, before);
            }
        };
        for Edit { path, after, .. } in &self.edits {
            if let Err(failure) = write::one(path, after) {
                undo();
                return Err(failure);
            }
        }
        // Updates the packages that the new requirements need, and writes nothing if it fails.
        let mut lock = Command::new(cargo());
        lock.args(["update", "--workspace"]).current_dir(folder).stdin(Stdio::null());
        if arguments.offline {
            lock.arg("--offline");
        }
        shell.running(display(&lock));
        match lock.status() {
            Ok(status) if status.success() => Ok(()),
            other => {
                undo();
                let reason = other.map_or_else(
                    |error| format!("cannot run cargo: {error}"),
                    |_| "cargo cannot resolve the new versions".to_owned(),
                );
                Err(Failure::new(format!("{reason}, so nothing was changed")))
            }
        }
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))
}

fn joined(versions: &[VersionChange]) -> String {
    versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
