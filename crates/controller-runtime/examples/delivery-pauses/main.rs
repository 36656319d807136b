//! `cargo run --profile bench -p controller-runtime --example delivery-pauses -- [objects] [decoded]`: longest wait of
//! other tasks on the same thread while many objects are listed, delivered, reconciled, and listed again.
//!
//! Prints for each phase the longest time between two turns of a task that is always ready, the delay of the latest renewal of the
//! manager's lease, and the duration of the slowest probe of `/healthz` over TCP.
//!
//! With `decoded` no object is compressed, so no dictionary is trained.
//!
//! The runtime has one thread, and the controller the default number of workers, whose reconciles never wait. The API
//! server is a substitute that generates its answers in small pieces, so that the pauses are those of the cache and the
//! controller. Time that a thread waits for a processor is not counted (Linux only), so that other processes disturb little.

mod api_server;
mod lateness;

use std::{
    error::Error,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Context, Kind, Manager, ManagerOptions, MapFn, ObjectKey, ReconcileError, Reconciler,
    cache::{CacheOptions, Retain},
    leader_election::{LeaderElectionOptions, Timing},
    serving::Endpoint,
};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::{task::JoinSet, time::Instant};

use self::{
    api_server::ApiServer,
    lateness::{CpuWait, Longest, Prober, take_turns},
};

/// Time between two renewals of the lease: short, so that some fall into each phase.
const RENEW_EVERY: Duration = Duration::from_millis(50);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let objects: usize = std::env::args().nth(1).map_or(Ok(400_000), |number| number.parse())?;
    let cpu_wait = Arc::new(CpuWait::of_this_thread()?);
    let server = ApiServer::new(objects, RENEW_EVERY, Arc::clone(&cpu_wait));
    let retain = match std::env::args().nth(2).as_deref() {
        Some("decoded") => Retain::Decoded,
        _ => Retain::default(),
    };
    let probed = free_address()?;
    let timing = Timing::try_new(Duration::from_secs(15), Duration::from_secs(10), RENEW_EVERY)?;
    let options = ManagerOptions::new("example")
        .cache(CacheOptions::default().retain(retain))
        .leader_election(LeaderElectionOptions::new("example").timing(timing))
        .health_probe_bind_address(Endpoint::At(probed));
    let manager = Manager::new(kube::Client::new(server.clone(), "default"), options);
    let maps = manager.cached::<ConfigMap>();
    let by_name = maps.index(|map: &ConfigMap| map.metadata.name.clone());
    let mapped = Arc::new(AtomicUsize::new(0));
    let map = |mapped: &Arc<AtomicUsize>| {
        let mapped = Arc::clone(mapped);
        Kind::new(MapFn(move |map: &ConfigMap| {
            mapped.fetch_add(1, Relaxed);
            ObjectKey::of(map)
        }))
    };
    let reconciled = Arc::new(AtomicUsize::new(0));
    let handle = Builder::managed_by(&manager)
        .for_requests::<ObjectKey<ConfigMap>>("maps")
        .watches(map(&mapped))
        .complete(Count(Arc::clone(&reconciled)))?;

    let turns = Arc::new(Longest::default());
    let mut tasks = JoinSet::new();
    tasks.spawn(take_turns(Arc::clone(&turns), Arc::clone(&cpu_wait)));
    let prober = Prober::start(probed, cpu_wait);
    let begun = Instant::now();
    let report = |what: &str| {
        println!(
            "{:6.1} s  {what}: longest pause {} µs, latest renewal {} µs, slowest probe {} µs",
            begun.elapsed().as_secs_f64(),
            turns.take().as_micros(),
            server.renewals.take().as_micros(),
            prober.times.take().as_micros()
        );
    };
    println!("{objects} objects, an index and a map function that decode each");
    let measured = async {
        maps.synced().await;
        report("listed and indexed");
        until(&mapped, objects).await;
        until(&reconciled, objects).await;
        report("delivered to a controller and reconciled");
        server.change_all();
        // A change is mapped twice, with its old and its new state.
        until(&mapped, 3 * objects).await;
        until(&reconciled, 2 * objects).await;
        report("listed again, all changed, and reconciled");
        let late = Arc::new(AtomicUsize::new(0));
        handle.watch(map(&late));
        until(&late, objects).await;
        report("delivered to a source that was added");
        tokio::time::sleep(Duration::from_secs(1)).await;
        report("at rest for a second");
        assert!(by_name.keys("map-0000007").is_ok_and(|keys| keys.len() == 1));
    };
    Ok(manager.run(measured).await?)
}

/// Address of a closed port.
fn free_address() -> Result<SocketAddr, std::io::Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

async fn until(count: &AtomicUsize, wanted: usize) {
    while count.load(Relaxed) < wanted {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Counts reconciles.
struct Count(Arc<AtomicUsize>);

impl Reconciler for Count {
    type Request = ObjectKey<ConfigMap>;

    async fn reconcile(&self, _: &ObjectKey<ConfigMap>, _: &Context) -> Result<Action, ReconcileError> {
        self.0.fetch_add(1, Relaxed);
        Ok(Action::done())
    }
}
