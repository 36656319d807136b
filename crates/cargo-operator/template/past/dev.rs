//! `cargo run`: the operator on an API server of its own, with the objects in `samples/`, until Ctrl-C.

use controller_runtime::{
    Manager, ManagerOptions,
    logging::{self, LogOptions},
};
use kube_envtest::{Instance, dev::Dev};
use widget_operator::Widget;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    logging::init(&LogOptions::default())?;
    let dev = Dev::new().crd::<Widget>().samples("samples");
    let run = dev.run(|instance: Instance| async move {
        let manager = Manager::new(instance.client(), ManagerOptions::new("widget-operator"));
        widget_operator::add_to(&manager)?;
        Ok(instance
            .run(manager.ready(), manager.run(instance.stopped()))
            .await?)
    });
    Ok(run.await?)
}
