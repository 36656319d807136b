//! The demonstration: starts an API server and two candidates, and ends the leader twice.

use std::{path::Path, process::Stdio, time::Duration};

use anyhow::Context;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube_envtest::{Environment, Transport, eventually};
use tokio::{
    process::{Child, Command},
    time::Instant,
};

use crate::LEASE;

/// Time limit for a new leader.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the demonstration. Returns the takeover times after a killed and after a stopped leader.
pub(crate) async fn run(quick: bool) -> anyhow::Result<(Duration, Duration)> {
    let env = Environment::builder().transport(Transport::Tcp(([127, 0, 0, 1], 0).into())).start().await?;
    let listener = env.listener().context("the environment has a socket")?;
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, listener.kubeconfig())?;
    let leases = Api::<Lease>::default_namespaced(env.client());

    println!("two candidates start");
    let mut one = start("one", &kubeconfig, quick)?;
    let first = leader_other_than(&leases, "").await?;
    let mut two = start("two", &kubeconfig, quick)?;
    // By then candidate two has seen the lease. (A real deployment would wait for its readiness probe.)
    renewed(&leases).await?;

    println!("one is killed");
    let began = Instant::now();
    one.kill().await?;
    let second = leader_other_than(&leases, &first).await?;
    let killed = began.elapsed();
    println!("two took over after {:.1} s", killed.as_secs_f32());

    let mut three = start("three", &kubeconfig, quick)?;
    renewed(&leases).await?;
    println!("two is asked to stop");
    let began = Instant::now();
    terminate(&two).await?;
    leader_other_than(&leases, &second).await?;
    let stopped = began.elapsed();
    println!("three took over after {:.3} s", stopped.as_secs_f32());

    two.wait().await?;
    terminate(&three).await?;
    let end = three.wait().await?;
    anyhow::ensure!(end.success(), "a stopped candidate exited with an error: {end}");
    Ok((killed, stopped))
}

/// Starts this program as a candidate.
fn start(name: &str, kubeconfig: &Path, quick: bool) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    // All candidates run on one machine, where only one of them could have a fixed port for probes.
    command.args(["--candidate", name, "--health-probe-bind-address=0", "--zap-log-level=error"]);
    command.arg("--kubeconfig").arg(kubeconfig).args(quick.then_some("--quick"));
    Ok(command.stdin(Stdio::null()).kill_on_drop(true).spawn()?)
}

/// Waits until a candidate other than `past` holds the lease.
async fn leader_other_than(leases: &Api<Lease>, past: &str) -> anyhow::Result<String> {
    let holder = eventually(TIMEOUT, async || match holder(leases).await {
        Some(holder) if !holder.is_empty() && holder != past => Ok(holder),
        holder => Err(format!("the lease is held by {holder:?}")),
    });
    holder.await.context("no candidate leads")
}

/// Waits until the lease has been renewed twice.
async fn renewed(leases: &Api<Lease>) -> anyhow::Result<()> {
    // The first renewal may be under way already, so a second one shows that the wait lasted a whole period.
    for _ in 0..2 {
        let before = version(leases).await;
        let changed = eventually(TIMEOUT, async || match version(leases).await {
            now if now != before => Ok(()),
            now => Err(format!("the lease is at version {now:?}")),
        });
        changed.await.context("the lease is not renewed")?;
    }
    Ok(())
}

async fn holder(leases: &Api<Lease>) -> Option<String> {
    leases.get_opt(LEASE).await.ok()??.spec?.holder_identity
}

async fn version(leases: &Api<Lease>) -> Option<String> {
    leases.get_opt(LEASE).await.ok()??.metadata.resource_version
}

/// Sends SIGTERM, as the kubelet does.
async fn terminate(child: &Child) -> anyhow::Result<()> {
    let id = child.id().context("the candidate has already exited")?;
    let sent = Command::new("sh").args(["-c", &format!("kill -TERM {id}")]).status().await?;
    anyhow::ensure!(sent.success(), "SIGTERM was not sent to the candidate");
    Ok(())
}
