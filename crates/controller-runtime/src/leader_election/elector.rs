//! Leader election of one candidate as a pure state machine: its requests to the API server, and when it leads.
//!
//! It follows client-go's `tools/leaderelection`, with four differences.
//!
//! - A leadership ends one renew deadline after the last successful renewal was *sent*, not after its response arrived, so that
//!   it ends before another candidate can take over.
//! - A candidate that knows the lease to be free writes at once and reads only after a conflict, so that a released lease
//!   changes hands in one request.
//! - Every change of the lease's resourceVersion counts as a sign of life, so that a leader with a stopped wall clock is not
//!   considered dead.
//! - A lease that was deleted while it was held is created again only when it would have expired.
//!
//! States: `Resting` → `Standing` → `Leading` → `Resting` …, and at the end `Releasing` → `Over`. `Resting` lasts until the
//! manager has stopped everything that a lost leadership started.
//!
//! Times are [`Duration`]s since an arbitrary start, by the candidate's own monotonic clock. Times written by others are
//! never read.

use std::time::Duration;

use super::timing::{JITTER_FACTOR, Timing};

/// A time on the candidate's clock.
pub(super) type Moment = Duration;

/// A candidate's view of the lease object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeaseRecord {
    /// The object's resourceVersion.
    pub(super) version: String,
    /// Identity of the holder; empty if the lease is free.
    pub(super) holder: String,
    pub(super) lease_duration: Duration,
    /// Number of leader changes: the fencing token.
    pub(super) transitions: i32,
}

/// Input of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ElectorInput {
    /// The time returned by [`Elector::next_wake`] has come.
    Wake,
    /// Become a candidate: at the start, and again when everything that a lost leadership started has stopped.
    Stand,
    /// Stop for good, and release the lease if asked to: everything that the leadership started has stopped.
    StepDown { release: bool },
    /// The watch reports the lease, or its deletion. It may lag.
    Seen(Option<LeaseRecord>),
    /// Response to the request in flight, of which there is at most one.
    Answer(LeaseAnswer),
}

/// Outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LeaseAnswer {
    /// The lease as read or written.
    Lease(LeaseRecord),
    /// The lease does not exist.
    Absent,
    /// The lease differs from what the write expected.
    Conflict,
    /// The request failed; a write may have been carried out nevertheless.
    Failed(String),
}

/// Request to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LeaseRequest {
    Get,
    Create {
        holder: String,
        lease_seconds: i32,
        transitions: i32,
    },
    /// Replace the lease if it still has this version.
    Update {
        version: String,
        holder: String,
        lease_seconds: i32,
        transitions: i32,
        /// Whether the write acquires the lease, rather than renews it.
        acquired: bool,
    },
}

/// Notifications to the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LeadershipEvent {
    /// The candidate leads until this time.
    StartedLeading { until: Moment, transitions: i32 },
    /// The candidate continues to lead until this time.
    Renewed { until: Moment },
    /// The candidate no longer leads. It expects [`Stand`](ElectorInput::Stand) when everything that leads has stopped.
    StoppedLeading { reason: String },
    /// The lease has a new holder.
    NewLeader { identity: String },
    /// A write failed because the lease was not as expected; the next one needs a read before it.
    SlowPath,
    /// The election is over for this candidate.
    Over { released: bool },
}

/// Result of a step; at most one request is in flight.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Output {
    pub(super) request: Option<LeaseRequest>,
    pub(super) events: Vec<LeadershipEvent>,
}

/// A candidate in an election.
#[derive(Debug)]
pub(super) struct Elector {
    timing: Timing,
    identity: String,
    rng: fastrand::Rng,
    phase: ElectionPhase,
    /// The lease as last seen.
    lease: Option<LeaseRecord>,
    /// Number of leader changes when the lease was last seen, kept after its deletion.
    transitions: Option<i32>,
    /// Time from which the lease may be taken from its holder.
    free_at: Moment,
    /// Whether the lease must be read before the next write.
    stale: bool,
    /// Whether a write that would make this candidate the holder may have been carried out.
    may_hold: bool,
    in_flight: Option<RequestInFlight>,
    next_attempt: Moment,
    /// The holder reported last.
    leader: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ElectionPhase {
    /// Not a candidate: before the first election, and while the last leadership winds down.
    Resting,
    Standing,
    Leading {
        until: Moment,
    },
    /// Releases the lease, or gives up at that time.
    Releasing {
        by: Moment,
    },
    Over,
}

#[derive(Debug, Clone, Copy)]
struct RequestInFlight {
    purpose: Purpose,
    sent: Moment,
    /// Number of requests before it in the same attempt.
    earlier: u8,
}

/// Requests of the longest attempt: a write, a read after its conflict, and another write.
const LONGEST_ATTEMPT: u8 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Read,
    Hold,
    Release,
}

impl Elector {
    pub(super) fn new(timing: Timing, identity: String, rng: fastrand::Rng) -> Self {
        Self {
            timing,
            identity,
            rng,
            phase: ElectionPhase::Resting,
            lease: None,
            transitions: None,
            free_at: Duration::ZERO,
            stale: true,
            may_hold: false,
            in_flight: None,
            next_attempt: Duration::ZERO,
            leader: String::new(),
        }
    }

    /// Processes `input` at time `now`, which never decreases.
    pub(super) fn step(&mut self, input: ElectorInput, now: Moment) -> Output {
        let mut output = Output::default();
        // Checked before the input is handled: if the permit has expired by now, no input can restore it.
        if let ElectionPhase::Leading { until } = self.phase
            && now >= until
        {
            self.lose(
                format!("not renewed within {} s", self.timing.renew_deadline().as_secs_f32()),
                &mut output,
            );
        }
        match input {
            ElectorInput::Wake => {}
            ElectorInput::Stand => {
                if self.phase == ElectionPhase::Resting {
                    self.phase = ElectionPhase::Standing;
                    self.next_attempt = now;
                }
            }
            ElectorInput::StepDown { release } => self.step_down(release, now, &mut output),
            ElectorInput::Seen(lease) => self.seen(lease, now, &mut output),
            ElectorInput::Answer(answer) => self.answered(answer, now, &mut output),
        }
        // Only one request is in flight at a time; `answered` continues the attempt.
        if self.in_flight.is_none() && now >= self.next_attempt {
            self.attempt(0, now, &mut output);
        }
        output
    }

    /// Time of the next step if no other input arrives before; `None` if there is nothing to wait for.
    pub(super) fn next_wake(&self) -> Option<Moment> {
        let attempt = self.in_flight.is_none().then_some(self.next_attempt);
        match self.phase {
            ElectionPhase::Resting | ElectionPhase::Over => None,
            ElectionPhase::Standing | ElectionPhase::Releasing { .. } => attempt,
            // A leader also wakes at the end of its permit.
            ElectionPhase::Leading { until } => Some(attempt.map_or(until, |attempt| attempt.min(until))),
        }
    }

    /// Returns whether the lease has this version as far as the elector knows, so that the next update is one of this version.
    pub(super) fn knows(&self, version: &str) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.version == version)
    }

    /// Sends the next request of the phase, after `earlier` ones of the same attempt.
    fn attempt(&mut self, earlier: u8, now: Moment, output: &mut Output) {
        let (request, purpose) = match self.phase {
            ElectionPhase::Resting | ElectionPhase::Over => return,
            // The lease expires by itself, so a shutdown does not wait longer for the API server.
            ElectionPhase::Releasing { by } if now >= by => return self.end(output),
            // After a failure or a conflict, the state is unknown: read it before anything else.
            _ if self.stale => (LeaseRequest::Get, Purpose::Read),
            ElectionPhase::Standing | ElectionPhase::Leading { .. } => match &self.lease {
                Some(lease) if self.may_take(now) => (self.hold(lease), Purpose::Hold),
                None if self.may_take(now) => (
                    LeaseRequest::Create {
                        holder: self.identity.clone(),
                        lease_seconds: self.timing.lease_seconds(),
                        transitions: self.transitions_of_new(),
                    },
                    Purpose::Hold,
                ),
                // The lease is not free yet: a read shows whether it has been renewed or released.
                _ => (LeaseRequest::Get, Purpose::Read),
            },
            ElectionPhase::Releasing { .. } => match &self.lease {
                Some(lease) if self.is_ours() => (Self::give_back(lease), Purpose::Release),
                // The lease is not ours after all, so there is nothing to release.
                _ => return self.end(output),
            },
        };
        // Set when the write is sent: even if the response is lost, the lease may be ours and must be released.
        self.may_hold |= purpose == Purpose::Hold;
        self.in_flight = Some(RequestInFlight { purpose, sent: now, earlier });
        output.request = Some(request);
    }

    fn answered(&mut self, answer: LeaseAnswer, now: Moment, output: &mut Output) {
        let Some(RequestInFlight { purpose, sent, earlier }) = self.in_flight.take() else { return };
        let next = earlier + 1;
        match answer {
            LeaseAnswer::Failed(_) => {
                // The write may have been carried out, so the next attempt begins with a read.
                self.stale = true;
                return self.retry(sent, now);
            }
            LeaseAnswer::Conflict => {
                self.stale = true;
                // A conflict proves that this write was not carried out.
                self.may_hold &= purpose != Purpose::Hold;
                output.events.push(LeadershipEvent::SlowPath);
                return if next < LONGEST_ATTEMPT {
                    self.attempt(next, now, output);
                } else {
                    self.retry(sent, now);
                };
            }
            LeaseAnswer::Lease(lease) => self.observe(Some(lease), now, output),
            LeaseAnswer::Absent => self.observe(None, now, output),
        }
        // The answer shows the state of the lease, which settles all doubts about earlier writes.
        self.stale = false;
        self.may_hold = false;
        match (self.phase, purpose) {
            (ElectionPhase::Releasing { .. }, Purpose::Release) => self.end_released(output),
            (ElectionPhase::Standing | ElectionPhase::Leading { .. }, Purpose::Hold) if self.is_ours() => {
                self.won(sent, now, output);
            }
            // Another candidate has taken the lease although the permit is still valid.
            (ElectionPhase::Leading { .. }, _) if self.lease.is_some() && !self.is_ours() => {
                self.lose(format!("{} holds the lease", self.holder()), output);
            }
            // Use the result of a read, or the absence found by a write, at once.
            _ if self.may_take(now) || matches!(self.phase, ElectionPhase::Releasing { .. }) => {
                if next < LONGEST_ATTEMPT { self.attempt(next, now, output) } else { self.retry(sent, now) }
            }
            _ => self.retry(sent, now),
        }
    }

    /// Handles a successful write that makes this candidate the holder.
    fn won(&mut self, sent: Moment, now: Moment, output: &mut Output) {
        // Counted from when the request was sent: other candidates cannot have seen this renewal earlier.
        let until = sent + self.timing.renew_deadline();
        if now >= until {
            return self.retry(sent, now); // too late to rely on
        }
        output.events.push(match self.phase {
            ElectionPhase::Leading { .. } => LeadershipEvent::Renewed { until },
            _ => LeadershipEvent::StartedLeading {
                until,
                transitions: self.lease.as_ref().map_or(0, |lease| lease.transitions),
            },
        });
        self.phase = ElectionPhase::Leading { until };
        self.next_attempt = now + self.timing.retry_period();
    }

    /// Handles a report of the watch.
    fn seen(&mut self, lease: Option<LeaseRecord>, now: Moment, output: &mut Output) {
        match self.phase {
            // A leader may know a newer state from its own writes than a lagging watch does, so a report only causes a read.
            ElectionPhase::Leading { .. } => {
                // If a read is due already, further reports must not bring it forward.
                if lease.is_none_or(|lease| lease.holder != self.identity) && !self.stale {
                    self.stale = true;
                    self.next_attempt = now;
                }
            }
            ElectionPhase::Standing => {
                self.observe(lease, now, output);
                let free_at = if self.may_take(now) { now } else { self.free_at };
                // A report can bring the next attempt forward, but not postpone it.
                self.next_attempt = self.next_attempt.min(free_at);
            }
            ElectionPhase::Resting | ElectionPhase::Releasing { .. } | ElectionPhase::Over => {
                self.observe(lease, now, output);
            }
        }
    }

    /// Records the lease, and restarts its time if it has changed.
    fn observe(&mut self, lease: Option<LeaseRecord>, now: Moment, output: &mut Output) {
        let version = |lease: &Option<LeaseRecord>| lease.as_ref().map(|lease| lease.version.clone());
        // An unchanged version leaves `free_at` as it is: only a change is a sign of life.
        if version(&lease) != version(&self.lease) {
            if let Some(lease) = &lease {
                self.transitions = Some(lease.transitions);
                // The duration that the holder wrote counts; without one, this candidate's own.
                let duration = lease.lease_duration;
                self.free_at = now + if duration.is_zero() { self.timing.lease_duration() } else { duration };
            }
            // `free_at` stays as it is after a deletion: the lease stays taken until it would have expired.
            self.lease = lease;
        }
        if !self.holder().is_empty() && self.holder() != self.leader {
            self.leader = self.holder().to_owned();
            output.events.push(LeadershipEvent::NewLeader { identity: self.leader.clone() });
        }
    }

    fn step_down(&mut self, release: bool, now: Moment, output: &mut Output) {
        if matches!(self.phase, ElectionPhase::Releasing { .. } | ElectionPhase::Over) {
            return;
        }
        if let ElectionPhase::Leading { .. } = self.phase {
            self.lose("this process steps down".to_owned(), output);
        }
        // `may_hold`: a lost response may hide that the lease is ours.
        if release && (self.is_ours() || self.may_hold) {
            self.phase = ElectionPhase::Releasing { by: now + self.timing.renew_deadline() };
            self.next_attempt = now;
        } else {
            self.end(output);
        }
    }

    fn lose(&mut self, reason: String, output: &mut Output) {
        self.phase = ElectionPhase::Resting;
        output.events.push(LeadershipEvent::StoppedLeading { reason });
    }

    fn end(&mut self, output: &mut Output) {
        self.phase = ElectionPhase::Over;
        output.events.push(LeadershipEvent::Over { released: false });
    }

    /// Like [`end`](Self::end), after the lease was given back.
    fn end_released(&mut self, output: &mut Output) {
        self.phase = ElectionPhase::Over;
        output.events.push(LeadershipEvent::Over { released: true });
    }

    /// Schedules the next attempt, after one that was sent at `sent` and did not succeed.
    fn retry(&mut self, sent: Moment, now: Moment) {
        let period = self.timing.retry_period();
        self.next_attempt = match self.phase {
            ElectionPhase::Standing => {
                let retry = now + period.mul_f64(1.0 + self.rng.f64() * JITTER_FACTOR);
                // Wake when the lease becomes free, if that is earlier.
                if self.free_at > now { retry.min(self.free_at) } else { retry }
            }
            // A leader keeps its period from send to send, so that slow responses do not delay renewals.
            _ => now.max(sent + period),
        };
    }

    fn may_take(&self, now: Moment) -> bool {
        match &self.lease {
            Some(lease) => lease.holder.is_empty() || self.is_ours() || now >= self.free_at,
            // A leader may create its own deleted lease again at once.
            None => now >= self.free_at || matches!(self.phase, ElectionPhase::Leading { .. }),
        }
    }

    fn is_ours(&self) -> bool {
        self.holder() == self.identity
    }

    fn holder(&self) -> &str {
        self.lease.as_ref().map_or("", |lease| &lease.holder)
    }

    fn hold(&self, lease: &LeaseRecord) -> LeaseRequest {
        let acquired = !self.is_ours();
        LeaseRequest::Update {
            version: lease.version.clone(),
            holder: self.identity.clone(),
            lease_seconds: self.timing.lease_seconds(),
            transitions: lease.transitions.saturating_add(i32::from(acquired)),
            acquired,
        }
    }

    /// Number of leader changes in a lease that is created again: continues from the number before the deletion. client-go starts
    /// from 0, so that systems that compare fencing tokens consider the next leaders earlier ones.
    fn transitions_of_new(&self) -> i32 {
        // A leader that creates its own deleted lease again is not a change of leaders.
        let hands = i32::from(!matches!(self.phase, ElectionPhase::Leading { .. }));
        self.transitions.map_or(0, |transitions| transitions.saturating_add(hands))
    }

    /// Releases the lease as client-go does: no holder, and a duration of a second.
    fn give_back(lease: &LeaseRecord) -> LeaseRequest {
        LeaseRequest::Update {
            version: lease.version.clone(),
            holder: String::new(),
            lease_seconds: 1,
            transitions: lease.transitions,
            acquired: false,
        }
    }
}

#[cfg(test)]
mod tests;
