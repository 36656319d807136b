//! Managers as users create them.

use bench_peer::Requests;
use controller_runtime::{Manager, ManagerOptions, client::connect};
use kube::Config;
use tokio::task::JoinSet;

/// A manager on the cluster that the driver names, before it runs.
pub(crate) struct Unstarted {
    client: kube::Client,
    options: ManagerOptions,
}

impl Unstarted {
    /// Creates a manager with the connections of [`Manager::from_config`], and counts its requests.
    pub(crate) fn new(config: Config, requests: &Requests) -> anyhow::Result<Self> {
        Ok(Self { client: requests.counted(connect(config)?), options: ManagerOptions::new("bench") })
    }

    pub(crate) fn with(self, options: impl FnOnce(ManagerOptions) -> ManagerOptions) -> Manager {
        Manager::new(self.client, options(self.options))
    }
}

/// Runs a manager until the process ends. If the manager fails, the process exits, which the driver notices.
pub(crate) fn run(manager: Manager, running: &mut JoinSet<()>) {
    running.spawn(async move {
        if let Err(error) = manager.run(std::future::pending()).await {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    });
}
