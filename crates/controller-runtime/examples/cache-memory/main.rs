//! `cargo run --release -p controller-runtime --example cache-memory [PODS] [budget|decoded|compact]`: what a cache of pods
//! costs, in bytes and in time.
//!
//! Pods come over a connection in the process, from a server that makes them while they are listed, so that all that stays in memory is the
//! cache's. Run once per choice: memory that was freed once stays with the allocator.

mod pods;
mod server;

use std::{error::Error, fs, io::Write as _, time::Duration};

use bytes::Bytes;
use controller_runtime::{
    Action, Builder, Cached, Context, Lazy, Manager, ObjectKey, Reconciler,
    cache::{self, Retain},
    manager::Options,
    predicate::GenerationChanged,
    reconcile,
};
use k8s_openapi::api::core::v1::Pod;
use tokio::time::{Instant, sleep};

use crate::{pods::Pods, server::Server};

/// Counts on nothing: what is measured is what happens before it.
struct Idle;

impl Reconciler for Idle {
    type Request = ObjectKey<Pod>;

    async fn reconcile(&self, _: &ObjectKey<Pod>, _: &Context) -> Result<Action, reconcile::Error> {
        Ok(Action::done())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().map_or(Ok(50_000), |text| text.parse())?;
    let retain = match arguments.next().as_deref() {
        None | Some("budget") => Retain::default(),
        Some("decoded") => Retain::Decoded,
        Some("compact") => Retain::Compact,
        Some(other) => return Err(format!("{other}: say budget, decoded or compact").into()),
    };
    print("retain", format_args!("{retain:?}"))?;
    print("pods", format_args!("{count}"))?;

    let (server, watch) = Server::new(count, 1);
    let client = kube::Client::new(server, "default");
    let options = Options::new("measure").seed(1).cache(cache::Options::default().retain(retain));
    let manager = Manager::new(client, options);
    let pods = manager.cached::<Pod>();
    Builder::managed_by(&manager).for_kind::<Pod>().with_predicate(GenerationChanged).complete(Idle)?;
    let before = resident("VmRSS")?;

    let (ready, started) = (manager.ready(), Instant::now());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let run = manager.run(async { stopped.await.unwrap_or(()) });
    let measure = async {
        ready.await?;
        let synced = started.elapsed();
        // The reconciles of the initial list read nothing; let them pass.
        sleep(Duration::from_millis(500)).await;
        let (steady, peak) = (resident("VmRSS")? - before, resident("VmHWM")? - before);
        print("synced after", format_args!("{} ms", synced.as_millis()))?;
        print("resident per pod", format_args!("{} B", steady / count))?;
        print("peak during the list over steady", format_args!("{:.2}", peak as f64 / steady as f64))?;
        print("held", format_args!("{:?}", pods.stats()))?;
        reads(&pods)?;
        events(&pods, &watch, count).await?;
        drop(stop);
        Ok::<(), Box<dyn Error>>(())
    };
    let (run, measured) = tokio::join!(run, measure);
    measured?;
    Ok(run?)
}

/// Reads of single objects, spread over all, then of a few again and again; and of ten thousand.
fn reads(pods: &Cached<Pod>) -> Result<(), Box<dyn Error>> {
    let keys: Vec<_> = pods.list_lazy().iter().map(Lazy::key).collect();
    let mut rng = fastrand::Rng::with_seed(7);
    let spread: Vec<_> = (0..20_000).map(|_| &keys[rng.usize(..keys.len())]).collect();
    let time = |keys: &[&ObjectKey<Pod>]| -> Result<Duration, Box<dyn Error>> {
        let started = Instant::now();
        for key in keys {
            pods.get(key)?.ok_or("it was listed")?;
        }
        Ok(started.elapsed() / u32::try_from(keys.len())?)
    };
    print("get, of all pods at random", format_args!("{:?}", time(&spread)?))?;
    let few: Vec<_> = spread.iter().cycle().take(200).copied().collect();
    time(&few)?;
    let again: Vec<_> = few.iter().cycle().take(200_000).copied().collect();
    print("get, of 200 pods again and again", format_args!("{:?}", time(&again)?))?;
    let started = Instant::now();
    let listed: Result<Vec<_>, _> = pods.list_lazy().iter().take(10_000).map(Lazy::object).collect();
    print("list of 10,000", format_args!("{:?} for {}", started.elapsed(), listed?.len()))?;
    Ok(())
}

/// Changes of status, which a predicate on metadata refuses.
async fn events(
    pods: &Cached<Pod>,
    watch: &tokio::sync::mpsc::UnboundedSender<Bytes>,
    count: usize,
) -> Result<(), Box<dyn Error>> {
    const EVENTS: usize = 10_000;
    let mut again = Pods::new(1);
    let lines: Vec<Bytes> = (0..EVENTS.min(count))
        .map(|number| {
            let pod = again.next();
            let (head, tail) = pod.split_once(r#""resourceVersion":""#).expect("it has one");
            let tail = tail.split_once('"').expect("it ends").1;
            let version = 1_000_000_000 + number;
            format!("{{\"type\":\"MODIFIED\",\"object\":{head}\"resourceVersion\":\"{version}\"{tail}}}\n")
                .into()
        })
        .collect();
    let last = 1_000_000_000 + lines.len() as u64 - 1;
    let (sent, decodes) = (lines.len(), pods.stats().decodes);
    let mut again = Pods::new(1);
    let names = (0..sent).map(|_| again.next()).last().and_then(|pod| {
        let pod: Pod = serde_json::from_str(&pod).ok()?;
        ObjectKey::of(&pod)
    });
    let key = names.ok_or("there are pods")?;
    let (cpu, started) = (cpu_time()?, Instant::now());
    for line in lines {
        watch.send(line)?;
    }
    while pods.get_lazy(&key).and_then(|pod| pod.meta().resource_version()?.number()) != Some(last) {
        tokio::task::yield_now().await;
    }
    let per_event = |time: Duration| time / u32::try_from(sent).unwrap_or(u32::MAX);
    print("watch event, a predicate on metadata", format_args!("{:?}", per_event(started.elapsed())))?;
    print("CPU of it", format_args!("{:?}", per_event(cpu_time()? - cpu)))?;
    print("decodes for all of them", format_args!("{}", pods.stats().decodes - decodes))
}

fn print(what: &str, value: std::fmt::Arguments<'_>) -> Result<(), Box<dyn Error>> {
    Ok(writeln!(std::io::stdout(), "{what:40} {value}")?)
}

/// Bytes, from Linux' account of this process.
fn resident(field: &str) -> Result<usize, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with(field)).ok_or("no such field")?;
    let kilobytes: usize = line.split_whitespace().nth(1).ok_or("no value")?.parse()?;
    Ok(kilobytes << 10)
}

/// What this process has used of the processors, in Linux' ticks of 10 ms.
fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}
