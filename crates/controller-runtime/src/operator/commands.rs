//! The commands.

use serde_json::{Value, json};

use super::{
    Failure, Operator,
    arguments::{Command, Format, ManifestArguments},
};
use crate::{
    manager::{Flags, Manager},
    manifests::{Manifests, Program},
};

/// Schema of JSON answers.
const SCHEMA: &str = "operator/v1";

/// Carries out a command and returns its output. Without a command the operator runs with `flags`.
pub(super) async fn carry_out(
    operator: &Operator,
    command: Option<Command>,
    flags: &Flags,
) -> Result<String, Failure> {
    match command {
        None => run(operator, flags).await,
        Some(Command::Run(run_flags)) => run(operator, &run_flags.flags).await,
        Some(Command::Manifests(arguments)) => manifests(operator, &arguments),
        Some(Command::Crds(output)) => {
            Ok(print(&Manifests::of_definitions(operator.definitions()), output.format))
        }
    }
}

async fn run(operator: &Operator, flags: &Flags) -> Result<String, Failure> {
    #[cfg(feature = "logging")]
    flags.init_logging()?;
    let config = flags.config(None).await?;
    let manager = Manager::from_config(config, operator.manager_options(flags))?;
    operator.add_to(&manager)?;
    manager.run_until_signal().await?;
    Ok(String::new())
}

fn manifests(operator: &Operator, arguments: &ManifestArguments) -> Result<String, Failure> {
    let manager = operator.manager_offline(&arguments.flags(operator)?)?;
    let program = operator.definitions().iter().cloned().fold(Program::of(&manager), Program::definition);
    let mut rendered = program.render(&arguments.parameters())?;
    if !arguments.only.is_empty() {
        rendered = rendered.only(&arguments.only);
    }
    Ok(print(&rendered, arguments.output.format))
}

/// Formats objects.
fn print(rendered: &Manifests, format: Format) -> String {
    match format {
        Format::Yaml => rendered.to_yaml(),
        Format::Json => answer([("objects", rendered.to_json())]),
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
