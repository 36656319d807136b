//! The work queue, with the workloads of its own benchmark.

#[path = "../../../../crates/workqueue/examples/speed/keys.rs"]
mod keys;
#[path = "../../../../crates/workqueue/examples/speed/lateness.rs"]
mod lateness;
#[path = "../../../../crates/workqueue/examples/speed/workloads.rs"]
mod workloads;

use std::time::Duration;

use anyhow::Context as _;
use bench_peer::{Reply, clock};
use tokio::task::JoinSet;

use self::keys::{Key, keys};

/// Runs a workload with the requested number of keys. Replies with wall-clock and CPU nanoseconds per key.
pub(crate) async fn run(workload: &str, count: usize) -> anyhow::Result<Reply> {
    Ok(match workload {
        "one_at_a_time" => time(repeated(count), workloads::one_at_a_time).await,
        "fill_then_drain" => time(keys(count), workloads::fill_then_drain).await,
        "duplicates" => time(repeated(count), workloads::duplicates).await,
        "eight_by_eight" => time(keys(count), workloads::eight_by_eight).await,
        "add_after" => time(keys(count), workloads::add_after).await,
        "limiter_when" => time(repeated(count), async |keys| workloads::limiter_when(&keys)).await,
        "lateness" => {
            let mut tasks = JoinSet::from_iter([lateness::lateness(keys(count))]);
            let late = tasks.join_next().await.context("a task was spawned")??;
            let at = |share: usize| late[(late.len() - 1) * share / 100].as_secs_f64() * 1e6;
            Reply::figures([("p50_us", at(50)), ("p99_us", at(99))])
        }
        "heap" => {
            Reply::Unsupported("the program bench-peer-ours-heap counts bytes, because counting takes time")
        }
        other => anyhow::bail!("queue.{other}: no such workload"),
    })
}

/// Repeats a thousand keys.
fn repeated(count: usize) -> Vec<Key> {
    let distinct = keys(1000);
    (0..count).map(|number| distinct[number % 1000].clone()).collect()
}

async fn time(keys: Vec<Key>, run: impl AsyncFnOnce(Vec<Key>) -> Duration) -> Reply {
    let (count, before) = (keys.len() as f64, clock::cpu_seconds());
    let wall = run(keys).await;
    let cpu = clock::cpu_seconds() - before;
    Reply::figures([("wall_ns", wall.as_secs_f64() * 1e9 / count), ("cpu_ns", cpu * 1e9 / count)])
}
