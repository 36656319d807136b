//! One run of a simulation: makes a world, and takes one action whenever no task can run.
//!
//! The run without faults always takes the first possible of these: the oldest answer is handed over; the oldest call is carried
//! out; the watch with the oldest unread line hands all its lines over; the API server's garbage collector acts; the user takes the
//! next step, if the world is quiet; time jumps to the next timer. A plan deviates from that at the calls and lines that it names.
//!
//! Bounds: [`ACTIONS`] in a run, and [`Limits`] without time passing; [`LONGEST_UNREST`] of virtual time until the world is quiet, and
//! [`LONGEST_STEP`] for a step. Those of attempts, holds and processes stand in the modules.

mod actions;
mod attempt;
mod changes;
mod holds;
mod outcome;
mod process;
mod quiet;
mod real_time;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use kube_apiserver_embedded::{ApiServer, Options, Profile};
use kube_clock::Epoch;
use kube_envtest::install_crds;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    runtime::Builder,
    task::JoinSet,
    time::{Duration, Instant},
};

pub(crate) use self::outcome::{ArrivedLine, End, Limits, Outcome, Write};
use self::{
    actions::{EarlyStep, PausedActor},
    attempt::Attempt,
    holds::Hold,
    process::{Alive, Process},
    quiet::Rest,
    real_time::RealTime,
};
use crate::{
    definition::Definition,
    gate::Gate,
    hub::Hub,
    idle::Idle,
    names::Actor,
    plan::{Deviation, Plan, Restart, What},
    reconciles::Reconciles,
    remote::Remotes,
    similar::World,
    trace::{Action, Entry},
    truth::Truth,
    user::User,
    watchdog::Watched,
};

/// Virtual time within which the world must become quiet after a step or a crash.
const LONGEST_UNREST: Duration = Duration::from_secs(3600);

/// Virtual time that an attempt of a step may take: a user can wait for days.
const LONGEST_STEP: Duration = Duration::from_secs(7 * 86_400);

/// Maximum number of actions in a run.
const ACTIONS: usize = 2_000_000;

/// Maximum number of calls about one object without time passing: more is a loop.
const SAME_CALLS_AT_ONCE: usize = 150;

/// Real time for which the thread is blocked between two actions from which on it is noted.
const BLOCKED: Duration = Duration::from_millis(20);

/// Seed of a run, and with it its epoch: runs with equal seeds and plans are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed(pub(crate) u64);

/// Plays a plan.
pub(crate) fn play(definition: &Definition, plan: &Plan, seed: Seed, limits: &Limits) -> Outcome {
    // Before anything is built that may draw a number.
    fastrand::seed(seed.0 ^ 0x5eed);
    let idle = Idle::default();
    let watched = Watched::begin(&idle);
    let has_threads = Arc::new(AtomicBool::new(false));
    let started = Arc::clone(&has_threads);
    let mut builder = Builder::new_current_thread();
    // Without an I/O driver, so that sockets of the operator fail with an error that names them.
    let runtime = builder
        .enable_time()
        .start_paused(true)
        .on_thread_park(idle.hook())
        .on_thread_start(move || started.store(true, Ordering::Relaxed))
        .build();
    let runtime = runtime.expect("a runtime on this thread needs no resources that may lack");
    let outcome = runtime.block_on(async {
        // Seeds differ by a day and some milliseconds.
        let epoch = jiff::Timestamp::UNIX_EPOCH
            + jiff::SignedDuration::from_millis(1_767_225_600_000 + 86_400_123 * (seed.0 % 1000) as i64);
        let _epoch = Epoch::starting_now(epoch).for_this_thread();
        let reconciles = Reconciles::default();
        // Also spares the work for logs, which thousands of runs would repeat.
        let _subscriber = tracing::dispatcher::set_default(&reconciles.subscriber());
        let hooks = Hooks { idle, watched, has_threads, reconciles };
        Run::new(definition, plan, seed, limits, hooks).until_the_end().await
    });
    // A thread of the pool that blocks for ever would block this one as well.
    runtime.shutdown_background();
    outcome
}

/// Connections of a run to its runtime.
struct Hooks {
    idle: Idle,
    watched: Watched,
    /// Whether the runtime has started a thread.
    has_threads: Arc<AtomicBool>,
    reconciles: Reconciles,
}

struct Run<'d> {
    definition: &'d Definition,
    idle: Idle,
    watched: Watched,
    has_threads: Arc<AtomicBool>,
    hub: Hub,
    server: ApiServer,
    truth: Arc<Mutex<Truth>>,
    remotes: Remotes,
    pumps: Arc<Mutex<JoinSet<()>>>,
    /// Calls that the server works on.
    working: JoinSet<()>,
    processes: Vec<Process>,
    /// Number of tasks of the runtime while no process runs.
    tasks_without_processes: Option<usize>,
    user: User,
    reconciles: Reconciles,
    /// Reconciles that go on: controllers and requests.
    open: BTreeSet<(String, String)>,
    /// Writes that processes sent while another replica led.
    without_lead: BTreeMap<String, String>,
    /// Deviations that have not happened yet.
    plan: Vec<Deviation>,
    /// Streams that are held back.
    holds: Vec<Hold>,
    /// Actors that are paused.
    paused: Vec<PausedActor>,
    early_step: Option<EarlyStep>,
    /// Whether the garbage collector acts before anything else.
    collect_early: bool,
    /// Whether there are commits since the garbage collector acted.
    collect_late: bool,
    /// Caller of a call, and the deviation that happens when its answer is due, by number of the call.
    due: BTreeMap<u64, (Actor, What)>,
    /// Count of calls by name.
    counts: BTreeMap<String, u32>,
    /// Counts of the calls that are not answered, by id.
    numbers: BTreeMap<u64, u32>,
    start: Instant,
    trace: Vec<Entry>,
    writes: Vec<Write>,
    /// Lines that watches under test received.
    lines: Vec<ArrivedLine>,
    /// Number of calls of the operator that are being carried out, by id of the call, as index into `writes`.
    written: BTreeMap<u64, usize>,
    /// Whether something else changed the world since the operator's last write.
    others_changed: bool,
    quiet: BTreeMap<usize, World>,
    collected: Vec<usize>,
    errors: Vec<String>,
    /// Conditions on changes that have held, as indices of the definition's checks.
    held: BTreeSet<usize>,
    /// Noted blocked times, by number of entries of the trace before.
    blocked: BTreeMap<usize, Duration>,
    /// Blocked time since the last note.
    blocked_now: Duration,
    /// States of the remote systems at the last look, and number of calls at it.
    remote_states: BTreeMap<Arc<str>, Value>,
    effects_seen: usize,
    /// Number of remote effects so far.
    effects: usize,
    /// Number of steps that have begun.
    begun: usize,
    /// Time from which the world must become quiet: the last step, crash or start.
    unrest_since: Instant,
    /// Actions since time passed, the most of them so far, and calls of each name.
    at_once: usize,
    most_at_once: usize,
    calls_at_once: BTreeMap<String, usize>,
    /// Changes of each object that are too many.
    limits: Limits,
}

impl<'d> Run<'d> {
    fn new(definition: &'d Definition, plan: &Plan, seed: Seed, limits: &Limits, hooks: Hooks) -> Self {
        let Hooks { idle, watched, has_threads, reconciles } = hooks;
        let server = ApiServer::start(Options::default().profile(Profile::Dev).seed(seed.0));
        let (hub, pumps) = (Hub::default(), Arc::new(Mutex::new(JoinSet::new())));
        let truth = Arc::new(Mutex::new(Truth::new(definition.masks.clone())));
        let remotes = definition.remotes.iter();
        let remotes = remotes.map(|(name, make)| (Arc::clone(name), make(Arc::clone(name))));
        let gate =
            Gate { hub: hub.clone(), actor: Actor::User, server: server.clone(), pumps: Arc::clone(&pumps) };
        let start = Instant::now();
        let remotes: Remotes = Arc::new(remotes.collect());
        let remote_states = remotes.iter().map(|(name, remote)| (Arc::clone(name), remote.state())).collect();
        Self {
            definition,
            idle,
            watched,
            has_threads,
            hub,
            server,
            truth,
            remotes,
            pumps,
            working: JoinSet::new(),
            processes: Process::of(&definition.programs),
            tasks_without_processes: None,
            user: User::new(gate.client()),
            reconciles,
            open: BTreeSet::new(),
            without_lead: BTreeMap::new(),
            plan: plan.deviations.clone(),
            holds: Vec::new(),
            paused: Vec::new(),
            early_step: None,
            collect_early: false,
            collect_late: false,
            lines: Vec::new(),
            due: BTreeMap::new(),
            counts: BTreeMap::new(),
            numbers: BTreeMap::new(),
            start,
            trace: Vec::new(),
            writes: Vec::new(),
            written: BTreeMap::new(),
            others_changed: false,
            quiet: BTreeMap::new(),
            collected: Vec::new(),
            errors: Vec::new(),
            held: BTreeSet::new(),
            blocked: BTreeMap::new(),
            blocked_now: Duration::ZERO,
            remote_states,
            effects_seen: 0,
            effects: 0,
            begun: 0,
            unrest_since: start,
            at_once: 0,
            most_at_once: 0,
            calls_at_once: BTreeMap::new(),
            limits: limits.clone(),
        }
    }

    async fn until_the_end(mut self) -> Outcome {
        let mut end = match self.prepare().await {
            Ok(()) => match self.act_until_done().await {
                Ok(()) => End::Quiet,
                Err(end) => end,
            },
            Err(end) => end,
        };
        let is_failing = |process: &Process| process.actor.is_operator() && process.state == Alive::Running;
        let failing = self.processes.iter().filter(|process| is_failing(process)).flat_map(Process::failing);
        let failing = failing.collect();
        self.end_processes().await;
        if end == End::Quiet {
            self.idle.reached().await;
            end = self.check_for_leaks().err().unwrap_or(End::Quiet);
        }
        let counts = self.truth.lock().counts.clone();
        Outcome {
            end,
            trace: self.trace,
            quiet: self.quiet,
            counts,
            most_at_once: self.most_at_once,
            writes: self.writes,
            lines: self.lines,
            without_lead: self.without_lead,
            collected: self.collected,
            failing,
            errors: self.errors,
            held: self.held,
            blocked: self.blocked,
            did_not_happen: self.plan,
        }
    }

    /// Installs the kinds, and follows all commits from then on.
    async fn prepare(&mut self) -> Result<(), End> {
        // The server's controllers create the objects that every namespace has.
        self.idle.reached().await;
        let client = kube::Client::new(self.server.service(), "default");
        install_crds(&client, &self.definition.crds).await.map_err(|error| End::StepFailed {
            step: "install the CustomResourceDefinitions".to_owned(),
            reason: describe(&error),
        })?;
        drop(client);
        self.idle.reached().await;
        let truth = Arc::clone(&self.truth);
        let is_first = self.server.observe_commits(move |commit| truth.lock().record(commit));
        debug_assert!(is_first, "a new server has no other observer");
        self.server.hold_controllers(true);
        (self.start, self.unrest_since) = (Instant::now(), Instant::now());
        for deviation in &self.plan {
            match deviation.what {
                What::Hold(_) | What::Relist(_) => self.hub.hold_from(&deviation.call, deviation.number),
                What::Apart => self.hub.keep_apart(&deviation.call),
                What::Late => self.hub.keep_late(&deviation.call),
                What::Shuffle => self.hub.shuffle(deviation.number.into()),
                _ => {}
            }
        }
        self.plan.retain(|deviation| deviation.what != What::Shuffle);
        Ok(())
    }

    async fn act_until_done(&mut self) -> Result<(), End> {
        let steps = self.definition.steps.clone();
        let mut step: Option<Attempt> = None;
        loop {
            self.settle(&mut step).await?;
            self.take_news()?;
            self.take_lines()?;
            self.note_leads();
            self.note_blocked();
            if self.look_at_processes()? {
                continue;
            }
            self.end_holds(Rest::No);
            self.end_pauses();
            if self.collect_early {
                self.collect(&mut step).await?;
                continue;
            }
            if let Some(Attempt { result: Some(result), name, .. }) = &step {
                if let Err(reason) = result {
                    return Err(End::StepFailed { step: name.clone(), reason: reason.clone() });
                }
                self.log(Action::StepDone(name.clone()));
                self.unrest_since = Instant::now();
                step = None;
                self.early_step_ends();
                self.restart_after_step()?;
                continue;
            }
            let most_calls = self.calls_at_once.values().max().copied().unwrap_or_default();
            self.most_at_once = self.most_at_once.max(self.at_once);
            if self.at_once > self.limits.at_once()
                || most_calls > SAME_CALLS_AT_ONCE
                || self.trace.len() > ACTIONS
            {
                return Err(End::Loop { actions: self.last_actions() });
            }
            let next = steps.get(self.begun);
            if let Some(next) = next.filter(|_| step.is_none() && self.is_early_step_due()) {
                self.early_step_begins();
                step = Some(self.begin_step(next));
                continue;
            }
            self.limit_early_step();
            if let Some(possible) = self.hub.next() {
                self.at_once += 1;
                self.take_action(possible).await?;
                continue;
            }
            if self.collect_late {
                self.collect(&mut step).await?;
                continue;
            }
            let all_run = self.processes.iter().all(|process| process.state == Alive::Running);
            if step.is_none() && (next.is_some() || all_run) && self.is_quiet() {
                if self.end_holds(if next.is_none() { Rest::Forever } else { Rest::Quiet }) {
                    continue;
                }
                self.note_quiet(all_run)?;
                if self.crash_at_rest().await {
                    continue;
                }
                let Some(next) = next else { return Ok(()) };
                step = Some(self.begin_step(next));
                continue;
            }
            if self.end_long_holds() {
                continue;
            }
            let unrest = self.unrest_since.elapsed();
            match &step {
                Some(step) if unrest > LONGEST_STEP => return Err(step.took_too_long()),
                None if unrest > LONGEST_UNREST => return Err(self.never_quiet()),
                _ => {}
            }
            self.pass_time(&mut step).await;
        }
    }

    fn begin_step(&mut self, step: &crate::user::Step) -> Attempt {
        self.begun += 1;
        self.log(Action::Step(step.name.to_string()));
        self.unrest_since = Instant::now();
        Attempt::begin(step, &self.user)
    }

    /// Waits until no task can run.
    async fn settle(&mut self, step: &mut Option<Attempt>) -> Result<(), End> {
        let before = if self.definition.looks_at_real_time { RealTime::now() } else { None };
        {
            let mut idle = pin!(self.idle.reached());
            poll_fn(|context| {
                // The step is part of this future, so an idle report may come before its next poll: poll it first.
                if let Some(step) = step {
                    step.poll(context);
                }
                idle.as_mut().poll(context)
            })
            .await;
        }
        self.blocked_now += before.map(RealTime::blocked).unwrap_or_default();
        if self.idle.was_kicked() {
            return Err(End::Stuck { actions: self.last_actions() });
        }
        if self.has_threads.load(Ordering::Relaxed) {
            return Err(End::Threads);
        }
        Ok(())
    }

    /// Notes for how long the thread was blocked.
    fn note_blocked(&mut self) {
        let time = std::mem::take(&mut self.blocked_now);
        if time >= BLOCKED {
            self.blocked.insert(self.trace.len(), time);
        }
    }

    fn last_actions(&self) -> Vec<String> {
        let mut last: Vec<String> = self.trace.iter().rev().take(6).map(ToString::to_string).collect();
        last.reverse();
        last
    }

    /// Lets the garbage collector act.
    async fn collect(&mut self, step: &mut Option<Attempt>) -> Result<(), End> {
        (self.collect_early, self.collect_late) = (false, false);
        let last = self.trace.len();
        self.server.hold_controllers(false);
        let settled = self.settle(step).await;
        self.server.hold_controllers(true);
        settled?;
        self.take_news()?;
        let is_collected = |entry: &Entry| matches!(&entry.action, Action::Committed(change) if change.actor == Actor::Server);
        if self.trace[last..].iter().any(is_collected) {
            self.collected.push(self.begun);
        }
        Ok(())
    }

    /// Crashes the operator if the plan says so.
    async fn crash_at_rest(&mut self) -> bool {
        let is_now = |deviation: &Deviation| {
            deviation.what == What::CrashAtRest && usize::try_from(deviation.number) == Ok(self.begun)
        };
        let Some(place) = self.plan.iter().position(is_now) else { return false };
        let Some(actor) = self.active_operator() else { return false };
        self.plan.remove(place);
        self.crash(actor, "while the world is quiet", Restart::AtOnce).await;
        true
    }

    async fn pass_time(&mut self, step: &mut Option<Attempt>) {
        let before = Instant::now();
        let down = self.processes.iter().filter_map(|process| match process.state {
            Alive::Down { until, .. } => Some(until),
            Alive::Running => None,
        });
        let deadlines = down
            .chain(self.holds.iter().map(Hold::deadline))
            .chain(self.paused.iter().map(|paused| paused.until))
            .chain(self.early_step_deadline())
            .chain(self.hub.next_late());
        let next = deadlines.filter(|deadline| *deadline > before).min();
        let limit = next.map_or(Duration::MAX, |next| next.duration_since(before));
        {
            let mut passed = pin!(self.idle.time_passed(limit));
            poll_fn(|context| {
                if let Some(step) = step {
                    step.poll(context);
                }
                passed.as_mut().poll(context)
            })
            .await;
        }
        if Instant::now() > before {
            self.at_once = 0;
            self.calls_at_once.clear();
        }
    }

    fn log(&mut self, action: Action) {
        self.watched.beat(&action);
        self.trace.push(Entry { at: self.start.elapsed(), action });
    }
}

/// Text of an error with its causes.
fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
