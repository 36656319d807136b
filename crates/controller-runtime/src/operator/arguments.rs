//! The command line.

use std::ffi::OsString;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use super::{Failure, Operator};
use crate::{
    manager::Flags,
    manifests::{Parameters, Part},
};

/// The command line of an operator.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true, disable_version_flag = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) flags: Flags,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the operator until SIGTERM or Ctrl-C; also the default without a command
    Run(Box<RunFlags>),
    /// Print the objects that deploy the operator
    Manifests(ManifestArguments),
    /// Print the CustomResourceDefinitions
    Crds(OutputArguments),
}

#[derive(Debug, Args)]
pub(super) struct RunFlags {
    #[command(flatten)]
    pub(super) flags: Flags,
}

#[derive(Debug, Args)]
pub(super) struct OutputArguments {
    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "yaml")]
    pub(super) format: Format,
}

#[derive(Debug, Args)]
pub(super) struct ManifestArguments {
    #[command(flatten)]
    pub(super) output: OutputArguments,
    /// Print only these parts: namespace, crds, rbac, services, deployment, webhooks
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    pub(super) only: Vec<Part>,
    /// Namespace of the operator; by default its name
    #[arg(long, value_name = "NAMESPACE")]
    pub(super) namespace: Option<String>,
    /// Image of the operator; by default `<name>:latest`
    #[arg(long, value_name = "IMAGE")]
    pub(super) image: Option<String>,
    /// Number of replicas; more than one needs leader election
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) replicas: u32,
    /// Flags with which the operator runs: its container gets them, and they decide which ports and webhooks there are
    #[arg(last = true, value_name = "FLAGS")]
    pub(super) arguments: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// YAML documents
    Yaml,
    /// One JSON object, with the schema of the answer
    Json,
}

impl Arguments {
    /// Parses the command line of `operator`.
    pub(super) fn parse(
        operator: &Operator,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, Failure> {
        let mut command = Self::command().bin_name(operator.name).display_name(operator.name);
        if !operator.version.is_empty() {
            command = command.version(operator.version).disable_version_flag(false);
        }
        let arguments = std::iter::once(operator.name.into()).chain(arguments);
        let matches = command.clone().try_get_matches_from(arguments);
        let parsed = matches.and_then(|matches| Self::from_arg_matches(&matches));
        parsed.map_err(|error| Failure::Usage(Box::new(error.format(&mut command))))
    }
}

impl ManifestArguments {
    /// The flags after `--`.
    pub(super) fn flags(&self, operator: &Operator) -> Result<Flags, Failure> {
        let arguments = self.arguments.iter().map(OsString::from);
        let parsed = Arguments::parse(operator, arguments)?;
        match parsed.command {
            None => Ok(parsed.flags),
            Some(Command::Run(run)) => Ok(run.flags),
            Some(_) => Err(Failure::Arguments(
                "after -- stand the flags of `run`, such as --leader-elect, and no other command".to_owned(),
            )),
        }
    }

    pub(super) fn parameters(&self) -> Parameters {
        let parameters = Parameters::default().replicas(self.replicas).arguments(&self.arguments);
        let parameters = self.namespace.iter().fold(parameters, Parameters::namespace);
        self.image.iter().fold(parameters, Parameters::image)
    }
}
