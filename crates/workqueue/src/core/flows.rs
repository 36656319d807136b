//! Queues of ready keys, per priority and flow; the flows of a priority take turns.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap};

use super::entry::Entry;
use super::line::Line;
use super::slab::{Id, Slab};
use crate::Priority;

/// Group of keys that shares turns, such as a namespace or a tenant. See [`Options::fair_by`](crate::Options::fair_by).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow(Arc<str>);

impl Flow {
    /// Name of the flow.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Arc<str>>> From<T> for Flow {
    fn from(name: T) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The ready keys by priority: one line each, or one line for each flow.
pub(crate) enum Lines {
    Plain([Line; Priority::ALL.len()]),
    Fair(Box<Flows>),
}

impl Lines {
    pub(crate) fn new(fair: bool) -> Self {
        if fair { Self::Fair(Box::new(Flows::new())) } else { Self::Plain([Line::EMPTY; _]) }
    }

    /// Adds an entry to a flow. Returns the number of the flow.
    pub(crate) fn join(&mut self, name: impl FnOnce() -> Option<Flow>) -> u32 {
        match self {
            Self::Plain(_) => 0,
            Self::Fair(flows) => name().map_or(0, |name| flows.join(name)),
        }
    }

    /// Removes an entry from its flow.
    #[inline]
    pub(crate) fn leave(&mut self, number: u32) {
        if let Self::Fair(flows) = self {
            flows.leave(number);
        }
    }

    pub(crate) fn name(&self, number: u32) -> Option<&Flow> {
        match self {
            Self::Plain(_) => None,
            Self::Fair(flows) => Some(&flows.flows[number as usize].name),
        }
    }

    #[inline]
    pub(crate) fn push<K>(&mut self, id: Id, class: usize, slab: &mut Slab<K>) {
        match self {
            Self::Plain(lines) => lines[class].push(id, slab),
            Self::Fair(flows) => flows.push(id, class, slab),
        }
    }

    #[inline]
    pub(crate) fn remove<K>(&mut self, id: Id, class: usize, slab: &mut Slab<K>) {
        match self {
            Self::Plain(lines) => lines[class].remove(id, slab),
            Self::Fair(flows) => flows.flows[slab[id].flow as usize].lines[class].remove(id, slab),
        }
    }

    /// Removes and returns the ready key of `class` that is next.
    #[inline]
    pub(crate) fn pop<'s, K>(
        &mut self,
        class: usize,
        slab: &'s mut Slab<K>,
    ) -> Option<(Id, &'s mut Entry<K>)> {
        match self {
            Self::Plain(lines) => lines[class].pop(slab),
            Self::Fair(flows) => flows.pop(class, slab),
        }
    }

    /// Number of flows with keys.
    #[cfg(test)]
    pub(crate) fn known(&self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Fair(flows) => flows.numbers.len(),
        }
    }
}

/// The flows that have keys in the queue, numbered, and their turns.
pub(crate) struct Flows {
    flows: Vec<State>,
    vacant: Vec<u32>,
    /// Name to number. The order of the hash is not visible; the order of flows comes from `turns`.
    numbers: HashMap<Flow, u32, DefaultHashBuilder>,
    turns: [VecDeque<u32>; Priority::ALL.len()],
}

struct State {
    name: Flow,
    /// Number of its entries, in whatever state.
    members: usize,
    lines: [Line; Priority::ALL.len()],
    /// Whether it has a place in the turns of the class. It may keep the place with an empty line, until its turn comes.
    in_turn: [bool; Priority::ALL.len()],
}

impl Flows {
    fn new() -> Self {
        Self { flows: Vec::new(), vacant: Vec::new(), numbers: HashMap::default(), turns: Default::default() }
    }

    fn join(&mut self, name: Flow) -> u32 {
        let number = *self.numbers.entry(name).or_insert_with_key(|name| {
            let state =
                State { name: name.clone(), members: 0, lines: [Line::EMPTY; _], in_turn: [false; _] };
            match self.vacant.pop() {
                Some(number) => {
                    self.flows[number as usize] = state;
                    number
                }
                None => {
                    self.flows.push(state);
                    u32::try_from(self.flows.len() - 1)
                        .expect("there are no more flows than places in the slab")
                }
            }
        });
        self.flows[number as usize].members += 1;
        number
    }

    /// Removes an entry from its flow; a flow without entries is dropped.
    fn leave(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        flow.members -= 1;
        if flow.members == 0 {
            self.numbers.remove(&flow.name);
            // The number is given to another flow later, so no turn may refer to it.
            for class in (0..flow.in_turn.len()).filter(|class| flow.in_turn[*class]) {
                self.turns[class].retain(|other| *other != number);
            }
            self.vacant.push(number);
        }
    }

    /// Flows without ready keys are skipped and lose their turn, until they have ready keys again.
    fn pop<'s, K>(&mut self, class: usize, slab: &'s mut Slab<K>) -> Option<(Id, &'s mut Entry<K>)> {
        while let Some(number) = self.turns[class].pop_front() {
            let flow = &mut self.flows[number as usize];
            if let Some(id) = flow.lines[class].first() {
                flow.lines[class].remove(id, slab);
                flow.in_turn[class] = flow.lines[class].first().is_some();
                self.turns[class].extend(flow.in_turn[class].then_some(number));
                return Some((id, &mut slab[id]));
            }
            flow.in_turn[class] = false;
        }
        None
    }

    fn push<K>(&mut self, id: Id, class: usize, slab: &mut Slab<K>) {
        let number = slab[id].flow;
        let flow = &mut self.flows[number as usize];
        flow.lines[class].push(id, slab);
        if !std::mem::replace(&mut flow.in_turn[class], true) {
            self.turns[class].push_back(number);
        }
    }
}
