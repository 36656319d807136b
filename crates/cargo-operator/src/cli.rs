//! Arguments of the program.

use std::{env, process::ExitCode};

use clap::{ColorChoice, Parser, Subcommand};

use crate::{
    failure::Failure,
    new,
    shell::{Shell, Verbosity},
};

/// `cargo operator …`: cargo runs `cargo-operator operator …`.
#[derive(Debug, Parser)]
#[command(name = "cargo", bin_name = "cargo", styles = clap_cargo::style::CLAP_STYLING)]
pub enum Cargo {
    /// Makes and runs Kubernetes operators
    #[command(version, arg_required_else_help = true)]
    Operator(Operator),
}

/// Arguments of `cargo operator`.
#[derive(Debug, clap::Args)]
pub struct Operator {
    #[command(subcommand)]
    command: Command,
    /// Print errors and results only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Print the commands that run
    #[arg(short, long, global = true)]
    verbose: bool,
    /// Colour: auto, always or never
    #[arg(long, value_name = "WHEN", global = true, default_value = "auto", hide_possible_values = true)]
    color: ColorChoice,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a project with a working operator
    New(new::New),
}

/// Runs the program, and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let Cargo::Operator(arguments) = Cargo::parse();
    match arguments.color {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
    let shell = Shell::new(match (arguments.quiet, arguments.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Normal,
    });
    match run(&arguments.command, &shell) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            shell.fail(&failure);
            failure.code.into()
        }
    }
}

fn run(command: &Command, shell: &Shell) -> Result<(), Failure> {
    match command {
        Command::New(arguments) => {
            let here = env::current_dir()
                .map_err(|error| Failure::new(format!("cannot find the current folder: {error}")))?;
            new::run(arguments, &here, shell)
        }
    }
}
