//! Arguments of the program.

use std::{
    env,
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
};

use clap::{ColorChoice, CommandFactory, Parser, Subcommand};

use crate::{
    api, ask, dev, explain,
    failure::Failure,
    image, import, new,
    shell::{Shell, Verbosity},
    upgrade, webhook,
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
    #[arg(short, long, global = true, conflicts_with = "verbose", display_order = 100)]
    quiet: bool,
    /// Print the commands that run
    #[arg(short, long, global = true, display_order = 101)]
    verbose: bool,
    /// Colour: auto, always or never
    #[arg(
        long,
        value_name = "WHEN",
        global = true,
        default_value = "auto",
        hide_possible_values = true,
        display_order = 102
    )]
    color: ColorChoice,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a project with a working operator
    New(new::New),
    /// Add a kind and its controller
    Api(api::Api),
    /// Add webhooks to a kind: defaults, validation, conversion between versions
    Webhook(webhook::Webhook),
    /// Write Rust types of a kind that another program defines, from its CustomResourceDefinition
    Import(import::Import),
    /// Run the operator on an API server of its own, and again after each change, until Ctrl-C
    #[command(
        override_usage = "cargo operator dev [OPTIONS] [-- FLAGS]...",
        after_help = "FLAGS are passed to the operator, such as -- --log-level=debug"
    )]
    Dev(dev::Dev),
    /// Print why an object is not reconciled, or the state of the operator
    Explain(explain::Explain),
    /// Reconcile an object now, even if its request waits
    Retry(explain::retry::Retry),
    /// Build the operator and print the objects that deploy it
    Manifests(ask::Ask),
    /// Build the operator and print its CustomResourceDefinitions
    Crds(ask::Ask),
    /// Build the operator and print the rights that it needs, each with the line that needs it
    Rbac(ask::Ask),
    /// Build the operator and write its container image, without a container engine
    Image(image::MakeImage),
    /// Change controller-runtime, kube and k8s-openapi to the versions of this program, in all packages of the workspace
    Upgrade(upgrade::Upgrade),
    /// Print the completions of a shell
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
}

/// Runs the program, and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let (words, flags) = split(env::args_os().collect());
    let Cargo::Operator(arguments) = Cargo::parse_from(words);
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
    match run(&arguments.command, &flags, &shell) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            shell.fail(&failure);
            failure.code.into()
        }
    }
}

/// Splits a command line at `--`, which precedes flags of the operator. Clap would drop the `--` before arguments that it passes on.
fn split(mut words: Vec<OsString>) -> (Vec<OsString>, Vec<OsString>) {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let flags = words.split_off(end);
    (words, flags.into_iter().skip(1).collect())
}

fn run(command: &Command, flags: &[OsString], shell: &Shell) -> Result<(), Failure> {
    let here = env::current_dir();
    let here = here.map_err(|error| Failure::new(format!("cannot find the current folder: {error}")))?;
    match command {
        Command::New(_)
        | Command::Api(_)
        | Command::Webhook(_)
        | Command::Import(_)
        | Command::Explain(_)
        | Command::Retry(_)
        | Command::Image(_)
        | Command::Upgrade(_)
        | Command::Completions { .. }
            if !flags.is_empty() =>
        {
            Err(Failure::usage(
                "this command takes no flags for the operator: leave out `--` and the arguments after it",
            ))
        }
        Command::New(arguments) => new::run(arguments, &here, shell),
        Command::Api(arguments) => api::run(arguments, &here, shell),
        Command::Webhook(arguments) => webhook::run(arguments, &here, shell),
        Command::Import(arguments) => import::run(arguments, &here, shell),
        Command::Dev(arguments) => {
            let flags = flags.iter().map(|flag| flag.to_string_lossy().into_owned()).collect::<Vec<_>>();
            dev::run(arguments, &flags, &here, shell)
        }
        Command::Retry(arguments) => explain::retry::run(arguments, &here, shell),
        Command::Explain(arguments) => explain::run(arguments, &here, shell),
        Command::Manifests(arguments) => ask::run("manifests", arguments, flags, &here, shell),
        Command::Crds(arguments) => ask::run("crds", arguments, flags, &here, shell),
        Command::Rbac(arguments) => ask::run("rbac", arguments, flags, &here, shell),
        Command::Image(arguments) => image::run(arguments, &here, shell),
        Command::Upgrade(arguments) => upgrade::run(arguments, &here, shell),
        Command::Completions { shell } => {
            let mut output = Vec::new();
            clap_complete::generate(*shell, &mut Cargo::command(), "cargo-operator", &mut output);
            // A closed pipe, as with `| head`, is not a failure.
            let _ = io::stdout().write_all(&output);
            Ok(())
        }
    }
}
