//! Commands that the operator's own program carries out, because only that program knows its kinds, rights and manifests.

use std::{
    ffi::OsString,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use clap::Args;

use crate::{
    baseline,
    failure::{Failure, FailureCode},
    program_options,
    project::{Selection, display},
    shell::Shell,
};

/// Schema of answers in JSON, of the operator's program and of this one.
pub(crate) const SCHEMA: &str = "operator/v1";

/// Path of a kubeconfig that does not exist.
const NO_FILE: &str = "/no-cluster-while-the-operator-is-asked";

/// Arguments of a command that is passed on.
#[derive(Debug, Clone, Args)]
pub struct Ask {
    #[command(flatten)]
    selection: Selection,
    /// Options of the operator's own command, such as --image; after `--` flags with which it runs, such as --leader-elect
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS [-- FLAGS]")]
    arguments: Vec<OsString>,
}

/// Command that runs a program without access to a cluster. An `Operator` sends no requests for these commands. Any other program might
/// ignore the command, and start to work on the user's cluster.
pub(crate) fn offline(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env("KUBECONFIG", NO_FILE)
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("KUBERNETES_SERVICE_PORT");
    command
}

/// Builds the operator's program and lets it carry out `command`, with the options of the arguments and with `flags` after `--`.
///
/// # Errors
///
/// An option is unknown, the package or program is not found, or does not compile, or the program fails. The program has then printed the
/// reason.
pub fn run(
    command: &str,
    arguments: &Ask,
    flags: &[OsString],
    here: &Path,
    shell: &Shell,
) -> Result<(), Failure> {
    program_options::check(command, &arguments.arguments)?;
    let project = arguments.selection.project(here)?;
    let mut given = arguments.arguments.clone();
    // Read before the build, so that a mistyped revision fails at once.
    let baseline = if command == "manifests" { baseline::take(&mut given, &project.folder)? } else { None };
    let program = arguments.selection.build_to_render(&project, shell)?;
    let mut asked = offline(&program);
    asked.arg(command).args(project.settings.options(command, &given)).args(&given);
    let flags = project.settings.flags(command, flags);
    if !flags.is_empty() {
        asked.arg("--").args(flags);
    }
    asked.current_dir(&project.folder).stdin(if baseline.is_some() { Stdio::piped() } else { Stdio::null() });
    shell.running(display(&asked));
    let status = asked.spawn().and_then(|mut child| {
        if let (Some(text), Some(mut input)) = (baseline, child.stdin.take()) {
            // The write fails if the program ended before it read its input. The program has then printed the reason.
            let _ = input.write_all(text.as_bytes());
        }
        child.wait()
    });
    let status =
        status.map_err(|error| Failure::new(format!("cannot run {}: {error}", program.display())))?;
    let code = match status.code() {
        Some(0) => return Ok(()),
        Some(2) => FailureCode::Usage,
        Some(3) => FailureCode::Difference,
        _ => FailureCode::Failed,
    };
    Err(Failure { code, ..Failure::new(format!("{} {command} failed ({status})", project.bin)) })
}
