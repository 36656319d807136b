//! `cargo run --profile bench -p kube-workqueue --example speed`: what the queue costs, as lines of JSON.
//!
//! For programs that run it in turns with others and compare. Every line is
//! `{"workload": …, "value": …, "unit": …}`; times are per key, and a run measures every workload once.

mod workloads;

use std::io::{self, Write as _};
use std::time::Duration;

use kube_workqueue::Queue;
use peak_alloc::PeakAlloc;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use workloads::{HOUR, Key, keys};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

fn main() -> io::Result<()> {
    let alone = Builder::new_current_thread().enable_time().build()?;
    let many = Builder::new_multi_thread().enable_time().build()?;

    let distinct = keys(300_000);
    let repeated: Vec<Key> = (0..1_000_000).map(|number| distinct[number % 1000].clone()).collect();

    time("one_at_a_time", &repeated, |keys| alone.block_on(workloads::one_at_a_time(keys)))?;
    time("fill_then_drain", &distinct, |keys| alone.block_on(workloads::fill_then_drain(keys)))?;
    time("duplicates", &repeated, |keys| alone.block_on(workloads::duplicates(keys)))?;
    time("eight_by_eight", &distinct, |keys| {
        many.block_on(many.spawn(workloads::eight_by_eight(keys))).expect("no task panics")
    })?;
    time("add_after", &keys(1_000_000), |keys| alone.block_on(workloads::add_after(keys)))?;
    time("limiter_when", &repeated, |keys| workloads::limiter_when(&keys))?;

    bytes("bytes_per_ready_key", &alone, &distinct, Queue::add)?;
    bytes("bytes_per_delayed_key", &alone, &distinct, |queue, key| {
        queue.add_after(key, Duration::from_nanos(HOUR));
    })?;

    let late = many.block_on(many.spawn(lateness(keys(10_000)))).expect("no task panics");
    print("lateness_p50", late[late.len() / 2].as_secs_f64() * 1e6, "us")?;
    print("lateness_p99", late[late.len() * 99 / 100].as_secs_f64() * 1e6, "us")
}

/// Prints nanoseconds per key.
fn time(workload: &str, keys: &[Key], run: impl FnOnce(Vec<Key>) -> Duration) -> io::Result<()> {
    let took = run(keys.to_vec());
    print(workload, took.as_secs_f64() * 1e9 / keys.len() as f64, "ns")
}

/// Prints what the queue has allocated per key; the strings of the keys are shared with the caller.
fn bytes(workload: &str, runtime: &Runtime, keys: &[Key], add: fn(&Queue<Key>, Key)) -> io::Result<()> {
    let _clock = runtime.enter();
    let queue = Queue::default();
    let before = ALLOCATOR.current_usage();
    for key in keys {
        add(&queue, key.clone());
    }
    print(workload, (ALLOCATOR.current_usage() - before) as f64 / keys.len() as f64, "B")
}

/// How long after they were due keys are handed out to a getter that waits for them, sorted: delays between 0.1 s and
/// 1.1 s.
async fn lateness(keys: Vec<Key>) -> Vec<Duration> {
    let queue = Queue::default();
    let mut random = fastrand::Rng::with_seed(1);
    let mut due = Vec::new();
    for key in keys {
        let delay = Duration::from_micros(random.u64(100_000..1_100_000));
        due.push(Instant::now() + delay);
        queue.add_after(key, delay);
    }
    let mut late = Vec::new();
    while late.len() < due.len()
        && let Some(item) = queue.get().await
    {
        late.extend(item.1.parse().ok().and_then(|place: usize| due.get(place)).map(Instant::elapsed));
    }
    late.sort();
    late
}

fn print(workload: &str, value: f64, unit: &str) -> io::Result<()> {
    writeln!(io::stdout(), r#"{{"workload":"{workload}","value":{value:.1},"unit":"{unit}"}}"#)
}
