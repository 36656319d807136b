//! Workload: a cache of many pods.

use serde_json::json;
use tokio::time::{Duration, sleep};

use crate::build::Programs;
use crate::cluster::Cluster;
use crate::figures::CACHE;
use crate::machine::memory_speed;
use crate::session::{Contender, GO, KUBE_RS, Measured, OURS, Session, on, start};

const CONTENDERS: [Contender; 5] = [
    OURS.variant("ours", "budget"),
    OURS.variant("ours, `Compact`", "compact"),
    OURS.variant("ours, `Decoded`", "decoded"),
    GO,
    KUBE_RS,
];

/// Number of status changes.
const EVENTS: usize = 10_000;

/// Delay between the sync and the reading of memory.
const SETTLE: Duration = Duration::from_secs(5);

pub(crate) async fn run(session: &mut Session) {
    let pods = session.pods;
    let (mut cluster, bytes) = match filled(&session.programs, pods).await {
        Ok(filled) => filled,
        Err(error) => return session.miss(&CACHE.ids(), &CONTENDERS, &error),
    };
    eprintln!(
        "   {pods} pods of {bytes} bytes; the server has {:.0} MB",
        cluster.resident().unwrap_or(0.0) / 1e6
    );
    let (speed, all) = (memory_speed(), bytes * pods as f64);
    let why = format!(
        "{:.0} MB of JSON ({bytes:.0} B a pod), read once by one thread at {:.1} GB/s",
        all / 1e6,
        speed / 1e9
    );
    session.samples.bound("cache.synced", all / speed, why);
    let why = format!("{bytes:.0} B of JSON, read once");
    session.samples.bound("cache.event_cpu", bytes / speed * 1e9, why);
    session
        .contest(&CACHE.ids(), &CONTENDERS, async |programs, contender, _| {
            // A step that hung leaves the cluster program without an answer, and filling a cluster takes
            // long.
            if !cluster.is_usable() {
                (cluster, _) = filled(programs, pods).await?;
            }
            measure(programs, contender, &mut cluster, pods).await
        })
        .await;
}

/// Creates a cluster with pods. Returns it with the bytes of one pod on the wire.
async fn filled(programs: &Programs, pods: usize) -> anyhow::Result<(Cluster, f64)> {
    let mut cluster = Cluster::start(programs).await?;
    let filled = cluster.fill("pods.create", json!({"count": pods})).await?;
    Ok((cluster, filled.number("bytes_per_pod")?))
}

async fn measure(
    programs: &Programs,
    contender: Contender,
    cluster: &mut Cluster,
    pods: usize,
) -> anyhow::Result<Measured> {
    let mut peer = start(programs, contender)?;
    let synced = peer.ask("cache.start", on(&cluster.kubeconfig, contender, json!({}))).await?;
    sleep(SETTLE).await;
    // Read before `settle` forces a collection: the memory after it is a figure of its own.
    let memory = peer.memory()?;
    peer.ask("settle", json!({})).await?;
    let settled = peer.memory()?;
    let read = peer.ask("cache.read", json!({})).await?;
    let indexed = read.number("indexed")?;
    anyhow::ensure!(indexed == 10_000_f64.min(pods as f64), "the index gave {indexed} pods");
    let events = EVENTS.min(pods);
    let before = peer.ask("settle", json!({})).await?.cpu_seconds;
    let last = cluster.ask("pods.touch", json!({"count": events})).await?;
    let until = json!({
        "namespace": last.text("namespace")?,
        "name": last.text("name")?,
        "resource_version": last.text("resource_version")?,
    });
    let after = peer.ask("cache.wait", until).await?.cpu_seconds;
    Ok(vec![
        ("cache.synced", synced.number("synced_s")?),
        ("cache.synced_cpu", synced.cpu_seconds),
        ("cache.resident", memory.now),
        ("cache.resident_settled", settled.now),
        ("cache.peak", memory.peak),
        ("cache.hot_get", read.number("hot_get_ns")?),
        ("cache.cold_get", read.number("cold_get_ns")?),
        ("cache.index", read.number("index_ns")?),
        ("cache.list", read.number("list_ns")?),
        ("cache.event_cpu", (after - before) * 1e9 / events as f64),
    ])
}
