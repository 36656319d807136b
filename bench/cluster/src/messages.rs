//! Creates and updates ConfigMaps of 1 KB.

use bench_peer::messages::{NAMESPACE, message, name};
use bench_peer::{Ask, Reply, clock};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{Duration, Instant, MissedTickBehavior, interval};

use crate::bare_watch::BareWatch;
use crate::each;

/// Creates `count` ConfigMaps in a namespace of their own.
pub(crate) async fn create(client: Client, count: usize) -> anyhow::Result<Reply> {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(NAMESPACE.to_owned());
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let create = async |number| maps.create(&PostParams::default(), &message(number, 0)).await.map(drop);
    each(0..count, create).await?;
    Ok(Reply::done())
}

/// Updates each of `count` ConfigMaps to the next `rounds` rounds, beginning with `round`, as fast as possible.
pub(crate) async fn round(client: Client, ask: &Ask) -> anyhow::Result<Reply> {
    let (count, first, rounds) = (ask.number("count")?, ask.number("round")?, ask.number("rounds")?);
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let started = Instant::now();
    each(0..count * rounds, |number| change(&maps, number % count, first + number / count)).await?;
    Ok(Reply::figures([("seconds", started.elapsed().as_secs_f64())]))
}

/// Updates each of `count` ConfigMaps to `round` at an even pace. Returns number, round, time of sending, and time of arrival
/// at the bare watch of each event.
pub(crate) async fn paced(client: Client, watch: BareWatch, ask: &Ask) -> anyhow::Result<Reply> {
    let (count, round) = (ask.number("count")?, ask.number("round")?);
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let mut ticks = interval(Duration::from_secs(1) / u32::try_from(ask.number("per_second")?)?);
    // After a delay the next ticks keep their distance, so that updates do not come in a burst.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut sent = Vec::with_capacity(count);
    for number in 0..count {
        ticks.tick().await;
        sent.push(clock::monotonic_nanoseconds());
        change(&maps, number, round).await?;
    }
    let arrivals = watch.arrivals().await?;
    let events: Vec<[u64; 4]> = arrivals
        .into_iter()
        .filter_map(|[number, round, came]| Some([number, round, *sent.get(number as usize)?, came]))
        .collect();
    Ok(Reply::figures([("events", json!(events))]))
}

async fn change(maps: &Api<ConfigMap>, number: usize, round: usize) -> Result<(), kube::Error> {
    let map = message(number, round as u64);
    maps.replace(&name(number), &PostParams::default(), &map).await.map(drop)
}
