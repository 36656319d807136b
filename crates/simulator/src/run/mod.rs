//! One run of a simulation: makes a world, and takes one action whenever no task can run.
//!
//! The run without faults always takes the first possible of these: the oldest answer is delivered; the oldest call is carried
//! out; the watch with the oldest unread line delivers all its lines; the API server's garbage collector acts; the user takes the
//! next step, if the world is quiet; time jumps to the next timer. A plan deviates from that at the calls and lines that it names.
//!
//! The bounds are in the modules: those of actions and virtual time in `action_loop`, of attempts, holds and processes in the modules of these names,
//! and of actions without time passing in [`Limits`].

mod action_loop;
mod actions;
mod attempt;
mod changes;
mod crash_point;
mod delayed_call;
mod expected;
mod holds;
mod merge;
mod outcome;
mod pace;
mod process;
mod quiet;
mod real_time;
mod start;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use kube_apiserver_embedded::ApiServer;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    runtime::Builder,
    task::JoinSet,
    time::{Duration, Instant, advance},
};

use self::{
    actions::{DueAnswer, Outage, PausedActor},
    crash_point::can_be_copied,
    delayed_call::DelayedCall,
    holds::Hold,
    merge::Merge,
    process::Process,
    quiet::LongWait,
    real_time::RealTime,
};
pub(crate) use self::{
    crash_point::{CrashPoint, CrashPoints, only_crash},
    expected::Expected,
    outcome::{ArrivedLine, End, Limits, Outcome, QuietWorld, Read, Write},
    pace::Pace,
    start::Start,
};
use crate::{
    definition::Definition,
    gate::Gate,
    hub::Hub,
    idle::Idle,
    names::{Actor, CallName},
    plan::{Deviation, DeviationKind, Plan, Restart},
    reconciles::Reconciles,
    remote::Remotes,
    trace::{Action, Entry},
    truth::Truth,
    user::User,
    watchdog::Watched,
};

/// Seed of a run, and with it its epoch: runs with equal seeds and plans are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed(pub(crate) u64);

/// Circumstances of a run: runs with equal circumstances and plans are equal.
#[derive(Clone, Copy)]
pub(crate) struct Circumstances<'c> {
    pub(crate) seed: Seed,
    pub(crate) start: &'c Start,
    pub(crate) limits: &'c Limits,
    /// The run without faults. With it, the run may end before the last step if nothing of its deviations is left.
    pub(crate) expected: Option<&'c Expected>,
    pub(crate) beginning: Beginning<'c>,
    pub(crate) pace: Pace,
}

/// Beginning of a run.
#[derive(Clone, Copy)]
pub(crate) enum Beginning<'c> {
    /// The start of the world.
    Start,
    /// Like [`Start`](Self::Start), and the crashes at which other runs can begin are noted.
    StartAndNote,
    /// A crash of the run without faults, and the restart after it, which is all of the plan.
    Crash(&'c CrashPoint, Restart),
}

/// Plays a plan.
pub(crate) fn play(definition: &Definition, plan: &Plan, circumstances: Circumstances<'_>) -> Outcome {
    let Circumstances { seed, start, .. } = circumstances;
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
    // The operator, the server and the driver share this thread and the paused clock.
    let outcome = runtime.block_on(async {
        let _epoch = seed.set_time(start.at());
        if let Beginning::Crash(point, _) = circumstances.beginning {
            // Before anything waits, so that all timers are those of a run from the start.
            advance(point.at).await;
        }
        let reconciles = Reconciles::default();
        // Also avoids the cost of formatting logs in thousands of runs.
        let _subscriber = tracing::dispatcher::set_default(&reconciles.subscriber());
        let hooks = Hooks { idle, watched, has_threads, reconciles };
        Run::new(definition, plan, circumstances, hooks).until_the_end(circumstances.beginning).await
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
    /// Numbers of reconciles in progress, by controller and request.
    open: BTreeMap<(Arc<str>, Arc<str>), usize>,
    /// Writes that processes sent while another replica led.
    without_lead: BTreeMap<String, String>,
    /// Deviations that have not happened yet.
    plan: Vec<Deviation>,
    /// Deviations that did not happen at their places: another one took their effect, or a step could not begin.
    missed: Vec<Deviation>,
    /// Streams that are held back.
    holds: Vec<Hold>,
    /// Actors that are paused.
    paused: Vec<PausedActor>,
    delayed: Option<DelayedCall>,
    outage: Option<Outage>,
    /// Whether the garbage collector acts before anything else.
    collect_early: bool,
    /// Whether there are commits since the garbage collector acted.
    collect_late: bool,
    /// Deviations that happen when an answer is due, by number of the call.
    due: BTreeMap<u64, DueAnswer>,
    /// Count of calls by name.
    counts: BTreeMap<String, u32>,
    /// Numbers of writes in each life of a process.
    writes_of_lives: BTreeMap<Actor, u32>,
    /// Numbers of the writes that are not answered yet, by id of the call.
    numbers: BTreeMap<u64, u32>,
    start: Instant,
    trace: Vec<Entry>,
    writes: Vec<Write>,
    reads: Vec<Read>,
    /// Names of the reads since the last step began.
    reads_of_step: BTreeSet<String>,
    /// Lines that watches under test received.
    lines: Vec<ArrivedLine>,
    /// Writes of the operator that are not answered yet: indices into `writes`, by id of the call.
    written: BTreeMap<u64, usize>,
    /// Whether something else changed the world since the operator's last write.
    others_changed: bool,
    quiet: BTreeMap<usize, QuietWorld>,
    merge: Merge<'d>,
    /// Crashes at which other runs can begin, if they are to be noted.
    crash_points: Option<CrashPoints>,
    /// Whether the user takes a step.
    step_runs: bool,
    /// Steps during or after which the garbage collector changed something.
    collected: Vec<usize>,
    /// Last errors that the operator logged.
    errors: Vec<String>,
    /// Conditions on changes that have held, as indices of the definition's checks.
    held: BTreeSet<usize>,
    /// Recorded blocked times, by number of earlier entries of the trace.
    blocked: BTreeMap<usize, Duration>,
    /// Looks for blocked time, if this run is to.
    real_time: Option<RealTime>,
    /// Blocked time since the last record.
    blocked_now: Duration,
    /// States of the remote systems at the last check, and number of effects at that time.
    remote_states: BTreeMap<Arc<str>, Value>,
    effects_seen: usize,
    /// Number of remote effects so far.
    effects: usize,
    /// Number of steps that have begun.
    begun: usize,
    /// Time from which the world must become quiet: the last step, crash or start.
    unrest_since: Instant,
    /// A wait for requests that are due late, and number of such waits that ended with a change since the last step or crash.
    long_wait: Option<LongWait>,
    wakes: u32,
    /// Number of actions since time passed, the largest such number so far, and number of calls of each name since time passed.
    at_once: usize,
    most_at_once: usize,
    calls_at_once: BTreeMap<Arc<CallName>, usize>,
    /// The largest number in `calls_at_once`.
    most_calls_at_once: usize,
    /// Number of changes of each object that is too many.
    limits: Limits,
}

impl<'d> Run<'d> {
    fn new(definition: &'d Definition, plan: &Plan, circumstances: Circumstances<'d>, hooks: Hooks) -> Self {
        let Circumstances { seed, start: world, limits, expected, beginning, pace } = circumstances;
        let merge = Merge::with(expected, definition, plan);
        let Hooks { idle, watched, has_threads, reconciles } = hooks;
        let server = match beginning {
            Beginning::Crash(point, _) => Start::server_at(seed, &point.server),
            Beginning::Start | Beginning::StartAndNote => world.server(seed),
        };
        let notes_crashes = matches!(beginning, Beginning::StartAndNote) && can_be_copied(definition);
        let (hub, pumps) = (Hub::default(), Arc::new(Mutex::new(JoinSet::new())));
        if pace == Pace::Fast {
            hub.prefer_user();
        }
        let truth = Arc::new(Mutex::new(Truth::new(definition.masks.clone())));
        let remotes = definition.remotes.iter();
        let remotes = remotes.map(|(name, make)| (Arc::clone(name), make(Arc::clone(name))));
        let gate = Gate {
            hub: hub.clone(),
            actor: Actor::User,
            server: server.clone(),
            rights: None,
            wait_before_writes: pace.wait_before_writes(),
            pumps: Arc::clone(&pumps),
        };
        // A run that begins at a crash has the times of a run from the start, so that both traces are alike.
        let start = match beginning {
            Beginning::Crash(point, _) => Instant::now() - point.at,
            Beginning::Start | Beginning::StartAndNote => Instant::now(),
        };
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
            user: User::new(gate),
            reconciles,
            open: BTreeMap::new(),
            without_lead: BTreeMap::new(),
            plan: plan.deviations.clone(),
            missed: Vec::new(),
            holds: Vec::new(),
            paused: Vec::new(),
            delayed: None,
            outage: None,
            collect_early: false,
            collect_late: false,
            lines: Vec::new(),
            due: BTreeMap::new(),
            counts: BTreeMap::new(),
            writes_of_lives: BTreeMap::new(),
            numbers: BTreeMap::new(),
            start,
            trace: Vec::new(),
            writes: Vec::new(),
            reads: Vec::new(),
            reads_of_step: BTreeSet::new(),
            written: BTreeMap::new(),
            others_changed: false,
            quiet: BTreeMap::new(),
            merge,
            crash_points: notes_crashes.then(CrashPoints::new),
            step_runs: false,
            collected: Vec::new(),
            errors: Vec::new(),
            held: BTreeSet::new(),
            blocked: BTreeMap::new(),
            real_time: definition.looks_at_real_time.then(RealTime::new),
            blocked_now: Duration::ZERO,
            remote_states,
            effects_seen: 0,
            effects: 0,
            begun: 0,
            unrest_since: start,
            long_wait: None,
            wakes: 0,
            at_once: 0,
            most_at_once: 0,
            calls_at_once: BTreeMap::new(),
            most_calls_at_once: 0,
            limits: limits.clone(),
        }
    }

    async fn until_the_end(mut self, beginning: Beginning<'_>) -> Outcome {
        self.prepare().await;
        if let Beginning::Crash(point, restart) = beginning {
            self.continue_from(point, restart);
        }
        let mut end = self.act_until_done().await.err().unwrap_or(End::Quiet);
        // Read before the processes end: their managers know the failing requests.
        let failing = self.failing();
        self.end_processes().await;
        if end == End::Quiet {
            self.idle.reached().await;
            end = self.check_for_leaks().err().unwrap_or(End::Quiet);
        }
        let counts = self.truth.lock().counts.clone();
        // Answers that never became due belong to calls that their callers gave up.
        let due = self.due.into_values().flat_map(DueAnswer::into_deviations);
        let did_not_happen = self.plan.into_iter().chain(self.missed).chain(due).collect();
        Outcome {
            end,
            trace: self.trace,
            quiet: self.quiet,
            merged_after: self.merge.merged_after(),
            counts,
            most_at_once: self.most_at_once,
            writes: self.writes,
            reads: self.reads,
            lines: self.lines,
            without_lead: self.without_lead,
            collected: self.collected,
            failing,
            errors: self.errors,
            held: self.held,
            blocked: self.blocked,
            crash_points: self.crash_points.unwrap_or_default(),
            did_not_happen,
        }
    }

    /// Follows all commits from now on, and prepares the deviations that begin without a call.
    async fn prepare(&mut self) {
        // The server's controllers first process the objects that exist already.
        self.idle.reached().await;
        let truth = Arc::clone(&self.truth);
        let is_first = self.server.observe_commits(move |commit| truth.lock().record(commit));
        debug_assert!(is_first, "a new server has no other observer");
        self.unrest_since = Instant::now();
        for deviation in &self.plan {
            match deviation.what {
                DeviationKind::Hold(_) | DeviationKind::Relist(_) => {
                    self.hub.hold_from(&deviation.call, deviation.number);
                }
                DeviationKind::Apart => self.hub.keep_apart(&deviation.call),
                DeviationKind::Late => self.hub.keep_late(&deviation.call),
                DeviationKind::Shuffle => self.hub.shuffle(deviation.number.into()),
                _ => {}
            }
        }
        // A drawn order has happened as soon as it is set. A deviation that stays in the plan counts as one
        // that did not happen.
        self.plan.retain(|deviation| deviation.what != DeviationKind::Shuffle);
    }

    fn log(&mut self, action: Action) {
        self.watched.beat(action.clone());
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
