//! Managers.

use controller_runtime::{Manager, manager::Options};
use tokio::task::JoinSet;

/// A manager as users make it, on the cluster that the driver names.
pub(crate) struct Unstarted {
    client: kube::Client,
    options: Options,
}

impl Unstarted {
    pub(crate) fn with_client(client: kube::Client) -> Self {
        Self { client, options: Options::new("bench") }
    }

    pub(crate) fn with(self, options: impl FnOnce(Options) -> Options) -> Manager {
        Manager::new(self.client, options(self.options))
    }
}

/// Runs a manager for the rest of the process; a manager that fails ends it, which the driver sees.
pub(crate) fn run(manager: Manager, running: &mut JoinSet<()>) {
    running.spawn(async move {
        if let Err(error) = manager.run(std::future::pending()).await {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    });
}
