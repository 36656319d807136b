//! Sections and figures of the report, in their order.

/// A section of the report: figures measured by the same workload.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// Description of the measurement.
    pub(crate) how: &'static str,
    pub(crate) figures: &'static [Figure],
}

/// A measured figure.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) id: &'static str,
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
}

/// Direction in which a figure improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
    /// Context for other figures; neither direction is better.
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

/// Figures of work queues.
pub(crate) const QUEUE: Section = Section {
    id: "queue",
    title: "Work queue",
    how: "Keys consist of a namespace and a name and are created beforehand. Metrics are off on both sides; priority classes, ageing and \
          reasons are on in ours. CPU is user and system time of the process per key, including garbage collection. There are \
          1,000,000 operations where keys repeat (one at a time, queued keys, limiter), otherwise 300,000 keys, and 10,000 for \
          lateness, due within a second. Heap excludes the strings of the keys: bytes allocated (ours), live heap after a \
          collection (Go). The priority queue's `AddAfter` returns when the key is in a buffer, which its goroutines sort \
          later; its figure ends when the last call has returned. kube-rs has no separate queue; its `scheduler`, a stream \
          over a stream, is measured where it does the same work.",
    figures: &[
        less("queue.one_at_a_time", "add, get, done, one at a time: CPU per key", "ns"),
        less("queue.one_at_a_time.wall", "add, get, done, one at a time: wall time per key", "ns"),
        less("queue.fill_then_drain", "300,000 keys filled, then drained: CPU per key", "ns"),
        less("queue.fill_then_drain.wall", "300,000 keys filled, then drained: wall time per key", "ns"),
        less("queue.eight_by_eight", "8 producers × 8 consumers: CPU per key", "ns"),
        less("queue.eight_by_eight.wall", "8 producers × 8 consumers: wall time per key", "ns"),
        less("queue.duplicates", "adds of queued keys: CPU per add", "ns"),
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
    how: "A manager with one controller of pods and an index by a label. A predicate on the generation refuses all status \
          changes. Pods differ in names, uids, addresses, hashes and times, and have managed fields of two writers. Time to synced \
          starts with the manager. Memory is the resident set of the process (`VmRSS` five seconds later, `VmHWM` for the peak), which \
          the goals refer to. For the row *after a forced collection*, Go is forced to collect and to return memory \
          (`debug.FreeOSMemory`), which its users do not do; the others are not forced. Hot gets read the same 200 pods; cold gets \
          read 20,000 others, each once. Go copies on each get and list. A list is complete when it is returned; freeing it is not \
          counted, since Go does it later. Events are 10,000 status changes; their CPU is \
          the client's, from before the first change until the last one is in the cache. Go receives protobuf, its default for \
          builtin kinds; ours and kube-rs read JSON. kube-rs has no index: its users filter the whole store.",
    figures: &[
        less("cache.synced", "time to synced", "s"),
        less("cache.synced_cpu", "CPU of the client until synced", "s"),
        less("cache.resident", "resident memory", "B"),
        less("cache.resident_settled", "resident memory after a forced collection", "B"),
        less("cache.peak", "peak of resident memory until synced", "B"),
        less("cache.hot_get", "get, the same 200 pods", "ns"),
        less("cache.cold_get", "get, a different pod each time", "ns"),
        less("cache.index", "list of 10,000 pods by index", "ns"),
        less("cache.list", "list of all pods, per pod", "ns"),
        less("cache.event_cpu", "CPU per watch event that a predicate on metadata refuses", "ns"),
    ],
};

pub(crate) const RECONCILES: Section = Section {
    id: "reconciles",
    title: "From events to reconciles",
    how: "A controller with 8 workers reads the ConfigMap (1 KB) of its request from its cache. Throughput: 20,000 \
          updates (2,000 ConfigMaps, ten times each) over 8 connections, as fast as the server accepts them; the figure is \
          updates per CPU second of the client, until each ConfigMap was reconciled in its last state. Latency: 200 \
          updates per second, 2,000 in total (1,000 with `--quick`), on one monotonic clock. *Event to reconcile* is the time \
          from the arrival of the event at a bare watch until the reconciler has read the object, which is the latency that the framework \
          adds. The bare watch is a thread with a watch of its own, which splits the JSON into lines and decodes nothing; the server \
          always writes to it first. An event that the reconciler reads before the bare watch receives it counts as 0; the last row \
          is the share of such events. *Update to reconcile* starts before the update is sent, so it includes the server, the sockets \
          and the writer for all contenders.",
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
    how: "Ten controllers with one worker each, on the 2,000 ConfigMaps of the previous section, in one manager where the framework has \
          managers. There are 4,000 updates, each of which all ten controllers reconcile. kube-rs' controllers have a watch and a store each \
          by default.",
    figures: &[
        less("controllers.event_cpu", "CPU of the client per event (ten reconciles)", "ns"),
        less("controllers.server_cpu", "CPU of the server per event", "ns"),
        less("controllers.resident", "resident memory", "B"),
        less("controllers.requests", "requests until all are synced", ""),
    ],
};

pub(crate) const GUESTBOOKS: Section = Section {
    id: "guestbooks",
    title: "1,000 guestbooks",
    how: "The same operator for each peer: a custom resource owns a ConfigMap and a Deployment, both applied server-side in each \
          reconcile, and its status is applied when it changes. Go has one worker by default, ours 16, and \
          kube-rs no limit. 1,000 guestbooks exist when the operator starts, on a server of its own. \
          Time is measured from before the process starts until the last status arrives. Requests and CPU are counted until two \
          seconds pass without a request, because operators also reconcile the events of their own children.",
    figures: &[
        less("guestbooks.seconds", "process start to convergence", "s"),
        less("guestbooks.requests", "API requests", ""),
        less("guestbooks.client_cpu", "CPU of the operator", "s"),
        less("guestbooks.server_cpu", "CPU of the server", "s"),
        less("guestbooks.resident", "resident memory of the operator afterwards", "B"),
    ],
};

pub(crate) const IDLE: Section = Section {
    id: "idle",
    title: "An idle operator",
    how: "The guestbook operator with ten guestbooks, and with metrics and probes where the framework serves them. CPU is \
          measured over ten seconds, starting five seconds after convergence; memory at their end.",
    figures: &[less("idle.resident", "resident memory", "B"), less("idle.cpu", "CPU per second", "ns")],
};

pub(crate) const START: Section = Section {
    id: "start",
    title: "Start",
    how: "Time from before the process starts until its first reconcile, of a single ConfigMap.",
    figures: &[less("start.first_reconcile", "process start to first reconcile", "s")],
};

pub(crate) const FAILOVER: Section = Section {
    id: "failover",
    title: "Failover",
    how: "Two processes of an operator compete for a lease with the default durations (15 s, 10 s, 2 s). The leader is killed or \
          stopped; the figure ends with the first reconcile of the other process. Go releases the lease only with \
          `LeaderElectionReleaseOnCancel`, which is off by default.",
    figures: &[
        less("failover.killed", "SIGKILL of the leader to the standby's first reconcile", "s"),
        less("failover.stopped", "SIGTERM of the leader to the standby's first reconcile", "s"),
    ],
};

pub(crate) const OUTAGE: Section = Section {
    id: "outage",
    title: "After an outage",
    how: "A controller of 10,000 ConfigMaps with each contender's defaults. Its reconcile reads its object from the API server \
          through a relay that refuses connections, so every reconcile fails. After 30 s the relay accepts connections; the figure ends \
          when each object has been reconciled successfully. Caches use their own, undisturbed connections. kube-rs \
          retries after 5 s, as in its examples; controller-runtime has no token bucket by default.",
    figures: &[less("outage.recovery", "end of the outage until all 10,000 have succeeded", "s")],
};

pub(crate) const SILENCE: Section = Section {
    id: "silence",
    title: "Silent connections",
    how: "A controller and a client are connected through a relay. The relay falls silent: on open connections it \
          accepts all bytes, which the kernel acknowledges, and forwards none, like a load balancer that has lost its \
          backend; new connections work. The first figure ends when the change of an object, made just after the silence begins, \
          has been reconciled; the second when a request, sent at the same time, ends in an answer or an error. No end within 120 s \
          counts as not measured.",
    figures: &[
        less("silence.watch", "a silently dead watch: until the next change is reconciled", "s"),
        less("silence.request", "a silent request: until it ends", "s"),
    ],
};

pub(crate) const WEBHOOKS: Section = Section {
    id: "webhooks",
    title: "Webhooks",
    how: "A manager serves a defaulting and a validating webhook, and the conversion between two versions, of a small custom resource; the \
          API server calls them over HTTPS. A round trip is a create, which includes the API server and calls both admission webhooks. Under \
          load, eight creates at a time are sent, 7,500 in total; reviews per CPU second of the manager are those of this load. \
          At an even pace, 400 creates per second are sent, 2,000 in total, so that all processes sleep in between. The manager also \
          caches the objects, and reconciles each once. Conversion is one list of 10,000 objects in the version that is not stored, until the client has read its bytes, and \
          then the same list again, of which the API server keeps the converted objects. For the webhook alone, the client sends it \
          the reviews itself: the same objects in 20 reviews of 500, three at a time, as the API server does, and in a single \
          review; the median of five such lists. kube-rs has no webhook server.",
    figures: &[
        more("webhooks.per_cpu_second", "admission reviews per CPU second of the manager", "/s"),
        more("webhooks.per_second", "admission reviews per second", "/s"),
        less("webhooks.round_trip_p50", "create with two webhooks under load, median", "ns"),
        less("webhooks.round_trip_p99", "create with two webhooks under load, p99", "ns"),
        less("webhooks.paced_p50", "create with two webhooks at an even pace, median", "ns"),
        less("webhooks.paced_p99", "create with two webhooks at an even pace, p99", "ns"),
        less("webhooks.conversion", "list of 10,000 objects, converted", "s"),
        less("webhooks.conversion_cpu", "CPU of the manager for this list", "s"),
        less("webhooks.conversion_again", "the same list again", "s"),
        less("webhooks.reviews", "10,000 objects in reviews of 500, without the API server", "s"),
        less("webhooks.reviews_cpu", "CPU of the manager for these reviews", "s"),
        less("webhooks.one_review", "10,000 objects in one review, without the API server", "s"),
        less("webhooks.one_review_cpu", "CPU of the manager for this review", "s"),
    ],
};

/// All sections with fixed figures. Those of the API server come from its load program.
pub(crate) const SECTIONS: [&Section; 11] = [
    &QUEUE,
    &CACHE,
    &RECONCILES,
    &CONTROLLERS,
    &GUESTBOOKS,
    &IDLE,
    &START,
    &FAILOVER,
    &OUTAGE,
    &SILENCE,
    &WEBHOOKS,
];

impl Section {
    pub(crate) fn ids(&self) -> Vec<&'static str> {
        self.figures.iter().map(|figure| figure.id).collect()
    }
}

/// Finds a figure by its ID.
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
