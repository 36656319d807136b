//! `cargo run --profile bench -p controller-runtime --example explain-cost -- [requests]`: time of the answers of `/explain/v1` in a manager
//! with many requests, and the CPU time that streams of events take from reconciles.
//!
//! CPU time is read from `/proc`, so it needs Linux. Answers are timed over sockets, while eight workers reconcile all the time.
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::{
    error::Error,
    fs,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use controller_runtime::{
    Action, Builder, Context, Manager, ManagerOptions, ObjectKey, ReconcileError, Reconciler,
    controller::ControllerOptions,
    serving::{AllowedTo, MetricsServerOptions},
    source::{Sink, from_fn},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_apiserver_embedded::{Options, Tokens, UserInfo};
use kube_envtest::Environment;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::sleep,
};

type Failure = Box<dyn Error + Send + Sync>;

/// Requests that run all the time, so that answers compete with reconciles.
const BUSY: usize = 64;
/// Streams of events that are read at the same time.
const STREAMS: usize = 4;
/// Answers of each path.
const ANSWERS: usize = 200;
/// Pairs of measurements of throughput, with and without streams.
const PAIRS: usize = 24;
/// Time of one measurement of throughput.
const MEASURED: Duration = Duration::from_secs(2);
/// Ticks of `/proc/self/stat` per second.
const TICKS: f64 = 100.0;

/// Runs requests named `busy-…` again and again, and lets the others wait for an hour.
struct Busy(Arc<AtomicU64>);

impl Reconciler for Busy {
    type Request = ObjectKey<ConfigMap>;

    async fn reconcile(&self, key: &ObjectKey<ConfigMap>, _: &Context) -> Result<Action, ReconcileError> {
        if !key.name().starts_with("busy") {
            return Ok(Action::requeue_after(Duration::from_secs(3600)));
        }
        self.0.fetch_add(1, Relaxed);
        Ok(Action::requeue_after(Duration::from_micros(100)))
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let requests: usize = std::env::args().nth(1).map_or(Ok(100_000), |number| number.parse())?;
    let tokens = Tokens::new().with("good", UserInfo::new("jane", "", ["system:masters"]));
    let env = Environment::builder().server_options(Options::default().tokens(tokens)).start().await?;
    let metrics = MetricsServerOptions::default()
        .allowed_to(AllowedTo::Authorized)
        .bind_address("127.0.0.1:0".parse()?);
    let manager = Manager::new(env.client(), ManagerOptions::new("example").metrics(metrics));
    let many = from_fn("many", move |sink: Sink<ObjectKey<ConfigMap>>| async move {
        for number in 0..requests {
            sink.add(ObjectKey::new(format!("namespace-{}", number % 100), format!("object-{number}")));
            if number % 1000 == 0 {
                tokio::task::yield_now().await;
            }
        }
        for number in 0..BUSY {
            sink.add(ObjectKey::new("default", format!("busy-{number}")));
        }
        std::future::pending().await
    });
    let runs = Arc::new(AtomicU64::new(0));
    Builder::managed_by(&manager)
        .for_kind::<ConfigMap>()
        .named("example")
        .watches_raw_source(many)
        .with_options(ControllerOptions::default().max_concurrent_reconciles(8))
        .complete(Busy(Arc::clone(&runs)))?;
    let ready = manager.ready();
    let run = manager.clone().run(async {
        let _ = ready.await;
        while manager.overview()[0].waiting < requests {
            sleep(Duration::from_millis(100)).await;
        }
        let address = manager.metrics_address().unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        if let Err(error) = measure(address, &runs).await {
            eprintln!("{error}");
        }
    });
    Ok(run.await?)
}

async fn measure(address: SocketAddr, runs: &AtomicU64) -> Result<(), Failure> {
    let mut ratios = Vec::new();
    for pair in 0..PAIRS {
        // The order alternates, so that a machine that becomes slower or faster favours neither.
        let (with, without) = if pair % 2 == 0 {
            let with = throughput_with_streams(address, runs).await?;
            (with, throughput(runs).await?)
        } else {
            let without = throughput(runs).await?;
            (throughput_with_streams(address, runs).await?, without)
        };
        println!("runs per CPU second: {without:.0}; with {STREAMS} streams of events: {with:.0}");
        ratios.push(with / without);
    }
    ratios.sort_by(f64::total_cmp);
    let at = |percent: usize| ratios[(PAIRS - 1) * percent / 100];
    println!(
        "with streams / without, {PAIRS} pairs: median {:.3}, quartiles {:.3} and {:.3}",
        at(50),
        at(25),
        at(75)
    );
    for path in [
        "overview",
        "controllers/example",
        "controllers/example/requests?state=waiting&limit=100",
        "controllers/example/requests?limit=1000",
        "controllers/example/requests?contains=object-99999",
        "controllers/example/requests/namespace-42/object-742",
        "findings",
        "caches",
    ] {
        let (mut times, mut size) = (Vec::new(), 0);
        for _ in 0..ANSWERS {
            let begun = Instant::now();
            size = get(address, path).await?;
            times.push(begun.elapsed());
        }
        times.sort();
        let at = |percent: usize| times[(ANSWERS - 1) * percent / 100];
        println!("{path}: p50 {:.1?}, p99 {:.1?}, longest {:.1?}, {size} bytes", at(50), at(99), at(100));
    }
    Ok(())
}

/// Runs per second of CPU time while streams are read.
async fn throughput_with_streams(address: SocketAddr, runs: &AtomicU64) -> Result<f64, Failure> {
    let mut streams = JoinSet::new();
    for number in 0..STREAMS {
        streams.spawn(async move { follow(address, number).await });
    }
    let measured = throughput(runs).await;
    streams.shutdown().await;
    measured
}

/// Runs per second of CPU time, of the whole process, which includes the readers of streams.
async fn throughput(runs: &AtomicU64) -> Result<f64, Failure> {
    let (before, begun) = (runs.load(Relaxed), cpu_seconds()?);
    sleep(MEASURED).await;
    // Far fewer runs than a float counts exactly.
    let ran = (runs.load(Relaxed) - before) as f64;
    Ok(ran / (cpu_seconds()? - begun))
}

fn cpu_seconds() -> Result<f64, Failure> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let [user, system] = [11, 12].map(|index| fields.get(index).copied().unwrap_or_default().parse::<f64>());
    Ok((user? + system?) / TICKS)
}

/// Asks for a path, and returns the number of bytes of the answer.
async fn get(address: SocketAddr, path: &str) -> Result<usize, Failure> {
    let mut stream = request(address, path, "Connection: close\r\n").await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    if !answer.starts_with(b"HTTP/1.1 200") {
        return Err(format!("{path}: {}", String::from_utf8_lossy(&answer)).into());
    }
    Ok(answer.len())
}

/// Reads a stream of events, until this is dropped.
async fn follow(address: SocketAddr, number: usize) -> Result<(), Failure> {
    let path = format!("events?controller=example&request=default/busy-{number}");
    let mut stream = request(address, &path, "").await?;
    let mut buffer = vec![0; 65536];
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

async fn request(address: SocketAddr, path: &str, headers: &str) -> Result<TcpStream, Failure> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "GET /explain/v1/{path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer good\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    Ok(stream)
}
