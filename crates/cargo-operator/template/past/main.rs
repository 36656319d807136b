//! The operator, for the cluster of your kubeconfig or of its pod: see `widget-operator --help`.

use clap::Parser;
use controller_runtime::manager::Flags;

#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    manager: Flags,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Args { manager: flags } = Args::parse();
    flags.init_logging()?;
    let manager = flags
        .manager("widget-operator", "widget-operator.example.com")
        .await?;
    widget_operator::add_to(&manager)?;
    Ok(manager.run_until_signal().await?)
}
