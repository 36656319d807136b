//! `cargo bench -p kube-workqueue`: the workloads of the runner (`examples/speed`) under criterion's statistics.

#[path = "../examples/speed/keys.rs"]
mod keys;
#[path = "../examples/speed/workloads.rs"]
mod workloads;

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tokio::runtime::Builder;

use keys::{Key, keys};

fn speed(criterion: &mut Criterion) {
    let alone = Builder::new_current_thread().enable_time().build().expect("a runtime can be made");
    let many = Builder::new_multi_thread().enable_time().build().expect("a runtime can be made");
    let distinct = keys(300_000);
    let repeated: Vec<Key> = (0..100_000).map(|number| distinct[number % 1000].clone()).collect();
    let million = keys(1_000_000);

    let mut group = criterion.benchmark_group("queue");
    group.sample_size(10);
    let mut bench = |name: &str, keys: &[Key], run: &dyn Fn(Vec<Key>) -> Duration| {
        group.throughput(Throughput::Elements(keys.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| (0..times).map(|_| run(keys.to_vec())).sum());
        });
    };
    bench("one at a time", &repeated, &|keys| alone.block_on(workloads::one_at_a_time(keys)));
    bench("filled, then drained", &distinct, &|keys| alone.block_on(workloads::fill_then_drain(keys)));
    bench("duplicates", &repeated, &|keys| alone.block_on(workloads::duplicates(keys)));
    bench("8 producers, 8 consumers", &distinct, &|keys| {
        many.block_on(many.spawn(workloads::eight_by_eight(keys))).expect("no task panics")
    });
    bench("add_after", &million, &|keys| alone.block_on(workloads::add_after(keys)));
    bench("limiter", &repeated, &|keys| workloads::limiter_when(&keys));
}

criterion_group!(benches, speed);
criterion_main!(benches);
