//! The operator, for the cluster of your kubeconfig or of its pod: see `widget-operator --help`.

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    widget_operator::operator().main().await
}
