//! The commands.

mod check_files;
mod folder;
mod rbac_command;

use std::fmt;

use serde_json::{Value, json};

use super::{
    CommandError, Operator,
    arguments::{Command, ManifestArguments, OutputFormat, run_flags},
    parent::ParentEnd,
};
use crate::{
    client::runs_in_pod,
    manager::{Flags, Manager},
    manifests::{Files, Layout, Manifests, Program, RELEASE_NAMESPACE},
};

/// Schema of JSON answers.
const SCHEMA: &str = "operator/v1";

/// Output of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandOutput {
    /// Text for standard output.
    pub text: String,
    /// Whether a check found a difference.
    pub differs: bool,
}

impl fmt::Display for CommandOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<String> for CommandOutput {
    fn from(text: String) -> Self {
        Self { text, differs: false }
    }
}

/// Carries out a command and returns its output. Without a command the operator runs with `flags`.
pub(super) async fn carry_out(
    operator: &Operator,
    command: Option<Command>,
    flags: &Flags,
) -> Result<CommandOutput, CommandError> {
    match command {
        None => run(operator, flags).await,
        Some(Command::Run(run_flags)) => run(operator, &run_flags.flags).await,
        Some(Command::Manifests(arguments)) if arguments.check => check_files::check(operator, &arguments),
        Some(Command::Manifests(arguments)) => manifests(operator, &arguments),
        Some(Command::Rbac(arguments)) => rbac_command::print(operator, &arguments),
        Some(Command::Crds(output)) => {
            Ok(print(&Manifests::of_definitions(&operator.definitions), output.format).into())
        }
    }
}

async fn run(operator: &Operator, flags: &Flags) -> Result<CommandOutput, CommandError> {
    #[cfg(feature = "logging")]
    flags.init_logging()?;
    let config = flags.config(None).await?;
    let mut options = operator.manager_options(flags, &config.default_namespace);
    // The Service leads to pods, not to this process: with the configurations, the API server would refuse all objects of these kinds.
    let left = match flags.enable_webhooks {
        None if !runs_in_pod(flags.kubeconfig.as_deref()) => options.webhooks.leave_service(),
        _ => None,
    };
    let manager = Manager::from_config(config, options)?;
    operator.add_to(&manager)?;
    if let Some(service) = left.filter(|_| !manager.registered_webhooks().is_empty()) {
        tracing::warn!(
            "webhooks are off, because Service {service} does not lead to a process outside of a pod: try them with `cargo operator \
             dev`, or deploy the operator; --enable-webhooks turns them on here, --enable-webhooks=false hides this line"
        );
    }
    let parent = ParentEnd::watch().map_err(CommandError::failed)?;
    manager.run_until_signal_or(parent.ended()).await?;
    Ok(String::new().into())
}

/// Prints the objects, or writes the files.
fn manifests(operator: &Operator, arguments: &ManifestArguments) -> Result<CommandOutput, CommandError> {
    let format = arguments.output.format;
    if let Some(out) = &arguments.out {
        let written = folder::write(out, &files(operator, arguments)?)?;
        return Ok(match format {
            OutputFormat::Text => written.iter().map(|path| format!("{path}\n")).collect::<String>(),
            OutputFormat::Json => answer([("files", json!(written))]),
        }
        .into());
    }
    if arguments.layout != Layout::Yaml {
        let reason = format!("--layout {} has several files: add --out FOLDER", arguments.layout);
        return Err(CommandError::arguments(reason));
    }
    let program = program(operator, arguments, None)?;
    Ok(print(&program.render(&arguments.parameters())?.only(arguments.parts()), format).into())
}

/// The program as it runs with the flags after `--`, in the namespace of the arguments or in another one.
fn program(
    operator: &Operator,
    arguments: &ManifestArguments,
    namespace: Option<&str>,
) -> Result<Program, CommandError> {
    let flags = run_flags(operator, &arguments.run)?;
    let namespace = namespace.or(arguments.namespace.as_deref()).unwrap_or(operator.name);
    let manager = operator.manager_offline(&flags, namespace)?;
    Ok(operator.definitions.iter().cloned().fold(Program::of(&manager), Program::definition))
}

/// The files of the layout.
fn files(operator: &Operator, arguments: &ManifestArguments) -> Result<Files, CommandError> {
    let namespace = (arguments.layout == Layout::Helm).then_some(RELEASE_NAMESPACE);
    let program = program(operator, arguments, namespace)?;
    Ok(program.files(&arguments.parameters(), arguments.layout, arguments.parts())?)
}

/// Formats objects.
fn print(rendered: &Manifests, format: OutputFormat) -> String {
    match format {
        OutputFormat::Text => rendered.to_yaml(),
        OutputFormat::Json => answer([("objects", rendered.to_json())]),
    }
}

/// A JSON answer, with the schema first.
fn answer<const N: usize>(fields: [(&str, Value); N]) -> String {
    let mut text = format!("{{\"schema\":{},\"library\":{}", json!(SCHEMA), json!(env!("CARGO_PKG_VERSION")));
    for (name, value) in fields {
        text.push_str(&format!(",{}:{value}", json!(name)));
    }
    text.push_str("}\n");
    text
}
