//! `cargo operator api`: another kind of an operator, with its controller.

use std::{collections::BTreeSet, fs, path::Path};

use clap::Args;

use crate::{
    edit::RustFile,
    failure::Failure,
    names::{KindName, OperatorName},
    project::{CrateRoot, Project, Selection},
    shell::Shell,
    template::{self, KindScope},
    write::{self, FileChange},
};

/// Arguments of `cargo operator api`.
#[derive(Debug, Clone, Args)]
pub struct Api {
    /// The kind, such as PhotoAlbum
    kind: String,
    /// API group: a domain of yours; by default that of the existing kinds
    #[arg(long)]
    group: Option<String>,
    /// Version of the kind
    #[arg(long = "version", value_name = "VERSION", default_value = "v1")]
    version: String,
    /// Make the kind cluster-scoped: its objects are in no namespace
    #[arg(long)]
    cluster_scoped: bool,
    #[command(flatten)]
    selection: Selection,
}

/// Adds the kind to the project.
///
/// # Errors
///
/// A name cannot be used, a file of the kind exists, the library is not valid Rust, or a file cannot be written. Then nothing is changed.
pub fn run(arguments: &Api, here: &Path, shell: &Shell) -> Result<(), Failure> {
    let project = arguments.selection.project(here)?;
    let library = library(&project)?;
    let group = match &arguments.group {
        Some(group) => group.clone(),
        None => only_group(library)?,
    };
    // Names that the generated code uses would clash with a kind of the same name.
    let used = template::used_names();
    let used = used.iter().map(String::as_str).filter(|used| *used != library.name);
    let kind = KindName::new(&group, &arguments.version, &arguments.kind, used).map_err(Failure::from)?;
    let scope = if arguments.cluster_scoped { KindScope::Cluster } else { KindScope::Namespaced };
    let name = OperatorName::of_package(&project.package, &library.name);
    let (files, shared) = template::kind(&name, &kind, scope);
    // An earlier kind has brought these files, which the user may have changed.
    let shared = shared.into_iter().filter(|(path, _)| !project.folder.join(path).exists());

    let mut root = read_rust(&library.file)?;
    if root.has_module(&kind.module) {
        return Err(Failure::new(format!("{} has a module {} already", library.file.display(), kind.module))
            .hint("choose another kind, or remove the module first"));
    }
    root.add_module(&format!("pub mod {};", kind.module));
    root.add_use(&format!("pub use {}::{};", kind.module, kind.kind));
    let calls = [format!("crd::<{}>()", kind.kind), format!("setup({}::add_to)", kind.module)];
    let line = root.extend_operator(&calls);

    let mut changes: Vec<FileChange> = Vec::new();
    changes.extend(files.into_iter().chain(shared).map(|(path, text)| FileChange::new(path, text)));
    let shown = write::relative(&library.file, &project.folder);
    changes.push(FileChange::edited(&shown, root.into_text()));
    let added = write::all(&project.folder, &changes)?;
    shell.status("Added", added.join(", "));
    let calls = calls.map(|call| format!(".{call}")).concat();
    match line {
        Some(line) => shell.status("Edited", format_args!("{shown}:{line} ({calls})")),
        None => {
            shell.status("Edited", format_args!("{shown} (the module and its use)"));
            shell.warn(format_args!(
                "{shown} does not contain exactly one Operator::new(…): add {calls} to that of your operator"
            ));
        }
    }
    shell.note("Next", format_args!("cargo test   # now also tests {}", kind.kinds()));
    write::remind_of_manifests(&project.folder, shell);
    Ok(())
}

/// The library of a project, which contains the kinds.
pub(crate) fn library(project: &Project) -> Result<&CrateRoot, Failure> {
    project.library.as_ref().ok_or_else(|| {
        Failure::new(format!(
            "package {} has no library, and kinds and controllers are added to a library",
            project.package
        ))
        .hint("move the kinds, the controllers and the function that returns the Operator to src/lib.rs")
    })
}

/// Reads a Rust file.
pub(crate) fn read_rust(path: &Path) -> Result<RustFile, Failure> {
    let shown = path.display();
    let text =
        fs::read_to_string(path).map_err(|error| Failure::new(format!("cannot read {shown}: {error}")))?;
    RustFile::parse(text).map_err(|reason| {
        Failure::new(format!("{shown} is not valid Rust: {reason}"))
            .hint("cargo check shows the problem: correct it, then run this command again")
    })
}

/// The API group of the kinds in a library, if all have the same one.
fn only_group(library: &CrateRoot) -> Result<String, Failure> {
    let mut groups = BTreeSet::new();
    let folder = library.file.parent().unwrap_or(Path::new(""));
    for path in write::rust_files(folder) {
        groups.extend(read_rust(&path)?.groups());
    }
    match groups.len() {
        1 => Ok(groups.pop_first().unwrap_or_default()),
        0 => Err(Failure::usage("the operator has no kind yet, so its API group is unknown")
            .hint("name a domain of yours with --group")),
        _ => {
            let groups: Vec<_> = groups.into_iter().collect();
            Err(Failure::usage(format!("the kinds have several API groups: {}", groups.join(", ")))
                .hint("name one with --group"))
        }
    }
}
