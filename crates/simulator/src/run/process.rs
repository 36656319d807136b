//! The processes of a run, which start, crash and start again: operators under test, and actors of the world.

use std::{
    cell::{Ref, RefCell},
    collections::BTreeMap,
    future::pending,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use controller_runtime::{BoxError, controller::Overview, manager::WeakManager};
use tokio::{
    runtime::Handle,
    task::JoinSet,
    time::{Duration, Instant},
};

use super::{Run, describe, outcome::End};
use crate::{
    definition::{Instance, Program},
    gate::Gate,
    names::{Actor, ProcessName, is_masked_resource, process_of},
    plan::Restart,
    remote::SetUp,
    trace::Action,
};

/// Virtual time after which an operator that waits for the end of a step is started anyway, because the step may need it.
const LONGEST_DOWN: Duration = Duration::from_secs(60);

/// Virtual time that an operator is down after a step, if it is down for long: longer than requests and leases last.
const LONG: Duration = Duration::from_secs(61);

/// Delay until an operator that ended by itself is started again, and maximum number of such ends.
const BACK_AFTER: Duration = Duration::from_secs(10);
const ENDS: usize = 5;

/// One process, from its first start to the end of the run.
pub(super) struct Process {
    /// Index of its program in the definition.
    program: usize,
    pub(super) actor: Actor,
    /// Holds the task of the process, so that dropping the set ends it.
    task: JoinSet<Result<(), BoxError>>,
    pub(super) state: Alive,
    /// Number of times that it ended by itself.
    ends: usize,
    manager: Option<WeakManager>,
    /// Whether it has ever led.
    pub(super) has_led: bool,
    /// Names of controllers that it is known to have, and whether they run even without the lease. An overview of all its controllers takes
    /// longer than a reconcile.
    controllers: RefCell<BTreeMap<String, bool>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Alive {
    Running,
    /// Down until this time, or until that many steps are done and some more time has passed.
    Down {
        until: Instant,
        steps: Option<usize>,
        longer: Duration,
    },
}

impl Alive {
    /// State of a process that has just crashed, with this number of steps begun.
    pub(super) fn after_crash(restart: Restart, begun: usize) -> Self {
        let longer = match restart {
            Restart::AtOnce => return Self::down_until(Instant::now()),
            Restart::AfterNextStep => Duration::ZERO,
            Restart::LongAfterNextStep => LONG,
        };
        Self::Down { until: Instant::now() + LONGEST_DOWN, steps: Some(begun + 1), longer }
    }

    fn down_until(until: Instant) -> Self {
        Self::Down { until, steps: None, longer: Duration::ZERO }
    }
}

impl Process {
    /// Makes the processes of all programs.
    pub(super) fn of(programs: &[Program]) -> Vec<Self> {
        let replicas = |(index, program): (usize, &Program)| {
            let (name, is_tested) = (program.name, program.is_tested);
            (0..program.replicas).map(move |replica| Self {
                program: index,
                actor: Actor::Process { process: ProcessName { program: name, replica, is_tested }, life: 0 },
                task: JoinSet::new(),
                state: Alive::down_until(Instant::now()),
                ends: 0,
                manager: None,
                has_led: false,
                controllers: RefCell::default(),
            })
        };
        programs.iter().enumerate().flat_map(replicas).collect()
    }

    fn overview(&self) -> Option<Vec<Overview>> {
        Some(self.manager.as_ref()?.upgrade()?.overview())
    }

    /// Whether its controllers have no requests that run, are ready or wait. On standby only those count that run even without the lease.
    fn is_at_rest(&self, is_active: bool) -> bool {
        // A standby without such controllers needs no overview, which is slow.
        if !is_active && !self.controllers().values().any(|on_standby| *on_standby) {
            return true;
        }
        let is_idle = |queue: &Overview| {
            queue.queued + queue.waiting + queue.running == 0 && queue.failed_events.is_empty()
        };
        let runs = |queue: &&Overview| is_active || self.runs_on_standby(&queue.controller);
        self.overview().is_some_and(|queues| queues.iter().filter(runs).all(is_idle))
    }

    /// Whether it holds the lease. Always `false` without leader election.
    pub(super) fn leads(&self) -> bool {
        let manager = self.manager.as_ref().and_then(WeakManager::upgrade);
        self.state == Alive::Running && manager.is_some_and(|manager| *manager.leads().borrow())
    }

    /// Its controllers as far as they are known.
    fn controllers(&self) -> Ref<'_, BTreeMap<String, bool>> {
        if self.controllers.borrow().is_empty() {
            self.look_at_controllers();
        }
        self.controllers.borrow()
    }

    fn has_controller(&self, name: &str) -> bool {
        self.controllers().contains_key(name)
    }

    /// Whether it has a controller of this name that runs even without the lease.
    fn runs_on_standby(&self, name: &str) -> bool {
        self.controllers().get(name).is_some_and(|on_standby| *on_standby)
    }

    /// Updates `controllers` from the manager.
    fn look_at_controllers(&self) {
        let Some(manager) = self.manager.as_ref().and_then(WeakManager::upgrade) else { return };
        let on_standby = manager.controllers_on_standby();
        let queues = manager.overview().into_iter();
        let known = queues.map(|queue| (on_standby.contains(&queue.controller), queue.controller));
        self.controllers.borrow_mut().extend(known.map(|(on_standby, name)| (name, on_standby)));
    }

    /// Requests that fail repeatedly, with their errors.
    fn failing(&self) -> Vec<(String, String)> {
        let queues = self.overview().unwrap_or_default();
        let waiting = queues.into_iter().filter(|queue| queue.waiting > 0);
        let failing = waiting.flat_map(|queue| {
            let name = queue.controller;
            queue
                .failing
                .into_iter()
                .map(move |failing| (format!("{name} {}", failing.request), failing.error))
        });
        failing.collect()
    }

    /// Gives the process the actor of its next life.
    pub(super) fn next_life(&mut self) {
        if let Actor::Process { life, .. } = &mut self.actor {
            *life += 1;
        }
    }
}

impl Run<'_> {
    /// Whether replicas of a program elect a leader.
    fn elects(&self, program: usize) -> bool {
        let mut processes = self.processes.iter().filter(|process| process.program == program);
        // With `Simulation::of` the function enables the election itself, which shows only when a process
        // leads.
        processes.any(|process| process.has_led)
            || (self.definition.programs[program].has_election
                && self.definition.programs[program].replicas > 1)
    }

    /// Whether the process does the work of its program: it leads, or its program has no leader election.
    fn is_active(&self, process: &Process) -> bool {
        process.state == Alive::Running && (!self.elects(process.program) || process.leads())
    }

    /// Whether no process has anything to do, apart from those that are down.
    pub(super) fn processes_are_at_rest(&self) -> bool {
        let running = |process: &&Process| process.state == Alive::Running;
        self.processes.iter().filter(running).all(|process| process.is_at_rest(self.is_active(process)))
    }

    /// Latest time up to `limit` at which a request that waits in a controller is due.
    pub(super) fn last_due(&self, limit: Instant) -> Option<Instant> {
        let due = |process: &Process| process.manager.as_ref()?.upgrade()?.last_due(limit);
        self.processes.iter().filter(|process| self.is_active(process)).filter_map(due).max()
    }

    /// Whether each program that elects a leader has one, unless all of it is down.
    pub(super) fn all_are_led(&self) -> bool {
        (0..self.definition.programs.len()).filter(|program| self.elects(*program)).all(|program| {
            let mut processes = self.processes.iter().filter(|process| process.program == program);
            processes.clone().any(Process::leads) || !processes.any(|process| process.state == Alive::Running)
        })
    }

    /// The process that runs a controller; the first operator if none is known.
    pub(super) fn actor_of(&self, controller: &str) -> Actor {
        // The usual case, in which the names of controllers need not be read.
        if let [only] = self.processes.as_slice() {
            return only.actor;
        }
        let has = |process: &&Process| process.has_controller(controller);
        let find = || {
            let active = self.processes.iter().filter(|process| self.is_active(process)).find(has);
            active.or_else(|| self.processes.iter().find(has))
        };
        let found = find().or_else(|| {
            // The controller may have been added since the last look.
            self.processes.iter().for_each(Process::look_at_controllers);
            find()
        });
        found.map_or(self.processes[0].actor, |process| process.actor)
    }

    /// Whether the processes with a controller of this name are of one program.
    pub(super) fn is_of_one_program(&self, controller: &str) -> bool {
        let having = self.processes.iter().filter(|process| process.has_controller(controller));
        let mut programs: Vec<usize> = having.map(|process| process.program).collect();
        programs.dedup();
        programs.len() < 2
    }

    /// Number of reconciles of one request of a controller that may go on at once: one in each process in which the controller runs even
    /// without the lease, and otherwise one.
    pub(super) fn most_open(&self, controller: &str) -> usize {
        let running = self.processes.iter().filter(|process| process.state == Alive::Running);
        running.filter(|process| process.runs_on_standby(controller)).count().max(1)
    }

    /// The process that receives a stream; the first operator if none is known.
    pub(super) fn actor_of_stream(&self, stream: &str) -> Actor {
        let receives = |process: &&Process| process_of(&process.actor.stream("")) == process_of(stream);
        let found = self.processes.iter().find(receives);
        found.map_or(self.processes[0].actor, |process| process.actor)
    }

    /// Records writes that processes have sent while another replica of their program led.
    pub(super) fn note_leads(&mut self) {
        for (actor, name) in self.hub.take_sent() {
            let resource = name.target.split('/').next().unwrap_or_default();
            let Some(process) = self.processes.iter().find(|process| process.actor == actor) else {
                continue;
            };
            // A standby may write Leases and Events.
            if is_masked_resource(resource) || !self.elects(process.program) || process.leads() {
                continue;
            }
            let is_leader = |other: &&Process| other.program == process.program && other.leads();
            if let Some(leader) = self.processes.iter().find(is_leader) {
                let processes = format!("{actor} no longer leads, but {} does", leader.actor);
                self.without_lead.entry(name.to_string()).or_insert(processes);
            }
        }
    }

    /// Starts processes that are due, and records those that have ended. Returns whether one was started, which then runs first.
    pub(super) fn look_at_processes(&mut self) -> Result<bool, End> {
        let mut has_started = false;
        for index in 0..self.processes.len() {
            if let Some(ended) = self.processes[index].task.try_join_next() {
                let reason = match ended {
                    Ok(Ok(())) => "it returned".to_owned(),
                    Ok(Err(error)) => describe(&*error),
                    Err(error) => error.to_string(),
                };
                let actor = self.processes[index].actor;
                // The tasks of the process are gone, but its calls and watches still stand in the hub.
                self.hub.cut(actor);
                self.end_faults_of(actor);
                self.log(Action::Ended { actor, reason: reason.clone() });
                let process = &mut self.processes[index];
                process.ends += 1;
                if process.ends >= ENDS {
                    return Err(End::OperatorEnded { reason });
                }
                process.state = Alive::down_until(Instant::now() + BACK_AFTER);
                process.next_life();
            }
            match self.processes[index].state {
                Alive::Down { until, .. } if Instant::now() >= until => {
                    self.start(index)?;
                    has_started = true;
                }
                _ => {
                    let process = &mut self.processes[index];
                    process.has_led |= process.leads();
                }
            }
        }
        Ok(has_started)
    }

    fn start(&mut self, index: usize) -> Result<(), End> {
        let process = &self.processes[index];
        let (actor, program) = (process.actor, &self.definition.programs[process.program]);
        let Actor::Process { process: ProcessName { replica, .. }, life } = actor else { return Ok(()) };
        // Before the start, tasks that are left belong to earlier lives.
        self.check_for_leaks()?;
        self.log(Action::Start(actor));
        let gate = Gate {
            hub: self.hub.clone(),
            actor,
            server: self.server.clone(),
            rights: program.rights.clone(),
            wait_before_writes: Duration::ZERO,
            pumps: Arc::clone(&self.pumps),
        };
        let set_up = SetUp { actor, hub: self.hub.clone(), remotes: Arc::clone(&self.remotes) };
        let instance = Instance { replica, life, replicas: program.replicas };
        let make = AssertUnwindSafe(|| set_up.during(|| (program.make)(gate, instance)));
        // A panic in the operator's set-up is a finding, which must not end the search without a story.
        let made = catch_unwind(make).unwrap_or_else(|panic| {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            Err(format!("it panicked: {message}").into())
        });
        let manager = made.map_err(|error| End::OperatorEnded {
            reason: format!("the {} cannot be created: {}", program.name, describe(&*error)),
        })?;
        let process = &mut self.processes[index];
        process.manager = Some(manager.downgrade());
        // The new life may add other controllers.
        process.controllers.take();
        // The process never receives a signal to stop: it crashes, or ends by itself.
        process.task.spawn(async move { manager.run(pending()).await.map_err(Into::into) });
        process.state = Alive::Running;
        self.unrest_since = Instant::now();
        Ok(())
    }

    /// Starts operators that wait for a step to be done.
    pub(super) fn restart_after_step(&mut self) -> Result<(), End> {
        for index in 0..self.processes.len() {
            match self.processes[index].state {
                Alive::Down { steps: Some(steps), longer, .. } if self.begun >= steps => {
                    if longer.is_zero() {
                        self.start(index)?;
                    } else {
                        self.processes[index].state = Alive::down_until(Instant::now() + longer);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Looks for tasks that outlived their processes, if no process runs.
    pub(super) fn check_for_leaks(&mut self) -> Result<(), End> {
        if self.processes.iter().any(|process| process.state == Alive::Running) {
            return Ok(());
        }
        let others = self.tasks_of_others();
        // The first look, before any process has started, counts the tasks of the server and of the user.
        let leaked = others.saturating_sub(*self.tasks_without_processes.get_or_insert(others));
        if leaked > 0 { Err(End::Leaked { tasks: leaked }) } else { Ok(()) }
    }

    /// Counts the tasks of the runtime that neither carry out a call nor read a watch: without processes, those of the server and
    /// of the user's client, and those that outlived their processes.
    fn tasks_of_others(&mut self) -> usize {
        let mut pumps = self.pumps.lock();
        while pumps.try_join_next().is_some() {}
        while self.working.try_join_next().is_some() {}
        let alive = Handle::current().metrics().num_alive_tasks();
        alive.saturating_sub(pumps.len() + self.working.len())
    }

    /// Ends a process as a failure of its machine would.
    pub(super) async fn crash(&mut self, actor: Actor, at: &str, restart: Restart) {
        let Some(index) = self.processes.iter().position(|process| process.actor == actor) else { return };
        // Cut the connection first, so that no request that is sent while the process is dropped reaches the server.
        self.hub.cut(actor);
        let mut task = std::mem::take(&mut self.processes[index].task);
        task.shutdown().await;
        self.end_faults_of(actor);
        // The next life has other timers, and the crash itself causes changes.
        (self.long_wait, self.wakes) = (None, 0);
        let begun = self.begun;
        self.log(Action::Crashed { actor, at: at.to_owned() });
        self.unrest_since = Instant::now();
        let process = &mut self.processes[index];
        process.next_life();
        process.state = Alive::after_crash(restart, begun);
    }

    /// Ends the faults of a plan that a life of a process suffers, when that life is over.
    fn end_faults_of(&mut self, actor: Actor) {
        let stream = actor.stream("");
        let of_process = |hold: &mut super::holds::Hold| process_of(&hold.stream) == process_of(&stream);
        // The hold was to keep lines from a process that is dead. The next life lists again, and no fault of
        // the plan is meant for it.
        for hold in self.holds.extract_if(.., of_process) {
            self.hub.release(&hold.stream);
        }
        // Deviations at calls of this life can no longer happen, because the hub has dropped the calls.
        let of_life = self.due.extract_if(.., |_, due| due.caller == actor);
        self.missed.extend(of_life.flat_map(|(_, due)| due.into_deviations()));
    }

    /// Requests of processes under test that fail again and again, with their errors.
    pub(super) fn failing(&self) -> BTreeMap<String, String> {
        let is_tested = |process: &&Process| process.actor.is_operator() && process.state == Alive::Running;
        self.processes.iter().filter(is_tested).flat_map(Process::failing).collect()
    }

    /// Ends all processes at the end of a run.
    pub(super) async fn end_processes(&mut self) {
        for index in 0..self.processes.len() {
            self.hub.cut(self.processes[index].actor);
            let mut task = std::mem::take(&mut self.processes[index].task);
            task.shutdown().await;
            self.processes[index].state = Alive::down_until(Instant::now());
        }
    }

    /// The operator that crashes while the world is quiet: the leader, or the first one.
    pub(super) fn active_operator(&self) -> Option<Actor> {
        let mut operators = self.processes.iter().filter(|process| process.actor.is_operator());
        operators.find(|process| self.is_active(process)).map(|process| process.actor)
    }
}
