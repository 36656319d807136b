//! Calls: from their arrival to their answers.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Weak},
};

use super::Hub;
use crate::names::{Actor, CallName};

/// A request or a remote effect, from its arrival to its answer.
pub(super) struct Call {
    pub(super) actor: Actor,
    pub(super) name: Arc<CallName>,
    pub(super) phase: CallPhase,
    /// Dead when the caller has given up.
    pub(super) caller: Weak<()>,
    /// Whether a plan holds the call back.
    pub(super) is_held: bool,
    /// Whether it is carried out even if its caller has given up or is dead.
    pub(super) is_zombie: bool,
}

/// Phase of a call: [`Hub::take`] starts a waiting call, [`Hub::carried_out`] stores its answer, and [`Hub::answer`] delivers that and
/// removes the call.
pub(super) enum CallPhase {
    /// The call has not begun.
    Waiting(Work),
    /// The server works on it.
    Running,
    /// The call is carried out, and its answer is not delivered yet.
    CarriedOut(Answer),
}

/// Carries a call out, or refuses it. The future completes with the function that delivers the answer.
pub(crate) type Work = Box<dyn FnOnce(Order) -> Working + Send>;

/// A call that is being carried out.
pub(crate) type Working = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    CarryOut,
    /// The connection breaks before the call is carried out.
    Refuse,
}

/// Delivers an answer to the caller: the one of the server, or a failure instead.
pub(crate) type Answer = Box<dyn FnOnce(CallResult) + Send>;

/// Result that the caller of a call receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallResult {
    /// The answer of the server or of the remote system.
    Answered,
    /// The connection broke.
    Lost,
}

impl Hub {
    /// Adds a call. It is dropped when `caller` is.
    pub(crate) fn add(&self, actor: Actor, name: impl Into<Arc<CallName>>, caller: &Arc<()>, work: Work) {
        let name = name.into();
        let mut state = self.0.lock();
        // Destructors of a dead process may still send requests. They must not reach the server.
        if state.cut.contains(&actor) {
            return;
        }
        if actor.is_operator() && name.is_write() {
            // Recorded when the process sends it, not when the server carries it out: only at that time must
            // the process lead.
            state.sent.push((actor, Arc::clone(&name)));
        }
        let (id, caller) = (state.number(), Arc::downgrade(caller));
        state.calls.insert(
            id,
            Call { actor, name, phase: CallPhase::Waiting(work), caller, is_held: false, is_zombie: false },
        );
    }

    /// Holds a waiting call back.
    pub(crate) fn hold_call(&self, id: u64) {
        if let Some(call) = self.0.lock().calls.get_mut(&id) {
            call.is_held = true;
        }
    }

    /// Ends [`hold_call`](Self::hold_call).
    pub(crate) fn release_call(&self, id: u64) {
        if let Some(call) = self.0.lock().calls.get_mut(&id) {
            call.is_held = false;
        }
    }

    /// Lets a call be carried out even when its caller has given up or is dead.
    pub(crate) fn make_zombie(&self, id: u64) {
        if let Some(call) = self.0.lock().calls.get_mut(&id) {
            call.is_zombie = true;
        }
    }

    /// Drops calls that were given up before they were carried out, and answers to calls that were given up.
    pub(super) fn drop_abandoned(&self) {
        let abandoned: Vec<Call> = {
            let mut state = self.0.lock();
            let is_abandoned = |call: &Call| match call.phase {
                CallPhase::Waiting(_) => call.caller.strong_count() == 0 && !call.is_zombie,
                // The server is already at work; its answer is dropped when it comes.
                CallPhase::Running => false,
                CallPhase::CarriedOut(_) => call.caller.strong_count() == 0,
            };
            // At most actions no call is abandoned, and this look is cheaper than `extract_if`.
            if !state.calls.values().any(is_abandoned) {
                return;
            }
            state.calls.extract_if(.., |_, call| is_abandoned(call)).map(|(_, call)| call).collect()
        };
        // Dropped without the lock, because destructors such as that of a watch body take it.
        drop(abandoned);
    }

    /// Whether a call is neither answered nor given up.
    pub(crate) fn has_call(&self, id: u64) -> bool {
        self.0.lock().calls.contains_key(&id)
    }

    /// Takes the work of a waiting call, for the driver to run.
    pub(crate) fn take(&self, id: u64) -> Option<Work> {
        let mut state = self.0.lock();
        let call = state.calls.get_mut(&id)?;
        match std::mem::replace(&mut call.phase, CallPhase::Running) {
            CallPhase::Waiting(work) => Some(work),
            other => {
                call.phase = other;
                None
            }
        }
    }

    /// Records that a call was carried out.
    pub(crate) fn carried_out(&self, id: u64, answer: Answer) {
        let unwanted = match self.0.lock().calls.get_mut(&id) {
            Some(call) => {
                call.phase = CallPhase::CarriedOut(answer);
                None
            }
            // The caller died meanwhile.
            None => Some(answer),
        };
        drop(unwanted);
    }

    /// Removes a call and hands `result` to its caller.
    pub(crate) fn answer(&self, id: u64, result: CallResult) {
        let call = self.0.lock().calls.remove(&id);
        if let Some(Call { phase: CallPhase::CarriedOut(answer), .. }) = call {
            answer(result);
        }
    }

    /// Removes a call that is not carried out. Its caller waits forever, unless it is answered by other means.
    pub(crate) fn remove(&self, id: u64) {
        let call = self.0.lock().calls.remove(&id);
        drop(call);
    }
}
