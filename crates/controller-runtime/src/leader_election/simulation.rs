//! Simulated elections with clocks that run fast and slow, pauses, partitions, delays, lost requests and lost responses. Checks
//! that two holders never have a valid permit at once.
//!
//! `cargo test` plays some thousand seeds. The long run is
//! `LEASE_SEEDS=100000 cargo test -p controller-runtime --lib leader_election::simulation`.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use super::{
    Timing,
    elector::{Elector, ElectorInput, LeadershipEvent, LeaseAnswer, LeaseRecord, LeaseRequest, Moment},
};

/// Real time in microseconds.
type Real = u64;

const SECOND: Real = 1_000_000;
/// End of the faults: later none begins, and messages are neither lost nor late.
const CHAOS: Real = 100 * SECOND;
const END: Real = 160 * SECOND;

#[test]
fn never_two_permits_at_once_with_clocks_within_15_percent() {
    let seeds =
        std::env::var("LEASE_SEEDS").map_or(3_000, |seeds| seeds.parse().expect("LEASE_SEEDS is a number"));
    let mut terms = 0;
    for seed in 0..seeds {
        let outcome = World::new(seed, 850_000, 1_150_000).play();
        assert_eq!(outcome.overlaps, Vec::<String>::new(), "seed {seed}");
        assert!(outcome.leads_at_the_end, "seed {seed}: no leader a minute after the last fault");
        terms += outcome.terms;
    }
    println!("{seeds} seeds: {terms} leaderships, no two at once");
    assert!(terms > 2 * seeds, "the faults change leaders: {terms}");
}

#[test]
fn the_simulation_detects_a_clock_twice_as_fast() {
    let broken = (0..100).find(|seed| !World::new(*seed, 700_000, 1_400_000).play().overlaps.is_empty());
    assert!(broken.is_some(), "the simulation would not notice two leaders");
}

#[test]
fn the_simulation_detects_permits_counted_from_the_answer() {
    let mut found = false;
    for seed in 0..2_000 {
        let mut world = World::new(seed, 850_000, 1_150_000);
        world.permit_from_answer = true;
        found |= !world.play().overlaps.is_empty();
    }
    assert!(found, "the simulation would not notice a permit that ends too late");
}

struct SimulationResult {
    /// Every moment at which a second permit became valid.
    overlaps: Vec<String>,
    terms: u64,
    leads_at_the_end: bool,
}

/// One API server and the candidates around it.
struct World {
    now: Real,
    rng: fastrand::Rng,
    lease: Option<LeaseRecord>,
    version: u64,
    nodes: Vec<Node>,
    queue: BinaryHeap<Reverse<(Real, u64, SimulatedEvent)>>,
    pushed: u64,
    overlaps: Vec<String>,
    terms: u64,
    /// The last leader and its fencing token.
    last: Option<((usize, u32), i32)>,
    /// Counts the permit from the response, which breaks the rule on purpose.
    permit_from_answer: bool,
}

struct Node {
    elector: Elector,
    /// Speed of the node's clock, in millionths.
    rate: u64,
    /// Number of restarts. Responses to an earlier life are discarded.
    life: u32,
    paused_until: Real,
    cut_off_until: Real,
    watches: bool,
    /// The request that waits for a response, and when it was sent by the node's clock.
    waits_for: Option<(u64, Moment)>,
    /// In real time.
    permit_until: Option<Real>,
    quits: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum SimulatedEvent {
    Wake { node: usize, life: u32 },
    Stand { node: usize, life: u32 },
    Seen { node: usize, life: u32, lease: Lease },
    Arrives { node: usize, life: u32, request: u64, what: Request },
    Answered { node: usize, life: u32, request: u64, answer: LeaseReply },
    TimesOut { node: usize, life: u32, request: u64 },
    Fault { node: usize },
}

/// [`LeaseRecord`] with an order, which the event queue needs.
type Lease = Option<(String, String, Duration, i32)>;
/// [`LeaseRequest`] with an order: 0 to get, 1 to create or 2 to update; version, holder, seconds, and changes of leader.
type Request = (u8, String, String, i32, i32);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum LeaseReply {
    Lease(Lease),
    Conflict,
}

fn record(lease: Lease) -> Option<LeaseRecord> {
    lease.map(|(version, holder, lease_duration, transitions)| LeaseRecord {
        version,
        holder,
        lease_duration,
        transitions,
    })
}

impl World {
    fn new(seed: u64, slowest: u64, fastest: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let nodes = (0..rng.usize(2..=4))
            .map(|node| Node {
                elector: elector(node, 0, &mut rng),
                // Violations show at the extremes, so these are frequent.
                rate: match rng.u8(..4) {
                    0 => slowest,
                    1 => fastest,
                    _ => rng.u64(slowest..=fastest),
                },
                life: 0,
                paused_until: 0,
                cut_off_until: 0,
                watches: rng.bool(),
                waits_for: None,
                permit_until: None,
                quits: false,
            })
            .collect::<Vec<_>>();
        let mut world = Self {
            now: 0,
            rng,
            lease: None,
            version: 0,
            queue: BinaryHeap::new(),
            pushed: 0,
            overlaps: Vec::new(),
            terms: 0,
            last: None,
            permit_from_answer: false,
            nodes,
        };
        for node in 0..world.nodes.len() {
            let begin = world.rng.u64(..5 * SECOND);
            world.push(begin, SimulatedEvent::Stand { node, life: 0 });
            let fault = world.rng.u64(..20 * SECOND);
            world.push(fault, SimulatedEvent::Fault { node });
        }
        world
    }

    fn push(&mut self, at: Real, event: SimulatedEvent) {
        self.pushed += 1;
        self.queue.push(Reverse((at, self.pushed, event)));
    }

    fn play(mut self) -> SimulationResult {
        while let Some(Reverse((at, _, event))) = self.queue.pop() {
            if at > END {
                break;
            }
            self.now = at;
            self.handle(event);
        }
        let leads_at_the_end =
            self.nodes.iter().any(|node| node.permit_until.is_some_and(|until| until > END));
        SimulationResult { overlaps: self.overlaps, terms: self.terms, leads_at_the_end }
    }

    fn handle(&mut self, event: SimulatedEvent) {
        use SimulatedEvent::*;
        let (Wake { node, life }
        | Stand { node, life }
        | Seen { node, life, .. }
        | Answered { node, life, .. }
        | TimesOut { node, life, .. }) = &event
        else {
            return match event {
                Arrives { node, life, request, what } => self.arrives(node, life, request, what),
                Fault { node } => self.inject_fault(node),
                _ => {}
            };
        };
        let (node, life) = (*node, *life);
        if life != self.nodes[node].life {
            return; // the process was restarted meanwhile
        }
        // A paused process handles its inputs when it resumes.
        if self.nodes[node].paused_until > self.now {
            return self.push(self.nodes[node].paused_until, event);
        }
        let input = match event {
            Wake { .. } => ElectorInput::Wake,
            Stand { .. } => ElectorInput::Stand,
            Seen { lease, .. } => ElectorInput::Seen(record(lease)),
            Answered { request, answer, .. } if self.waits_for(node, request) => {
                ElectorInput::Answer(match answer {
                    LeaseReply::Lease(lease) => record(lease).map_or(LeaseAnswer::Absent, LeaseAnswer::Lease),
                    LeaseReply::Conflict => LeaseAnswer::Conflict,
                })
            }
            TimesOut { request, .. } if self.waits_for(node, request) => {
                ElectorInput::Answer(LeaseAnswer::Failed("timeout".into()))
            }
            _ => return,
        };
        self.step(node, input);
    }

    fn waits_for(&self, node: usize, request: u64) -> bool {
        self.nodes[node].waits_for.is_some_and(|(waiting, _)| waiting == request)
    }

    fn local(&self, node: usize) -> Moment {
        Duration::from_micros(self.now * self.nodes[node].rate / 1_000_000)
    }

    /// The first moment at which the node's clock shows `moment`.
    fn real(&self, node: usize, moment: Moment) -> Real {
        let micros = moment.as_nanos().div_ceil(1000);
        u64::try_from((micros * 1_000_000).div_ceil(u128::from(self.nodes[node].rate)))
            .expect("a short simulation")
    }

    fn step(&mut self, node: usize, input: ElectorInput) {
        let (local, life) = (self.local(node), self.nodes[node].life);
        let sent = match &input {
            ElectorInput::Answer(_) => self.nodes[node].waits_for.take().map(|(_, sent)| sent),
            _ => None,
        };
        let output = self.nodes[node].elector.step(input, local);
        for event in output.events {
            if let LeadershipEvent::StartedLeading { transitions, .. } = event {
                self.fenced((node, life), transitions);
            }
            match event {
                LeadershipEvent::StartedLeading { until, .. } | LeadershipEvent::Renewed { until } => {
                    self.terms += u64::from(matches!(event, LeadershipEvent::StartedLeading { .. }));
                    let sent = sent.expect("a permit begins with an answer");
                    assert_eq!(
                        until,
                        sent + Timing::default().renew_deadline(),
                        "from the start of the renewal"
                    );
                    let until = if self.permit_from_answer { until + (local - sent) } else { until };
                    self.permitted(node, until);
                }
                LeadershipEvent::StoppedLeading { .. } => {
                    self.nodes[node].permit_until = None;
                    let rest = self.now + self.rng.u64(..6 * SECOND);
                    self.push(rest, SimulatedEvent::Stand { node, life });
                }
                LeadershipEvent::Over { .. } => self.restart(node),
                LeadershipEvent::NewLeader { .. } | LeadershipEvent::SlowPath => {}
            }
        }
        if let Some(request) = output.request {
            self.send(node, request, local);
        }
        if life == self.nodes[node].life
            && let Some(wake) = self.nodes[node].elector.next_wake()
        {
            let wake = self.real(node, wake).max(self.now);
            self.push(wake, SimulatedEvent::Wake { node, life });
        }
    }

    /// Checks that a token is higher than that of another leader before, and not lower if the same leader returns.
    fn fenced(&mut self, leader: (usize, u32), token: i32) {
        if let Some((last, earlier)) = self.last.replace((leader, token)) {
            let fits = if last == leader { token >= earlier } else { token > earlier };
            // Two leaders at once are counted separately; their tokens have no order.
            assert!(fits || !self.overlaps.is_empty(), "{token} of {leader:?} after {earlier} of {last:?}");
        }
    }

    fn permitted(&mut self, node: usize, until: Moment) {
        for (other, state) in self.nodes.iter().enumerate() {
            if other != node && state.permit_until.is_some_and(|until| until > self.now) {
                self.overlaps.push(format!("at {} µs {node} beside {other}", self.now));
            }
        }
        self.nodes[node].permit_until = Some(self.real(node, until));
    }

    fn send(&mut self, node: usize, request: LeaseRequest, local: Moment) {
        let (id, life) = (self.pushed, self.nodes[node].life);
        self.nodes[node].waits_for = Some((id, local));
        let timeout = self.real(node, local + Timing::default().request_timeout());
        self.push(timeout, SimulatedEvent::TimesOut { node, life, request: id });
        if self.is_lost(node) {
            return;
        }
        let what = match request {
            LeaseRequest::Get => (0, String::new(), String::new(), 0, 0),
            LeaseRequest::Create { holder, lease_seconds, transitions } => {
                (1, String::new(), holder, lease_seconds, transitions)
            }
            LeaseRequest::Update { version, holder, lease_seconds, transitions, .. } => {
                (2, version, holder, lease_seconds, transitions)
            }
        };
        let arrival = self.now + self.delay();
        self.push(arrival, SimulatedEvent::Arrives { node, life, request: id, what });
    }

    /// Carries out a request on the server, even if its sender gave it up long ago.
    fn arrives(&mut self, node: usize, life: u32, request: u64, what: Request) {
        let (verb, version, holder, seconds, transitions) = what;
        let present = self.lease.as_ref().map(|lease| &lease.version);
        let allowed = match verb {
            0 => true,
            1 => present.is_none(),
            _ => present == Some(&version),
        };
        if verb > 0 && allowed {
            self.version += 1;
            let lease_duration = Duration::from_secs(u64::try_from(seconds).expect("a positive duration"));
            self.lease =
                Some(LeaseRecord { version: self.version.to_string(), holder, lease_duration, transitions });
            self.notify_watchers();
        }
        let answer = if allowed { LeaseReply::Lease(self.ordered_lease()) } else { LeaseReply::Conflict };
        if !self.is_lost(node) {
            let arrival = self.now + self.delay();
            self.push(arrival, SimulatedEvent::Answered { node, life, request, answer });
        }
    }

    fn notify_watchers(&mut self) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].watches && !self.is_lost(node) {
                let (life, lease, arrival) =
                    (self.nodes[node].life, self.ordered_lease(), self.now + self.delay());
                self.push(arrival, SimulatedEvent::Seen { node, life, lease });
            }
        }
    }

    fn ordered_lease(&self) -> Lease {
        let lease = self.lease.clone()?;
        Some((lease.version, lease.holder, lease.lease_duration, lease.transitions))
    }

    fn is_lost(&mut self, node: usize) -> bool {
        self.now < CHAOS && (self.nodes[node].cut_off_until > self.now || self.rng.u8(..20) == 0)
    }

    fn delay(&mut self) -> Real {
        match self.rng.u8(..20) {
            0 if self.now < CHAOS => self.rng.u64(..25 * SECOND),
            1..4 if self.now < CHAOS => self.rng.u64(..4 * SECOND),
            _ => self.rng.u64(1..SECOND / 10),
        }
    }

    /// Applies a random fault to a node.
    fn inject_fault(&mut self, node: usize) {
        if self.now >= CHAOS {
            return;
        }
        match self.rng.u8(..8) {
            0 | 1 => self.nodes[node].paused_until = self.now + self.rng.u64(..25 * SECOND),
            2..=4 => self.nodes[node].cut_off_until = self.now + self.rng.u64(..40 * SECOND),
            5 => self.restart(node),
            6 if !self.nodes[node].quits => {
                self.nodes[node].quits = true;
                self.step(node, ElectorInput::StepDown { release: true });
            }
            _ => {}
        }
        let next = self.now + self.rng.u64(SECOND..25 * SECOND);
        self.push(next, SimulatedEvent::Fault { node });
    }

    /// Replaces the process by a new one.
    fn restart(&mut self, node: usize) {
        let life = self.nodes[node].life + 1;
        let elector = elector(node, life, &mut self.rng);
        let state = &mut self.nodes[node];
        (state.life, state.elector, state.quits) = (life, elector, false);
        (state.waits_for, state.permit_until) = (None, None);
        let begin = self.now + self.rng.u64(..3 * SECOND);
        self.push(begin, SimulatedEvent::Stand { node, life });
    }
}

fn elector(node: usize, life: u32, rng: &mut fastrand::Rng) -> Elector {
    Elector::new(Timing::default(), format!("{node}.{life}"), rng.fork())
}
