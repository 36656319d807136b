//! `cargo operator webhook`: defaults and validation of a kind.

use std::path::Path;

use clap::Args;

use crate::{
    api::{library, read_rust},
    failure::Failure,
    names::{KindName, OperatorName},
    project::Selection,
    shell::Shell,
    template::{self, Webhooks},
    write::{self, Change},
};

/// Arguments of `cargo operator webhook`.
#[derive(Debug, Clone, Args)]
pub struct Webhook {
    /// The kind, such as PhotoAlbum
    kind: String,
    /// Set fields that an object leaves out
    #[arg(long, required_unless_present = "validation")]
    defaulting: bool,
    /// Refuse invalid objects
    #[arg(long)]
    validation: bool,
    #[command(flatten)]
    selection: Selection,
}

/// Adds webhooks to a kind of the project.
///
/// # Errors
///
/// The kind or its controller is not found, the kind has webhooks already, or a file cannot be written. Then nothing is changed.
pub fn run(arguments: &Webhook, here: &Path, shell: &Shell) -> Result<(), Failure> {
    let project = arguments.selection.project(here)?;
    let library = library(&project)?;
    let folder = library.file.parent().unwrap_or(here);
    let kind = KindName::new("example.com", "v1", &arguments.kind, []).map_err(Failure::from)?;

    let module = folder.join(format!("{}.rs", kind.module));
    if !module.is_file() {
        return Err(Failure::usage(format!("there is no kind {}: no file {}", kind.kind, module.display()))
            .hint(format!("cargo operator api {} adds the kind", kind.kind)));
    }
    let mut declaring = read_rust(&module)?;
    if declaring.has_module("webhooks") {
        return Err(Failure::new(format!("{} has webhooks already", kind.kind))
            .hint(format!("edit {}/webhooks.rs", kind.module)));
    }
    declaring.add_module("mod webhooks;");
    let controller_path = folder.join(&kind.module).join("controller.rs");
    let mut controller = read_rust(&controller_path)?;
    let wanted = Webhooks { defaulting: arguments.defaulting, validation: arguments.validation };
    let calls: Vec<String> = [(wanted.defaulting, "defaulted()"), (wanted.validation, "validated()")]
        .iter()
        .filter(|(wanted, _)| *wanted)
        .map(|(_, call)| (*call).to_owned())
        .collect();
    let line = controller.extend_for_kind(&kind.kind, &calls).ok_or_else(|| {
        let shown = controller_path.display();
        Failure::new(format!(
            "{shown} has no single .for_kind::<{}>(), at which webhooks would be added",
            kind.kind
        ))
    })?;

    let name = OperatorName::of_package(&project.package, &library.name);
    let (path, text) = template::webhooks(&name, &kind, wanted);
    let shown = |path: &Path| write::relative(path, &project.folder);
    let changes = [
        Change::new(shown(&folder.join(path)), text),
        Change::edited(&shown(&module), declaring.into_text()),
        Change::edited(&shown(&controller_path), controller.into_text()),
    ];
    let added = write::all(&project.folder, &changes)?;
    shell.status("Added", added.join(", "));
    let calls: String = calls.iter().map(|call| format!(".{call}")).collect();
    shell.status(
        "Edited",
        format_args!("{} (mod webhooks), {}:{line} ({calls})", shown(&module), shown(&controller_path)),
    );
    shell.note("Next", "cargo test   # the server of the tests calls the webhooks");
    write::remind_of_manifests(&project.folder, shell);
    Ok(())
}
