//! `cargo operator image`: a container image of the operator, made without a container engine.
//!
//! [`elf`] reads which platform a program is for, and whether it needs files of an operating system; [`tar`] and [`oci`] make archives and image
//! layouts. All three are pure: equal programs give equal bytes. [`prerequisites`] checks the system before a build.

mod elf;
mod oci;
mod prerequisites;
mod tar;

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

use clap::Args;

use self::{
    elf::Program,
    oci::{Image, Layout, split_name},
};
use crate::{failure::Failure, project::Selection, shell::Shell, write};

/// Environment variable with the time of all files, in seconds since 1970: <https://reproducible-builds.org/specs/source-date-epoch/>.
const EPOCH: &str = "SOURCE_DATE_EPOCH";

/// Arguments of `cargo operator image`.
#[derive(Debug, Clone, Args)]
pub struct MakeImage {
    /// Name of the image, such as registry.example.com/guestbook:1.2.0; by default that of the package with its version
    #[arg(long, value_name = "NAME")]
    tag: Option<String>,
    /// Folder of the image layout, or an archive of it if the name ends with .tar
    #[arg(long, value_name = "PATH", default_value = "target/operator/image.tar")]
    out: PathBuf,
    /// Build for this target; repeat it for an image of several platforms. By default Linux with musl on this processor
    #[arg(long, value_name = "TRIPLE")]
    target: Vec<String>,
    /// Pack this built program instead of building one; repeat it for several platforms
    #[arg(long, value_name = "FILE", conflicts_with = "target")]
    program: Vec<PathBuf>,
    #[command(flatten)]
    selection: Selection,
}

/// Builds the operator and writes its image.
///
/// # Errors
///
/// A target is not installed, the operator does not compile, a program is not static or not for Linux, two are for one platform, or a file cannot be written.
pub fn run(arguments: &MakeImage, here: &Path, shell: &Shell) -> Result<(), Failure> {
    let project = arguments.selection.project(here)?;
    let name = arguments.tag.clone().unwrap_or_else(|| format!("{}:{}", project.bin, project.version));
    check_name(&name)?;
    let created = epoch(env::var(EPOCH).ok().as_deref())?;
    let mut programs = arguments.program.clone();
    if programs.is_empty() {
        let default = [format!("{}-unknown-linux-musl", env::consts::ARCH)];
        let targets = if arguments.target.is_empty() { &default[..] } else { &arguments.target };
        targets.iter().try_for_each(|target| prerequisites::check_target(target, &project.folder))?;
        for target in targets {
            let built = arguments.selection.build_static(&project, target, shell);
            programs.push(built.map_err(|failure| prerequisites::explain(failure, target))?);
        }
    }
    let mut images = Vec::new();
    for path in &programs {
        let shown = path.display();
        let bytes = fs::read(path).map_err(|error| Failure::new(format!("cannot read {shown}: {error}")))?;
        let program = Program::read(&bytes).map_err(|reason| {
            Failure::new(format!("{shown} cannot be the program of an image: {reason}"))
                .hint("build it for Linux without shared libraries, for example with --target x86_64-unknown-linux-musl")
        })?;
        images.push(Image { program: bytes, architecture: program.architecture, name: project.bin.clone() });
    }
    let platforms: BTreeSet<&str> = images.iter().map(|image| image.architecture).collect();
    if platforms.len() < images.len() {
        return Err(Failure::usage("two programs are for the same platform: give one program per platform"));
    }
    let platforms = platforms.into_iter().map(|it| format!("linux/{it}")).collect::<Vec<_>>().join(", ");
    let layout = Layout::of(&images, &name, created)
        .map_err(|error| Failure::new(format!("cannot compress the program: {error}")))?;
    let out = project.folder.join(&arguments.out);
    let is_archive = out.extension().is_some_and(|extension| extension == "tar");
    if is_archive {
        write::bytes(&out, &layout.archive(created))?;
    } else {
        write_folder(&out, &layout)?;
    }
    let shown = write::relative(&out, &project.folder);
    shell.status("Wrote", format_args!("{shown}: {name} for {platforms}, {}", size(layout.len())));
    shell.result(&layout.digest);
    if is_archive {
        shell.note(
            "Next",
            format_args!("docker load -i {shown}, or skopeo copy oci-archive:{shown} docker://{name}"),
        );
    } else {
        shell.note("Next", format_args!("skopeo copy oci:{shown} docker://{name}"));
    }
    Ok(())
}

/// Writes the files of a layout into a folder. Replaces the folder only if it is empty or holds a layout.
fn write_folder(out: &Path, layout: &Layout) -> Result<(), Failure> {
    let shown = out.display();
    let is_empty = fs::read_dir(out).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty && !out.join("oci-layout").is_file() {
        return Err(Failure::new(format!("{shown} is a folder with files that are not those of an image"))
            .hint("choose another one with --out, or a file that ends with .tar"));
    }
    if !is_empty {
        fs::remove_dir_all(out).map_err(|error| Failure::new(format!("cannot replace {shown}: {error}")))?;
    }
    layout.files().try_for_each(|(path, bytes)| write::bytes(&out.join(path), bytes))
}

/// Refuses names that no registry accepts.
fn check_name(name: &str) -> Result<(), Failure> {
    let (path, tag) = split_name(name);
    let is_path = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-/:".contains(c);
    let is_tag = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let parts_are_named = path.split('/').all(|part| part.starts_with(|c: char| c.is_ascii_alphanumeric()));
    if parts_are_named
        && path.chars().all(is_path)
        && !tag.is_empty()
        && tag.len() <= 128
        && tag.chars().all(is_tag)
    {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{name:?} is not a valid image name: use registry/path:tag, in lower-case letters"
    )))
}

/// The time of `SOURCE_DATE_EPOCH`, or else 1970.
fn epoch(variable: Option<&str>) -> Result<u32, Failure> {
    variable.map_or(Ok(0), |text| {
        text.parse().map_err(|_| {
            Failure::usage(format!("{EPOCH} is {text:?}: set it to a number of seconds since 1970"))
        })
    })
}

fn size(bytes: usize) -> String {
    let tenths = bytes / 100_000;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_registries() {
        for good in ["guestbook:0.1.0", "registry.example.com:5000/team/guestbook:v1", "guestbook"] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", "Guestbook:1", "a b:1", "a//b:1", "a:", "-a:1", "a/b:x y"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_time_is_a_number_of_seconds() {
        assert_eq!((epoch(None), epoch(Some("1700000000"))), (Ok(0), Ok(1_700_000_000)));
        assert!(epoch(Some("yesterday")).is_err_and(|failure| failure.message.contains("\"yesterday\"")));
    }
}
