//! The API server: the embedded one, or that of `KUBEBUILDER_ASSETS` if it is set.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context as _;
use bench_peer::{Ask, Reply, Requests};
use kube_envtest::{Assets, Cluster, Environment};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// A running API server. It ends with this process, which ends with the driver.
pub(crate) struct Server {
    client: kube::Client,
    kubeconfig: PathBuf,
    kind: &'static str,
    processes: Vec<u32>,
    _running: Running,
    files: TempDir,
}

#[expect(dead_code, reason = "they are kept so that what they stand for runs")]
enum Running {
    Embedded(Child),
    Binaries(Environment),
}

impl Server {
    /// Starts the program that the driver names, or the binaries.
    pub(crate) async fn start(ask: &Ask) -> anyhow::Result<Self> {
        let files = tempfile::tempdir()?;
        let kubeconfig = files.path().join("kubeconfig");
        let running = if Assets::are_configured() {
            let cluster = Cluster::Binaries(Assets::from_env()?);
            let environment = Environment::builder().cluster(cluster).start().await?;
            fs::write(&kubeconfig, environment.kubeconfig().context("a control plane has a kubeconfig")?)?;
            Running::Binaries(environment)
        } else {
            let mut command = Command::new(ask.text("server")?);
            // Profile `envtest`, without garbage collection, which would delete pods with references to missing ReplicaSets.
            command.args(["--listen", "127.0.0.1:0", "--tls", "--profile", "envtest", "--kubeconfig-out"]);
            command.arg(&kubeconfig).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
            let mut child = command.spawn().context("the API server")?;
            let output = child.stdout.take().context("it has an output")?;
            let line = BufReader::new(output).lines().next_line().await?.unwrap_or_default();
            anyhow::ensure!(line.starts_with("ready "), "the API server did not become ready: {line}");
            Running::Embedded(child)
        };
        let kind = match running {
            Running::Embedded(_) => "embedded",
            Running::Binaries(_) => "KUBEBUILDER_ASSETS",
        };
        let client = Requests::default().client(&kubeconfig).await?;
        let processes = children()?;
        Ok(Self { client, kubeconfig, kind, processes, _running: running, files })
    }

    pub(crate) fn client(&self) -> kube::Client {
        self.client.clone()
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Temporary folder, removed with the server.
    pub(crate) fn files(&self) -> &Path {
        self.files.path()
    }

    /// Returns kind, kubeconfig and process IDs, from which the driver reads CPU and memory.
    pub(crate) fn describe(&self) -> Reply {
        Reply::figures([
            ("kubeconfig", self.kubeconfig.display().to_string().into()),
            ("kind", self.kind.into()),
            ("processes", serde_json::Value::from(self.processes.clone())),
        ])
    }
}

/// Returns the IDs of the child processes.
fn children() -> anyhow::Result<Vec<u32>> {
    let mut found = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        let children = fs::read_to_string(task?.path().join("children"))?;
        found.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    Ok(found)
}
