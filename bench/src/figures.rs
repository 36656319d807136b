//! What is measured, in the order of the report.

/// Figures that belong together.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// How it is measured.
    pub(crate) how: &'static str,
    pub(crate) figures: &'static [Figure],
}

/// One thing that is measured.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) id: &'static str,
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
}

/// Which figure is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
    /// It is told for what others are worth.
    Neither,
}

const fn less(id: &'static str, what: &'static str, unit: &'static str) -> Figure {
    Figure { id, what, unit, better: Better::Less }
}

const fn more(id: &'static str, what: &'static str, unit: &'static str) -> Figure {
    Figure { id, what, unit, better: Better::More }
}

const fn told(id: &'static str, what: &'static str, unit: &'static str) -> Figure {
    Figure { id, what, unit, better: Better::Neither }
}

/// What a peer's queue is measured by.
pub(crate) const QUEUE: Section = Section {
    id: "queue",
    title: "Work queue",
    how: "Keys are a namespace and a name, made beforehand. No metrics on either side; classes, ageing and reasons are on in \
          ours. CPU is user and system time of the process per key, a garbage collector's included. 1,000,000 operations \
          where keys repeat (one at a time, keys in line, limiter), else 300,000 keys; 10,000 for lateness, due within a \
          second. Heap is without the strings of the keys: what the allocator gave out (ours), the live heap after a \
          collection (Go). The priority queue's `AddAfter` returns when the key is in a buffer, and its goroutines sort it \
          in later; its figure ends when the last call has returned. kube-rs has no queue that can be used alone; its \
          `scheduler`, a stream over a stream, is measured where it does the same.",
    figures: &[
        less("queue.one_at_a_time", "add, get, done, one at a time: CPU per key", "ns"),
        less("queue.one_at_a_time.wall", "the same, by the clock", "ns"),
        less("queue.fill_then_drain", "300,000 keys filled, then drained: CPU per key", "ns"),
        less("queue.fill_then_drain.wall", "the same, by the clock", "ns"),
        less("queue.eight_by_eight", "8 producers × 8 consumers: CPU per key", "ns"),
        less("queue.eight_by_eight.wall", "the same, by the clock", "ns"),
        less("queue.duplicates", "adds of keys in line: CPU per add", "ns"),
        less("queue.add_after", "`add_after`, random delays: CPU per key", "ns"),
        less("queue.limiter_when", "default limiter, `when`: CPU per call", "ns"),
        less("queue.lateness_p50", "lateness of due keys, median", "ns"),
        less("queue.lateness_p99", "lateness of due keys, p99", "ns"),
        less("queue.heap_ready", "heap per ready key", "B"),
        less("queue.heap_delayed", "heap per delayed key", "B"),
    ],
};

pub(crate) const CACHE: Section = Section {
    id: "cache",
    title: "Cache of pods",
    how: "A manager with one controller of pods, whose predicate on the generation lets no change of status pass, and an \
          index by a label. Pods differ in names, uids, addresses, hashes and times, and have the field ownership of two \
          writers. Time to synced is from the start of the manager; memory is the resident set of the process (`VmRSS` five \
          seconds later, `VmHWM` for the peak), which is what the goals are about. In the row *after a forced collection*, Go \
          has been told to collect and to return memory (`debug.FreeOSMemory`), which its users do not do; nothing is forced \
          elsewhere. Hot gets go to the same 200 pods, cold ones to 20,000 others, each \
          once; Go copies on each get, and so does its `List`. Events are 10,000 changes of status, and the CPU is the \
          client's from before the first until the last is in the cache. Go is sent protobuf, the default of its builtin \
          kinds; ours and kube-rs read JSON. kube-rs has no index: its users filter the whole store.",
    figures: &[
        less("cache.synced", "time to synced", "s"),
        less("cache.synced_cpu", "CPU until synced, the client's", "s"),
        less("cache.resident", "resident memory", "B"),
        less("cache.resident_settled", "resident memory after a forced collection", "B"),
        less("cache.peak", "peak of resident memory until then", "B"),
        less("cache.hot_get", "get, the same 200 pods", "ns"),
        less("cache.cold_get", "get, another pod each time", "ns"),
        less("cache.index", "list of 10,000 pods by index", "ns"),
        less("cache.list", "list of all pods, per pod", "ns"),
        less("cache.event_cpu", "CPU per watch event that a predicate on metadata refuses", "ns"),
    ],
};

pub(crate) const RECONCILES: Section = Section {
    id: "reconciles",
    title: "From events to reconciles",
    how: "A controller with 8 workers reads the ConfigMap of 1 KB that it is called for from its cache. Throughput: 20,000 \
          updates (2,000 ConfigMaps, ten times each) over 8 connections, as fast as the server takes them; the figure is \
          updates per CPU second of the client, until each ConfigMap was reconciled in its last state. Latency: 200 \
          updates a second, 2,000 of them (1,000 with `--quick`), all times by one monotonic clock. *Event to reconcile* is \
          from when a bare watch had the event until the reconciler has read the object: what the framework adds. The bare \
          watch is a thread that splits the JSON of a watch of its own into lines and decodes nothing; the server writes \
          to it first, whoever takes part. An event that the reconciler had read sooner than that counts as 0, and the last row says how many did. \
          *Update to reconcile* is from before the update is sent: server, sockets and writer are in it for everybody.",
    figures: &[
        more("reconciles.per_cpu_second", "events per CPU second of the client", "/s"),
        more("reconciles.per_second", "events per second", "/s"),
        told("reconciles.runs", "reconciles per 100 events", ""),
        less("reconciles.server_cpu", "CPU of the server per event", "ns"),
        less("reconciles.latency_p50", "event to reconcile, median", "ns"),
        less("reconciles.latency_p99", "event to reconcile, p99", "ns"),
        less("reconciles.from_update_p50", "update to reconcile, median", "ns"),
        less("reconciles.from_update_p99", "update to reconcile, p99", "ns"),
        told("reconciles.sooner", "events reconciled before the bare watch had them", "%"),
    ],
};

pub(crate) const CONTROLLERS: Section = Section {
    id: "controllers",
    title: "Ten controllers of one kind",
    how: "Ten controllers with one worker each, on the 2,000 ConfigMaps of the section before, in one manager where there is \
          one. 4,000 updates, each of which all ten reconcile. kube-rs' controllers have a watch and a store each by default.",
    figures: &[
        less("controllers.event_cpu", "CPU of the client per event, ten reconciles", "ns"),
        less("controllers.server_cpu", "CPU of the server per event", "ns"),
        less("controllers.resident", "resident memory", "B"),
        less("controllers.requests", "requests until all are synced", ""),
    ],
};

pub(crate) const GUESTBOOKS: Section = Section {
    id: "guestbooks",
    title: "1,000 guestbooks",
    how: "The same operator in each peer: a custom resource owns a ConfigMap and a Deployment, both applied on the server \
          side in each reconcile, and has a status that is applied when it changes. One worker, the default, in Go and \
          ours; kube-rs has no bound by default. 1,000 guestbooks are there when the operator starts, on a server of its own. \
          Time is from before the process starts until the last status is seen; requests and CPU are counted until two \
          seconds without a request have passed, since operators go on reconciling what their own children caused.",
    figures: &[
        less("guestbooks.seconds", "process start to convergence", "s"),
        less("guestbooks.requests", "API requests", ""),
        less("guestbooks.client_cpu", "CPU of the operator", "s"),
        less("guestbooks.server_cpu", "CPU of the server", "s"),
        less("guestbooks.resident", "resident memory of the operator then", "B"),
    ],
};

pub(crate) const IDLE: Section = Section {
    id: "idle",
    title: "An idle operator",
    how: "The guestbook operator with ten guestbooks, with metrics and probes served where there are any: five seconds after \
          they have converged, and the ten seconds after that.",
    figures: &[less("idle.resident", "resident memory", "B"), less("idle.cpu", "CPU per second", "ns")],
};

pub(crate) const START: Section = Section {
    id: "start",
    title: "Start",
    how: "From before the process starts until its first reconcile has run, of one ConfigMap.",
    figures: &[less("start.first_reconcile", "process start to first reconcile", "s")],
};

pub(crate) const FAILOVER: Section = Section {
    id: "failover",
    title: "A leader goes",
    how: "Two processes of an operator compete for a lease with the default times (15 s, 10 s, 2 s). The leader is killed, or \
          told to stop; the figure ends with the first reconcile of the other. Go gives a lease back only if told to \
          (`LeaderElectionReleaseOnCancel`, off by default).",
    figures: &[
        less("failover.killed", "SIGKILL to the other's first reconcile", "s"),
        less("failover.stopped", "SIGTERM to the other's first reconcile", "s"),
    ],
};

pub(crate) const OUTAGE: Section = Section {
    id: "outage",
    title: "After an outage",
    how: "A controller of 10,000 ConfigMaps, with each contender's defaults, whose reconcile reads its object from the API server \
          over a relay that refuses connections: every reconcile fails. After 30 s the relay works again; the figure ends when \
          each object has been reconciled with success. Caches keep their own connections, which are not disturbed. kube-rs \
          retries after 5 s, as its examples do; controller-runtime has no token bucket by default.",
    figures: &[less("outage.recovery", "end of the outage until all 10,000 have succeeded", "s")],
};

pub(crate) const SILENCE: Section = Section {
    id: "silence",
    title: "Silent connections",
    how: "A controller and a client whose connections lead over a relay. The relay falls silent: in connections that are open it \
          takes all bytes, which the kernel acknowledges, and passes none on, as a load balancer does that has lost its \
          backend; new connections work. The watch counts until the change of an object made just afterwards has been \
          reconciled; the request, sent just afterwards, until it ends in an answer or an error. No answer within 120 s \
          counts as none.",
    figures: &[
        less("silence.watch", "a silently dead watch: until the next change is reconciled", "s"),
        less("silence.request", "a silent request: until it ends", "s"),
    ],
};

/// All with fixed figures; those of the API server come from its load program.
pub(crate) const SECTIONS: [&Section; 10] =
    [&QUEUE, &CACHE, &RECONCILES, &CONTROLLERS, &GUESTBOOKS, &IDLE, &START, &FAILOVER, &OUTAGE, &SILENCE];

impl Section {
    pub(crate) fn ids(&self) -> Vec<&'static str> {
        self.figures.iter().map(|figure| figure.id).collect()
    }
}

/// The figure of this name.
pub(crate) fn find(id: &str) -> Option<&'static Figure> {
    SECTIONS.iter().flat_map(|section| section.figures).find(|figure| figure.id == id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn figures_are_named_once_and_after_their_section() {
        let mut seen = BTreeSet::new();
        for section in SECTIONS {
            for figure in section.figures {
                assert!(seen.insert(figure.id), "{}: twice", figure.id);
                assert!(figure.id.starts_with(&format!("{}.", section.id)), "{}", figure.id);
            }
        }
    }
}
