//! The same program with the feature `report`.

use std::process::ExitCode;

use crate::cargo::cargo;

/// Compiles the program with the feature, and runs it.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> ExitCode {
    let mut command = cargo();
    command
        .args(["run", "--profile", "bench", "--package", "kube-simulator", "--features", "report", "--"])
        .args(arguments);
    match command.status() {
        Ok(status) => {
            status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
        Err(error) => {
            eprintln!("error: cargo cannot be run: {error}");
            ExitCode::FAILURE
        }
    }
}
