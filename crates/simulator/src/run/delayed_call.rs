//! A call that is carried out later than the process sent it: other reconciles, or the user, change the world first.

use tokio::time::{Duration, Instant};

use super::Run;
use crate::{
    hub::Seen,
    plan::{Deviation, DeviationKind},
    trace::Action,
};

/// Virtual time that a call is delayed.
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// A call that is delayed.
pub(super) struct DelayedCall {
    call: u64,
    deviation: Deviation,
    since: Instant,
    waits_for: WaitsFor,
}

/// Event before which a delayed call is not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    /// The beginning of the user's next step.
    StepBegins,
    /// The end of that step.
    StepEnds,
    /// Nothing else is possible, apart from time passing.
    Rest,
}

impl Run<'_> {
    /// Delays a call that waits.
    pub(super) fn delay(&mut self, seen: &Seen, deviation: Deviation) {
        self.end_delay(); // one call is delayed at a time
        self.hub.hold_call(seen.id);
        let waits_for =
            if deviation.what == DeviationKind::Delay { WaitsFor::Rest } else { WaitsFor::StepBegins };
        let what = format!("the request of {}: {}", seen.actor, seen.name);
        self.log(Action::Held { actor: seen.actor, what });
        self.delayed = Some(DelayedCall { call: seen.id, deviation, since: Instant::now(), waits_for });
    }

    fn delay_waits_for(&self, event: WaitsFor) -> bool {
        self.delayed.as_ref().is_some_and(|delayed| delayed.waits_for == event)
    }

    /// Whether a step begins now although the world is not quiet.
    pub(super) fn is_early_step_due(&self) -> bool {
        self.delay_waits_for(WaitsFor::StepBegins)
    }

    pub(super) fn early_step_begins(&mut self) {
        if let Some(delayed) = &mut self.delayed {
            delayed.waits_for = WaitsFor::StepEnds;
        }
    }

    /// Carries out the call that waits for the end of an early step, or lets it wait for rest.
    pub(super) fn early_step_ends(&mut self) {
        if self.delay_waits_for(WaitsFor::StepEnds) {
            match &mut self.delayed {
                // The reconciles that the step leads to must write first, too.
                Some(delayed) if delayed.deviation.what == DeviationKind::StepAround => {
                    delayed.waits_for = WaitsFor::Rest;
                }
                _ => self.end_delay(),
            }
        }
        self.limit_delay();
    }

    /// Carries out the call that waits for rest. Returns whether there is one.
    pub(super) fn end_delay_at_rest(&mut self) -> bool {
        let is_over = self.delay_waits_for(WaitsFor::Rest);
        if is_over {
            self.end_delay();
        }
        is_over
    }

    /// Carries out a call that has waited too long, for example for a step that needs it.
    pub(super) fn limit_delay(&mut self) {
        if self.delayed.as_ref().is_some_and(|delayed| delayed.since.elapsed() >= LONGEST_DELAY) {
            self.end_delay();
        }
    }

    fn end_delay(&mut self) {
        if let Some(DelayedCall { call, deviation, waits_for, .. }) = self.delayed.take() {
            self.hub.release_call(call);
            if waits_for == WaitsFor::StepBegins {
                // There was no next step, so the deviation did not happen.
                self.missed.push(deviation);
            }
        }
    }

    /// Latest time at which the delayed call is carried out.
    pub(super) fn delay_deadline(&self) -> Option<Instant> {
        self.delayed.as_ref().map(|delayed| delayed.since + LONGEST_DELAY)
    }
}
