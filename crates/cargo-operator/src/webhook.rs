//! `cargo operator webhook`: defaults and validation of a kind, and conversion between its versions.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};

use crate::{
    api::{library, read_rust},
    conversion,
    edit::{KindDeclaration, RustFile},
    failure::Failure,
    names::{KindName, OperatorName, check_version},
    project::{CrateRoot, Project, Selection},
    shell::Shell,
    template::{self, Webhooks},
    write::{self, FileChange},
};

/// Arguments of `cargo operator webhook`.
#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("webhooks").args(["defaulting", "validation", "conversion"]).required(true).multiple(true)))]
pub struct Webhook {
    /// The kind, such as PhotoAlbum
    kind: String,
    /// Set fields that an object leaves out
    #[arg(long)]
    defaulting: bool,
    /// Refuse invalid objects
    #[arg(long)]
    validation: bool,
    /// Add this version of the kind, such as v2. The previous version stays served, and objects are converted
    #[arg(long, value_name = "VERSION")]
    conversion: Option<String>,
    #[command(flatten)]
    selection: Selection,
}

/// Adds webhooks to a kind of the project.
///
/// # Errors
///
/// The kind or its controller is not found, the kind has webhooks or a second version already, or a file cannot be written. Then nothing
/// is changed.
pub fn run(arguments: &Webhook, here: &Path, shell: &Shell) -> Result<(), Failure> {
    let project = arguments.selection.project(here)?;
    let library = library(&project)?;
    // Only the forms of the kind's name are used, so any valid group and version do.
    let kind = KindName::new("example.com", "v1", &arguments.kind, []).map_err(Failure::from)?;
    let mut files = KindFiles::read(library, &project, kind, here)?;
    let wanted = Webhooks { defaulting: arguments.defaulting, validation: arguments.validation };
    if wanted.defaulting || wanted.validation {
        files.add_webhooks(wanted, &OperatorName::of_package(&project.package, &library.name))?;
    }
    if let Some(version) = &arguments.conversion {
        files.add_version(version, shell)?;
    }
    files.write(shell)
}

/// The files of a kind, with the changes that will be written.
struct KindFiles<'p> {
    kind: KindName,
    project: &'p Project,
    /// Folder of the library's sources.
    folder: PathBuf,
    /// First file of the library.
    root: (PathBuf, RustFile),
    /// File with the type of the kind.
    module: (PathBuf, RustFile),
    controller: (PathBuf, RustFile),
    /// New files with their texts.
    new: Vec<(PathBuf, String)>,
    /// Notes on changes of existing files, for the user.
    edited: Vec<String>,
}

impl<'p> KindFiles<'p> {
    fn read(library: &CrateRoot, project: &'p Project, kind: KindName, here: &Path) -> Result<Self, Failure> {
        let folder = library.file.parent().unwrap_or(here).to_owned();
        let module = folder.join(format!("{}.rs", kind.module));
        if !module.is_file() {
            return Err(Failure::usage(format!(
                "there is no kind {}: the file {} does not exist",
                kind.kind,
                module.display()
            ))
            .hint(format!("cargo operator api {} adds the kind", kind.kind)));
        }
        let controller = folder.join(&kind.module).join("controller.rs");
        let read = |path: PathBuf| read_rust(&path).map(|file| (path, file));
        Ok(Self {
            root: read(library.file.clone())?,
            module: read(module)?,
            controller: read(controller)?,
            kind,
            project,
            folder,
            new: Vec::new(),
            edited: Vec::new(),
        })
    }

    fn shown(&self, path: &Path) -> String {
        write::relative(path, &self.project.folder)
    }

    fn add_webhooks(&mut self, wanted: Webhooks, name: &OperatorName) -> Result<(), Failure> {
        if self.module.1.has_module("webhooks") {
            let file = self.shown(&self.folder.join(&self.kind.module).join("webhooks.rs"));
            let (kind, controller) = (&self.kind.kind, self.shown(&self.controller.0));
            let sorts = [("Defaulter", ".defaulted()"), ("Validator", ".validated()")];
            let steps = sorts.map(|(sort, call)| {
                format!(
                    "implement {sort} in {file} and add {call} after .for_kind::<{kind}>() in {controller}"
                )
            });
            return Err(Failure::new(format!("{kind} has webhooks already")).hint(steps.join("; ")));
        }
        self.module.1.add_module("mod webhooks;");
        self.edited.push(format!("{} (mod webhooks)", self.shown(&self.module.0)));
        let calls = [(wanted.defaulting, "defaulted()"), (wanted.validation, "validated()")];
        let calls = calls.iter().filter(|(wanted, _)| *wanted).map(|(_, call)| (*call).to_owned());
        self.extend_controller(&calls.collect::<Vec<_>>())?;
        let (path, text) = template::webhooks(name, &self.kind, wanted);
        self.new.push((self.folder.join(path), text));
        Ok(())
    }

    /// Adds calls to the registration of the kind.
    fn extend_controller(&mut self, calls: &[String]) -> Result<(), Failure> {
        let (path, controller) = &mut self.controller;
        let kind = &self.kind.kind;
        let line = controller.extend_for_kind(kind, calls).ok_or_else(|| {
            let shown = path.display();
            Failure::new(format!(
                "{shown} does not contain exactly one .for_kind::<{kind}>(), the call to which webhooks are added"
            ))
        })?;
        let calls: String = calls.iter().map(|call| format!(".{call}")).collect();
        let path = self.shown(&self.controller.0);
        self.edited.push(format!("{path}:{line} ({calls})"));
        Ok(())
    }

    /// Changes the version of the kind's type to `version`, and copies the previous type to a module named after its version.
    fn add_version(&mut self, version: &str, shell: &Shell) -> Result<(), Failure> {
        let kind = self.kind.kind.clone();
        check_version(version).map_err(Failure::from)?;
        let shown = self.shown(&self.module.0);
        let (_, module) = &mut self.module;
        if module.has_function("definition") {
            return Err(Failure::new(format!(
                "{kind} has several versions already: {shown} has a function definition"
            ))
            .hint("add another version by hand, in the same way"));
        }
        let Some(before) = module.kind(&kind) else {
            let what = format!(
                "{shown} has no struct with #[kube(kind = {kind:?}, version = \"…\")] and named fields"
            );
            return Err(Failure::new(what).hint("cargo operator copies that struct for the previous version"));
        };
        let old = before.version.clone();
        if old == version {
            return Err(Failure::usage(format!("{kind} has version {version} already")));
        }
        if module.has_module(&old) {
            return Err(Failure::new(format!("{shown} has a module {old} already")));
        }
        let (uses, types) = module.needed_by(&before.text);
        let text = conversion::version_before(&self.kind, &before, &uses, &types, version);
        module.set_version(&before, version);
        module.add_module(&format!("pub mod {old};"));
        conversion::USES.iter().for_each(|line| module.add_use(line));
        module.append(&conversion::definition(&self.kind, &old, version));
        self.edited.push(format!("{shown} (version {version}, definition of both)"));
        self.new.push((self.folder.join(&self.kind.module).join(format!("{old}.rs")), text));
        self.extend_controller(&[format!("converted::<(super::{old}::{kind},)>()")])?;
        self.define_versions(&before, shell);
        Ok(())
    }

    /// Replaces the definition of one version in the operator.
    fn define_versions(&mut self, before: &KindDeclaration, shell: &Shell) {
        let call = format!("definition({}::definition())", self.kind.module);
        let (path, root) = &mut self.root;
        let line = root.replace_crd(&self.kind.kind, &call);
        let shown = write::relative(path, &self.project.folder);
        match line {
            Some(line) => self.edited.push(format!("{shown}:{line} (.{call})")),
            None => shell.warn(format_args!(
                "{shown} does not contain exactly one .crd::<{}>(): call .{call} of your Operator instead of the definition of {}",
                self.kind.kind, before.version
            )),
        }
    }

    fn write(self, shell: &Shell) -> Result<(), Failure> {
        let project = &self.project.folder;
        let new = self.new.into_iter();
        let mut changes: Vec<FileChange> =
            new.map(|(path, text)| FileChange::new(write::relative(&path, project), text)).collect();
        for (path, file) in [self.root, self.module, self.controller] {
            let before = file.text().to_owned();
            let text = write::as_formatted_as(&before, file.into_text(), project);
            if text != before {
                changes.push(FileChange::edited(&write::relative(&path, project), text));
            }
        }
        let added = write::all(project, &changes)?;
        shell.status("Added", added.join(", "));
        shell.status("Edited", self.edited.join(", "));
        shell.note("Next", "cargo test   # the server of the tests calls the webhooks");
        write::remind_of_manifests(project, shell);
        Ok(())
    }
}
