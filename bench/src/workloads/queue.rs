//! Workloads: work queues, without a cluster.

use serde_json::json;

use crate::build::{Language, Programs};
use crate::figures::QUEUE;
use crate::process::Process;
use crate::protocol::{Figures, Unsupported};
use crate::session::{Contender, GO, KUBE_RS, Measured, OURS, Session};

const CONTENDERS: [Contender; 4] = [
    OURS,
    GO.variant("client-go typed", "typed"),
    GO.variant("controller-runtime priority", "priority"),
    KUBE_RS.variant("kube-rs scheduler", "scheduler"),
];

/// Workloads that measure time, with their numbers of keys.
const TIMED: [(&str, &str, &str, usize); 6] = [
    ("queue.one_at_a_time", "queue.one_at_a_time", "queue.one_at_a_time.wall", 1_000_000),
    ("queue.fill_then_drain", "queue.fill_then_drain", "queue.fill_then_drain.wall", 300_000),
    ("queue.eight_by_eight", "queue.eight_by_eight", "queue.eight_by_eight.wall", 300_000),
    ("queue.duplicates", "queue.duplicates", "", 1_000_000),
    ("queue.add_after", "queue.add_after", "", 300_000),
    ("queue.limiter_when", "queue.limiter_when", "", 1_000_000),
];

pub(crate) async fn run(session: &mut Session) {
    session.contest(&QUEUE.ids(), &CONTENDERS, measure).await;
}

async fn measure(programs: &Programs, contender: Contender, _: usize) -> anyhow::Result<Measured> {
    let mut measured = Vec::new();
    for (step, cpu, wall, keys) in TIMED {
        // Each workload runs in a fresh process, so that earlier allocations do not influence it.
        let Some(figures) = ask(programs, contender, contender.language, step, keys).await? else { continue };
        measured.push((cpu, figures.number("cpu_ns")?));
        if !wall.is_empty() {
            measured.push((wall, figures.number("wall_ns")?));
        }
    }
    if let Some(late) = ask(programs, contender, contender.language, "queue.lateness", 10_000).await? {
        measured.push(("queue.lateness_p50", late.number("p50_us")? * 1e3));
        measured.push(("queue.lateness_p99", late.number("p99_us")? * 1e3));
    }
    let counting = match contender.language {
        Language::Ours => Language::OursCounting,
        other => other,
    };
    if let Some(heap) = ask(programs, contender, counting, "queue.heap", 300_000).await? {
        measured.push(("queue.heap_ready", heap.number("ready_b")?));
        measured.push(("queue.heap_delayed", heap.number("delayed_b")?));
    }
    Ok(measured)
}

/// Runs a step in a fresh process; empty if the peer does not support it.
async fn ask(
    programs: &Programs,
    contender: Contender,
    language: Language,
    step: &str,
    keys: usize,
) -> anyhow::Result<Option<Figures>> {
    let mut peer = Process::start(contender.name, programs.peer(language)?)?;
    match peer.ask(step, json!({"keys": keys, "variant": contender.variant})).await {
        Ok(figures) => Ok(Some(figures)),
        Err(error) if error.is::<Unsupported>() => Ok(None),
        Err(error) => Err(error),
    }
}
