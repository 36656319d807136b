//! `cargo run -p external-source -- FOLDER`: makes a ConfigMap of each file in a folder, and keeps it so, on the cluster of
//! your kubeconfig.

use std::path::PathBuf;

use clap::Parser;
use controller_runtime::manager::Flags;

/// Makes a ConfigMap in namespace default of each file in a folder, and keeps it so.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The folder
    folder: PathBuf,
    #[command(flatten)]
    manager: Flags,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Args { folder, manager: flags } = Args::parse();
    flags.init_logging()?;
    let manager = flags.manager("external-source", "external-source.example.com").await?;
    external_source::add_to(&manager, &folder)?;
    Ok(manager.run_until_signal().await?)
}
