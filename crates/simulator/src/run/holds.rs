//! Streams of watches that a plan holds back, and when that ends.

use std::sync::Arc;

use tokio::time::{Duration, Instant};

use super::{Run, quiet::Rest};
use crate::{
    names::{Actor, process_of, stream_of},
    plan::{Deviation, DeviationKind, Until},
    reconciles::Reconcile,
    run::outcome::{ArrivedLine, End},
    trace::Action,
};

/// Virtual time after which a hold ends in any case: long enough for a failover after some steps, and much shorter than the time for
/// which a step is tried, because a step may need an operator that has received the events.
pub(super) const LONGEST_HOLD: Duration = Duration::from_secs(120);

/// Virtual time for which a hold waits for reconciles that timers of the operator begin: the cache probes a watch after this silence.
const LONGEST_LAG: Duration = Duration::from_secs(30);

/// Virtual time that a hold waits for more lines.
const LONGEST_WAIT_FOR_LINES: Duration = Duration::from_secs(10);

/// Maximum number of logged errors that a run keeps.
const ERRORS: usize = 3;

/// Lines that a process receives when a hold ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HoldEnd {
    /// The lines that were held back.
    Delivers,
    /// The end of the watch with 410, in place of the lines.
    Relists,
}

/// A stream that is held back.
pub(super) struct Hold {
    /// The process that receives no lines.
    actor: Actor,
    pub(super) stream: String,
    pub(super) until: Until,
    end: HoldEnd,
    pub(super) since: Instant,
    /// Step after which the hold began.
    step: usize,
    /// Numbers of lines of the stream, of lines of other streams to the process, and of ended reconciles of the process, since the hold began.
    lines: u32,
    pub(super) other_lines: u32,
    reconciles: u32,
}

impl Run<'_> {
    /// Begins to hold a stream back. The hub already withholds its lines.
    pub(super) fn begin_hold(&mut self, actor: Actor, stream: String, until: Until, end: HoldEnd) {
        self.holds.push(Hold {
            actor,
            stream,
            until,
            end,
            since: Instant::now(),
            step: self.begun,
            lines: 0,
            other_lines: 0,
            reconciles: 0,
        });
    }

    /// Records the lines that have arrived, counts them for the holds, and begins the holds and relists at them.
    pub(super) fn take_lines(&mut self) {
        for (line, number) in self.hub.take_arrived() {
            if !self.holds.is_empty() {
                let stream = stream_of(&line);
                let of_stream = |hold: &&mut Hold| hold.stream == stream;
                self.holds.iter_mut().filter(of_stream).for_each(|hold| hold.lines += 1);
            }
            let begins = |deviation: &Deviation| {
                matches!(deviation.what, DeviationKind::Hold(_) | DeviationKind::Relist(_))
                    && deviation.call == line
                    && deviation.number == number
            };
            // The hold begins after the count above, because it waits for later lines than its own.
            if let Some(place) = self.plan.iter().position(begins) {
                let stream = stream_of(&line);
                let actor = self.actor_of_stream(&stream);
                match self.plan.remove(place).what {
                    DeviationKind::Hold(until) => {
                        let what = format!("lines about {stream}, from {line} on");
                        self.log(Action::Held { actor, what });
                        self.begin_hold(actor, stream, until, HoldEnd::Delivers);
                    }
                    DeviationKind::Relist(until) => {
                        let what = format!("lines about {stream}, from {line} on, which it never receives");
                        self.log(Action::Held { actor, what });
                        self.begin_hold(actor, stream, until, HoldEnd::Relists);
                    }
                    _ => {}
                }
            }
            self.lines.push(ArrivedLine { line, number, step: self.begun });
        }
    }

    /// Moves reconciles that began into the trace, and counts those that ended for the holds.
    ///
    /// # Errors
    ///
    /// A reconcile panicked, or two reconciles of one request are in progress.
    pub(super) fn take_reconciles(&mut self) -> Result<(), End> {
        for reconcile in self.reconciles.take() {
            match reconcile {
                Reconcile::Began { controller, label } => self.reconcile_began(&controller, &label)?,
                Reconcile::Ended { controller, label } => {
                    let request = (Arc::clone(&controller), label);
                    // Ends of reconciles whose process has crashed arrive here as well, when their spans are
                    // dropped.
                    if let Some(open) = self.open.get_mut(&request) {
                        *open -= 1;
                        if *open == 0 {
                            self.open.remove(&request);
                        }
                    }
                    if !self.holds.is_empty() {
                        let process = self.actor_of(&controller).stream("");
                        let of_process = |hold: &&mut Hold| process_of(&hold.stream) == process_of(&process);
                        self.holds.iter_mut().filter(of_process).for_each(|hold| hold.reconciles += 1);
                    }
                }
                Reconcile::Failed(error) => {
                    if let Some(panic) = error.strip_prefix("panic: ") {
                        let reason = panic.trim_end_matches(" [recovered]").to_owned();
                        return Err(End::Panicked { reason });
                    }
                    // A repeated error is kept once, as the latest.
                    self.errors.retain(|known| *known != error);
                    self.errors.push(error);
                    let excess = self.errors.len().saturating_sub(ERRORS);
                    self.errors.drain(..excess);
                }
            }
        }
        Ok(())
    }

    fn reconcile_began(&mut self, controller: &Arc<str>, label: &Arc<str>) -> Result<(), End> {
        let actor = self.actor_of(controller);
        let open = self.open.entry((Arc::clone(controller), Arc::clone(label))).or_default();
        *open += 1;
        let open = *open;
        self.log(Action::ReconcileBegan { actor, label: Arc::clone(label) });
        // Controllers of different programs may have the same name, and each replica may have a controller without leader election.
        if open > 1 && open > self.most_open(controller) && self.is_of_one_program(controller) {
            let request = label.strip_prefix(&**controller).unwrap_or(label).trim().to_owned();
            return Err(End::Overlap { controller: controller.to_string(), request });
        }
        Ok(())
    }

    /// Ends the holds that are over, and returns whether there was one.
    pub(super) fn end_holds(&mut self, rest: Rest) -> bool {
        if self.holds.is_empty() {
            return false;
        }
        let is_over = |hold: &Hold| match (rest, hold.until) {
            // Only at rest, so that the new leader acts with its old view before it receives the lines.
            (_, Until::Leading) => rest != Rest::No && self.leads(&hold.stream),
            // No step follows that could end the hold.
            (Rest::Forever, _) => true,
            (_, Until::NextEvent) => hold.lines > 0 || hold.since.elapsed() >= LONGEST_WAIT_FOR_LINES,
            (_, Until::OtherEvents) => hold.other_lines > 0 || hold.since.elapsed() >= LONGEST_WAIT_FOR_LINES,
            (_, Until::Reconciles(count)) => hold.reconciles >= count,
            (_, Until::Second) => hold.since.elapsed() >= Duration::from_secs(1),
            (Rest::Quiet, Until::NextStep) => self.begun > hold.step,
            (Rest::No, Until::NextStep) => false,
        };
        let over: Vec<bool> = self.holds.iter().map(is_over).collect();
        self.release(&over)
    }

    /// Whether a timer of the operator will soon begin a reconcile for which a hold waits: that of an expiry, for example.
    pub(super) fn a_timer_ends_a_hold(&self) -> bool {
        let waits = |hold: &&Hold| matches!(hold.until, Until::Reconciles(count) if hold.reconciles < count);
        self.holds.iter().filter(waits).any(|hold| self.last_due(hold.since + LONGEST_LAG).is_some())
    }

    /// Ends all holds but those of standbys, and returns whether there was one.
    pub(super) fn end_holds_of_the_active(&mut self) -> bool {
        let is_of_standby = |hold: &Hold| hold.until == Until::Leading && !self.leads(&hold.stream);
        let over: Vec<bool> = self.holds.iter().map(|hold| !is_of_standby(hold)).collect();
        self.release(&over)
    }

    /// Whether the process that receives a stream leads.
    fn leads(&self, stream: &str) -> bool {
        let process = process_of(stream);
        self.processes.iter().any(|known| process_of(&known.actor.stream("")) == process && known.leads())
    }

    /// Ends the holds that have lasted too long.
    pub(super) fn end_long_holds(&mut self) -> bool {
        let over: Vec<bool> = self.holds.iter().map(|hold| hold.since.elapsed() > LONGEST_HOLD).collect();
        self.release(&over)
    }

    /// Ends the marked holds, and returns whether there was one.
    fn release(&mut self, over: &[bool]) -> bool {
        let mut places = over.iter();
        let over: Vec<Hold> =
            self.holds.extract_if(.., |_| places.next().copied().unwrap_or_default()).collect();
        for hold in &over {
            let (actor, stream) = (hold.actor, hold.stream.clone());
            if hold.end == HoldEnd::Relists {
                // Expired before the release, so that the lines are gone when the hub may deliver from the
                // stream again.
                self.hub.expire(&hold.stream);
                self.log(Action::Expired { actor, stream });
            } else {
                self.log(Action::Released { actor, stream });
            }
            self.hub.release(&hold.stream);
            self.unrest_since = Instant::now();
        }
        !over.is_empty()
    }
}

impl Hold {
    /// Time at which the hold may end even if nothing happens.
    pub(super) fn deadline(&self) -> Instant {
        self.since
            + match self.until {
                Until::NextEvent | Until::OtherEvents => LONGEST_WAIT_FOR_LINES,
                Until::Second => Duration::from_secs(1),
                Until::Reconciles(_) | Until::NextStep | Until::Leading => LONGEST_HOLD,
            }
    }
}
