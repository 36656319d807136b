//! `cargo run`: the operator on an API server of its own, with the objects in `samples/`, until Ctrl-C.

use std::process::ExitCode;

use widget_operator::operator;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    kube_envtest::dev::run("samples", async |arguments| {
        operator().answer(arguments).await
    })
    .await
}
