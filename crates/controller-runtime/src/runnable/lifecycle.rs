//! Start and stop order of a manager's runnables, as a pure state machine.
//!
//! Runnables belong to groups. Groups start in order, each when every runnable of the group before is ready, and stop in
//! the reverse order, each when every runnable of the group after has ended. With leader election the last group starts with
//! every election and is aborted when the lease is lost.
//!
//! Phases of a run: `Built` → `Starting(group)`, group by group → `Ready` → `Draining(group)`, group by group → `Stopped`. When
//! the grace period ends, `Draining` becomes `Aborting`. With leader election, `Ready` is reached before the last group starts;
//! that group then follows the election: `Waiting` → `Standing` → `Leading` → `Losing` → `Standing` …, and at a shutdown
//! `Ending` → `Over`.

use std::{collections::BTreeMap, fmt};

use super::State;

/// ID of a runnable within its manager.
pub(crate) type Id = u64;

/// Runnables that start and stop together. Groups start in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Group {
    /// Metrics server and health server. They start first, so that they show the progress of the start.
    HttpServers,
    /// Before the caches, because listing may need conversion webhooks.
    Webhooks,
    Caches,
    /// Runnables without leader election.
    Others,
    /// Preparations of the process before it becomes a candidate.
    WarmUp,
    LeaderElected,
}

/// Formats the names of Go's log lines.
impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HttpServers => "HTTP servers",
            Self::Webhooks => "webhooks",
            Self::Caches => "caches",
            Self::Others => "non leader election runnables",
            Self::WarmUp => "warmup runnables",
            Self::LeaderElected => "leader election runnables",
        })
    }
}

impl Group {
    const ALL: [Self; 6] =
        [Self::HttpServers, Self::Webhooks, Self::Caches, Self::Others, Self::WarmUp, Self::LeaderElected];

    fn next(self) -> Option<Self> {
        Self::ALL.into_iter().find(|group| *group > self)
    }

    fn previous(self) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|group| *group < self)
    }
}

/// Event that makes a runnable count as ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ReadyWhen {
    /// Its start.
    Started,
    /// Its own report, [`LifecycleInput::Ready`].
    Signalled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum LifecycleInput {
    /// The runnable reports that it is ready.
    Ready(Id),
    /// The runnable ended, with an error or without.
    Ended(Id, Result<(), RunnableFailed>),
    /// The runnable is to be removed.
    Remove(Id),
    Shutdown,
    Elected,
    /// The lease was lost.
    Lost,
    /// The election is over, after [`Effect::StepDown`].
    ElectionOver,
    /// The time for graceful shutdown is over.
    GraceOver,
}

/// Marks a failure; the run of the manager has the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RunnableFailed;

/// Action for the run of the manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Effect {
    Spawn(Id),
    /// Ask the runnable to finish.
    Drain(Id),
    /// Drop the runnable at its next `.await`.
    Abort(Id),
    /// Become a candidate: first, and again after each loss.
    Stand,
    /// Stop being a candidate. All leader-elected runnables have ended.
    StepDown,
}

/// The manager is stopping or has stopped, and accepts nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused;

/// The manager is running already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AlreadyRunning;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Lifecycle {
    phase: LifecyclePhase,
    members: BTreeMap<Id, Member>,
    next_id: Id,
    election: Option<ElectionState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum LifecyclePhase {
    Built,
    /// This group and those before it have been started.
    Starting(Group),
    Ready,
    /// This group and those after it have been asked to stop.
    Draining(Group),
    /// Everything has been aborted.
    Aborting,
    Stopped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Member {
    group: Group,
    ready: ReadyWhen,
    state: MemberState,
    removed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum MemberState {
    Queued,
    Starting,
    Ready,
    Draining,
    Aborting,
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum ElectionState {
    /// Not a candidate yet.
    Waiting,
    Standing,
    Leading,
    /// The lease was lost; leader-elected runnables are being aborted.
    Losing,
    /// The election has been asked to end.
    Ending,
    Over,
}

impl Lifecycle {
    /// Lifecycle of a manager without leader election.
    pub(crate) fn new() -> Self {
        Self { phase: LifecyclePhase::Built, members: BTreeMap::new(), next_id: 0, election: None }
    }

    /// Lifecycle of a manager with leader election.
    pub(crate) fn with_election() -> Self {
        Self { election: Some(ElectionState::Waiting), ..Self::new() }
    }

    pub(crate) fn state(&self) -> State {
        match self.phase {
            LifecyclePhase::Built => State::Built,
            LifecyclePhase::Starting(_) => State::Starting,
            LifecyclePhase::Ready => State::Ready,
            LifecyclePhase::Draining(_) | LifecyclePhase::Aborting => State::Draining,
            LifecyclePhase::Stopped => State::Stopped,
        }
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        matches!(self.phase, LifecyclePhase::Draining(_) | LifecyclePhase::Aborting | LifecyclePhase::Stopped)
    }

    /// Returns whether the lease is lost while leader-elected runnables still run.
    pub(crate) fn is_losing(&self) -> bool {
        self.election == Some(ElectionState::Losing)
    }

    pub(crate) fn group(&self, id: Id) -> Option<Group> {
        self.members.get(&id).map(|member| member.group)
    }

    /// Adds a runnable, and starts it if its group has been started.
    pub(crate) fn add(&mut self, group: Group, ready: ReadyWhen) -> Result<(Id, Vec<Effect>), Refused> {
        if self.is_shutting_down() {
            return Err(Refused);
        }
        let id = self.next_id;
        self.next_id += 1;
        self.members.insert(id, Member { group, ready, state: MemberState::Queued, removed: false });
        let mut effects = Vec::new();
        if self.is_started(group) {
            self.spawn(id, &mut effects);
        }
        Ok((id, effects))
    }

    /// Starts a run. After an earlier run, everything starts again.
    pub(crate) fn run(&mut self) -> Result<Vec<Effect>, AlreadyRunning> {
        if !matches!(self.phase, LifecyclePhase::Built | LifecyclePhase::Stopped) {
            return Err(AlreadyRunning);
        }
        for member in self.members.values_mut() {
            debug_assert!(!member.removed, "removed members are dropped at the end of a run");
            member.state = MemberState::Queued;
        }
        self.election = self.election.map(|_| ElectionState::Waiting);
        self.phase = LifecyclePhase::Starting(Group::HttpServers);
        let mut effects = Vec::new();
        // An empty group is ready at once; `advance` continues with the next.
        self.spawn_all(Group::HttpServers, &mut effects);
        self.advance(&mut effects);
        Ok(effects)
    }

    /// Marks the run as ended, even if it was dropped in the middle: no runnable runs any more.
    pub(crate) fn stop(&mut self) {
        self.phase = LifecyclePhase::Stopped;
        self.election = self.election.map(|_| ElectionState::Over);
        self.members.retain(|_, member| !member.removed);
        for member in self.members.values_mut() {
            member.state = MemberState::Ended;
        }
    }

    pub(crate) fn step(&mut self, input: LifecycleInput) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            LifecycleInput::Ready(id) => self.set_state(id, |state| match state {
                MemberState::Starting => MemberState::Ready,
                // A late report, of a runnable that is stopping or has ended, changes nothing.
                other => other,
            }),
            LifecycleInput::Ended(id, result) => self.ended(id, result, &mut effects),
            LifecycleInput::Remove(id) => self.remove(id, &mut effects),
            LifecycleInput::Shutdown => self.shut_down(&mut effects),
            LifecycleInput::Elected => {
                // Only a ready manager stands: an election that was won during a shutdown starts nothing.
                if self.election == Some(ElectionState::Standing) {
                    self.election = Some(ElectionState::Leading);
                    self.spawn_all(Group::LeaderElected, &mut effects);
                }
            }
            LifecycleInput::Lost => {
                // `Standing` as well: of a lease that was won and lost at once, only the loss is seen.
                if matches!(self.election, Some(ElectionState::Standing | ElectionState::Leading)) {
                    self.election = Some(ElectionState::Losing);
                    self.abort(|group| group == Group::LeaderElected, &mut effects);
                }
            }
            LifecycleInput::ElectionOver => self.election = self.election.map(|_| ElectionState::Over),
            LifecycleInput::GraceOver => {
                if matches!(self.phase, LifecyclePhase::Draining(_)) {
                    self.phase = LifecyclePhase::Aborting;
                    self.abort(|_| true, &mut effects);
                }
            }
        }
        self.advance(&mut effects);
        effects
    }

    /// Takes every transition that is possible without another input.
    fn advance(&mut self, effects: &mut Vec<Effect>) {
        // During a shutdown the candidate does not stand again. It steps down below.
        if self.election == Some(ElectionState::Losing)
            && self.has_ended(Group::LeaderElected)
            && !self.is_shutting_down()
        {
            self.election = Some(ElectionState::Standing);
            // Each leadership starts all runnables, including those that ended by themselves in the last one.
            for member in self.members.values_mut().filter(|member| member.group == Group::LeaderElected) {
                member.state = MemberState::Queued;
            }
            effects.push(Effect::Stand);
        }
        // Several groups in one call, if they are empty or ready at once.
        while let LifecyclePhase::Starting(group) = self.phase {
            // A runnable that has returned does not hold up the start.
            if !self.all(group, |member| matches!(member.state, MemberState::Ready | MemberState::Ended)) {
                return;
            }
            match group.next() {
                // With an election, the last group starts when the lease is won; the manager is ready before.
                Some(Group::LeaderElected) if self.election.is_some() => {
                    self.election = Some(ElectionState::Standing);
                    effects.push(Effect::Stand);
                    self.phase = LifecyclePhase::Ready;
                }
                Some(next) => {
                    self.phase = LifecyclePhase::Starting(next);
                    self.spawn_all(next, effects);
                }
                None => self.phase = LifecyclePhase::Ready,
            }
        }
        while let LifecyclePhase::Draining(group) = self.phase {
            if !self.has_ended(group) {
                return;
            }
            // The first group to end is the leader-elected one; in later rounds this call has no effect.
            self.step_down_once_nothing_leads(effects);
            match group.previous() {
                Some(previous) => {
                    self.phase = LifecyclePhase::Draining(previous);
                    self.drain(previous, effects);
                }
                None if self.is_over() => self.phase = LifecyclePhase::Stopped,
                // All runnables have ended, but the election has not: wait for `ElectionOver`.
                None => return,
            }
        }
        if self.phase == LifecyclePhase::Aborting {
            self.step_down_once_nothing_leads(effects);
            if self.is_over() {
                self.phase = LifecyclePhase::Stopped;
            }
        }
    }

    fn shut_down(&mut self, effects: &mut Vec<Effect>) {
        match self.phase {
            LifecyclePhase::Built => self.phase = LifecyclePhase::Stopped,
            LifecyclePhase::Starting(_) | LifecyclePhase::Ready => {
                self.phase = LifecyclePhase::Draining(Group::LeaderElected);
                self.drain(Group::LeaderElected, effects);
            }
            LifecyclePhase::Draining(_) | LifecyclePhase::Aborting | LifecyclePhase::Stopped => {}
        }
    }

    fn ended(&mut self, id: Id, result: Result<(), RunnableFailed>, effects: &mut Vec<Effect>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        // A runnable that was asked to stop may return an error without consequences.
        let unasked = matches!(member.state, MemberState::Starting | MemberState::Ready);
        member.state = MemberState::Ended;
        if member.removed {
            self.members.remove(&id);
        }
        if unasked && result.is_err() {
            self.shut_down(effects);
        }
    }

    fn remove(&mut self, id: Id, effects: &mut Vec<Effect>) {
        let stopping = self.is_shutting_down();
        let Some(member) = self.members.get_mut(&id) else { return };
        member.removed = true;
        match member.state {
            // The runnable does not run, so it is forgotten at once. Others are forgotten when they have ended.
            MemberState::Queued | MemberState::Ended => {
                self.members.remove(&id);
            }
            // During a shutdown it stops with its group, when nothing depends on it any more.
            MemberState::Starting | MemberState::Ready if !stopping => {
                member.state = MemberState::Draining;
                effects.push(Effect::Drain(id));
            }
            _ => {}
        }
    }

    /// Returns whether a runnable added to the group starts at once.
    fn is_started(&self, group: Group) -> bool {
        match self.phase {
            LifecyclePhase::Starting(started) => group <= started,
            LifecyclePhase::Ready => {
                group != Group::LeaderElected
                    || self.election.is_none_or(|election| election == ElectionState::Leading)
            }
            LifecyclePhase::Built
            | LifecyclePhase::Draining(_)
            | LifecyclePhase::Aborting
            | LifecyclePhase::Stopped => false,
        }
    }

    fn spawn_all(&mut self, group: Group, effects: &mut Vec<Effect>) {
        let queued = |(id, member): (&Id, &Member)| {
            (member.group == group && member.state == MemberState::Queued).then_some(*id)
        };
        let ids: Vec<_> = self.members.iter().filter_map(queued).collect();
        for id in ids {
            self.spawn(id, effects);
        }
    }

    fn spawn(&mut self, id: Id, effects: &mut Vec<Effect>) {
        let member = self.members.get_mut(&id).expect("only members are spawned");
        member.state = match member.ready {
            ReadyWhen::Signalled => MemberState::Starting,
            ReadyWhen::Started => MemberState::Ready,
        };
        effects.push(Effect::Spawn(id));
    }

    fn drain(&mut self, group: Group, effects: &mut Vec<Effect>) {
        // A group stops in parallel; order exists only between groups.
        for (id, member) in self.members.iter_mut().filter(|(_, member)| member.group == group) {
            if matches!(member.state, MemberState::Starting | MemberState::Ready) {
                member.state = MemberState::Draining;
                effects.push(Effect::Drain(*id));
            }
        }
    }

    fn abort(&mut self, concerns: impl Fn(Group) -> bool, effects: &mut Vec<Effect>) {
        for (id, member) in self.members.iter_mut().filter(|(_, member)| concerns(member.group)) {
            if member.is_running() && member.state != MemberState::Aborting {
                member.state = MemberState::Aborting;
                effects.push(Effect::Abort(*id));
            }
        }
    }

    fn step_down_once_nothing_leads(&mut self, effects: &mut Vec<Effect>) {
        let to_end = match self.election {
            None | Some(ElectionState::Ending | ElectionState::Over) => return,
            Some(_) => self.has_ended(Group::LeaderElected),
        };
        if to_end {
            self.election = Some(ElectionState::Ending);
            effects.push(Effect::StepDown);
        }
    }

    fn is_over(&self) -> bool {
        self.members.values().all(|member| !member.is_running())
            && self.election.is_none_or(|election| election == ElectionState::Over)
    }

    fn has_ended(&self, group: Group) -> bool {
        self.all(group, |member| !member.is_running())
    }

    fn all(&self, group: Group, test: impl Fn(&Member) -> bool) -> bool {
        self.members.values().filter(|member| member.group == group).all(test)
    }

    fn set_state(&mut self, id: Id, next: impl FnOnce(MemberState) -> MemberState) {
        if let Some(member) = self.members.get_mut(&id) {
            member.state = next(member.state);
        }
    }
}

impl Member {
    fn is_running(&self) -> bool {
        !matches!(self.state, MemberState::Queued | MemberState::Ended)
    }
}

#[cfg(test)]
mod tests;
