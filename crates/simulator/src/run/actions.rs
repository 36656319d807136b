//! Actions at the border of the processes, and the deviations of a plan at them.

use std::sync::Arc;

use kube_apiserver_embedded::faults::{Action as FaultAction, Failure, Rule};
use tokio::time::{Duration, Instant};

use super::{
    Run,
    crash_point::CrashPlace,
    holds::HoldEnd,
    outcome::{End, Read, Write},
};
use crate::{
    hub::{CallResult, Order, Possible, Seen},
    names::{Actor, CallName, process_of},
    plan::{Deviation, DeviationKind, Place, Refusal, Restart, Until},
    trace::Action,
};

/// Duration of a [`DeviationKind::CutOff`]: the process gives up its lease after 10 s, and another one leads after 15 s.
const CUT_OFF: Duration = Duration::from_secs(40);

/// Duration of a [`DeviationKind::Outage`]: a dozen attempts of a request.
const OUTAGE: Duration = Duration::from_secs(60);

/// A resource or remote system that refuses the calls of a process for a while.
pub(super) struct Outage {
    actor: Actor,
    target: String,
    until: Instant,
}

impl Outage {
    /// Whether it refuses a call now. Watches live on.
    fn concerns(&self, actor: Actor, name: &CallName) -> bool {
        let is_over = self.until <= Instant::now();
        self.actor == actor && *self.target == *resource(name) && !name.is_watch() && !is_over
    }
}

/// Resource or remote system of a call.
fn resource(name: &CallName) -> &str {
    name.target.split('/').next().unwrap_or_default()
}

/// Deviations that happen when the answer of a call is due.
pub(super) struct DueAnswer {
    pub(super) caller: Actor,
    /// The deviation that lets the garbage collector act first.
    collects: Option<Deviation>,
    /// The deviation that loses the answer; `None` if it is delivered.
    lost: Option<Deviation>,
}

impl DueAnswer {
    fn of(caller: Actor) -> Self {
        Self { caller, collects: None, lost: None }
    }

    /// Deviations that have not happened.
    pub(super) fn into_deviations(self) -> impl Iterator<Item = Deviation> {
        self.collects.into_iter().chain(self.lost)
    }
}

/// Effect of the plan on a call whose turn it is.
enum CallDeviation {
    /// The call is carried out.
    None,
    /// The call is refused.
    Refused(Refusal),
    /// The call is not carried out now: its process has crashed or is paused, or other actions come first.
    Postponed,
}

/// A process that is cut off from the world for a while.
pub(super) struct PausedActor {
    actor: Actor,
    pub(super) until: Instant,
}

impl Run<'_> {
    /// Carries out an action that the hub has chosen.
    pub(super) async fn take_action(&mut self, possible: Possible) -> Result<(), End> {
        match possible {
            Possible::CarryOut(seen) => self.carry_out(seen).await,
            Possible::Answer(seen) => {
                self.answer(seen).await;
                Ok(())
            }
            Possible::Deliver { watch, actor, name } => {
                let lines = self.hub.deliver(watch);
                // Only holds and deviations need the name of the stream, and most runs have neither here.
                if actor.is_operator() && !(self.holds.is_empty() && self.plan.is_empty()) {
                    let stream = actor.stream(&name.target);
                    let is_other = |stream: &str, other: &str| {
                        stream != other && process_of(stream) == process_of(other)
                    };
                    let others = self.holds.iter_mut().filter(|hold| is_other(&hold.stream, &stream));
                    others.for_each(|hold| hold.other_lines += 1);
                    let happened = |deviation: &Deviation| {
                        deviation.what.place() == Place::Stream && deviation.call == stream
                    };
                    self.plan.retain(|deviation| !happened(deviation));
                }
                self.log(Action::Delivered { actor, name, lines });
                Ok(())
            }
        }
    }

    /// Carries out a call, unless a deviation of the plan prevents that or delays it.
    async fn carry_out(&mut self, seen: Seen) -> Result<(), End> {
        let Seen { id, actor, name } = &seen;
        // Counted even if a deviation prevents the call: a retry without a pause is a loop all the same.
        self.count_call(name);
        let mut refusal = None;
        if actor.is_operator() && name.is_write() {
            let call = name.to_string();
            let number = self.number_of(*id, &call);
            // These are the calls before which `crashes` in `explore/strategies.rs` crashes the operator.
            if self.writes.is_empty() || self.others_changed {
                self.note_crash_point(CrashPlace { call: call.clone(), number, is_carried_out: false });
            }
            match self.deviate(&seen, &call, number).await {
                CallDeviation::Postponed => return Ok(()),
                CallDeviation::Refused(how) => refusal = Some(how),
                CallDeviation::None => {}
            }
            self.record_write(&seen, call, number);
        }
        if actor.is_operator() && name.is_read() {
            refusal = self.note_read(name);
        }
        let is_out = self.outage.as_ref().is_some_and(|outage| outage.concerns(*actor, name));
        let order = match refusal {
            // An outage also refuses the call that began it, which `deviate` does not report as refused.
            _ if is_out => Order::Refuse,
            Some(refusal) => self.refuse(&seen, refusal),
            None => Order::CarryOut,
        };
        self.effects += usize::from(name.is_effect());
        if let Some(work) = self.hub.take(*id) {
            if order == Order::CarryOut {
                let name = Arc::clone(name);
                self.log(Action::CarriedOut { actor: *actor, name, changed: Arc::default() });
            }
            let (hub, id, work) = (self.hub.clone(), *id, work(order));
            // The call runs in a task, so that the driver goes on meanwhile. The answer then waits in the hub
            // for its turn.
            self.working.spawn(async move {
                let answer = work.await;
                hub.carried_out(id, answer);
            });
        }
        while self.working.try_join_next().is_some() {}
        Ok(())
    }

    /// Counts a call about an object without time passing. Objects with generated names share a name, and are not counted.
    fn count_call(&mut self, name: &Arc<CallName>) {
        if !name.key.ends_with('*') && !name.key.is_empty() {
            let calls = self.calls_at_once.entry(Arc::clone(name)).or_default();
            *calls += 1;
            self.most_calls_at_once = self.most_calls_at_once.max(*calls);
        }
    }

    /// Returns the number of a write among those with the name `call`. A call that was held or paused keeps the number of its first turn.
    fn number_of(&mut self, id: u64, call: &str) -> u32 {
        if let Some(number) = self.numbers.get(&id) {
            return *number;
        }
        let number = self.count(call);
        self.numbers.insert(id, number);
        number
    }

    /// Counts a call by its name, and returns how many there were.
    fn count(&mut self, call: &str) -> u32 {
        // Most names are known, so that the text is not copied.
        if let Some(count) = self.counts.get_mut(call) {
            *count += 1;
            return *count;
        }
        self.counts.insert(call.to_owned(), 1);
        1
    }

    /// Takes the deviations at a write out of the plan. Those that happen when the answer is due are noted.
    async fn deviate(&mut self, seen: &Seen, call: &str, number: u32) -> CallDeviation {
        let Seen { id, actor, name } = seen;
        let mut taken = CallDeviation::None;
        // A plan may have several deviations at one call, such as a refusal and a crash after it.
        while let Some(deviation) = self.deviation(call, number) {
            match deviation.what {
                DeviationKind::CrashBefore(restart) => {
                    self.crash(*actor, &format!("before it sends: {name}"), restart).await;
                    return CallDeviation::Postponed;
                }
                DeviationKind::CrashAfter(_)
                | DeviationKind::LoseAnswer
                | DeviationKind::LoseAnswerAndEvents
                | DeviationKind::CollectAfter => self.note_due(seen, deviation),
                DeviationKind::Refuse(how) => match taken {
                    CallDeviation::Refused(_) => self.missed.push(deviation),
                    _ => taken = CallDeviation::Refused(how),
                },
                DeviationKind::Outage => {
                    let how = format!("{} this on", DeviationKind::Outage);
                    self.log(Action::Refused { actor: *actor, name: Arc::clone(name), how });
                    let until = Instant::now() + OUTAGE;
                    self.outage = Some(Outage { actor: *actor, target: resource(name).to_owned(), until });
                }
                // After a delay and a pause the hub offers the call again: it has not been taken from there.
                DeviationKind::StepBefore | DeviationKind::StepAround | DeviationKind::Delay => {
                    self.delay(seen, deviation);
                    return CallDeviation::Postponed;
                }
                DeviationKind::Pause(seconds) => {
                    self.pause(*actor, Duration::from_secs(seconds.into()));
                    return CallDeviation::Postponed;
                }
                DeviationKind::CutOff => {
                    // The request is on its way, so it arrives even if the process dies meanwhile.
                    self.hub.make_zombie(*id);
                    self.pause(*actor, CUT_OFF);
                    return CallDeviation::Postponed;
                }
                // These do not happen at calls.
                DeviationKind::CrashAgain
                | DeviationKind::Hold(_)
                | DeviationKind::Relist(_)
                | DeviationKind::Apart
                | DeviationKind::Late
                | DeviationKind::CrashAtRest(_)
                | DeviationKind::Shuffle => {}
            }
        }
        taken
    }

    /// Records a write that is carried out now.
    fn record_write(&mut self, seen: &Seen, call: String, number: u32) {
        let Seen { id, actor, .. } = seen;
        if let Some(crash) = self.second_crash(*actor) {
            // Like any crash after a write, it happens when the answer of the write is due.
            let due = self.due.entry(*id).or_insert(DueAnswer::of(*actor));
            match due.lost {
                None => due.lost = Some(crash),
                Some(_) => self.missed.push(crash),
            }
        }
        let write = Write {
            call,
            number,
            step: self.begun,
            at: self.start.elapsed(),
            is_visible: false,
            is_after_others: std::mem::take(&mut self.others_changed),
        };
        // Whether the write is visible is known only when its commit is taken from the news.
        self.written.insert(*id, self.writes.len());
        self.writes.push(write);
    }

    /// Counts a read, and returns how the plan refuses it.
    fn note_read(&mut self, name: &CallName) -> Option<Refusal> {
        let call = name.to_string();
        let number = self.count(&call);
        let mut refusal = None;
        while let Some(deviation) = self.deviation(&call, number) {
            match deviation.what {
                DeviationKind::Refuse(how) if refusal.is_none() => refusal = Some(how),
                _ => self.missed.push(deviation),
            }
        }
        // Most steps read an object many times. A search refuses only the first read, to keep its plans few.
        if self.reads_of_step.insert(call.clone()) {
            self.reads.push(Read { call, number });
        }
        refusal
    }

    /// Prepares a deviation that happens when the answer of a call is due. An answer is lost once, and is preceded by one collection.
    fn note_due(&mut self, seen: &Seen, deviation: Deviation) {
        let Seen { id, actor, name } = seen;
        let what = deviation.what;
        let due = self.due.entry(*id).or_insert(DueAnswer::of(*actor));
        let place = if what == DeviationKind::CollectAfter { &mut due.collects } else { &mut due.lost };
        if place.is_some() {
            return self.missed.push(deviation);
        }
        *place = Some(deviation);
        if what == DeviationKind::LoseAnswerAndEvents {
            let stream = actor.stream(resource(name));
            self.hub.hold(&stream);
            self.log(Action::Held { actor: *actor, what: format!("lines about {stream}") });
            // The first reconcile that ends is the one that received no answer.
            self.begin_hold(*actor, stream, Until::Reconciles(2), HoldEnd::Delivers);
        }
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
        let how = DeviationKind::Refuse(refusal).to_string();
        self.log(Action::Refused { actor: seen.actor, name: seen.name.clone(), how });
        // These calls never reach the server, so they need no rule of its faults.
        if refusal == Refusal::Reset || seen.name.is_effect() {
            return Order::Refuse;
        }
        // The rule is for the next request. That is this call, because no other is carried out before the tasks have run.
        self.server.faults().add(Rule::new(action).once());
        Order::CarryOut
    }

    /// Delivers the answer of a call, unless a deviation loses it or lets the garbage collector act first.
    async fn answer(&mut self, seen: Seen) {
        let Seen { id, actor, name } = seen;
        let written = self.written.remove(&id);
        self.numbers.remove(&id);
        if let Some(write) = written.and_then(|place| self.writes.get(place)).filter(|write| write.is_visible)
        {
            // A write that changed nothing leaves the world as it was, so no search crashes after it.
            let place = CrashPlace { call: write.call.clone(), number: write.number, is_carried_out: true };
            self.note_crash_point(place);
        }
        if self.due.get_mut(&id).is_some_and(|due| due.collects.take().is_some()) {
            // The answer is held back until the collector has acted.
            self.collect_early = true;
            return;
        }
        let lost = self.due.remove(&id).and_then(|due| due.lost).map(|deviation| deviation.what);
        let crash = match lost {
            Some(DeviationKind::CrashAfter(restart)) => Some(restart),
            Some(DeviationKind::CrashAgain) => Some(Restart::AtOnce),
            _ => None,
        };
        if let Some(restart) = crash {
            self.hub.remove(id);
            return self.crash(actor, &format!("without the answer to: {name}"), restart).await;
        }
        match lost {
            Some(DeviationKind::LoseAnswer | DeviationKind::LoseAnswerAndEvents) => {
                self.hub.answer(id, CallResult::Lost);
                self.log(Action::AnswerLost { actor, name });
            }
            _ => {
                self.hub.answer(id, CallResult::Answered);
                self.log(Action::Answered { actor, name });
            }
        }
    }

    /// Takes a deviation at a call out of the plan: the first of those that precede the call, or else the first.
    fn deviation(&mut self, call: &str, number: u32) -> Option<Deviation> {
        let is_here = |deviation: &Deviation| {
            deviation.what.place() == Place::Call && deviation.call == call && deviation.number == number
        };
        let here = self.plan.iter().enumerate().filter(|(_, deviation)| is_here(deviation));
        let (place, _) = here.min_by_key(|(_, deviation)| !deviation.what.precedes_its_call())?;
        Some(self.plan.remove(place))
    }

    /// Counts a write of a process, and returns the deviation that lets the process crash again after it.
    fn second_crash(&mut self, actor: Actor) -> Option<Deviation> {
        let Actor::Process { life, .. } = actor else { return None };
        let writes = self.writes_of_lives.entry(actor).or_default();
        *writes += 1;
        // Lives are counted from 0, so the writes of the first life, before any crash, do not count.
        let is_now = |deviation: &Deviation| {
            deviation.what == DeviationKind::CrashAgain && deviation.number == *writes
        };
        let place = self.plan.iter().position(is_now).filter(|_| life > 0)?;
        Some(self.plan.remove(place))
    }

    fn pause(&mut self, actor: Actor, duration: Duration) {
        self.hub.pause(actor);
        self.paused.push(PausedActor { actor, until: Instant::now() + duration });
        self.log(Action::Paused { actor, duration });
    }

    /// Ends the pauses that are over.
    pub(super) fn end_pauses(&mut self) {
        for PausedActor { actor, .. } in self.paused.extract_if(.., |paused| paused.until <= Instant::now()) {
            self.hub.resume(actor);
            // `log` would borrow the whole run, and `paused` is borrowed here.
            self.trace
                .push(crate::trace::Entry { at: self.start.elapsed(), action: Action::Resumed { actor } });
            self.unrest_since = Instant::now();
        }
    }
}
