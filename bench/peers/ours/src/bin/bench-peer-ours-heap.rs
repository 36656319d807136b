//! Heap allocations of the work queue per key, without the strings of the keys. A separate program, because counting bytes
//! costs time.

#[path = "../../../../../crates/workqueue/examples/speed/heap.rs"]
mod heap;
#[path = "../../../../../crates/workqueue/examples/speed/keys.rs"]
mod keys;

use bench_peer::{Ask, Peer, Reply, serve};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    serve(Heap).await
}

struct Heap;

impl Peer for Heap {
    async fn step(&mut self, ask: &Ask) -> anyhow::Result<Reply> {
        anyhow::ensure!(ask.step == "queue.heap", "{}: this program has queue.heap alone", ask.step);
        let keys = keys::keys(ask.number("keys")?);
        let used = || ALLOCATOR.current_usage();
        Ok(Reply::figures([("ready_b", heap::ready(&keys, used)), ("delayed_b", heap::delayed(&keys, used))]))
    }
}
