//! Workloads: from changes of ConfigMaps to reconciles.

use serde_json::json;
use tokio::time::Instant;

use crate::build::Programs;
use crate::cluster::Cluster;
use crate::figures::{CONTROLLERS, RECONCILES};
use crate::latency::Latencies;
use crate::protocol::Figures;
use crate::session::{Contender, Measured, PEERS, Session, on, start};

/// Number of ConfigMaps.
const COUNT: usize = 2_000;

/// Updates per second while latency is measured.
const PACE: usize = 200;

/// A cluster with ConfigMaps, and their current round.
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

    /// Starts a new cluster if the last contender left this one in the middle of a step.
    async fn renew(&mut self, programs: &Programs) -> anyhow::Result<()> {
        if !self.cluster.is_usable() {
            *self = Self::create(programs).await?;
        }
        Ok(())
    }

    /// Updates all ConfigMaps `rounds` times, as fast as possible.
    async fn change(&mut self, rounds: usize) -> anyhow::Result<()> {
        let with = json!({"count": COUNT, "round": self.round + 1, "rounds": rounds});
        self.round += rounds;
        self.cluster.ask("messages.round", with).await.map(drop)
    }

    /// Updates the first `count` ConfigMaps at an even pace. Returns when each update was sent and when the bare watch
    /// received it.
    async fn change_evenly(&mut self, count: usize) -> anyhow::Result<Figures> {
        self.round += 1;
        let with = json!({"count": count, "round": self.round, "per_second": PACE});
        self.cluster.ask("messages.paced", with).await
    }
}

pub(crate) async fn run(session: &mut Session) {
    let mut messages = match Messages::create(&session.programs).await {
        Ok(messages) => messages,
        Err(error) => return session.miss(&RECONCILES.ids(), &PEERS, &error),
    };
    let paced = if session.quick { COUNT / 2 } else { COUNT };
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
    messages.renew(programs).await?;
    // The bare watch starts before the peer, so that the server writes each event to it first.
    messages.cluster.ask("messages.watch", json!({"count": paced})).await?;
    let mut peer = start(programs, contender)?;
    let with = on(&messages.cluster.kubeconfig, contender, json!({"controllers": 1, "workers": 8}));
    peer.ask("messages.start", with).await?;
    peer.ask("messages.wait", json!({"count": COUNT, "round": 0})).await?;
    peer.ask("messages.reads", json!({})).await?; // discards earlier reads
    let changed = messages.change_evenly(paced).await?;
    peer.ask("messages.wait", json!({"count": paced, "round": messages.round})).await?;
    let reads = peer.ask("messages.reads", json!({})).await?;
    let late = Latencies::of(changed.value("events")?, reads.value("reads")?)?;

    // Read the CPU time again, because the previous answer itself took CPU.
    let before = peer.ask("messages.wait", json!({"count": paced, "round": messages.round})).await?;
    let server_before = messages.cluster.cpu_seconds()?;
    let started = Instant::now();
    messages.change(rounds).await?;
    let after = peer.ask("messages.wait", json!({"count": COUNT, "round": messages.round})).await?;
    let seconds = started.elapsed().as_secs_f64();
    let server = messages.cluster.cpu_seconds()? - server_before;
    let events = (COUNT * rounds) as f64;
    let runs = after.number("reconciles")? - before.number("reconciles")?;
    Ok(vec![
        ("reconciles.per_cpu_second", events / (after.cpu_seconds - before.cpu_seconds)),
        ("reconciles.per_second", events / seconds),
        ("reconciles.runs", runs * 100.0 / events),
        ("reconciles.server_cpu", server * 1e9 / events),
        ("reconciles.latency_p50", late.beyond_bare_watch.p50),
        ("reconciles.latency_p99", late.beyond_bare_watch.p99),
        ("reconciles.from_update_p50", late.from_sent.p50),
        ("reconciles.from_update_p99", late.from_sent.p99),
        ("reconciles.sooner", late.sooner_percent),
    ])
}

/// Measures ten controllers, each of which reconciles every event.
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
    messages.renew(programs).await?;
    let mut peer = start(programs, contender)?;
    let with = on(&messages.cluster.kubeconfig, contender, json!({"controllers": 10, "workers": 1}));
    peer.ask("messages.start", with).await?;
    let before = peer.ask("messages.wait", json!({"count": COUNT, "round": 0})).await?;
    let requests = peer.ask("requests", json!({})).await?.number("requests")?;
    let server_before = messages.cluster.cpu_seconds()?;
    messages.change(2).await?;
    let after = peer.ask("messages.wait", json!({"count": COUNT, "round": messages.round})).await?;
    let (events, server) = (2.0 * COUNT as f64, messages.cluster.cpu_seconds()? - server_before);
    Ok(vec![
        ("controllers.event_cpu", (after.cpu_seconds - before.cpu_seconds) * 1e9 / events),
        ("controllers.server_cpu", server * 1e9 / events),
        ("controllers.resident", peer.memory()?.now),
        ("controllers.requests", requests),
    ])
}
