//! `cargo run -p external-source -- FOLDER`: mirrors the files of a folder into ConfigMaps, on the cluster of your kubeconfig.

use std::path::PathBuf;

use clap::Parser;
use controller_runtime::manager::Flags;

/// Mirrors the files of a folder into ConfigMaps in namespace default.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Folder to mirror
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
