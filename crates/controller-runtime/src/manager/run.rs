//! One run of a manager: carries out the effects that the lifecycle decides on, and reports events back to it.

use std::{
    collections::BTreeMap,
    future::{Future, pending},
    panic::AssertUnwindSafe,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::FutureExt;
use kube_clock::Clock;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    Manager, ManagerError, Shutdown,
    election_handle::{ElectionHandle, changed},
    event_writer::{EventWriter, EventsLost},
};
use crate::{
    controller::SourceError,
    error::BoxError,
    leader_election::Leadership,
    panics::panic_message,
    recorder::Recorder,
    runnable::{
        Effect, Group, Id, LifecycleInput, Readiness, RegisteredRunnable, RunContext, RunnableFailed, State,
    },
};

/// Time for an aborted task to reach its next `.await`.
const ABORT: Duration = Duration::from_secs(2);

impl Manager {
    /// Runs until `shutdown` completes, then stops gracefully. The manager can be run again afterwards.
    ///
    /// A `tracing` span around this future contains everything logged in the run, and so distinguishes several managers in one
    /// process. Each reconcile is within that span; without one, each reconcile is a trace of its own.
    ///
    /// # Cancellation
    ///
    /// Dropping the future stops everything, as a crash would: no task is left behind, and every running reconcile is
    /// dropped at its next `.await`. On a multi-threaded runtime that may take a moment, so a manager that is started
    /// right afterwards may overlap with the end of such a reconcile. After a shutdown, [`State::Stopped`] means
    /// that nothing is left.
    ///
    /// # Errors
    ///
    /// A cache did not receive its initial list in time, a runnable failed, or something did not finish in time at the stop.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ManagerError> {
        // Checked here instead of in `new`, because only a run takes part in the election.
        if let Some(election) = &self.shared.election
            && self.shared.options.seed.is_some()
            && !election.options.has_identity()
        {
            return Err(ManagerError::NoIdentity { lease: election.options.id().to_owned() });
        }
        let registry = &self.shared.registry;
        registry.run().map_err(|_| ManagerError::AlreadyRunning)?;
        if self.shared.declaration_check.is_some() {
            // Called for its effect: it records the rights of webhooks, which the check needs at the first request.
            let _ = self.declarations();
        }
        // Callers of `ready` wait for this run, not for an earlier one.
        self.shared.readiness.send_replace(Readiness::NotYet);
        // Only now that `registry.run` has succeeded: it must not stop the run of another handle.
        let _stopped = MarkManagerStopped(&self);
        let mut rng = self.shared.options.rng();
        let clock = self.clock();
        let kube = self.shared.client.kube().clone();
        let (recorder, mut event_writer) = EventWriter::start(kube, rng.fork(), clock);

        let election = ElectionHandle::new(&self, &recorder, rng.fork(), clock);
        let (report_failure, failures) = mpsc::unbounded_channel();
        let run = ManagerRun {
            manager: &self,
            tasks: JoinSet::new(),
            tokens: BTreeMap::new(),
            report_failure,
            failures,
            election,
            recorder,
            rng,
            clock,
            error: None,
            shutdown_began: None,
            stopping: None,
            aborted: None,
            losing: None,
        };
        let result = run.until(shutdown, &mut event_writer).await;
        if let Err(EventsLost) = event_writer.finish().await {
            tracing::warn!("Kubernetes Events that were waiting to be written were lost at the shutdown");
        }
        // Requests of the whole run, those of the last reconciles included, so they are collected after its end.
        let undeclared = self.shared.declaration_check.as_ref().map(|check| check.take_refused());
        match undeclared.filter(|requests| !requests.is_empty()) {
            Some(requests) => result.and(Err(ManagerError::UndeclaredRequests { requests })),
            None => result,
        }
    }
}

/// Marks the manager as stopped when dropped, whether the run returned or its future was dropped.
struct MarkManagerStopped<'m>(&'m Manager);

impl Drop for MarkManagerStopped<'_> {
    fn drop(&mut self) {
        self.0.shared.registry.stop();
        self.0.shared.publish_state();
    }
}

/// State of one run. Each set of tasks aborts them when it is dropped, wherever the run stops.
struct ManagerRun<'m> {
    manager: &'m Manager,
    tasks: JoinSet<(Id, End)>,
    tokens: BTreeMap<Id, Tokens>,
    /// Copied for each runnable that starts.
    report_failure: mpsc::UnboundedSender<RunnableFailure>,
    /// Failures reported by runnables that have not ended yet: at most one for each start.
    failures: mpsc::UnboundedReceiver<RunnableFailure>,
    election: ElectionHandle,
    recorder: Recorder,
    rng: fastrand::Rng,
    clock: Clock,
    /// The first error.
    error: Option<ManagerError>,
    shutdown_began: Option<Instant>,
    /// The group being stopped.
    stopping: Option<Group>,
    /// Time at which everything was aborted.
    aborted: Option<Instant>,
    losing: Option<Losing>,
}

/// The lease was lost, and the leader's runnables have not all stopped yet.
struct Losing {
    since: Instant,
    /// Whether those that still run have been logged.
    is_logged: bool,
}

/// Tokens by which one start of a runnable is asked to finish, and aborted.
#[derive(Default, Clone)]
struct Tokens {
    draining: CancellationToken,
    aborting: CancellationToken,
    /// Dropped when this start has ended. A context that a runnable keeps holds a weak reference, so that it cannot affect the
    /// next start.
    lasts: Arc<()>,
}

/// A runnable, and its error.
type RunnableFailure = (Id, BoxError);

/// Outcome of a runnable.
enum End {
    Returned(Result<(), BoxError>),
    Panicked(String),
    /// The task was dropped.
    Aborted,
}

impl ManagerRun<'_> {
    async fn until(
        mut self,
        shutdown: impl Future<Output = ()>,
        event_writer: &mut EventWriter,
    ) -> Result<(), ManagerError> {
        let mut shutdown = pin!(shutdown);
        let registry = &self.manager.shared.registry;
        loop {
            // Effects come first: an input of the last iteration, or of another thread, may have produced some.
            self.carry_out(registry.take_effects());
            if registry.state() == State::Stopped {
                break; // `MarkManagerStopped` publishes the state
            }
            self.manager.shared.publish_state();
            if registry.is_shutting_down() {
                self.shutdown_began.get_or_insert_with(Instant::now);
            }
            // Deadlines are computed in each iteration, because any event may have moved them.
            self.track_loss();
            let (grace, give_up) = (self.end_of_grace(), self.aborted.map(|aborted| aborted + ABORT));
            let overdue =
                self.losing.as_ref().filter(|losing| !losing.is_logged).map(|losing| losing.since + ABORT);
            let ElectionHandle { candidate, leadership, .. } = &mut self.election;
            tokio::select! {
                // The shutdown comes first: nothing new may begin if it coincides with another event.
                biased;
                () = &mut shutdown, if self.shutdown_began.is_none() => registry.step(LifecycleInput::Shutdown),
                leadership = changed(leadership) => self.leadership_changed(&leadership),
                // Failures come before the ends of tasks, because a task that reported a failure may have ended as
                // well.
                Some((id, error)) = self.failures.recv() => self.failed(id, error),
                Some(ended) = self.tasks.join_next() => self.ended(ended),
                () = registry.changed() => {}
                Some(ended) = candidate.join_next() => self.election_ended(ended),
                () = at(overdue) => self.name_overdue(),
                () = at(grace) => self.abort(),
                () = at(give_up) => {
                    self.give_up();
                    break;
                }
                ended = event_writer.ended(), if event_writer.is_running() => {
                    let reason = ended.and_then(Result::err).map_or("it ended early".to_owned(), |error| error.to_string());
                    self.record_error(ManagerError::TaskEnded { task: "the writer of Kubernetes Events".to_owned(), reason });
                    registry.step(LifecycleInput::Shutdown);
                }
            }
        }
        tracing::info!("Wait completed, proceeding to shutdown the manager");
        self.error.map_or(Ok(()), Err)
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Spawn(id) => {
                    if let Some(entry) = self.manager.shared.registry.entry(id) {
                        self.spawn(id, entry);
                    }
                }
                Effect::Drain(id) => {
                    self.log_stop_of_group(id);
                    if let Some(tokens) = self.tokens.get(&id) {
                        tokens.draining.cancel();
                    }
                }
                Effect::Abort(id) => {
                    if let Some(tokens) = self.tokens.get(&id) {
                        // Draining as well, because `record_failure` ignores failures of runnables that were
                        // asked to stop.
                        tokens.draining.cancel();
                        tokens.aborting.cancel();
                    }
                }
                Effect::Stand => self.election.stand(),
                Effect::StepDown => {
                    // An immediate shutdown does not wait for anything, not even for the release of the lease.
                    let release =
                        self.manager.shared.options.graceful_shutdown_timeout != Shutdown::Immediate;
                    self.election.step_down(release);
                }
            }
        }
    }

    /// Logs the stop of each group once.
    fn log_stop_of_group(&mut self, id: Id) {
        let registry = &self.manager.shared.registry;
        // Removals outside of a shutdown stop single runnables, not groups.
        let group = registry.group(id).filter(|_| registry.is_shutting_down());
        if let Some(group) = group
            && self.stopping.replace(group) != Some(group)
        {
            tracing::info!("Stopping and waiting for {group}");
        }
    }

    fn spawn(&mut self, id: Id, entry: RegisteredRunnable) {
        let tokens = Tokens::default();
        // Weak, because a runnable may keep its context: the registry holds the runnable, so the two would never be dropped.
        let registry = Arc::downgrade(&self.manager.shared.registry);
        let failures = self.report_failure.clone();
        let lasts = Arc::downgrade(&tokens.lasts);
        let cx = RunContext {
            manager: self.manager.for_context(),
            draining: tokens.draining.clone(),
            aborting: tokens.aborting.clone(),
            ready: Arc::new(move || {
                // The count is zero once this start has ended: a late call must not mark the next start as ready.
                if let Some(registry) = registry.upgrade().filter(|_| lasts.strong_count() > 0) {
                    registry.step(LifecycleInput::Ready(id));
                }
            }),
            failed: Arc::new(move |error| {
                // Fails if the run is over, and the receiver with it.
                let _ = failures.send((id, error));
            }),
            transitions: self.election.transitions(),
            recorder: self.recorder.clone(),
            rng: self.rng.fork(),
            clock: self.clock,
        };
        let aborting = tokens.aborting.clone();
        self.tokens.insert(id, tokens);
        let task = async move {
            let work = AssertUnwindSafe(entry.runnable.start(cx)).catch_unwind();
            let aborted = async {
                aborting.cancelled().await;
                // A controller reacts to the token itself, and ends when its workers have.
                if entry.stops_itself {
                    pending::<()>().await;
                }
            };
            // The abort comes first, so that a runnable that ends at the same moment cannot count as failed.
            let end = tokio::select! {
                biased;
                () = aborted => End::Aborted,
                returned = work => match returned {
                    Ok(result) => End::Returned(result),
                    Err(panic) => End::Panicked(panic_message(&*panic).to_owned()),
                },
            };
            (id, end)
        };
        self.tasks.spawn(task.in_current_span());
    }

    fn ended(&mut self, ended: Result<(Id, End), tokio::task::JoinError>) {
        let registry = &self.manager.shared.registry;
        let (id, end) = match ended {
            Ok(ended) => ended,
            // The task was cancelled, or panicked outside of the runnable.
            Err(error) => {
                self.record_error(ManagerError::TaskEnded {
                    task: "a runnable".to_owned(),
                    reason: error.to_string(),
                });
                return registry.step(LifecycleInput::Shutdown);
            }
        };
        let name = self.name(id);
        let error = match end {
            End::Returned(Ok(())) | End::Aborted => None,
            End::Returned(Err(error)) => Some(own_or_named(error, &name)),
            End::Panicked(reason) => Some(ManagerError::TaskEnded { task: name.clone(), reason }),
        };
        let failed = error.is_some_and(|error| self.record_failure(id, &name, error));
        // After `record_failure`, which reads the tokens. From now on a late `set_ready` of this start has no
        // effect.
        self.tokens.remove(&id);
        registry.step(LifecycleInput::Ended(id, if failed { Err(RunnableFailed) } else { Ok(()) }));
    }

    /// Handles the failure of a controller. The controller may still finish its running reconciles, within the time of
    /// a shutdown.
    fn failed(&mut self, id: Id, error: BoxError) {
        let name = self.name(id);
        let error = own_or_named(error, &name);
        if self.record_failure(id, &name, error) {
            self.manager.shared.registry.step(LifecycleInput::Shutdown);
        }
    }

    /// Records the failure of a runnable as the manager's error, unless the runnable was being stopped. Returns whether it was
    /// recorded.
    fn record_failure(&mut self, id: Id, name: &str, error: ManagerError) -> bool {
        let is_draining = self.tokens.get(&id).is_some_and(|tokens| tokens.draining.is_cancelled());
        let led = self.manager.shared.registry.group(id) == Some(Group::LeaderElected);
        // The failure may be a consequence of losing the lease a moment ago.
        if is_draining || (led && self.manager.shared.has_lost()) {
            tracing::warn!(runnable = name, "the runnable failed while it was being stopped: {error:?}");
            return false;
        }
        tracing::error!(runnable = name, "the runnable failed, the manager stops: {error:?}");
        self.record_error(error);
        true
    }

    fn name(&self, id: Id) -> String {
        self.manager.shared.registry.entry(id).map(|entry| entry.name.to_string()).unwrap_or_default()
    }

    fn leadership_changed(&self, leadership: &Leadership) {
        let registry = &self.manager.shared.registry;
        self.manager.shared.leads.send_replace(matches!(leadership, Leadership::Leads { .. }));
        match leadership {
            Leadership::Standby => {}
            Leadership::Leads { .. } => registry.step(LifecycleInput::Elected),
            Leadership::Lost { .. } => registry.step(LifecycleInput::Lost),
        }
    }

    fn election_ended(&mut self, ended: Result<(), tokio::task::JoinError>) {
        let registry = &self.manager.shared.registry;
        // After a panic too: the lifecycle must not wait for a candidate that is gone.
        registry.step(LifecycleInput::ElectionOver);
        if let Err(error) = ended {
            self.record_error(ManagerError::TaskEnded {
                task: "the leader election".to_owned(),
                reason: error.to_string(),
            });
            registry.step(LifecycleInput::Shutdown);
        }
    }

    /// Notes the loss of the lease, and its end when all runnables of the leader have stopped.
    fn track_loss(&mut self) {
        if self.manager.shared.registry.is_losing() {
            self.losing.get_or_insert_with(|| Losing { since: Instant::now(), is_logged: false });
        } else if self.losing.take().is_some_and(|losing| losing.is_logged) {
            self.manager.shared.overdue.send_replace(Vec::new());
            tracing::info!("the reconciles and runnables that still ran after the lease was lost have ended");
        }
    }

    /// Logs and publishes the runnables that do not stop after the lease was lost. The run continues: the liveness check fails,
    /// so that Kubernetes restarts the process.
    fn name_overdue(&mut self) {
        self.losing.iter_mut().for_each(|losing| losing.is_logged = true);
        let overdue = self.holdouts(|tokens| tokens.aborting.is_cancelled());
        tracing::error!(
            "these reconciles and runnables still run {} s after the lease was lost, because they do not reach an .await; the liveness check fails until \
             they end: {}",
            ABORT.as_secs(),
            overdue.join(", ")
        );
        self.manager.shared.overdue.send_replace(overdue);
    }

    /// Deadline of graceful shutdown.
    fn end_of_grace(&self) -> Option<Instant> {
        let began = self.shutdown_began.filter(|_| self.aborted.is_none())?;
        match self.manager.shared.options.graceful_shutdown_timeout {
            // `Immediate` ends the grace period when it begins.
            Shutdown::Immediate => Some(began),
            Shutdown::Within(limit) => began.checked_add(limit),
            Shutdown::Unbounded => None,
        }
    }

    fn abort(&mut self) {
        self.aborted = Some(Instant::now());
        if let Shutdown::Within(timeout) = self.manager.shared.options.graceful_shutdown_timeout {
            // The groups that were not yet asked to finish only waited for these. If none is unfinished, the release of the lease
            // is what takes too long, and that is no error.
            let asked = self.running(|tokens| tokens.draining.is_cancelled());
            let unfinished: Vec<_> = asked.iter().flat_map(|entry| entry.runnable.unfinished()).collect();
            if !unfinished.is_empty() {
                self.record_error(ManagerError::ShutdownTimeout { unfinished, timeout });
            }
        }
        self.manager.shared.registry.step(LifecycleInput::GraceOver);
    }

    /// Gives up on tasks that cannot be stopped.
    fn give_up(&mut self) {
        let unstoppable = self.holdouts(|_| true);
        // If it is empty, only the leader election has not ended.
        if !unstoppable.is_empty() {
            self.record_error(ManagerError::Unstoppable { unstoppable });
        }
    }

    /// Names of the running reconciles of the selected runnables, and of those runnables that have none.
    fn holdouts(&self, which: impl Fn(&Tokens) -> bool) -> Vec<String> {
        let named = |entry: &RegisteredRunnable| {
            let unfinished = entry.runnable.unfinished();
            if unfinished.is_empty() { vec![entry.name.to_string()] } else { unfinished }
        };
        self.running(which).iter().flat_map(named).collect()
    }

    fn running(&self, which: impl Fn(&Tokens) -> bool) -> Vec<RegisteredRunnable> {
        let registry = &self.manager.shared.registry;
        let ids = self.tokens.iter().filter(|(_, tokens)| which(tokens)).map(|(id, _)| *id);
        ids.filter_map(|id| registry.entry(id)).collect()
    }

    /// Records the first error, which is the cause of later ones.
    fn record_error(&mut self, error: ManagerError) {
        self.error.get_or_insert(error);
    }
}

/// Converts an error to one of the manager: errors of this crate as they are, others with the name of the runnable.
pub(super) fn own_or_named(error: BoxError, name: &str) -> ManagerError {
    let error = match error.downcast::<ManagerError>() {
        Ok(own) => return *own,
        Err(error) => error,
    };
    match error.downcast::<SourceError>() {
        Ok(error) => ManagerError::from(*error),
        Err(source) => ManagerError::Runnable { name: name.to_owned(), source },
    }
}

/// Waits until `time`; pending if there is none.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
