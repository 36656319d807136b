//! `cargo run --release -p controller-runtime --example cache-memory [PODS] [budget|decoded|compact] [stream|list]`:
//! memory and time costs of a cache of pods.
//!
//! The pods come over a connection from a server in another process, so that only the costs of the cache are measured.
//! They arrive as a watch with initial events, or as a list in pages. Each run measures one choice: the allocator keeps
//! freed memory, so a second one would be measured wrongly.

mod pods;
mod server;

use std::{error::Error, fs, io::Write as _, time::Duration};

use controller_runtime::{
    Action, Builder, Cached, Context, Lazy, Manager, ManagerOptions, ObjectKey, ReconcileError, Reconciler,
    cache::{CacheOptions, Index, Retain},
    predicate::GenerationChanged,
};
use k8s_openapi::api::core::v1::Pod;
use tokio::time::{Instant, sleep};

use crate::server::Server;

/// A reconciler that does nothing, because only the steps before it are measured.
struct Idle;

impl Reconciler for Idle {
    type Request = ObjectKey<Pod>;

    async fn reconcile(&self, _: &ObjectKey<Pod>, _: &Context) -> Result<Action, ReconcileError> {
        Ok(Action::done())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [serve, count, how] = &*arguments
        && serve == "serve"
    {
        return server::serve(count.parse()?, how == "stream").await;
    }
    let (mut count, mut retain, mut stream) = (50_000, Retain::default(), true);
    for argument in &arguments {
        match &**argument {
            "budget" => retain = Retain::default(),
            "decoded" => retain = Retain::Decoded,
            "compact" => retain = Retain::Compact,
            "stream" => stream = true,
            "list" => stream = false,
            number => count = number.parse()?,
        }
    }
    print("retain", format_args!("{retain:?}"))?;
    print("pods", format_args!("{count} by {}", if stream { "stream" } else { "list" }))?;

    let server = Server::start(count, stream)?;
    let client = kube::Client::try_from(kube::Config::new(server.url.parse()?))?;
    let options = ManagerOptions::new("measure").seed(1).cache(CacheOptions::default().retain(retain));
    let manager = Manager::new(client.clone(), options);
    let pods = manager.cached::<Pod>();
    let fifths = pods.index_by_meta(|meta| Some(meta.name().bytes().map(u64::from).sum::<u64>() % 5));
    Builder::managed_by(&manager).for_kind::<Pod>().with_predicate(GenerationChanged).complete(Idle)?;
    let (before, cpu) = (resident("VmRSS")?, cpu_time()?);

    let (ready, started) = (manager.ready(), Instant::now());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let run = manager.run(async { stopped.await.unwrap_or(()) });
    let measure = async {
        ready.await?;
        let (synced, cpu) = (started.elapsed(), cpu_time()? - cpu);
        // Wait until the reconciles of the initial list, which read nothing, are done.
        sleep(Duration::from_millis(500)).await;
        let (steady, peak) = (resident("VmRSS")?, resident("VmHWM")?);
        print("synced after", format_args!("{} ms", synced.as_millis()))?;
        print("CPU until then", format_args!("{} ms", cpu.as_millis()))?;
        print("resident before", format_args!("{} kB", before >> 10))?;
        print("resident (VmRSS)", format_args!("{} kB", steady >> 10))?;
        print("peak (VmHWM)", format_args!("{} kB", peak >> 10))?;
        print("resident per pod, all in", format_args!("{} B", steady / count))?;
        print("peak over resident", format_args!("{:.2}", peak as f64 / steady as f64))?;
        print("held", format_args!("{:?}", pods.stats()))?;
        reads(&pods, &fifths)?;
        events(&pods, &client, count).await?;
        drop(stop);
        Ok::<(), Box<dyn Error>>(())
    };
    let (run, measured) = tokio::join!(run, measure);
    measured?;
    Ok(run?)
}

/// Measures reads of single objects, spread over all, then of a few repeatedly, and of lists of ten thousand.
fn reads(pods: &Cached<Pod>, fifths: &Index<Pod, u64>) -> Result<(), Box<dyn Error>> {
    let keys: Vec<_> = pods.list_lazy()?.iter().map(Lazy::key).collect();
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
    let mut best = Duration::MAX;
    let mut listed = 0;
    for _ in 0..5 {
        let started = Instant::now();
        let some = fifths.get(&0)?;
        best = best.min(started.elapsed());
        listed = some.len();
    }
    print("list by index, the best of five", format_args!("{best:?} for {listed}"))
}

/// Measures changes of status, which a predicate on metadata rejects.
async fn events(pods: &Cached<Pod>, client: &kube::Client, count: usize) -> Result<(), Box<dyn Error>> {
    let sent = count.min(20_000);
    let decodes = pods.stats().decodes;
    let (cpu, started) = (cpu_time()?, Instant::now());
    let request = http::Request::get(format!("/events?count={sent}")).body(Vec::new())?;
    let last = client.request_text(request).await?;
    let (namespace, last) = last.split_once('/').ok_or("no name")?;
    let (key, version) = (ObjectKey::new(namespace, last), Some(u64::try_from(server::VERSION + sent)?));
    while pods.get_lazy(&key)?.and_then(|pod| pod.meta().resource_version()?.number()) != version {
        sleep(Duration::from_millis(1)).await;
    }
    let (cpu, elapsed) = (cpu_time()? - cpu, started.elapsed());
    let per_event = |time: Duration| time / u32::try_from(sent).unwrap_or(u32::MAX);
    print("watch event, a predicate on metadata", format_args!("{:?}", per_event(elapsed)))?;
    print("CPU of it", format_args!("{:?}", per_event(cpu)))?;
    print("decodes for all of them", format_args!("{}", pods.stats().decodes - decodes))
}

fn print(what: &str, value: std::fmt::Arguments<'_>) -> Result<(), Box<dyn Error>> {
    Ok(writeln!(std::io::stdout(), "{what:40} {value}")?)
}

/// Returns a value of this process in bytes, from `/proc/self/status`.
fn resident(field: &str) -> Result<usize, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with(field)).ok_or("no such field")?;
    let kilobytes: usize = line.split_whitespace().nth(1).ok_or("no value")?.parse()?;
    Ok(kilobytes << 10)
}

/// Returns the CPU time of this process, from Linux ticks of 10 ms.
fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}
