//! `cargo run -p metadata-watcher`: deletes expired secrets, on the cluster of your kubeconfig.

use clap::Parser;
use controller_runtime::manager::Flags;

/// Deletes each secret at the time in its annotation example.com/expires, without reading secret data.
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
    let manager = flags.manager("metadata-watcher", "metadata-watcher.example.com").await?;
    metadata_watcher::add_to(&manager)?;
    Ok(manager.run_until_signal().await?)
}
