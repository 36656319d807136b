//! `cargo run --profile bench -p controller-runtime --example cache-pauses -- [objects]`: longest read of a cache while
//! the cache changes.
//!
//! Times are wall time: on a machine with other work, run it with `chrt -f 10`.
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::{
    error::Error,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use controller_runtime::{
    Cached, Client, Manager, ManagerOptions, ObjectKey,
    cache::{CacheOptions, Namespaces, Retain},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_envtest::Environment;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let objects: usize = std::env::args().nth(1).map_or(Ok(20_000), |number| number.parse())?;
    let env = Environment::builder().start().await?;
    let client = Client::new(env.client(), "example");
    for number in 0..objects {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some("default".to_owned());
        map.metadata.name = Some(format!("map-{number}"));
        map.data = Some([("text".to_owned(), "x".repeat(500))].into());
        client.create(&map).await?;
    }
    let cache = CacheOptions::default().retain(Retain::Decoded);
    let manager = Manager::new(env.client(), ManagerOptions::new("example").cache(cache));
    let namespaces = Namespaces::new(["default"]);
    let maps = manager.cache().of::<ConfigMap>().namespace_set(&namespaces).build()?;
    let ready = manager.ready();
    let run = manager.run(async {
        let _ = ready.await;
        println!("{} objects", maps.stats().objects);
        if let Err(error) = measure(&client, &env, &namespaces, &maps).await {
            eprintln!("{error}");
        }
    });
    Ok(run.await?)
}

async fn measure(
    client: &Client,
    env: &Environment,
    namespaces: &Namespaces,
    maps: &Cached<ConfigMap>,
) -> Result<(), Box<dyn Error>> {
    let key = ObjectKey::<ConfigMap>::new("default", "map-7");
    let (longest, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let took = |what: &str| println!("longest get while {what}: {} µs", longest.swap(0, Relaxed) / 1000);
    // The future runs in the thread that awaits it, the reader in another one.
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let begun = Instant::now();
                let _ = maps.get(&key);
                longest.fetch_max(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX), Relaxed);
            }
        });
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                let second = Duration::from_secs(1);
                tokio::time::sleep(second).await;
                took("nothing happens");
                for number in 0..2000 {
                    let changed = ObjectKey::<ConfigMap>::new("default", format!("map-{number}"));
                    client
                        .merge_patch(&changed, &json!({ "data": { "number": number.to_string() } }))
                        .await?;
                }
                took("2000 objects change");
                env.server().faults().evict_history("", "configmaps");
                tokio::time::sleep(second * 3).await;
                took("all are listed again");
                namespaces.remove("default");
                while !maps.is_empty()? {
                    tokio::task::yield_now().await;
                }
                took("a namespace with all of them is removed");
                namespaces.add("default");
                maps.synced().await;
                took("the namespace is added again");
                stop.store(true, Relaxed);
                Ok::<_, Box<dyn Error>>(())
            })
        })
    })
}
