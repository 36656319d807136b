//! Commands that the operator's own program carries out: it knows its kinds, rights and manifests.

use std::{
    ffi::OsString,
    path::Path,
    process::{Command, Stdio},
};

use clap::Args;

use crate::{
    failure::{Failure, FailureCode},
    project::{Selection, display},
    shell::Shell,
};

/// Arguments of a command that is passed on.
#[derive(Debug, Clone, Args)]
pub struct Ask {
    #[command(flatten)]
    selection: Selection,
    /// Options of the operator's own command, such as --image; after `--` flags with which it runs, such as --leader-elect
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS [-- FLAGS]")]
    arguments: Vec<OsString>,
}

/// Builds the operator's program and lets it carry out `command`, with the options of the arguments and with `flags` after `--`.
///
/// # Errors
///
/// The package or program is not found, or does not compile, or the program fails. The program has then printed the reason.
pub fn run(
    command: &str,
    arguments: &Ask,
    flags: &[OsString],
    here: &Path,
    shell: &Shell,
) -> Result<(), Failure> {
    let project = arguments.selection.project(here)?;
    let program = arguments.selection.build(&project, shell)?;
    let mut asked = Command::new(&program);
    asked.arg(command).args(&arguments.arguments);
    if !flags.is_empty() {
        asked.arg("--").args(flags);
    }
    asked.current_dir(&project.folder).stdin(Stdio::null());
    shell.running(display(&asked));
    let status = asked.status();
    let status =
        status.map_err(|error| Failure::new(format!("cannot run {}: {error}", program.display())))?;
    let code = match status.code() {
        Some(0) => return Ok(()),
        Some(2) => FailureCode::Usage,
        Some(3) => FailureCode::Difference,
        _ => FailureCode::Failed,
    };
    Err(Failure { code, ..Failure::new(format!("{} {command} did not succeed ({status})", project.bin)) })
}
