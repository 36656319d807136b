//! Workloads: refused connections and silent connections.

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use super::failover::small_cluster;
use crate::build::Programs;
use crate::cluster::Cluster;
use crate::figures::{OUTAGE, SILENCE};
use crate::protocol::Figures;
use crate::session::{Contender, Measured, PEERS, Session, on, start};

/// Number of objects; their reconciles fail during the outage.
const KEYS: usize = 10_000;

/// Duration of the outage. Back-off then exceeds the recovery time that the goal permits.
const LASTS: Duration = Duration::from_secs(30);

/// Limit of rounds. Each takes about a minute per contender, and its result depends mostly on timers, which vary little.
const MOST_ROUNDS: usize = 3;

/// Measures the recovery of many keys.
pub(crate) async fn run(session: &mut Session) {
    in_fewer_rounds(session, async |session| {
        session
            .contest(&OUTAGE.ids(), &PEERS, async |programs, contender, _| recover(programs, contender).await)
            .await;
    })
    .await;
}

/// Measures the time to detect a silent watch and a silent request.
pub(crate) async fn silence(session: &mut Session) {
    in_fewer_rounds(session, async |session| {
        session
            .contest(&SILENCE.ids(), &PEERS, async |programs, contender, _| notice(programs, contender).await)
            .await;
    })
    .await;
}

async fn in_fewer_rounds(session: &mut Session, measure: impl AsyncFnOnce(&mut Session)) {
    let rounds = session.rounds;
    session.rounds = if session.quick { 1 } else { rounds.min(MOST_ROUNDS) };
    measure(session).await;
    session.rounds = rounds;
}

async fn recover(programs: &Programs, contender: Contender) -> anyhow::Result<Measured> {
    programs.peer(contender.language)?;
    let mut cluster = Cluster::start(programs).await?;
    cluster.fill("messages.create", json!({"count": KEYS})).await?;
    let link = cluster.ask("link.start", json!({})).await?;
    cluster.ask("link.down", json!({})).await?;
    let mut peer = start(programs, contender)?;
    let with = json!({"through": link.text("kubeconfig")?});
    peer.ask("outage.start", on(&cluster.kubeconfig, contender, with)).await?;
    sleep(LASTS).await;
    let during = peer.ask("outage.wait", json!({"count": 0})).await?;
    // A reconcile that succeeds now would not have needed the link, and the recovery would measure nothing.
    anyhow::ensure!(during.number("succeeded")? == 0.0, "reconciles succeeded during the outage: {during:?}");
    let began = nanoseconds(&cluster.ask("link.up", json!({})).await?)?;
    let ended = nanoseconds(&peer.ask("outage.wait", json!({"count": KEYS})).await?)?;
    Ok(vec![("outage.recovery", (ended - began) / 1e9)])
}

async fn notice(programs: &Programs, contender: Contender) -> anyhow::Result<Measured> {
    programs.peer(contender.language)?;
    let mut cluster = small_cluster(programs).await?;
    let link = cluster.ask("link.start", json!({})).await?;
    let mut peer = start(programs, contender)?;
    let with = on(link.text("kubeconfig")?, contender, json!({"controllers": 1, "workers": 1}));
    peer.ask("messages.start", with.clone()).await?;
    // Read once before the silence, so that the watch is open when the link stops.
    peer.ask("messages.wait", json!({"count": 1, "round": 0})).await?;
    peer.ask("request.start", with).await?;
    let silent = nanoseconds(&cluster.ask("link.silence", json!({})).await?)?;
    cluster.ask("messages.round", json!({"count": 1, "round": 1, "rounds": 1})).await?;
    let ended = nanoseconds(&peer.ask("request.again", json!({})).await?)?;
    peer.ask("messages.wait", json!({"count": 1, "round": 1})).await?;
    let reads = peer.ask("messages.reads", json!({})).await?;
    let read = reads.value("reads")?.as_array().and_then(|reads| reads.last()?.get(2)?.as_f64());
    let read = read.context("the change was read")?;
    Ok(vec![("silence.watch", (read - silent) / 1e9), ("silence.request", (ended - silent) / 1e9)])
}

/// Time at which a step completed, on the monotonic clock that all processes share.
fn nanoseconds(done: &Figures) -> anyhow::Result<f64> {
    done.value("at").map(Value::as_f64)?.context("a time is a number")
}
