//! `cargo operator new`: a project with a working operator.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
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
    /// Make the kind cluster-scoped: its objects are in no namespace
    #[arg(long)]
    cluster_scoped: bool,
    /// Leave out the workflow of GitHub Actions
    #[arg(long)]
    no_ci: bool,
    /// Checkout of controller-runtime to depend on, instead of a published version
    #[arg(long, value_name = "FOLDER", hide = true)]
    path: Option<PathBuf>,
}

/// Creates a project in a new folder of `parent`.
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
        None => Library::of_this_program()?,
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
    // rustfmt may have changed files, so read them again.
    let lines_of = |path: &str| fs::read_to_string(folder.join(path)).map_or(0, |text| text.lines().count());
    let lines: usize = files.iter().map(|(path, _)| lines_of(path)).sum();
    shell.status("Created", format_args!("{}: {} files, {lines} lines", name.as_str(), files.len()));
    if let Library::Checkout { root } = &library {
        shell.note(
            "Note",
            format_args!("its libraries come from {}, because no version is published yet", root.display()),
        );
    }
    if let Some(EnclosingWorkspace { manifest, is_named: false }) = workspace {
        let workspace = manifest.display();
        shell.note("Note", format_args!("{workspace} is a workspace: add {} to its members", name.as_str()));
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
        "{} is not a checkout of controller-runtime: crates/controller-runtime/Cargo.toml is missing",
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
        // The folder was empty or absent, so everything in it was written above.
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
    /// Whether its `members` include the project.
    is_named: bool,
}

/// Returns the workspace around `folder`, as cargo would find it: the first one upwards that does not exclude the folder.
fn enclosing_workspace(folder: &Path) -> Option<EnclosingWorkspace> {
    folder.parent()?.ancestors().find_map(|around| {
        let path = around.join("Cargo.toml");
        let manifest = fs::read_to_string(&path).ok()?.parse::<DocumentMut>().ok()?;
        let workspace = manifest.get("workspace")?;
        let inside = parts(folder.strip_prefix(around).ok()?);
        let lists = |key: &str, includes: &dyn Fn(&[String], &[String]) -> bool| {
            let list = workspace.get(key).and_then(|list| list.as_array());
            let mut items = list.into_iter().flatten().filter_map(|item| item.as_str());
            items.any(|item| includes(&parts(Path::new(item)), &inside))
        };
        // Cargo excludes a folder with all its contents, unless the folder, or one of its parents, is listed as a member.
        let is_above = |above: &[String], inside: &[String]| inside.starts_with(above);
        if lists("exclude", &is_above) && !lists("members", &is_above) {
            return None;
        }
        let is_named = lists("members", &matches_glob);
        Some(EnclosingWorkspace { manifest: path, is_named })
    })
}

/// Names in a path, without `.`.
fn parts(path: &Path) -> Vec<String> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    parts.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect()
}

/// Whether a glob of `members`, such as `crates/*`, matches a path. `**` stands for any number of folders.
fn matches_glob(glob: &[String], path: &[String]) -> bool {
    match (glob, path) {
        ([], _) => path.is_empty(),
        ([any, rest @ ..], _) if any == "**" => {
            (0..=path.len()).any(|skipped| matches_glob(rest, &path[skipped..]))
        }
        (_, []) => false,
        ([pattern, glob @ ..], [name, path @ ..]) => {
            let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
            matches_part(&pattern, &name) && matches_glob(glob, path)
        }
    }
}

/// Whether a part of a glob matches a name. `*` stands for any characters, `?` for one, `[a-c]` for one of a set, `[!a-c]` for one that
/// is not in it.
fn matches_part(pattern: &[char], name: &[char]) -> bool {
    match (pattern, name) {
        ([], _) => name.is_empty(),
        (['*', rest @ ..], _) => (0..=name.len()).any(|skipped| matches_part(rest, &name[skipped..])),
        (_, []) => false,
        ([sign, pattern @ ..], [first, name @ ..]) => {
            let (is_alike, pattern) = match (sign, split_set(pattern)) {
                ('?', _) => (true, pattern),
                ('[', Some((set, pattern))) => (is_in_set(set, *first), pattern),
                _ => (sign == first, pattern),
            };
            is_alike && matches_part(pattern, name)
        }
    }
}

/// Splits the text after `[` at the `]` that ends the set. A leading `]` is a member of the set.
fn split_set(text: &[char]) -> Option<(&[char], &[char])> {
    let first = if text.first() == Some(&'!') { 2 } else { 1 };
    let end = first + text.get(first..)?.iter().position(|sign| *sign == ']')?;
    Some((&text[..end], &text[end + 1..]))
}

fn is_in_set(set: &[char], sign: char) -> bool {
    match set {
        ['!', members @ ..] => !has_member(members, sign),
        members => has_member(members, sign),
    }
}

fn has_member(members: &[char], sign: char) -> bool {
    match members {
        [from, '-', to, others @ ..] => (*from..=*to).contains(&sign) || has_member(others, sign),
        [one, others @ ..] => *one == sign || has_member(others, sign),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_as_those_of_cargo() {
        for (glob, path, expected) in [
            ("crates/*", "crates/album", true),
            ("crates/*", "crates", false),
            ("crates/*", "crates/a/b", false),
            ("./crates/album/", "crates/album", true),
            ("crates/**", "crates/a/b", true),
            ("**/operators/*", "a/b/operators/album", true),
            ("**/operators/*", "operators/album", true),
            ("**/operators/*", "operators", false),
            ("*-operator", "album-operator", true),
            ("*-operator", "album-operators", false),
            ("al?um", "album", true),
            ("al?um", "alum", false),
            ("[a-c]lbum", "album", true),
            ("[!a-c]lbum", "album", false),
            ("[!x]lbum", "album", true),
            ("[a!]", "!", true),
            ("[a!]", "b", false),
            ("[]]", "]", true),
            ("[a", "[a", true),
            ("a*b*m", "album", true),
        ] {
            let found = matches_glob(&parts(Path::new(glob)), &parts(Path::new(path)));
            assert_eq!(found, expected, "{glob} {path}");
        }
    }
}
