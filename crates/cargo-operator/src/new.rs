//! `cargo operator new`: a project with a working operator.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use toml_edit::DocumentMut;

use crate::{
    failure::Failure,
    library::Library,
    names::{KindName, OperatorName},
    shell::Shell,
    template::{self, Files, KindScope, Workflow},
    write,
};

/// Arguments of `cargo operator new`.
#[derive(Debug, Clone, Args)]
pub struct New {
    /// Name of the operator, and of the folder to make: lower-case letters, digits and single dashes
    name: String,
    /// API group of its first kind: a domain of yours
    #[arg(long, default_value = "example.com")]
    group: String,
    /// First kind, such as PhotoAlbum; by default made from NAME
    #[arg(long)]
    kind: Option<String>,
    /// Version of the kind
    #[arg(long = "version", value_name = "VERSION", default_value = "v1")]
    version: String,
    /// Objects of the kind belong to the cluster, not to namespaces
    #[arg(long)]
    cluster_scoped: bool,
    /// Leave out the workflow of GitHub Actions
    #[arg(long)]
    no_ci: bool,
    /// Checkout of controller-runtime to depend on, instead of a published version
    #[arg(long, value_name = "FOLDER", hide = true)]
    path: Option<PathBuf>,
}

/// Makes a project in a folder of `parent`.
///
/// # Errors
///
/// A name cannot be used, the folder is not empty, or a file cannot be written. Then nothing is left behind.
pub fn run(arguments: &New, parent: &Path, shell: &Shell) -> Result<(), Failure> {
    let dependencies = template::dependencies();
    let name =
        OperatorName::new(&arguments.name, dependencies.iter().map(String::as_str)).map_err(Failure::from)?;
    let used = template::used_names();
    let kind = arguments.kind.clone().unwrap_or_else(|| name.default_kind());
    // A module may have the name of its crate: `guestbook::guestbook`.
    let used = used.iter().map(String::as_str).filter(|used| *used != name.crate_name());
    let kind = KindName::new(&arguments.group, &arguments.version, &kind, used).map_err(Failure::from)?;
    let library = match &arguments.path {
        Some(path) => checkout(path)?,
        None => Library::of_this_program(),
    };
    let scope = if arguments.cluster_scoped { KindScope::Cluster } else { KindScope::Namespaced };
    let workflow = if arguments.no_ci { Workflow::Absent } else { Workflow::GitHub };
    let mut files = template::project(&name, &kind, scope, workflow, &library);

    let folder = parent.join(name.as_str());
    let workspace = enclosing_workspace(&folder);
    if workspace.is_some() {
        for (_, text) in files.iter_mut().filter(|(path, _)| path == "Cargo.toml") {
            *text = template::of_member(text);
        }
    }
    check_empty(&folder, name.as_str())?;
    write_project(&folder, &files)?;
    write::format(&folder, files.iter().map(|(path, _)| folder.join(path)));
    let lines: usize = files.iter().map(|(_, text)| text.lines().count()).sum();
    shell.status("Created", format_args!("{}: {} files, {lines} lines", name.as_str(), files.len()));
    if let Library::Checkout { root } = &library {
        shell.note(
            "Note",
            format_args!("its libraries come from {}, because no version is published yet", root.display()),
        );
    }
    if let Some(EnclosingWorkspace { manifest, is_named: false }) = workspace {
        let workspace = manifest.display();
        shell.note("Note", format_args!("{workspace} is a workspace: name {} in its members", name.as_str()));
    }
    shell.note(
        "Next",
        format_args!(
            "cd {} && cargo run   # an API server of its own and one {}, until Ctrl-C",
            name.as_str(),
            kind.kind
        ),
    );
    shell.note("", "cargo test                  # the operator's tests, in paused time");
    Ok(())
}

fn checkout(path: &Path) -> Result<Library, Failure> {
    let root = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if Library::is_checkout(&root) {
        return Ok(Library::Checkout { root });
    }
    Err(Failure::usage(format!(
        "{} is not a checkout of controller-runtime: crates/controller-runtime/Cargo.toml is not there",
        path.display()
    )))
}

fn check_empty(folder: &Path, name: &str) -> Result<(), Failure> {
    let other = || {
        Failure::new(format!("{} exists and is not an empty folder", folder.display()))
            .hint(format!("choose another name than {name}, or another folder to run this in"))
    };
    match fs::read_dir(folder) {
        Ok(mut entries) => {
            if entries.next().is_none() {
                Ok(())
            } else {
                Err(other())
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(other()),
        Err(error) => Err(Failure::new(format!("cannot read {}: {error}", folder.display()))),
    }
}

/// Writes all files. If one fails, removes the others.
fn write_project(folder: &Path, files: &Files) -> Result<(), Failure> {
    let existed = folder.exists();
    let written = files.iter().try_for_each(|(path, text)| write::one(&folder.join(path), text));
    if written.is_err() {
        // The folder was empty or absent, so all in it is ours.
        let _ = fs::remove_dir_all(folder);
        if existed {
            let _ = fs::create_dir(folder);
        }
    }
    written
}

/// A workspace around a new project.
struct EnclosingWorkspace {
    manifest: PathBuf,
    /// Whether the project is among its members.
    is_named: bool,
}

/// Returns the workspace around `folder`, as cargo would find it, unless it excludes the folder.
fn enclosing_workspace(folder: &Path) -> Option<EnclosingWorkspace> {
    for around in folder.parent()?.ancestors() {
        let path = around.join("Cargo.toml");
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let Ok(manifest) = text.parse::<DocumentMut>() else { continue };
        let Some(workspace) = manifest.get("workspace") else { continue };
        let inside = folder.strip_prefix(around).ok()?;
        let names = |key: &str| {
            let list = workspace.get(key).and_then(|list| list.as_array());
            list.is_some_and(|list| {
                list.iter().filter_map(|item| item.as_str()).any(|item| Path::new(item) == inside)
            })
        };
        return (!names("exclude"))
            .then(|| EnclosingWorkspace { manifest: path, is_named: names("members") });
    }
    None
}
