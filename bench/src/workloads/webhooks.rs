//! Workload: admission and conversion webhooks.

use serde_json::json;

use crate::build::Programs;
use crate::cluster::Cluster;
use crate::figures::WEBHOOKS;
use crate::latency::Percentiles;
use crate::protocol::Figures;
use crate::session::{Contender, GO, Measured, OURS, Session, on, start};

/// Sites created before anything is measured, so that connections are open.
const FIRST: usize = 500;
/// Number of measured round trips, in total and per second.
const PACED: usize = 2_000;
const PER_SECOND: usize = 400;
/// Number of sites that are listed in the end.
const ALL: usize = 10_000;
/// Number of objects in a review of the API server.
const PAGE: usize = 500;
/// Number of times that all sites are converted by reviews without the API server.
const LISTS: usize = 5;

pub(crate) async fn run(session: &mut Session) {
    // kube-rs has no webhook server.
    let contenders = [OURS, GO];
    session
        .contest(&WEBHOOKS.ids(), &contenders, async |programs, contender, _| call(programs, contender).await)
        .await;
}

async fn call(programs: &Programs, contender: Contender) -> anyhow::Result<Measured> {
    programs.peer(contender.language)?;
    let mut cluster = Cluster::start(programs).await?;
    let prepared = cluster.ask("sites.prepare", json!({})).await?;
    cluster.ask("sites.define", json!({})).await?;
    let mut peer = start(programs, contender)?;
    let with = json!({"certificates": prepared.text("certificates")?, "port": prepared.value("port")?});
    peer.ask("webhooks.start", on(&cluster.kubeconfig, contender, with)).await?;
    cluster.ask("sites.configure", json!({})).await?;
    cluster.fill("sites.create", json!({"first": 0, "count": FIRST})).await?;

    let with = json!({"first": FIRST, "count": PACED, "per_second": PER_SECOND});
    let paced = percentiles(&cluster.fill("sites.paced", with).await?)?;

    let before = peer.ask("requests", json!({})).await?.cpu_seconds;
    let rest = ALL - FIRST - PACED;
    let created = cluster.fill("sites.create", json!({"first": FIRST + PACED, "count": rest})).await?;
    let between = peer.ask("requests", json!({})).await?.cpu_seconds;
    let loaded = percentiles(&created)?;
    let convert = json!({"count": ALL});
    let listed = cluster.fill("sites.convert", convert.clone()).await?;
    let after = peer.ask("requests", json!({})).await?.cpu_seconds;
    let again = cluster.fill("sites.convert", convert).await?;
    let mut reviews = Vec::new();
    for per_review in [PAGE, ALL] {
        let before = peer.ask("requests", json!({})).await?.cpu_seconds;
        let with = json!({"per_review": per_review, "lists": LISTS});
        let reviewed = cluster.fill("sites.review", with).await?;
        let after = peer.ask("requests", json!({})).await?.cpu_seconds;
        let mut seconds: Vec<f64> = serde_json::from_value(reviewed.value("seconds")?.clone())?;
        seconds.sort_by(f64::total_cmp);
        reviews.push((seconds[LISTS / 2], (after - before) / LISTS as f64));
    }
    cluster.stop().await?;
    Ok(vec![
        // Each create calls the defaulting and the validating webhook.
        ("webhooks.per_cpu_second", 2.0 * rest as f64 / (between - before)),
        ("webhooks.per_second", 2.0 * rest as f64 / created.number("seconds")?),
        ("webhooks.round_trip_p50", loaded.p50),
        ("webhooks.round_trip_p99", loaded.p99),
        ("webhooks.paced_p50", paced.p50),
        ("webhooks.paced_p99", paced.p99),
        ("webhooks.conversion", listed.number("seconds")?),
        ("webhooks.conversion_cpu", after - between),
        ("webhooks.conversion_again", again.number("seconds")?),
        ("webhooks.reviews", reviews[0].0),
        ("webhooks.reviews_cpu", reviews[0].1),
        ("webhooks.one_review", reviews[1].0),
        ("webhooks.one_review_cpu", reviews[1].1),
    ])
}

fn percentiles(created: &Figures) -> anyhow::Result<Percentiles> {
    Ok(Percentiles::of(serde_json::from_value(created.value("round_trips")?.clone())?))
}
