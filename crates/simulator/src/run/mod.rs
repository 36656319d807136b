//! One run of a simulation: makes a world, and takes one action whenever no task can run.
//!
//! The run without faults always takes the first possible of these: the oldest response is delivered; the oldest call is carried
//! out; the watch with the oldest unread line delivers all its lines; the API server's garbage collector acts; the user takes the
//! next step, if the world is quiet; time jumps to the next timer. A plan deviates from that at the calls and lines that it names.
//!
//! The bounds are in the modules: those of actions and virtual time in `action_loop`, of attempts, holds and processes in the modules of these names,
//! and of actions without time passing in [`Limits`].

mod action_loop;
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
    holds::Hold,
    process::{Alive, Process},
};
use crate::{
    definition::Definition,
    gate::Gate,
    hub::Hub,
    idle::Idle,
    names::Actor,
    plan::{Deviation, Plan, What},
    reconciles::Reconciles,
    remote::Remotes,
    similar::World,
    trace::{Action, Entry},
    truth::Truth,
    user::User,
    watchdog::Watched,
};

/// Seed of a run, and with it its epoch: runs with equal seeds and plans are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed(pub(crate) u64);

/// Plays a plan.
pub(crate) fn play(definition: &Definition, plan: &Plan, seed: Seed, limits: &Limits) -> Outcome {
    // Set before any code that may draw a random number.
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
        // Also avoids the cost of formatting logs in thousands of runs.
        let _subscriber = tracing::dispatcher::set_default(&reconciles.subscriber());
        let hooks = Hooks { idle, watched, has_threads, reconciles };
        Run::new(definition, plan, seed, limits, hooks).until_the_end().await
    });
    // A thread of the pool that blocks forever would block this thread as well.
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
    /// Reconciles in progress: controllers and requests.
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
    /// Caller of a call, and the deviation that happens when its response is due, by number of the call.
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
    /// Recorded blocked times, by number of earlier entries of the trace.
    blocked: BTreeMap<usize, Duration>,
    /// Blocked time since the last record.
    blocked_now: Duration,
    /// States of the remote systems at the last check, and number of calls at that time.
    remote_states: BTreeMap<Arc<str>, Value>,
    effects_seen: usize,
    /// Number of remote effects so far.
    effects: usize,
    /// Number of steps that have begun.
    begun: usize,
    /// Time from which the world must become quiet: the last step, crash or start.
    unrest_since: Instant,
    /// Number of actions since time passed, the largest such number so far, and calls of each name.
    at_once: usize,
    most_at_once: usize,
    calls_at_once: BTreeMap<String, usize>,
    /// Number of changes of each object that is too many.
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
        self.server.hold_controllers();
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
