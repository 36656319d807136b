//! `cargo run --profile bench -p kube-workqueue --example speed`: costs of the queue, as lines of JSON.
//!
//! For programs that alternate runs of several versions and compare them. Every line is `{"workload": …, "value": …,
//! "unit": …}`; times are per key, and a run measures every workload once.

mod heap;
mod keys;
mod lateness;
mod workloads;

use std::io::{self, Write as _};
use std::time::Duration;

use peak_alloc::PeakAlloc;
use tokio::runtime::Builder;

use keys::{Key, keys};

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

    let clock = alone.enter();
    let used = || ALLOCATOR.current_usage();
    print("bytes_per_ready_key", heap::ready(&distinct, used), "B")?;
    print("bytes_per_delayed_key", heap::delayed(&distinct, used), "B")?;
    drop(clock);

    let late = many.block_on(many.spawn(lateness::lateness(keys(10_000)))).expect("no task panics");
    print("lateness_p50", late[late.len() / 2].as_secs_f64() * 1e6, "us")?;
    print("lateness_p99", late[late.len() * 99 / 100].as_secs_f64() * 1e6, "us")
}

/// Prints nanoseconds per key.
fn time(workload: &str, keys: &[Key], run: impl FnOnce(Vec<Key>) -> Duration) -> io::Result<()> {
    let took = run(keys.to_vec());
    print(workload, took.as_secs_f64() * 1e9 / keys.len() as f64, "ns")
}

fn print(workload: &str, value: f64, unit: &str) -> io::Result<()> {
    writeln!(io::stdout(), r#"{{"workload":"{workload}","value":{value:.1},"unit":"{unit}"}}"#)
}
