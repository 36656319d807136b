//! Managers.

use bench_peer::Requests;
use controller_runtime::{Manager, client::connect, manager::Options};
use kube::Config;
use tokio::task::JoinSet;

/// A manager as users make it, on the cluster that the driver names.
pub(crate) struct Unstarted {
    client: kube::Client,
    options: Options,
}

impl Unstarted {
    /// With the connections of [`Manager::from_config`], whose requests `requests` counts.
    pub(crate) fn new(config: Config, requests: &Requests) -> anyhow::Result<Self> {
        Ok(Self { client: requests.counted(connect(config)?), options: Options::new("bench") })
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
