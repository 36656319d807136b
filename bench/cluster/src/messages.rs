//! Changes of ConfigMaps of 1 KB.

use bench_peer::messages::{NAMESPACE, message, name};
use bench_peer::{Ask, Reply};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::{Duration, Instant, MissedTickBehavior, interval};

use crate::each;

/// Makes so many, in a namespace of their own.
pub(crate) async fn create(client: Client, count: usize) -> anyhow::Result<Reply> {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(NAMESPACE.to_owned());
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let create = async |number| maps.create(&PostParams::default(), &message(number, 0)).await.map(drop);
    each(0..count, create).await?;
    Ok(Reply::done())
}

/// Changes each of `count` to the next `rounds` rounds from `round` on: as fast as it goes, or, if `per_second` is not 0,
/// at that rate.
pub(crate) async fn round(client: Client, ask: &Ask) -> anyhow::Result<Reply> {
    let (count, first, rounds) = (ask.number("count")?, ask.number("round")?, ask.number("rounds")?);
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let change = async |number: usize| {
        let map = message(number % count, (first + number / count) as u64);
        maps.replace(&name(number % count), &PostParams::default(), &map).await.map(drop)
    };
    let started = Instant::now();
    match ask.number("per_second")? {
        0 => each(0..count * rounds, change).await?,
        rate => {
            let mut ticks = interval(Duration::from_secs(1) / u32::try_from(rate)?);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for number in 0..count * rounds {
                ticks.tick().await;
                change(number).await?;
            }
        }
    }
    Ok(Reply::figures([("seconds", started.elapsed().as_secs_f64())]))
}
