//! `cargo run -p webhooks -- crd` prints the CustomResourceDefinition, `cargo run -p webhooks` runs the operator on the cluster of your
//! kubeconfig.

use clap::{Parser, Subcommand};
use controller_runtime::{
    Manager,
    manager::Flags,
    webhook::{SelfManagedCertificates, WebhookOptions, WebhookService},
};

/// Serves Websites with Deployments. Webhooks set defaults, validate, and convert between versions.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    manager: Flags,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the CustomResourceDefinition as JSON
    Crd,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Args { command, manager: flags } = Args::parse();
    if let Some(Command::Crd) = command {
        println!("{}", serde_json::to_string_pretty(&webhooks::definition()?)?);
        return Ok(());
    }
    flags.init_logging()?;
    // The operator makes its certificates, and installs the configurations of its webhooks.
    let service = WebhookService::new("website-system", "webhook-service");
    let serving = WebhookOptions::default()
        .certificates(SelfManagedCertificates::new(&service))
        .apply_configurations(&service);
    let options = flags.options("website-operator", "website-operator.example.com").webhooks(serving);
    let manager = Manager::from_config(flags.config(None).await?, options)?;
    webhooks::add_to(&manager)?;
    Ok(manager.run_until_signal().await?)
}
