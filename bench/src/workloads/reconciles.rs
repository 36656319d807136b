//! From changes of ConfigMaps to reconciles.

use serde_json::json;
use tokio::time::Instant;

use crate::build::Programs;
use crate::cluster::Cluster;
use crate::figures::{CONTROLLERS, RECONCILES};
use crate::session::{Contender, Measured, PEERS, Session, on, start};

/// ConfigMaps.
const COUNT: usize = 2_000;

/// Updates a second while latency is measured.
const PACE: usize = 200;

/// A cluster with the ConfigMaps, and the round that they are in.
struct Messages {
    cluster: Cluster,
    round: usize,
}

impl Messages {
    async fn create(programs: &Programs) -> anyhow::Result<Self> {
        let mut cluster = Cluster::start(programs).await?;
        cluster.ask("messages.create", json!({"count": COUNT})).await?;
        Ok(Self { cluster, round: 0 })
    }

    /// Changes the first `count` ConfigMaps `rounds` times.
    async fn change(&mut self, count: usize, rounds: usize, per_second: usize) -> anyhow::Result<f64> {
        let with =
            json!({"count": count, "round": self.round + 1, "rounds": rounds, "per_second": per_second});
        self.round += rounds;
        self.cluster.ask("messages.round", with).await?.number("seconds")
    }
}

pub(crate) async fn run(session: &mut Session) {
    let mut messages = match Messages::create(&session.programs).await {
        Ok(messages) => messages,
        Err(error) => return session.miss(&RECONCILES.ids(), &PEERS, &error),
    };
    // At the pace: ten seconds, or five.
    let paced = if session.quick { 5 * PACE } else { 10 * PACE };
    let rounds = 10;
    session
        .contest(&RECONCILES.ids(), &PEERS, async |programs, contender, _| {
            throughput_and_latency(programs, contender, &mut messages, rounds, paced).await
        })
        .await;
}

async fn throughput_and_latency(
    programs: &Programs,
    contender: Contender,
    messages: &mut Messages,
    rounds: usize,
    paced: usize,
) -> anyhow::Result<Measured> {
    let mut peer = start(programs, contender)?;
    let with = on(&messages.cluster.kubeconfig, contender, json!({"controllers": 1, "workers": 8}));
    peer.ask("messages.start", with).await?;
    let before = peer.ask("messages.wait", json!({"count": COUNT, "round": 0})).await?;
    let server_before = messages.cluster.cpu_seconds()?;
    let started = Instant::now();
    messages.change(COUNT, rounds, 0).await?;
    let after = peer.ask("messages.wait", json!({"count": COUNT, "round": messages.round})).await?;
    let seconds = started.elapsed().as_secs_f64();
    let server = messages.cluster.cpu_seconds()? - server_before;
    let events = (COUNT * rounds) as f64;
    let runs = after.number("reconciles")? - before.number("reconciles")?;

    messages.change(paced, 1, PACE).await?;
    let late = peer.ask("messages.wait", json!({"count": paced, "round": messages.round})).await?;
    Ok(vec![
        ("reconciles.per_cpu_second", events / (after.cpu_seconds - before.cpu_seconds)),
        ("reconciles.per_second", events / seconds),
        ("reconciles.runs", runs * 100.0 / events),
        ("reconciles.server_cpu", server * 1e9 / events),
        ("reconciles.latency_p50", late.number("latency_p50_ns")?),
        ("reconciles.latency_p99", late.number("latency_p99_ns")?),
    ])
}

/// Ten controllers, each of which reconciles everything.
pub(crate) async fn many_controllers(session: &mut Session) {
    let mut messages = match Messages::create(&session.programs).await {
        Ok(messages) => messages,
        Err(error) => return session.miss(&CONTROLLERS.ids(), &PEERS, &error),
    };
    session
        .contest(&CONTROLLERS.ids(), &PEERS, async |programs, contender, _| {
            ten(programs, contender, &mut messages).await
        })
        .await;
}

async fn ten(programs: &Programs, contender: Contender, messages: &mut Messages) -> anyhow::Result<Measured> {
    let mut peer = start(programs, contender)?;
    let with = on(&messages.cluster.kubeconfig, contender, json!({"controllers": 10, "workers": 1}));
    peer.ask("messages.start", with).await?;
    let before = peer.ask("messages.wait", json!({"count": COUNT, "round": 0})).await?;
    let requests = peer.ask("requests", json!({})).await?.number("requests")?;
    let server_before = messages.cluster.cpu_seconds()?;
    messages.change(COUNT, 2, 0).await?;
    let after = peer.ask("messages.wait", json!({"count": COUNT, "round": messages.round})).await?;
    let (events, server) = (2.0 * COUNT as f64, messages.cluster.cpu_seconds()? - server_before);
    Ok(vec![
        ("controllers.event_cpu", (after.cpu_seconds - before.cpu_seconds) * 1e9 / events),
        ("controllers.server_cpu", server * 1e9 / events),
        ("controllers.resident", peer.memory()?.now),
        ("controllers.requests", requests),
    ])
}
