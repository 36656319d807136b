//! kube-runtime's scheduler, the queue of its controllers: a stream of requests in, a stream of due requests
//! out. It supports neither several producers nor `done`: a returned request may be returned again.

#[path = "../../../../crates/workqueue/examples/speed/keys.rs"]
mod keys;

use std::pin::pin;
use std::time::Duration;

use bench_peer::{Reply, clock};
use futures::StreamExt as _;
use futures::channel::mpsc;
use kube::runtime::scheduler::{ScheduleRequest, scheduler};
use tokio::time::Instant;

use self::keys::{Key, keys};

pub(crate) async fn run(workload: &str, count: usize) -> anyhow::Result<Reply> {
    match workload {
        "one_at_a_time" => Ok(time(count, one_at_a_time(repeated(count))).await),
        "fill_then_drain" => Ok(time(count, fill_then_drain(keys(count))).await),
        "lateness" => Ok(lateness(keys(count)).await),
        _ => Ok(Reply::Unsupported(
            "kube-rs' scheduler is one stream, without producers, limiters or heap counts",
        )),
    }
}

fn repeated(count: usize) -> Vec<Key> {
    let distinct = keys(1000);
    (0..count).map(|number| distinct[number % 1000].clone()).collect()
}

fn due(message: Key, run_at: Instant) -> ScheduleRequest<Key> {
    ScheduleRequest { message, run_at }
}

async fn one_at_a_time(keys: Vec<Key>) {
    let (requests, incoming) = mpsc::unbounded();
    let mut scheduler = pin!(scheduler(incoming));
    for key in keys {
        // Never fails: the scheduler owns the receiver.
        let _ = requests.unbounded_send(due(key, Instant::now()));
        scheduler.as_mut().hold_unless(|_| true).next().await;
    }
}

async fn fill_then_drain(keys: Vec<Key>) {
    let (requests, incoming) = mpsc::unbounded();
    let count = keys.len();
    let mut scheduler = pin!(scheduler(incoming));
    for key in keys {
        let _ = requests.unbounded_send(due(key, Instant::now()));
    }
    for _ in 0..count {
        scheduler.as_mut().hold_unless(|_| true).next().await;
    }
}

async fn lateness(keys: Vec<Key>) -> Reply {
    let (requests, incoming) = mpsc::unbounded();
    let mut scheduler = pin!(scheduler(incoming));
    let mut random = 1_u64;
    let mut times = Vec::new();
    for key in keys {
        // Knuth's linear congruential generator; any spread is sufficient.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = Instant::now() + Duration::from_micros(100_000 + (random >> 33) % 1_000_000);
        times.push(at);
        let _ = requests.unbounded_send(due(key, at));
    }
    let mut late = Vec::new();
    while late.len() < times.len()
        && let Some(key) = scheduler.as_mut().hold_unless(|_| true).next().await
    {
        late.extend(key.1.parse().ok().and_then(|place: usize| times.get(place)).map(Instant::elapsed));
    }
    late.sort();
    let at = |share: usize| late[(late.len() - 1) * share / 100].as_secs_f64() * 1e6;
    Reply::figures([("p50_us", at(50)), ("p99_us", at(99))])
}

async fn time(count: usize, work: impl Future<Output = ()>) -> Reply {
    let (cpu, started) = (clock::cpu_seconds(), Instant::now());
    work.await;
    let (cpu, wall) = (clock::cpu_seconds() - cpu, started.elapsed().as_secs_f64());
    Reply::figures([("wall_ns", wall * 1e9 / count as f64), ("cpu_ns", cpu * 1e9 / count as f64)])
}
