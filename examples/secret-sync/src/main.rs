//! `cargo run -p secret-sync`: copies secrets of namespace vault into the namespaces that request them, on the cluster of your
//! kubeconfig. `cargo run -p secret-sync -- rbac` prints the rights that this needs.

use std::process::ExitCode;

use controller_runtime::operator::Operator;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let operator = Operator::new("secret-sync", "secret-sync.example.com").version(env!("CARGO_PKG_VERSION"));
    operator.setup(secret_sync::add_to).main().await
}
