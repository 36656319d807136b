//! The election as a state machine: what one candidate asks of the API server, and when it leads.
//!
//! It follows client-go's `tools/leaderelection`, with four differences. The end of a leadership is counted from when the
//! last successful renewal was *sent*, not from when its answer came, so that it comes before anybody can take over. A
//! candidate that knows the lease to be free writes at once and reads only after a conflict, so that a released lease
//! changes hands in one request. Whatever changes the lease's resource version counts as a sign of life, so that a leader
//! whose wall clock stands still is not taken for dead. And a lease that was deleted while somebody held it is made anew
//! only when it would have expired.
//!
//! Time is a [`Duration`] since some moment of the candidate's own, by its own monotonic clock. Times written by others are
//! never read.

use std::time::Duration;

use super::timing::{JITTER_FACTOR, Timing};

/// A moment by the candidate's clock.
pub(super) type Moment = Duration;

/// What a candidate knows of the lease object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// The object's resource version.
    pub(super) version: String,
    /// Empty when nobody holds it.
    pub(super) holder: String,
    pub(super) lease_duration: Duration,
    /// How often it has changed hands: the fencing token.
    pub(super) transitions: i32,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    /// The time that [`Elector::next_wake`] named has come.
    Wake,
    /// From now on, be a candidate: at the start, and again when all that a lost leadership started has stopped.
    Stand,
    /// Stop for good, and give the lease back if asked to: all that the leadership started has stopped.
    StepDown { release: bool },
    /// The watch shows the lease, or that it was deleted. It may lag.
    Seen(Option<Record>),
    /// The answer to the one request in flight.
    Answer(Answer),
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The lease as read or written.
    Lease(Record),
    /// There is none.
    Absent,
    /// It is not, or no longer, as the write assumed.
    Conflict,
    /// Nobody knows whether a write was carried out.
    Failed(String),
}

/// What to ask of the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    Get,
    Create {
        holder: String,
        lease_seconds: i32,
        transitions: i32,
    },
    /// Replace the lease if it has this version still.
    Update {
        version: String,
        holder: String,
        lease_seconds: i32,
        transitions: i32,
        /// Whether a leadership begins with it.
        acquired: bool,
    },
}

/// What those around the elector have to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// It leads, until then.
    StartedLeading { until: Moment, transitions: i32 },
    /// It goes on leading, until then.
    Renewed { until: Moment },
    /// It leads no longer. To be told to [`Stand`](Input::Stand) again when all that leads has stopped.
    StoppedLeading { reason: String },
    /// Somebody holds the lease who did not before.
    NewLeader { identity: String },
    /// A write met a lease other than expected and has to be preceded by a read.
    SlowPath,
    /// All is over.
    Over { released: bool },
}

/// What to do next: at most one request is in flight.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Output {
    pub(super) request: Option<Request>,
    pub(super) events: Vec<Event>,
}

/// A candidate in an election.
#[derive(Debug)]
pub(super) struct Elector {
    timing: Timing,
    identity: String,
    rng: fastrand::Rng,
    phase: Phase,
    /// The lease as last seen.
    lease: Option<Record>,
    /// How often it had changed hands when it was last seen, also where it is gone since.
    transitions: Option<i32>,
    /// When it may be taken from whoever holds it.
    free_at: Moment,
    /// Read it before the next write.
    stale: bool,
    /// A write that would make us the holder may have been carried out.
    unsure: bool,
    in_flight: Option<InFlight>,
    next_attempt: Moment,
    /// The holder last told of.
    leader: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not a candidate: before the first election, and while the last leadership winds down.
    Resting,
    Standing,
    Leading {
        until: Moment,
    },
    /// Gives the lease back, or stops trying at that time.
    Releasing {
        by: Moment,
    },
    Over,
}

#[derive(Debug, Clone, Copy)]
struct InFlight {
    purpose: Purpose,
    sent: Moment,
    /// How many requests of the same attempt came before it.
    earlier: u8,
}

/// The longest attempt: a write, the read after its conflict, and the write after that.
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
            phase: Phase::Resting,
            lease: None,
            transitions: None,
            free_at: Duration::ZERO,
            stale: true,
            unsure: false,
            in_flight: None,
            next_attempt: Duration::ZERO,
            leader: String::new(),
        }
    }

    /// Takes notice of `input` at `now`, which never goes back.
    pub(super) fn step(&mut self, input: Input, now: Moment) -> Output {
        let mut output = Output::default();
        if let Phase::Leading { until } = self.phase
            && now >= until
        {
            self.lose(
                format!("not renewed within {} s", self.timing.renew_deadline().as_secs_f32()),
                &mut output,
            );
        }
        match input {
            Input::Wake => {}
            Input::Stand => {
                if self.phase == Phase::Resting {
                    self.phase = Phase::Standing;
                    self.next_attempt = now;
                }
            }
            Input::StepDown { release } => self.step_down(release, now, &mut output),
            Input::Seen(lease) => self.seen(lease, now, &mut output),
            Input::Answer(answer) => self.answered(answer, now, &mut output),
        }
        if self.in_flight.is_none() && now >= self.next_attempt {
            self.attempt(0, now, &mut output);
        }
        output
    }

    /// When to step next if nothing happens before.
    pub(super) fn next_wake(&self) -> Option<Moment> {
        let attempt = self.in_flight.is_none().then_some(self.next_attempt);
        match self.phase {
            Phase::Resting | Phase::Over => None,
            Phase::Standing | Phase::Releasing { .. } => attempt,
            Phase::Leading { until } => Some(attempt.map_or(until, |attempt| attempt.min(until))),
        }
    }

    /// The next request of the phase, after `earlier` ones of the same attempt.
    fn attempt(&mut self, earlier: u8, now: Moment, output: &mut Output) {
        let (request, purpose) = match self.phase {
            Phase::Resting | Phase::Over => return,
            Phase::Releasing { by } if now >= by => return self.over(false, output),
            _ if self.stale => (Request::Get, Purpose::Read),
            Phase::Standing | Phase::Leading { .. } => match &self.lease {
                Some(lease) if self.may_take(now) => (self.hold(lease), Purpose::Hold),
                None if self.may_take(now) => (
                    Request::Create {
                        holder: self.identity.clone(),
                        lease_seconds: self.timing.lease_seconds(),
                        transitions: self.transitions_of_new(),
                    },
                    Purpose::Hold,
                ),
                _ => (Request::Get, Purpose::Read),
            },
            Phase::Releasing { .. } => match &self.lease {
                Some(lease) if self.is_ours() => (Self::give_back(lease), Purpose::Release),
                _ => return self.over(false, output),
            },
        };
        self.unsure |= purpose == Purpose::Hold;
        self.in_flight = Some(InFlight { purpose, sent: now, earlier });
        output.request = Some(request);
    }

    fn answered(&mut self, answer: Answer, now: Moment, output: &mut Output) {
        let Some(InFlight { purpose, sent, earlier }) = self.in_flight.take() else { return };
        let next = earlier + 1;
        match answer {
            Answer::Failed(_) => {
                self.stale = true;
                return self.retry(sent, now);
            }
            Answer::Conflict => {
                self.stale = true;
                self.unsure &= purpose != Purpose::Hold;
                output.events.push(Event::SlowPath);
                return if next < LONGEST_ATTEMPT {
                    self.attempt(next, now, output);
                } else {
                    self.retry(sent, now);
                };
            }
            Answer::Lease(lease) => self.observe(Some(lease), now, output),
            Answer::Absent => self.observe(None, now, output),
        }
        self.stale = false;
        self.unsure = false;
        match (self.phase, purpose) {
            (Phase::Releasing { .. }, Purpose::Release) => self.over(true, output),
            (Phase::Standing | Phase::Leading { .. }, Purpose::Hold) if self.is_ours() => {
                self.won(sent, now, output);
            }
            (Phase::Leading { .. }, _) if self.lease.is_some() && !self.is_ours() => {
                self.lose(format!("{} holds the lease", self.holder()), output);
            }
            // What a read has shown, or the lack of what a write met, is acted on at once.
            _ if self.may_take(now) || matches!(self.phase, Phase::Releasing { .. }) => {
                if next < LONGEST_ATTEMPT { self.attempt(next, now, output) } else { self.retry(sent, now) }
            }
            _ => self.retry(sent, now),
        }
    }

    /// A write that makes us the holder succeeded.
    fn won(&mut self, sent: Moment, now: Moment, output: &mut Output) {
        let until = sent + self.timing.renew_deadline();
        if now >= until {
            return self.retry(sent, now); // too late to rely on
        }
        output.events.push(match self.phase {
            Phase::Leading { .. } => Event::Renewed { until },
            _ => Event::StartedLeading {
                until,
                transitions: self.lease.as_ref().map_or(0, |lease| lease.transitions),
            },
        });
        self.phase = Phase::Leading { until };
        self.next_attempt = now + self.timing.retry_period();
    }

    /// The watch shows the lease.
    fn seen(&mut self, lease: Option<Record>, now: Moment, output: &mut Output) {
        match self.phase {
            // A watch lags, and what a leader knows from its own writes may be newer: a reason to look, no more.
            Phase::Leading { .. } => {
                if lease.is_none_or(|lease| lease.holder != self.identity) && !self.stale {
                    self.stale = true;
                    self.next_attempt = now;
                }
            }
            Phase::Standing => {
                self.observe(lease, now, output);
                let free_at = if self.may_take(now) { now } else { self.free_at };
                self.next_attempt = self.next_attempt.min(free_at);
            }
            Phase::Resting | Phase::Releasing { .. } | Phase::Over => self.observe(lease, now, output),
        }
    }

    /// Notes the lease, and since when it is as it is.
    fn observe(&mut self, lease: Option<Record>, now: Moment, output: &mut Output) {
        let version = |lease: &Option<Record>| lease.as_ref().map(|lease| lease.version.clone());
        if version(&lease) != version(&self.lease) {
            if let Some(lease) = &lease {
                self.transitions = Some(lease.transitions);
                let said = lease.lease_duration;
                self.free_at = now + if said.is_zero() { self.timing.lease_duration() } else { said };
            }
            // A lease that is deleted stays taken as long as it would have been.
            self.lease = lease;
        }
        if !self.holder().is_empty() && self.holder() != self.leader {
            self.leader = self.holder().to_owned();
            output.events.push(Event::NewLeader { identity: self.leader.clone() });
        }
    }

    fn step_down(&mut self, release: bool, now: Moment, output: &mut Output) {
        if matches!(self.phase, Phase::Releasing { .. } | Phase::Over) {
            return;
        }
        if let Phase::Leading { .. } = self.phase {
            self.lose("it steps down".to_owned(), output);
        }
        if release && (self.is_ours() || self.unsure) {
            self.phase = Phase::Releasing { by: now + self.timing.renew_deadline() };
            self.next_attempt = now;
        } else {
            self.over(false, output);
        }
    }

    fn lose(&mut self, reason: String, output: &mut Output) {
        self.phase = Phase::Resting;
        output.events.push(Event::StoppedLeading { reason });
    }

    fn over(&mut self, released: bool, output: &mut Output) {
        self.phase = Phase::Over;
        output.events.push(Event::Over { released });
    }

    /// Says when the next attempt is, after one that was sent then and led to nothing.
    fn retry(&mut self, sent: Moment, now: Moment) {
        let period = self.timing.retry_period();
        self.next_attempt = match self.phase {
            Phase::Standing => {
                let retry = now + period.mul_f64(1.0 + self.rng.f64() * JITTER_FACTOR);
                // The moment at which the lease falls free is not slept through.
                if self.free_at > now { retry.min(self.free_at) } else { retry }
            }
            _ => now.max(sent + period),
        };
    }

    fn may_take(&self, now: Moment) -> bool {
        match &self.lease {
            Some(lease) => lease.holder.is_empty() || self.is_ours() || now >= self.free_at,
            None => now >= self.free_at || matches!(self.phase, Phase::Leading { .. }),
        }
    }

    fn is_ours(&self) -> bool {
        self.holder() == self.identity
    }

    fn holder(&self) -> &str {
        self.lease.as_ref().map_or("", |lease| &lease.holder)
    }

    fn hold(&self, lease: &Record) -> Request {
        let acquired = !self.is_ours();
        Request::Update {
            version: lease.version.clone(),
            holder: self.identity.clone(),
            lease_seconds: self.timing.lease_seconds(),
            transitions: lease.transitions.saturating_add(i32::from(acquired)),
            acquired,
        }
    }

    /// What a lease that is made anew begins with. client-go begins with 0, and then what compares fencing tokens takes the
    /// next leaders for earlier ones; so it goes on where the lease was that this candidate has seen go.
    fn transitions_of_new(&self) -> i32 {
        let hands = i32::from(!matches!(self.phase, Phase::Leading { .. }));
        self.transitions.map_or(0, |transitions| transitions.saturating_add(hands))
    }

    /// As client-go does it: nobody holds it, for a second.
    fn give_back(lease: &Record) -> Request {
        Request::Update {
            version: lease.version.clone(),
            holder: String::new(),
            lease_seconds: 1,
            transitions: lease.transitions,
            acquired: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn lease(version: &str, holder: &str, transitions: i32) -> Record {
        let lease_duration = 15 * SECOND;
        Record { version: version.to_owned(), holder: holder.to_owned(), lease_duration, transitions }
    }

    fn create(transitions: i32) -> Option<Request> {
        Some(Request::Create { holder: "me".to_owned(), lease_seconds: 15, transitions })
    }

    fn standing() -> Elector {
        let mut elector = Elector::new(Timing::default(), "me".to_owned(), fastrand::Rng::with_seed(1));
        assert_eq!(elector.step(Input::Stand, Duration::ZERO).request, Some(Request::Get));
        elector
    }

    #[test]
    fn the_first_lease_has_not_changed_hands() {
        let mut elector = standing();
        assert_eq!(elector.step(Input::Answer(Answer::Absent), SECOND).request, create(0));
    }

    #[test]
    fn a_lease_that_was_deleted_goes_on_counting() {
        let mut elector = standing();
        elector.step(Input::Answer(Answer::Lease(lease("7", "other", 4))), SECOND);
        assert_eq!(
            elector.step(Input::Seen(None), 2 * SECOND).request,
            None,
            "it is taken until it would expire"
        );
        let output = elector.step(Input::Wake, 16 * SECOND);
        assert_eq!(output.request, create(5));
        let output = elector.step(Input::Answer(Answer::Lease(lease("9", "me", 5))), 17 * SECOND);
        let led = [Event::NewLeader { identity: "me".to_owned() }];
        assert_eq!(output.events[..1], led);
        assert!(matches!(output.events[1], Event::StartedLeading { transitions: 5, .. }));

        // Its own has changed no hands.
        elector.step(Input::Seen(None), 18 * SECOND);
        assert_eq!(elector.step(Input::Answer(Answer::Absent), 18 * SECOND).request, create(5));
    }
}
