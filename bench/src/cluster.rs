//! The API server and who changes its objects, each a process of its own.

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::time::Duration;

use crate::build::Programs;
use crate::process::{Memory, Process, cpu_seconds};
use crate::protocol::Figures;

/// Longer than any server takes for as many objects as there are.
const LONGEST_FILL: Duration = Duration::from_secs(600);

/// A cluster. Dropping it ends its server too.
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
        let servers = servers.iter().filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect();
        Ok(Self { process, kubeconfig, servers })
    }

    pub(crate) async fn ask(&mut self, step: &str, with: Value) -> anyhow::Result<Figures> {
        self.process.ask(step, with).await
    }

    /// The same for steps that fill a server.
    pub(crate) async fn fill(&mut self, step: &str, with: Value) -> anyhow::Result<Figures> {
        self.process.ask_within(LONGEST_FILL, step, with).await
    }

    /// Whether it can be asked for more.
    pub(crate) fn is_usable(&self) -> bool {
        self.process.is_usable()
    }

    /// CPU seconds of the server until now.
    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        self.servers.iter().map(|server| cpu_seconds(*server)).sum()
    }

    /// Resident bytes of the server.
    pub(crate) fn resident(&self) -> anyhow::Result<f64> {
        self.servers.iter().map(|server| Ok(Memory::of(*server)?.now)).sum()
    }

    /// Ends it, and waits until its server has ended.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        let Self { process, .. } = self;
        process.finish().await
    }
}
