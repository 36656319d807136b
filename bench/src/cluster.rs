//! The cluster process, which runs the API server and changes its objects.

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::time::Duration;

use crate::build::Programs;
use crate::process::{Memory, Process, cpu_seconds};
use crate::protocol::Figures;

/// Time limit for steps that create many objects.
const LONGEST_FILL: Duration = Duration::from_secs(600);

/// A cluster. Dropping it also ends its server.
#[derive(Debug)]
pub(crate) struct Cluster {
    process: Process,
    pub(crate) kubeconfig: String,
    servers: Vec<u32>,
}

impl Cluster {
    pub(crate) async fn start(programs: &Programs) -> anyhow::Result<Self> {
        let mut process = Process::start("cluster", &programs.cluster)?;
        let started = process.ask("cluster.start", json!({"server": programs.server})).await?;
        let kubeconfig = started.text("kubeconfig")?.to_owned();
        let servers = started.value("processes")?.as_array().context("processes are a list")?;
        // The servers are children of the cluster program, so their times are not in those of that process.
        let servers = servers.iter().filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect();
        Ok(Self { process, kubeconfig, servers })
    }

    pub(crate) async fn ask(&mut self, step: &str, with: Value) -> anyhow::Result<Figures> {
        self.process.ask(step, with).await
    }

    /// Like `ask`, but for steps that create many objects.
    pub(crate) async fn fill(&mut self, step: &str, with: Value) -> anyhow::Result<Figures> {
        self.process.ask_within(LONGEST_FILL, step, with).await
    }

    /// Returns whether the process can receive more steps.
    pub(crate) fn is_usable(&self) -> bool {
        self.process.is_usable()
    }

    /// CPU seconds used by the server so far.
    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        self.servers.iter().map(|server| cpu_seconds(*server)).sum()
    }

    /// Resident memory of the server in bytes.
    pub(crate) fn resident(&self) -> anyhow::Result<f64> {
        self.servers.iter().map(|server| Ok(Memory::of(*server)?.now)).sum()
    }

    /// Stops the cluster and waits until its server has exited.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        let Self { process, .. } = self;
        process.finish().await
    }
}
