//! Workloads: an operator of guestbooks, at work and idle.

use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use crate::build::Programs;
use crate::cluster::Cluster;
use crate::figures::{GUESTBOOKS, IDLE};
use crate::process::Process;
use crate::session::{Contender, Measured, PEERS, Session};

/// Time without requests after which an operator counts as finished.
const QUIET: Duration = Duration::from_secs(2);

pub(crate) async fn run(session: &mut Session) {
    session
        .contest(&GUESTBOOKS.ids(), &PEERS, async |programs, contender, _| {
            converge(programs, contender).await
        })
        .await;
}

async fn converge(programs: &Programs, contender: Contender) -> anyhow::Result<Measured> {
    let (mut operator, cluster, seconds, server_before) = operate(programs, contender, 1_000).await?;
    let mut requests = -1.0;
    let (cpu, server) = loop {
        let asked = operator.ask("requests", json!({})).await?;
        let sent = asked.number("requests")?;
        if sent == requests {
            break (asked.cpu_seconds, cluster.cpu_seconds()?);
        }
        requests = sent;
        sleep(QUIET).await;
    };
    let resident = operator.memory()?.now;
    cluster.stop().await?;
    Ok(vec![
        ("guestbooks.seconds", seconds),
        ("guestbooks.requests", requests),
        ("guestbooks.client_cpu", cpu),
        ("guestbooks.server_cpu", server - server_before),
        ("guestbooks.resident", resident),
    ])
}

pub(crate) async fn idle(session: &mut Session) {
    session
        .contest(&IDLE.ids(), &PEERS, async |programs, contender, _| rest(programs, contender).await)
        .await;
}

async fn rest(programs: &Programs, contender: Contender) -> anyhow::Result<Measured> {
    const WINDOW: u32 = 10;
    let (mut operator, cluster, ..) = operate(programs, contender, 10).await?;
    sleep(Duration::from_secs(5)).await;
    let before = operator.ask("requests", json!({})).await?.cpu_seconds;
    sleep(Duration::from_secs(1) * WINDOW).await;
    let after = operator.ask("requests", json!({})).await?.cpu_seconds;
    let resident = operator.memory()?.now;
    cluster.stop().await?;
    Ok(vec![("idle.resident", resident), ("idle.cpu", (after - before) * 1e9 / f64::from(WINDOW))])
}

/// Starts an operator on a cluster with `count` guestbooks, and waits for their convergence. Returns the seconds that it
/// took, and the CPU seconds that the server had used before.
async fn operate(
    programs: &Programs,
    contender: Contender,
    count: usize,
) -> anyhow::Result<(Process, Cluster, f64, f64)> {
    let program = programs.operator(contender.language)?;
    let mut cluster = Cluster::start(programs).await?;
    cluster.ask("guestbooks.create", json!({"count": count})).await?;
    let pod = cluster.ask("pod.mount", json!({})).await?;
    let pod = json!({"host": pod.text("host")?, "secrets": pod.text("secrets")?});
    let server = cluster.cpu_seconds()?;
    let started = Instant::now();
    let mut operator = Process::start(contender.name, &program)?;
    operator.ask("guestbook.start", pod).await?;
    cluster.ask("guestbooks.wait", json!({"count": count})).await?;
    Ok((operator, cluster, started.elapsed().as_secs_f64(), server))
}
