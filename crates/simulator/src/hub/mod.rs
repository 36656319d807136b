//! Calls and watches that wait at the border between processes and the world, and the driver's choices among them.
//!
//! Every request, every remote effect and every line of a watch stops here until the driver lets it pass. The hub decides nothing;
//! it lists the possible choices, the oldest first.

mod body;
mod calls;
mod line;
mod order;
mod streams;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::task::AbortHandle;

pub(crate) use self::{
    body::{GateBody, WatchBody},
    calls::{Answer, CallResult, Order, Work, Working},
    line::{Line, LineSplitter},
};
use self::{calls::Call, streams::Watch};
use crate::names::{Actor, CallName};

/// All calls and watches at the border. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Hub(Arc<Mutex<HubState>>);

#[derive(Default)]
struct HubState {
    /// Number of the next call, watch or line.
    next: u64,
    calls: BTreeMap<u64, Call>,
    watches: BTreeMap<u64, Watch>,
    /// Writes of processes under test that were sent since the driver last asked.
    sent: Vec<(Actor, Arc<CallName>)>,
    /// Actors that are dead: their calls are dropped.
    cut: BTreeSet<Actor>,
    /// Actors that calls, answers and lines do not reach.
    paused: BTreeSet<Actor>,
    /// Lines that watches under test have received, by name.
    counts: BTreeMap<String, u32>,
    /// Lines that no trace has taken yet: name and count.
    arrived: Vec<(String, u32)>,
    /// Streams with lines that are withheld.
    held: BTreeSet<Arc<str>>,
    /// Lines from which on a stream is held.
    armed: Vec<(String, u32)>,
    /// Streams with lines that are delivered one by one.
    apart: BTreeSet<Arc<str>>,
    /// Streams with lines that are delivered late.
    late: BTreeSet<Arc<str>>,
    /// Whether calls of the user and their answers come before everything else.
    prefers_user: bool,
    /// Seed of the order of actions, and number of actions chosen; `None` for the fixed order.
    shuffled: Option<(u64, u64)>,
}

/// A call that the driver may act on.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) id: u64,
    pub(crate) actor: Actor,
    pub(crate) name: Arc<CallName>,
}

/// A possible action, apart from time passing.
#[derive(Debug)]
pub(crate) enum Possible {
    /// A call can be carried out.
    CarryOut(Seen),
    /// An answer can be delivered.
    Answer(Seen),
    /// A watch has lines to deliver.
    Deliver { watch: u64, actor: Actor, name: Arc<CallName> },
}

impl fmt::Display for Possible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CarryOut(seen) => write!(f, "the server carries out, for {}: {}", seen.actor, seen.name),
            Self::Answer(seen) => write!(f, "{} receives the answer to: {}", seen.actor, seen.name),
            Self::Deliver { actor, name, .. } => write!(f, "{actor} receives events of: {name}"),
        }
    }
}

impl Hub {
    /// Returns the writes that processes under test have sent since the last call.
    pub(crate) fn take_sent(&self) -> Vec<(Actor, Arc<CallName>)> {
        std::mem::take(&mut self.0.lock().sent)
    }

    /// Disconnects an actor for good: its calls and watches are dropped, and later calls as well. Calls that are zombies stay.
    pub(crate) fn cut(&self, actor: Actor) {
        let (calls, watches) = {
            let mut state = self.0.lock();
            state.cut.insert(actor);
            let is_dead = |_: &u64, call: &mut Call| call.actor == actor && !call.is_zombie;
            let calls: Vec<Call> = state.calls.extract_if(.., is_dead).map(|(_, call)| call).collect();
            let watches: Vec<Watch> = state
                .watches
                .extract_if(.., |_, watch| watch.actor == actor)
                .map(|(_, watch)| watch)
                .collect();
            (calls, watches)
        };
        // Dropped without the lock: a call may hold a body that takes it.
        watches.iter().filter_map(|watch| watch.pump.as_ref()).for_each(AbortHandle::abort);
        drop((calls, watches));
    }

    /// Stops everything between an actor and the world.
    pub(crate) fn pause(&self, actor: Actor) {
        self.0.lock().paused.insert(actor);
    }

    /// Ends a pause.
    pub(crate) fn resume(&self, actor: Actor) {
        self.0.lock().paused.remove(&actor);
    }
}

/// Numbers that calls and lines have been given.
#[derive(Debug)]
pub(crate) struct HubCopy {
    next: u64,
    counts: BTreeMap<String, u32>,
}

impl Hub {
    /// Copies the numbers, for a run that continues in another world.
    pub(crate) fn copy(&self) -> HubCopy {
        let state = self.0.lock();
        HubCopy { next: state.next, counts: state.counts.clone() }
    }

    /// Continues with these numbers.
    pub(crate) fn restore(&self, copy: &HubCopy) {
        let mut state = self.0.lock();
        state.next = copy.next;
        // Watches are not copied: the process whose watches they were has died, and the next one opens its
        // own.
        state.counts.clone_from(&copy.counts);
    }
}

impl HubState {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}
