//! One run of a simulation: makes a world, and takes one action whenever no task can run.
//!
//! The run without faults always takes the first possible of these: the oldest answer is handed over; the oldest call is carried
//! out; the watch with the oldest unread line hands all its lines over; the user takes the next step, if the world is quiet; time
//! jumps to the next timer. A plan deviates from that at the calls that it names.
//!
//! Bounds: [`ACTIONS`] in a run and [`ACTIONS_AT_ONCE`] without time passing; [`LONGEST_UNREST`] of virtual time until the world
//! is quiet; [`ATTEMPTS`] of a step; [`ENDS`] of the operator.

use std::{
    collections::BTreeMap,
    future::{Future, pending, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use controller_runtime::{BoxError, controller::Overview, manager::WeakManager};
use kube_apiserver_embedded::{
    ApiServer, Options, Profile,
    faults::{Action as FaultAction, Failure, Rule},
};
use kube_clock::Epoch;
use kube_envtest::install_crds;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    runtime::{Builder, Handle},
    task::JoinSet,
    time::{Duration, Instant, sleep},
};

use crate::{
    definition::{Definition, Now, When},
    gate::Gate,
    hub::{Hub, Order, Possible, Seen, Told},
    idle::Idle,
    names::{Actor, ObjectId},
    plan::{Deviation, Plan, Refusal, Restart, Until, What},
    reconciles::{Reconcile, Reconciles},
    remote::{Remotes, SetUp},
    similar::World,
    trace::{Action, Entry},
    truth::{Counts, Truth},
    user::{Step, User},
};

/// Virtual time without a visible change after which the world counts as quiet: more than the longest back-off, 1000 s.
const QUIET_AFTER: Duration = Duration::from_secs(1200);

/// Like [`QUIET_AFTER`], but while no request of the operator's controllers waits.
const QUIET_AT_REST: Duration = Duration::from_secs(60);

/// Like [`QUIET_AFTER`], but while a plan holds lines back.
const QUIET_WHILE_HELD: Duration = Duration::from_secs(5);

/// Virtual time after which a hold ends in any case.
const LONGEST_HOLD: Duration = Duration::from_secs(600);

/// Virtual time within which the world must become quiet after a step or a crash.
const LONGEST_UNREST: Duration = Duration::from_secs(3600);

/// Virtual time that a hold waits for further lines.
const LONGEST_WAIT_FOR_LINES: Duration = Duration::from_secs(10);

/// Maximum number of actions in a run.
const ACTIONS: usize = 200_000;

/// Maximum number of actions without time passing: more is a loop.
const ACTIONS_AT_ONCE: usize = 5_000;

/// Maximum number of attempts of a step, one a virtual second.
const ATTEMPTS: usize = 600;

/// Virtual time after which an operator that waits for a step to be done is started all the same: the step may need it.
const LONGEST_DOWN: Duration = Duration::from_secs(60);

/// Delay until an operator that ended by itself is started again, and maximum number of such ends.
const BACK_AFTER: Duration = Duration::from_secs(10);
const ENDS: usize = 5;

/// Seed of a run, and with it its epoch: runs with equal seeds and plans are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed(pub(crate) u64);

/// A call of the operator that changed or may have changed the world, in the order in which they were carried out.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    /// Name, and count of calls of that name.
    pub(crate) call: String,
    pub(crate) number: u32,
    /// Step during or after which it was made; 0 is before the first.
    pub(crate) step: usize,
    /// Whether it changed a compared object.
    pub(crate) is_visible: bool,
    /// Whether something else changed the world since the operator's write before.
    pub(crate) is_after_others: bool,
}

impl Write {
    /// Whether it is an effect on a remote system.
    pub(crate) fn is_effect(&self) -> bool {
        self.call.contains(" at ")
    }
}

/// A line of a watch that reports a change of an object, in the order of arrival.
#[derive(Debug, Clone)]
pub(crate) struct ArrivedLine {
    /// Name of the line, such as `configmaps MODIFIED default/page`, and count of lines of that name.
    pub(crate) line: String,
    pub(crate) number: u32,
    /// Step during or after which it arrived; 0 is before the first.
    pub(crate) step: usize,
}

impl ArrivedLine {
    pub(crate) fn resource(&self) -> &str {
        resource_of(&self.line)
    }
}

/// Resource in the name of a line.
fn resource_of(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

/// A resource that is held back from the operator.
struct Hold {
    resource: String,
    until: Until,
    since: Instant,
    /// Step after which the hold began.
    step: usize,
    /// Lines about the resource, lines about others, and ends of reconciles since.
    lines: u32,
    other_lines: u32,
    reconciles: u32,
}

/// End of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// All steps are done and the world is quiet.
    #[default]
    Quiet,
    /// The world did not become quiet; the last changes.
    NeverQuiet { changes: Vec<String> },
    /// Actions followed each other without time passing; the last ones.
    Loop { actions: Vec<String> },
    /// A step did not succeed.
    StepFailed { step: String, reason: String },
    /// The operator cannot be made, or ends by itself again and again.
    OperatorEnded { reason: String },
    /// Tasks of the operator survive its crash.
    Leaked { tasks: usize },
    /// A check of the user's does not hold.
    CheckFailed { check: String, when: String },
}

/// Result of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) end: End,
    pub(crate) trace: Vec<Entry>,
    /// The world before the first step, after each step, and so on, whenever it was quiet.
    pub(crate) quiet: Vec<World>,
    pub(crate) counts: BTreeMap<ObjectId, Counts>,
    pub(crate) writes: Vec<Write>,
    pub(crate) lines: Vec<ArrivedLine>,
    /// Deviations of the plan that found no place.
    pub(crate) did_not_happen: Vec<Deviation>,
}

/// Plays a plan.
pub(crate) fn play(definition: &Definition, plan: &Plan, seed: Seed) -> Outcome {
    // Before anything is built that may draw a number.
    fastrand::seed(seed.0 ^ 0x5eed);
    let idle = Idle::default();
    let mut builder = Builder::new_current_thread();
    // Without an I/O driver, so that sockets of the operator fail with an error that names them.
    let runtime = builder.enable_time().start_paused(true).on_thread_park(idle.hook()).build();
    let runtime = runtime.expect("a runtime on this thread needs no resources that may lack");
    runtime.block_on(async {
        // Seeds differ by a day and some milliseconds.
        let epoch = jiff::Timestamp::UNIX_EPOCH
            + jiff::SignedDuration::from_millis(1_767_225_600_000 + 86_400_123 * (seed.0 % 1000) as i64);
        let _epoch = Epoch::starting_now(epoch).for_this_thread();
        let reconciles = Reconciles::default();
        // Also spares the work for logs, which thousands of runs would repeat.
        let _subscriber = tracing::subscriber::set_default(reconciles.subscriber());
        Run::new(definition, plan, seed, idle, reconciles).until_the_end().await
    })
}

struct Run<'d> {
    definition: &'d Definition,
    idle: Idle,
    hub: Hub,
    server: ApiServer,
    truth: Arc<Mutex<Truth>>,
    remotes: Remotes,
    pumps: Arc<Mutex<JoinSet<()>>>,
    /// Calls that the server works on.
    working: JoinSet<()>,
    operator: Operator,
    user: User,
    reconciles: Reconciles,
    /// Deviations that have not happened yet.
    plan: Vec<Deviation>,
    /// Resources that are held back from the operator.
    holds: Vec<Hold>,
    /// Deviation that happens when the answer of a call is due, by number of the call.
    due: BTreeMap<u64, What>,
    /// Count of calls by name.
    counts: BTreeMap<String, u32>,
    start: Instant,
    trace: Vec<Entry>,
    writes: Vec<Write>,
    /// Lines of watches that the operator received.
    lines: Vec<ArrivedLine>,
    /// Number of calls of the operator that are being carried out, by id of the call, as index into `writes`.
    written: BTreeMap<u64, usize>,
    /// Whether something else changed the world since the operator's last write.
    others_changed: bool,
    quiet: Vec<World>,
    /// States of the remote systems at the last look, and number of calls at it.
    remote_states: BTreeMap<Arc<str>, Value>,
    effects_seen: usize,
    /// Number of remote effects so far.
    effects: usize,
    /// Number of steps that have begun.
    begun: usize,
    /// Time from which the world must become quiet: the last step, crash or start.
    unrest_since: Instant,
    /// Actions since time passed.
    at_once: usize,
}

/// Degree to which the world is at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    No,
    /// Quiet except for held calls and lines, and a step follows.
    Quiet,
    /// Quiet except for held calls and lines, and nothing follows.
    Forever,
}

/// The operator under test, in its lives.
struct Operator {
    actor: Actor,
    /// Holds the task of the process, so that dropping the set ends it.
    task: JoinSet<Result<(), BoxError>>,
    state: Alive,
    ends: usize,
    /// Tasks of the runtime before the first start.
    tasks_of_others: Option<usize>,
    manager: Option<WeakManager>,
}

impl Operator {
    /// Whether its controllers have nothing to do and nothing to wait for.
    fn is_at_rest(&self) -> bool {
        let manager = self.manager.as_ref().and_then(WeakManager::upgrade);
        let is_idle = |queue: &Overview| {
            queue.queued + queue.waiting + queue.running == 0 && queue.failed_events.is_empty()
        };
        manager.is_some_and(|manager| manager.overview().iter().all(is_idle))
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Alive {
    Running,
    /// Down until this time, or until that many steps are done.
    Down {
        until: Instant,
        steps: Option<usize>,
    },
}

impl<'d> Run<'d> {
    fn new(definition: &'d Definition, plan: &Plan, seed: Seed, idle: Idle, reconciles: Reconciles) -> Self {
        let server = ApiServer::start(Options::default().profile(Profile::Dev).seed(seed.0));
        let (hub, pumps) = (Hub::default(), Arc::new(Mutex::new(JoinSet::new())));
        let truth = Arc::new(Mutex::new(Truth::new()));
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
            hub,
            server,
            truth,
            remotes,
            pumps,
            working: JoinSet::new(),
            operator: Operator {
                actor: Actor::Operator { life: 0 },
                task: JoinSet::new(),
                state: Alive::Down { until: start, steps: None },
                ends: 0,
                tasks_of_others: None,
                manager: None,
            },
            user: User::new(gate.client()),
            reconciles,
            plan: plan.deviations.clone(),
            holds: Vec::new(),
            lines: Vec::new(),
            due: BTreeMap::new(),
            counts: BTreeMap::new(),
            start,
            trace: Vec::new(),
            writes: Vec::new(),
            written: BTreeMap::new(),
            others_changed: false,
            quiet: Vec::new(),
            remote_states,
            effects_seen: 0,
            effects: 0,
            begun: 0,
            unrest_since: start,
            at_once: 0,
        }
    }

    async fn until_the_end(mut self) -> Outcome {
        let end = match self.prepare().await {
            Ok(()) => match self.act_until_done().await {
                Ok(()) => End::Quiet,
                Err(end) => end,
            },
            Err(end) => end,
        };
        self.hub.cut(self.operator.actor);
        self.operator.task.abort_all();
        let counts = self.truth.lock().counts.clone();
        Outcome {
            end,
            trace: self.trace,
            quiet: self.quiet,
            counts,
            writes: self.writes,
            lines: self.lines,
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
        let truth = Arc::clone(&self.truth);
        let is_first = self.server.observe_commits(move |commit| truth.lock().record(commit));
        debug_assert!(is_first, "a new server has no other observer");
        (self.start, self.unrest_since) = (Instant::now(), Instant::now());
        for deviation in &self.plan {
            match deviation.what {
                What::Hold(_) => self.hub.hold_from(&deviation.call, deviation.number),
                What::Apart => self.hub.keep_apart(&deviation.call),
                _ => {}
            }
        }
        Ok(())
    }

    async fn act_until_done(&mut self) -> Result<(), End> {
        let steps = self.definition.steps.clone();
        let mut step: Option<Attempt> = None;
        loop {
            self.settle(&mut step).await;
            self.take_news()?;
            self.take_lines();
            self.look_at_operator()?;
            self.end_holds(Rest::No);
            if let Some(Attempt { result: Some(result), name, .. }) = &step {
                if let Err(reason) = result {
                    return Err(End::StepFailed { step: name.clone(), reason: reason.clone() });
                }
                self.log(Action::StepDone(name.clone()));
                self.unrest_since = Instant::now();
                step = None;
                self.restart_after_step()?;
                continue;
            }
            if self.at_once > ACTIONS_AT_ONCE || self.trace.len() > ACTIONS {
                let last = self.trace.iter().rev().take(6).map(ToString::to_string);
                return Err(End::Loop { actions: last.collect::<Vec<_>>().into_iter().rev().collect() });
            }
            if let Some(possible) = self.hub.next() {
                self.at_once += 1;
                self.take_action(possible).await?;
                continue;
            }
            let next = steps.get(self.begun);
            let can_go_on = next.is_some() || self.operator.state == Alive::Running;
            if step.is_none() && can_go_on && self.is_quiet() {
                if self.end_holds(if next.is_none() { Rest::Forever } else { Rest::Quiet }) {
                    continue;
                }
                self.note_quiet()?;
                let Some(next) = next else { return Ok(()) };
                self.begun += 1;
                self.log(Action::Step(next.name.to_string()));
                self.unrest_since = Instant::now();
                step = Some(Attempt::begin(next, &self.user));
                continue;
            }
            if self.holds.iter().any(|hold| hold.since.elapsed() > LONGEST_HOLD) {
                self.end_holds(Rest::Forever);
                continue;
            }
            if self.unrest_since.elapsed() > LONGEST_UNREST {
                return Err(self.never_quiet());
            }
            self.pass_time(&mut step).await;
        }
    }

    /// Waits until no task can run.
    async fn settle(&self, step: &mut Option<Attempt>) {
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

    async fn pass_time(&mut self, step: &mut Option<Attempt>) {
        let before = Instant::now();
        {
            let mut passed = pin!(self.idle.time_passed());
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
        }
    }

    /// Moves commits since the last look into the trace, and checks conditions that must always hold.
    fn take_news(&mut self) -> Result<(), End> {
        let news = std::mem::take(&mut self.truth.lock().news);
        let mut is_visible = false;
        for change in news {
            if change.is_visible {
                is_visible = true;
                match self.written.values().max() {
                    Some(write) if change.actor == self.operator.actor => {
                        self.writes[*write].is_visible = true;
                    }
                    _ => self.others_changed = true,
                }
            }
            self.log(Action::Committed(change));
        }
        if self.remotes_changed() {
            is_visible = true;
            self.truth.lock().last_visible = Instant::now();
            match self.written.values().max() {
                Some(write) => self.writes[*write].is_visible = true,
                None => self.others_changed = true,
            }
        }
        if is_visible { self.check(When::Always) } else { Ok(()) }
    }

    /// Returns whether a remote system changed since the last call.
    fn remotes_changed(&mut self) -> bool {
        if self.remotes.is_empty() || self.effects == self.effects_seen {
            return false;
        }
        self.effects_seen = self.effects;
        let states = self.states();
        let is_changed = states != self.remote_states;
        self.remote_states = states;
        is_changed
    }

    fn states(&self) -> BTreeMap<Arc<str>, Value> {
        self.remotes.iter().map(|(name, remote)| (Arc::clone(name), remote.state())).collect()
    }

    fn check(&self, when: When) -> Result<(), End> {
        let mut checks = self.definition.checks.iter().filter(|check| check.when == when).peekable();
        if checks.peek().is_none() {
            return Ok(());
        }
        let world = self.world();
        let failed = checks.find(|check| !(check.holds)(&Now { world: &world }));
        failed.map_or(Ok(()), |check| {
            let when = match self.begun {
                0 => "before the first step".to_owned(),
                begun => format!("after the step {:?} began", self.definition.steps[begun - 1].name),
            };
            Err(End::CheckFailed { check: check.name.to_string(), when })
        })
    }

    fn world(&self) -> World {
        World { objects: self.truth.lock().objects.clone(), remotes: self.states() }
    }

    /// Moves arrived lines and reconciles into the trace, and counts them for the holds.
    fn take_lines(&mut self) {
        for (line, number) in self.hub.take_arrived() {
            let resource = resource_of(&line);
            for hold in self.holds.iter_mut().filter(|hold| hold.resource == resource) {
                hold.lines += 1;
            }
            let begins = |deviation: &Deviation| {
                matches!(deviation.what, What::Hold(_))
                    && deviation.call == line
                    && deviation.number == number
            };
            if let Some(place) = self.plan.iter().position(begins)
                && let What::Hold(until) = self.plan.remove(place).what
            {
                self.log(Action::Held { what: format!("lines about {resource}, from {line} on") });
                let hold = Hold {
                    resource: resource.to_owned(),
                    until,
                    since: Instant::now(),
                    step: self.begun,
                    lines: 0,
                    other_lines: 0,
                    reconciles: 0,
                };
                self.holds.push(hold);
            }
            self.lines.push(ArrivedLine { line, number, step: self.begun });
        }
        let actor = self.operator.actor;
        for reconcile in self.reconciles.take() {
            match reconcile {
                Reconcile::Began(label) => self.log(Action::ReconcileBegan { actor, label }),
                Reconcile::Ended => self.holds.iter_mut().for_each(|hold| hold.reconciles += 1),
            }
        }
    }

    /// Ends the holds that are over, and returns whether there was one.
    fn end_holds(&mut self, rest: Rest) -> bool {
        let is_over = |hold: &Hold| match (rest, hold.until) {
            (Rest::Forever, _) => true,
            (_, Until::NextLine) => hold.lines > 0 || hold.since.elapsed() >= LONGEST_WAIT_FOR_LINES,
            (_, Until::OtherLines) => hold.other_lines > 0 || hold.since.elapsed() >= LONGEST_WAIT_FOR_LINES,
            (_, Until::Reconciles(count)) => hold.reconciles >= count,
            (_, Until::Second) => hold.since.elapsed() >= Duration::from_secs(1),
            (Rest::Quiet, Until::NextStep) => self.begun > hold.step,
            (Rest::No, Until::NextStep) => false,
        };
        let over: Vec<Hold> = self.holds.extract_if(.., |hold| is_over(hold)).collect();
        for hold in &over {
            self.hub.release(&hold.resource);
            self.log(Action::Released { resource: hold.resource.clone() });
            self.unrest_since = Instant::now();
        }
        !over.is_empty()
    }

    /// Whether nothing more happens by itself. While the operator is down, nothing it does need be waited for.
    fn is_quiet(&self) -> bool {
        let since = self.truth.lock().last_visible.max(self.unrest_since);
        match self.operator.state {
            // A hold lasts long enough to be noticed by the runtime otherwise, which opens the watch again.
            Alive::Running if !self.holds.is_empty() => since.elapsed() >= QUIET_WHILE_HELD,
            Alive::Running if self.operator.is_at_rest() => since.elapsed() >= QUIET_AT_REST,
            Alive::Running => since.elapsed() >= QUIET_AFTER,
            Alive::Down { steps, .. } => steps.is_some() && self.working.is_empty(),
        }
    }

    /// Records the world as it is while quiet.
    fn note_quiet(&mut self) -> Result<(), End> {
        self.quiet.push(self.world());
        // A check of a quiet world makes sense only with an operator.
        if self.operator.state != Alive::Running {
            return Ok(());
        }
        self.log(Action::Quiet);
        self.check(When::Quiet)
    }

    fn never_quiet(&self) -> End {
        let visible = self
            .trace
            .iter()
            .filter(|entry| matches!(&entry.action, Action::Committed(change) if change.is_visible));
        let mut changes: Vec<String> = visible.rev().take(6).map(ToString::to_string).collect();
        changes.reverse();
        End::NeverQuiet { changes }
    }

    /// Starts the operator if it is due, and notes if it has ended.
    fn look_at_operator(&mut self) -> Result<(), End> {
        if let Some(ended) = self.operator.task.try_join_next() {
            let reason = match ended {
                Ok(Ok(())) => "it returned".to_owned(),
                Ok(Err(error)) => describe(&*error),
                Err(error) => error.to_string(),
            };
            self.hub.cut(self.operator.actor);
            self.log(Action::Ended { actor: self.operator.actor, reason: reason.clone() });
            self.operator.ends += 1;
            if self.operator.ends >= ENDS {
                return Err(End::OperatorEnded { reason });
            }
            self.operator.state = Alive::Down { until: Instant::now() + BACK_AFTER, steps: None };
            self.next_life();
        }
        match self.operator.state {
            Alive::Down { until, .. } if Instant::now() >= until => self.start(),
            _ => Ok(()),
        }
    }

    fn next_life(&mut self) {
        if let Actor::Operator { life } = self.operator.actor {
            self.operator.actor = Actor::Operator { life: life + 1 };
        }
    }

    fn start(&mut self) -> Result<(), End> {
        let others = self.tasks_of_others();
        let leaked = others.saturating_sub(*self.operator.tasks_of_others.get_or_insert(others));
        if leaked > 0 {
            return Err(End::Leaked { tasks: leaked });
        }
        let actor = self.operator.actor;
        self.log(Action::Start(actor));
        let gate = Gate {
            hub: self.hub.clone(),
            actor,
            server: self.server.clone(),
            pumps: Arc::clone(&self.pumps),
        };
        let client = gate.client();
        let client = match &self.definition.rights {
            Some(rights) => rights.client(client),
            None => client,
        };
        let set_up = SetUp { actor, hub: self.hub.clone(), remotes: Arc::clone(&self.remotes) };
        let make = AssertUnwindSafe(|| set_up.during(|| (self.definition.operator)(client)));
        let made = catch_unwind(make).unwrap_or_else(|panic| {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            Err(format!("it panicked: {message}").into())
        });
        let manager = made.map_err(|error| End::OperatorEnded {
            reason: format!("the operator cannot be made: {}", describe(&*error)),
        })?;
        self.operator.manager = Some(manager.downgrade());
        self.operator.task.spawn(async move { manager.run(pending()).await.map_err(Into::into) });
        self.operator.state = Alive::Running;
        self.unrest_since = Instant::now();
        Ok(())
    }

    /// Starts an operator that waits for a step to be done.
    fn restart_after_step(&mut self) -> Result<(), End> {
        match self.operator.state {
            Alive::Down { steps: Some(steps), .. } if self.begun >= steps => self.start(),
            _ => Ok(()),
        }
    }

    /// Counts the tasks of the runtime that neither carry out a call nor read a watch: without the operator, those of the server and
    /// of the user's client, and those that a dead operator has left.
    fn tasks_of_others(&mut self) -> usize {
        let mut pumps = self.pumps.lock();
        while pumps.try_join_next().is_some() {}
        while self.working.try_join_next().is_some() {}
        let alive = Handle::current().metrics().num_alive_tasks();
        alive.saturating_sub(pumps.len() + self.working.len())
    }

    async fn take_action(&mut self, possible: Possible) -> Result<(), End> {
        match possible {
            Possible::CarryOut(seen) => self.carry_out(seen).await,
            Possible::Answer(seen) => self.answer(seen).await,
            Possible::Deliver { watch, actor, name } => {
                let lines = self.hub.deliver(watch);
                if actor.is_operator() {
                    let others = self.holds.iter_mut().filter(|hold| hold.resource != name.target);
                    others.for_each(|hold| hold.other_lines += 1);
                    let is_apart = |deviation: &Deviation| {
                        deviation.what == What::Apart && deviation.call == name.target
                    };
                    self.plan.retain(|deviation| !is_apart(deviation));
                }
                self.log(Action::Delivered { actor, name, lines });
                Ok(())
            }
        }
    }

    async fn carry_out(&mut self, seen: Seen) -> Result<(), End> {
        let Seen { id, actor, name } = &seen;
        let mut order = Order::CarryOut;
        self.effects += usize::from(name.is_effect());
        if actor.is_operator() && name.is_write() {
            let count = self.counts.entry(name.to_string()).or_default();
            *count += 1;
            let number = *count;
            if let Some(what) = self.deviation(&name.to_string(), number) {
                match what {
                    What::CrashBefore(restart) => {
                        return self.crash(&format!("before it sends: {name}"), restart).await;
                    }
                    What::CrashAfter(_) | What::LoseAnswer => {
                        self.due.insert(*id, what);
                    }
                    What::Refuse(refusal) => {
                        order = self.refuse(&seen, refusal);
                    }
                    // Not at calls.
                    What::Hold(_) | What::Apart => {}
                }
            }
            let write = Write {
                call: name.to_string(),
                number,
                step: self.begun,
                is_visible: false,
                is_after_others: std::mem::take(&mut self.others_changed),
            };
            self.written.insert(*id, self.writes.len());
            self.writes.push(write);
        }
        if let Some(work) = self.hub.take(*id) {
            if order == Order::CarryOut {
                self.log(Action::CarriedOut { actor: *actor, name: name.clone() });
            }
            let (hub, id, work) = (self.hub.clone(), *id, work(order));
            self.working.spawn(async move {
                let answer = work.await;
                hub.carried_out(id, answer);
            });
        }
        while self.working.try_join_next().is_some() {}
        Ok(())
    }

    /// Lets the server refuse the call that it carries out next.
    fn refuse(&mut self, seen: &Seen, refusal: Refusal) -> Order {
        let action = match refusal {
            Refusal::Conflict => FaultAction::Fail(Failure::Conflict),
            Refusal::TooManyRequests => {
                FaultAction::Fail(Failure::TooManyRequests { retry_after: Duration::from_secs(1) })
            }
            Refusal::InternalError => FaultAction::Fail(Failure::Internal),
            Refusal::Unavailable => FaultAction::Fail(Failure::Unavailable),
            Refusal::Reset => FaultAction::Reset,
        };
        let how = What::Refuse(refusal).to_string();
        self.log(Action::Refused { actor: seen.actor, name: seen.name.clone(), how });
        if refusal == Refusal::Reset || seen.name.is_effect() {
            return Order::Refuse;
        }
        self.server.faults().add(Rule::new(action).once());
        Order::CarryOut
    }

    async fn answer(&mut self, seen: Seen) -> Result<(), End> {
        let Seen { id, actor, name } = seen;
        self.written.remove(&id);
        match self.due.remove(&id) {
            Some(What::CrashAfter(restart)) => {
                self.hub.remove(id);
                return self.crash(&format!("without the answer to: {name}"), restart).await;
            }
            Some(What::LoseAnswer) => {
                self.hub.answer(id, Told::Lost);
                self.log(Action::AnswerLost { actor, name });
            }
            _ => {
                self.hub.answer(id, Told::Answer);
                self.log(Action::Answered { actor, name });
            }
        }
        Ok(())
    }

    /// Takes the deviation at a call out of the plan.
    fn deviation(&mut self, call: &str, number: u32) -> Option<What> {
        let is_here = |deviation: &Deviation| deviation.call == call && deviation.number == number;
        let place = self.plan.iter().position(is_here)?;
        Some(self.plan.remove(place).what)
    }

    /// Ends the operator as the end of its process would.
    async fn crash(&mut self, at: &str, restart: Restart) -> Result<(), End> {
        // Cut first, so that nothing that is sent while the process is dropped reaches the server.
        self.hub.cut(self.operator.actor);
        let mut task = std::mem::take(&mut self.operator.task);
        task.shutdown().await;
        for hold in std::mem::take(&mut self.holds) {
            self.hub.release(&hold.resource);
        }
        self.due.clear();
        self.written.clear();
        self.log(Action::Crashed { actor: self.operator.actor, at: at.to_owned() });
        self.next_life();
        self.unrest_since = Instant::now();
        self.operator.state = match restart {
            Restart::AtOnce => Alive::Down { until: Instant::now(), steps: None },
            Restart::AfterNextStep => {
                Alive::Down { until: Instant::now() + LONGEST_DOWN, steps: Some(self.begun + 1) }
            }
        };
        Ok(())
    }

    fn log(&mut self, action: Action) {
        self.trace.push(Entry { at: self.start.elapsed(), action });
    }
}

/// A step that is tried until it succeeds.
struct Attempt {
    name: String,
    tries: std::pin::Pin<Box<dyn Future<Output = Result<(), String>>>>,
    result: Option<Result<(), String>>,
}

impl Attempt {
    fn begin(step: &Step, user: &User) -> Self {
        let (step, user) = (step.clone(), user.clone());
        let name = step.name.to_string();
        let tries = async move {
            let mut last = String::new();
            for _ in 0..ATTEMPTS {
                match step.run(user.clone()).await {
                    Ok(()) => return Ok(()),
                    Err(error) => last = describe(&*error),
                }
                sleep(Duration::from_secs(1)).await;
            }
            Err(last)
        };
        Self { name, tries: Box::pin(tries), result: None }
    }

    fn poll(&mut self, context: &mut std::task::Context<'_>) {
        if self.result.is_none()
            && let Poll::Ready(result) = self.tries.as_mut().poll(context)
        {
            self.result = Some(result);
        }
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
