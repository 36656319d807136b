//! Workloads: startup of a process, and takeover by a standby.

use rustix::process::Signal;
use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use crate::build::Programs;
use crate::cluster::Cluster;
use crate::figures::{FAILOVER, START};
use crate::session::{Contender, Measured, PEERS, Session, on, start};

/// Time for a standby to fill its caches and to observe the lease.
const STANDBY: Duration = Duration::from_secs(3);

/// Measures the time from process start to the first reconcile.
pub(crate) async fn first_reconcile(session: &mut Session) {
    let cluster = match small_cluster(&session.programs).await {
        Ok(cluster) => cluster,
        Err(error) => return session.miss(&START.ids(), &PEERS, &error),
    };
    session
        .contest(&START.ids(), &PEERS, async |programs, contender, _| {
            let started = Instant::now();
            let mut peer = start(programs, contender)?;
            let alone = Contender { variant: "alone", ..contender };
            peer.ask("leader.start", on(&cluster.kubeconfig, alone, json!({}))).await?;
            peer.ask("leader.wait", json!({})).await?;
            Ok(vec![("start.first_reconcile", started.elapsed().as_secs_f64())])
        })
        .await;
}

/// Measures the time from a signal to the leader to the first reconcile of the standby.
pub(crate) async fn run(session: &mut Session) {
    let rounds = session.rounds;
    if session.quick {
        session.rounds = 1; // each round waits for leases to expire
    }
    session
        .contest(&FAILOVER.ids(), &PEERS, async |programs, contender, _| {
            let killed = hand_over(programs, contender, Signal::KILL).await?;
            let stopped = hand_over(programs, contender, Signal::TERM).await?;
            Ok::<Measured, anyhow::Error>(vec![("failover.killed", killed), ("failover.stopped", stopped)])
        })
        .await;
    session.rounds = rounds;
}

async fn hand_over(programs: &Programs, contender: Contender, signal: Signal) -> anyhow::Result<f64> {
    programs.peer(contender.language)?;
    let cluster = small_cluster(programs).await?;
    let elected = Contender { variant: "elected", ..contender };
    let mut leader = start(programs, contender)?;
    leader.ask("leader.start", on(&cluster.kubeconfig, elected, json!({}))).await?;
    leader.ask("leader.wait", json!({})).await?;
    let mut standby = start(programs, contender)?;
    standby.ask("leader.start", on(&cluster.kubeconfig, elected, json!({}))).await?;
    // The standby must have seen the lease: a candidate waits for a whole lease duration from then on.
    sleep(STANDBY).await;
    let started = Instant::now();
    leader.signal(signal)?;
    standby.ask("leader.wait", json!({})).await?;
    Ok(started.elapsed().as_secs_f64())
}

pub(super) async fn small_cluster(programs: &Programs) -> anyhow::Result<Cluster> {
    let mut cluster = Cluster::start(programs).await?;
    cluster.ask("messages.create", json!({"count": 1})).await?;
    Ok(cluster)
}
