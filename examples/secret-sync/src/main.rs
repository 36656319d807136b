//! `cargo run -p secret-sync`: copies secrets of namespace vault into the namespaces that request them, on the cluster of your
//! kubeconfig.

use clap::Parser;
use controller_runtime::manager::Flags;

/// Copies a secret of namespace vault into each namespace that names it in its label example.com/wants-secret.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    manager: Flags,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Args { manager: flags } = Args::parse();
    flags.init_logging()?;
    let manager = flags.manager("secret-sync", "secret-sync.example.com").await?;
    secret_sync::add_to(&manager)?;
    Ok(manager.run_until_signal().await?)
}
