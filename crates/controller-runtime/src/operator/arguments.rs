//! The command line.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use kube_apimachinery::{crd_compat::Exceptions, yaml};
use serde_json::Value;

use super::{CommandError, Operator};
use crate::{
    manager::Flags,
    manifests::{Layout, Parameters, Part},
};

/// Runs the operator, or prints the objects that deploy it
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
    /// Print, write or check the objects that deploy the operator
    Manifests(Box<ManifestArguments>),
    /// Print the rights that the operator needs, each with the line that needs it
    Rbac(RightsArguments),
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
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(super) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(super) struct RightsArguments {
    #[command(flatten)]
    pub(super) output: OutputArguments,
    /// Flags with which the operator runs
    #[arg(last = true, value_name = "FLAGS")]
    pub(super) run: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct ManifestArguments {
    #[command(flatten)]
    pub(super) output: OutputArguments,
    /// Form of the files: yaml, kustomize or helm
    #[arg(long, value_name = "LAYOUT", default_value_t)]
    pub(super) layout: Layout,
    /// Write the files to this folder instead of printing them
    #[arg(long, value_name = "FOLDER")]
    pub(super) out: Option<PathBuf>,
    /// Compare with the files of --out, by default those in deploy/, and write nothing; exit code 3 if they differ
    #[arg(long)]
    pub(super) check: bool,
    /// With --check: file with the CustomResourceDefinitions of the last release, or - for standard input; by default the files of --out
    #[arg(long, value_name = "FILE", requires = "check")]
    pub(super) baseline: Option<PathBuf>,
    /// With --check: allowed changes of CustomResourceDefinitions, as a JSON list of {at, rule, reason, until}
    #[arg(long, value_name = "JSON", requires = "check", value_parser = exceptions)]
    pub(super) allow: Option<Exceptions>,
    /// With --check: report properties of new fields that are hard to change later
    #[arg(long, requires = "check")]
    pub(super) lint: bool,
    /// Only these parts: namespace, crds, rbac, services, deployment, webhooks, network, monitoring
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
    /// Resources of the container as JSON; by default requests of 10m CPU and 64Mi memory, and no limits
    #[arg(long, value_name = "JSON", value_parser = object)]
    pub(super) resources: Option<Value>,
    /// Add a ServiceMonitor, which needs the Prometheus operator in the cluster
    #[arg(long)]
    pub(super) service_monitor: bool,
    /// Flags with which the operator runs: its container gets them, and they decide which ports and webhooks there are
    #[arg(last = true, value_name = "FLAGS")]
    pub(super) run: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// Text for people; objects as YAML documents
    #[value(alias = "yaml")]
    Text,
    /// One JSON object, with the schema of the answer
    Json,
}

impl Arguments {
    /// Syntax of the command line of `operator`.
    pub(super) fn command_of(operator: &Operator) -> clap::Command {
        let command = Self::command().name(operator.name).bin_name(operator.name).display_name(operator.name);
        match operator.version {
            "" => command,
            version => command.version(version).disable_version_flag(false),
        }
    }

    /// Parses the command line of `operator`.
    pub(super) fn parse(
        operator: &Operator,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, CommandError> {
        let mut command = Self::command_of(operator);
        let arguments = std::iter::once(operator.name.into()).chain(arguments);
        let matches = command.clone().try_get_matches_from(arguments);
        let parsed = matches.and_then(|matches| Self::from_arg_matches(&matches));
        parsed.map_err(|error| CommandError::usage(error.format(&mut command)))
    }

    /// The flags with which the operator runs: those of `run`, or those without a command.
    pub(super) fn flags_of_run(&mut self) -> &mut Flags {
        match &mut self.command {
            Some(Command::Run(run)) => &mut run.flags,
            _ => &mut self.flags,
        }
    }
}

/// Flags of `run` that stand after `--`.
pub(super) fn run_flags(operator: &Operator, arguments: &[String]) -> Result<Flags, CommandError> {
    let parsed = Arguments::parse(operator, arguments.iter().map(OsString::from))?;
    match parsed.command {
        None => Ok(parsed.flags),
        Some(Command::Run(run)) => Ok(run.flags),
        Some(_) => Err(CommandError::arguments(
            "only flags of `run`, such as --leader-elect, may follow --: leave out the command".to_owned(),
        )),
    }
}

impl ManifestArguments {
    pub(super) fn parameters(&self) -> Parameters {
        let parameters = Parameters::default()
            .replicas(self.replicas)
            .arguments(&self.run)
            .service_monitor(self.service_monitor);
        let parameters = self.namespace.iter().fold(parameters, Parameters::namespace);
        let parameters = self.image.iter().fold(parameters, Parameters::image);
        self.resources.iter().cloned().fold(parameters, Parameters::resources)
    }

    pub(super) fn parts(&self) -> &[Part] {
        if self.only.is_empty() { &Part::ALL } else { &self.only }
    }
}

/// Parses a JSON object.
fn object(text: &str) -> Result<Value, String> {
    let value = yaml::read(text.as_bytes())?.value;
    if value.is_object() { Ok(value) } else { Err("give a JSON object".to_owned()) }
}

/// Parses allowed changes.
fn exceptions(text: &str) -> Result<Exceptions, String> {
    let value = yaml::read(text.as_bytes())?.value;
    Exceptions::parse(&value).map_err(|error| error.to_string())
}
