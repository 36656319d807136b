//! `cargo run -p metadata-watcher`: deletes expired secrets, on the cluster of your kubeconfig. `cargo run -p metadata-watcher -- rbac` prints
//! the rights that this needs.

use std::process::ExitCode;

use controller_runtime::operator::Operator;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let operator =
        Operator::new("metadata-watcher", "metadata-watcher.example.com").version(env!("CARGO_PKG_VERSION"));
    operator.setup(metadata_watcher::add_to).main().await
}
