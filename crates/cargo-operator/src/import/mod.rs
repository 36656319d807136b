//! `cargo operator import`: Rust types of a kind that another program defines.
//!
//! The types come from the structural schema of the kind's CustomResourceDefinition. Parts of a schema that have no Rust type are kept as
//! `serde_json::Value`, with a comment and a note. Rules that restrict values (patterns, limits, CEL) are left to the API server.

mod code;
mod definition;
mod rust_names;
mod rust_types;

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use clap::Args;
use sha2::{Digest, Sha256};

use self::definition::Definition;
use crate::{
    api::{library, read_rust},
    edit::RustFile,
    failure::Failure,
    names::module_of,
    project::{Project, Selection, display},
    shell::Shell,
    write::{self, FileChange},
};

/// Largest text that is read: the definitions of large projects have some 5 MB.
const MAX_BYTES: u64 = 64 << 20;

/// Maximum number of notes that are printed. Notes about fields are also comments in the file.
const MAX_NOTES: usize = 10;

/// First line of the module of all imported kinds.
const MODULE: &str = "//! Kinds of others, written by `cargo operator import`.\n";

/// Arguments of `cargo operator import`.
#[derive(Debug, Clone, Args)]
pub struct Import {
    /// File with the CustomResourceDefinition, `-` for standard input, its https:// address, or its name in the cluster of --context
    #[arg(value_name = "FILE|URL|NAME")]
    source: String,
    /// Kind to import, if there are several; with its group, if several have the same name
    #[arg(long, value_name = "KIND[.GROUP]")]
    kind: Option<String>,
    /// Version of the kind; by default the one in which objects are stored
    #[arg(long = "version", value_name = "VERSION")]
    version: Option<String>,
    /// Read the definition from the cluster of this context of the kubeconfig, through kubectl
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    /// Compare the source with the types that were written before, and write nothing; exit code 3 if they differ
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    selection: Selection,
}

/// Writes the types of a kind to `src/imported`, and declares their modules.
///
/// # Errors
///
/// The source cannot be read, has no such kind, or its schema has no Rust types; or the file of the kind was not written by this
/// command. Then nothing is changed.
pub fn run(arguments: &Import, here: &Path, shell: &Shell) -> Result<(), Failure> {
    let project = arguments.selection.project(here)?;
    let source = Source::read(arguments, here, shell)?;
    let definitions = definition::all_of(&source.text)
        .map_err(|reason| Failure::new(format!("{}: {reason}", source.name)))?;
    let definition = chosen(definitions, arguments, &source.name)?;
    let types = rust_types::of(&definition)
        .map_err(|reason| Failure::new(format!("{}: {}: {reason}", source.name, definition.kind)))?;
    let module = module_of(&definition.kind).map_err(Failure::from)?;
    let text = code::text(&definition, &types, &source.name, &source.sha256);

    let files = ImportedFiles::new(&project, &module)?;
    files.check_group(&definition)?;
    if arguments.check {
        return files.check(&text, &source.name, shell);
    }
    let path = files.write(text)?;
    let count = match types.all.len() {
        1 => "1 type".to_owned(),
        count => format!("{count} types"),
    };
    let Definition { kind, version, .. } = &definition;
    shell.status(files.verb(), format_args!("{path}: {kind} {version}, {count}"));
    for note in types.notes.iter().take(MAX_NOTES) {
        shell.note("Note", note);
    }
    if let Some(more @ 1..) = types.notes.len().checked_sub(MAX_NOTES) {
        shell.note("Note", format_args!("{more} more fields have type Value: see the comments in {path}"));
    }
    let library = &library(&project)?.name;
    shell.note("Next", format_args!("use {library}::imported::{module}::{kind};"));
    Ok(())
}

/// Definitions as text, and where they are from.
struct Source {
    /// Name for messages and the header of the file.
    name: String,
    text: String,
    sha256: String,
}

impl Source {
    fn read(arguments: &Import, here: &Path, shell: &Shell) -> Result<Self, Failure> {
        let source = &arguments.source;
        let (name, bytes) = match &arguments.context {
            Some(context) => {
                let words = ["--context", context, "get", "crd", source, "-o", "json"];
                let answer = output_of("kubectl", &words, shell)?;
                // Leave out status and metadata, which change between reads.
                (format!("{source} of a cluster"), stable(&answer).unwrap_or(answer))
            }
            None if source.starts_with("https://") => {
                let limit = MAX_BYTES.to_string();
                let words = [
                    "--fail",
                    "--silent",
                    "--show-error",
                    "--location",
                    "--proto",
                    "=https",
                    "--max-time",
                    "60",
                ];
                let words: Vec<&str> = words.into_iter().chain(["--max-filesize", &limit, source]).collect();
                (source.clone(), output_of("curl", &words, shell)?)
            }
            None if source.starts_with("http://") => {
                return Err(Failure::usage(format!(
                    "{source} can be changed in transit, because http is not encrypted"
                ))
                .hint("name an https:// address, or a file"));
            }
            None if source == "-" => {
                let name = "standard input".to_owned();
                let bytes = read_all(io::stdin().lock(), MAX_BYTES, &name)?;
                (name, bytes)
            }
            None => (source.clone(), file(&here.join(source), source)?),
        };
        let sha256 = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let text = String::from_utf8(bytes).map_err(|_| Failure::new(format!("{name} is not text")))?;
        Ok(Self { name, text, sha256 })
    }
}

fn file(path: &Path, shown: &str) -> Result<Vec<u8>, Failure> {
    let opened = fs::File::open(path).map_err(|error| {
        let failure = unreadable(shown, &error);
        match error.kind() {
            io::ErrorKind::NotFound => failure.hint(format!(
                "name a file or an https:// address, or add --context to read {shown} from a cluster"
            )),
            _ => failure,
        }
    });
    read_all(opened?, MAX_BYTES, shown)
}

/// Reads to the end. More than `max` bytes are an error, because a truncated text could be valid and lack definitions.
fn read_all(input: impl Read, max: u64, shown: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    input.take(max + 1).read_to_end(&mut bytes).map_err(|error| unreadable(shown, &error))?;
    if bytes.len() as u64 > max {
        return Err(Failure::new(format!("{shown} has more than {max} bytes, the limit"))
            .hint("save the definition of the kind to a file of its own, and name that file"));
    }
    Ok(bytes)
}

fn unreadable(shown: &str, error: &io::Error) -> Failure {
    Failure::new(format!("cannot read {shown}: {error}"))
}

/// The parts of a cluster's definition that determine the types.
fn stable(answer: &[u8]) -> Option<Vec<u8>> {
    let mut definition: serde_json::Value = serde_json::from_slice(answer).ok()?;
    let name = definition["metadata"]["name"].clone();
    let object = definition.as_object_mut()?;
    object.remove("status");
    object.insert("metadata".to_owned(), serde_json::json!({ "name": name }));
    serde_json::to_vec(&definition).ok()
}

/// Standard output of a program that succeeds.
fn output_of(program: &str, words: &[&str], shell: &Shell) -> Result<Vec<u8>, Failure> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    shell.running(display(&command));
    let output = command.output().map_err(|error| {
        Failure::new(format!("cannot run {program}: {error}"))
            .hint(format!("install {program}, or save the definition to a file and name that file"))
    })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let reason = errors.trim().lines().last().unwrap_or("it failed").trim_start_matches("error: ").to_owned();
    Err(Failure::new(format!("{program}: {reason}")))
}

/// The definition that the arguments select.
fn chosen(definitions: Vec<Definition>, arguments: &Import, source: &str) -> Result<Definition, Failure> {
    let kinds = listed(&definitions);
    let is_wanted = |definition: &Definition| {
        arguments.kind.as_ref().is_none_or(|kind| *kind == definition.kind || *kind == definition.full_kind())
    };
    let found: Vec<Definition> = definitions.into_iter().filter(is_wanted).collect();
    let names = listed(&found);
    let [definition] = <[Definition; 1]>::try_from(found).map_err(|_| match &*names {
        [] => {
            let kind = arguments.kind.as_deref().unwrap_or_default();
            Failure::usage(format!("{source} has no kind {kind}; it has {}", kinds.join(", ")))
        }
        [name, others @ ..] if others.iter().all(|other| other == name) => {
            Failure::new(format!("{source} has {} different definitions of {name}", names.len()))
                .hint("leave one of them in the source")
        }
        [name, ..] => Failure::usage(format!("{source} has {} kinds: {}", names.len(), names.join(", ")))
            .hint(format!("select one with --kind, such as --kind {name}")),
    })?;
    definition.with_version(arguments.version.as_deref()).map_err(|reason| {
        Failure::usage(format!("{source}: {reason}")).hint("select another version with --version VERSION")
    })
}

/// Names that select the definitions: their kinds, with groups where several have one kind.
fn listed(definitions: &[Definition]) -> Vec<String> {
    let names = definitions.iter().map(|definition| {
        let alike = definitions.iter().filter(|other| other.kind == definition.kind);
        if alike.count() == 1 { definition.kind.clone() } else { definition.full_kind() }
    });
    names.collect()
}

/// Files that an import writes.
struct ImportedFiles<'p> {
    project: &'p Project,
    /// The kind's file, below the folder of the project.
    path: String,
    /// Its text before.
    before: Option<String>,
    module: String,
    /// Folder of the library's sources.
    folder: PathBuf,
}

impl<'p> ImportedFiles<'p> {
    fn new(project: &'p Project, module: &str) -> Result<Self, Failure> {
        let folder = library(project)?.file.parent().unwrap_or(&project.folder).to_owned();
        let path = folder.join("imported").join(format!("{module}.rs"));
        let before = match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Failure::new(format!("cannot read {}: {error}", path.display()))),
        };
        let path = write::relative(&path, &project.folder);
        if before.as_ref().is_some_and(|text| !text.starts_with(code::MARK)) {
            return Err(Failure::new(format!("{path} exists and was not written by cargo operator import"))
                .hint("move the file, then run this command again"));
        }
        Ok(Self { project, path, before, module: module.to_owned(), folder })
    }

    /// Refuses to replace the types of another API group, because both kinds would have the same module.
    fn check_group(&self, definition: &Definition) -> Result<(), Failure> {
        // A file that is not Rust contains no other kind.
        let before = self.before.as_ref().and_then(|text| RustFile::parse(&**text).ok());
        let groups = before.map_or_else(Vec::new, |file| file.groups());
        match groups.iter().find(|group| **group != definition.group) {
            None => Ok(()),
            Some(other) => Err(Failure::new(format!(
                "{} has the types of {}.{other}, and the types of {} would replace them",
                self.path,
                definition.kind,
                definition.full_kind()
            ))
            .hint("move the file to a module with another name, or delete it, then run this command again")),
        }
    }

    fn verb(&self) -> &'static str {
        if self.before.is_some() { "Replaced" } else { "Added" }
    }

    fn check(&self, text: &str, source: &str, shell: &Shell) -> Result<(), Failure> {
        let Some(before) = &self.before else {
            return Err(Failure::difference(format!("{} does not exist", self.path))
                .hint("leave out --check to write it"));
        };
        if write::as_new_file(text.to_owned(), &self.project.folder) != *before {
            return Err(Failure::difference(format!("{} differs from the types of {source}", self.path))
                .hint("leave out --check to write it again"));
        }
        shell.status("Fresh", format_args!("{} has the types of {source}", self.path));
        Ok(())
    }

    /// Writes the types, and declares their modules where they are missing. Returns the path of the kind's file.
    fn write(&self, text: String) -> Result<&str, Failure> {
        let text = write::as_new_file(text, &self.project.folder);
        let mut changes = vec![match &self.before {
            Some(_) => FileChange::edited(&self.path, text),
            None => FileChange::new(self.path.clone(), text),
        }];
        let parent = self.folder.join("imported.rs");
        let shown = write::relative(&parent, &self.project.folder);
        let declaration = format!("pub mod {};", self.module);
        if parent.exists() {
            changes.extend(self.declare(&parent, &self.module, &declaration)?);
        } else {
            changes.push(FileChange::new(shown, format!("{MODULE}\n{declaration}\n")));
        }
        changes.extend(self.declare(&library(self.project)?.file, "imported", "pub mod imported;")?);
        write::all(&self.project.folder, &changes)?;
        Ok(&self.path)
    }

    /// The change that declares a module in a file. `None` if the file declares it already.
    fn declare(&self, path: &Path, module: &str, declaration: &str) -> Result<Option<FileChange>, Failure> {
        let mut file = read_rust(path)?;
        if file.has_module(module) {
            return Ok(None);
        }
        let before = file.text().to_owned();
        file.add_module(declaration);
        let folder = &self.project.folder;
        let text = write::as_formatted_as(&before, file.into_text(), folder);
        Ok(Some(FileChange::edited(&write::relative(path, folder), text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first documents of a longer input would be complete, and the rest would be missing without an error.
    #[test]
    fn a_longer_input_is_refused_and_not_cut_off() {
        assert_eq!(read_all(&b"0123456789"[..], 10, "standard input"), Ok(b"0123456789".to_vec()));
        let refused = read_all(&b"0123456789\n"[..], 10, "standard input").expect_err("11 bytes");
        assert_eq!(refused.message, "standard input has more than 10 bytes, the limit");
    }

    #[test]
    fn the_definition_of_a_cluster_has_no_state() {
        let answer = br#"{"metadata":{"name":"a","uid":"1","resourceVersion":"2"},"spec":{"group":"g"},"status":{"conditions":[]}}"#;
        let stable = stable(answer).expect("JSON");
        assert_eq!(String::from_utf8_lossy(&stable), r#"{"metadata":{"name":"a"},"spec":{"group":"g"}}"#);
    }
}
