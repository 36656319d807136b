//! Lines of ready keys of one class, taken from in turn.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap};

use super::line::Line;
use super::slab::{Id, Slab};
use crate::Priority;

/// Whom a key belongs to: a namespace, a tenant. See [`Options::fair_by`](crate::Options::fair_by).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow(Arc<str>);

impl Flow {
    /// The name of the flow.
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

/// The flows that have keys in the queue, numbered, and the turns they take.
///
/// A queue without flows has exactly one, number 0.
pub(crate) struct Flows {
    flows: Vec<State>,
    vacant: Vec<u32>,
    /// Name to number; its order is not visible: the turns are.
    numbers: HashMap<Flow, u32, DefaultHashBuilder>,
    turns: [VecDeque<u32>; Priority::ALL.len()],
}

struct State {
    name: Option<Flow>,
    /// Entries that belong to it, in whatever state.
    members: usize,
    lines: [Line; Priority::ALL.len()],
    /// Whether it has a place in the turns of the class. It may keep it with an empty line, until its turn comes.
    in_turn: [bool; Priority::ALL.len()],
}

impl State {
    fn new(name: Option<Flow>) -> Self {
        Self {
            name,
            members: 0,
            lines: [Line::EMPTY; _],
            in_turn: [false; _],
        }
    }
}

impl Flows {
    pub(crate) fn new() -> Self {
        Self {
            flows: vec![State::new(None)],
            vacant: Vec::new(),
            numbers: HashMap::default(),
            turns: Default::default(),
        }
    }

    /// The number of a flow for one more entry.
    pub(crate) fn join(&mut self, name: Option<Flow>) -> u32 {
        let number = match name {
            None => 0,
            Some(name) => *self.numbers.entry(name).or_insert_with_key(|name| {
                let state = State::new(Some(name.clone()));
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
            }),
        };
        self.flows[number as usize].members += 1;
        number
    }

    /// An entry of the flow is gone; without entries the flow is forgotten.
    pub(crate) fn leave(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        flow.members -= 1;
        if flow.members == 0
            && let Some(name) = &flow.name
        {
            self.numbers.remove(name);
            for class in (0..flow.in_turn.len()).filter(|class| flow.in_turn[*class]) {
                self.turns[class].retain(|other| *other != number);
            }
            self.vacant.push(number);
        }
    }

    /// How many flows have keys.
    #[cfg(test)]
    pub(crate) fn known(&self) -> usize {
        self.numbers.len()
    }

    pub(crate) fn name(&self, number: u32) -> Option<&Flow> {
        self.flows[number as usize].name.as_ref()
    }

    /// The ready key of `class` whose turn it is.
    pub(crate) fn first(&mut self, class: usize) -> Option<Id> {
        while let Some(number) = self.turns[class].front() {
            let flow = &mut self.flows[*number as usize];
            if let Some(id) = flow.lines[class].first() {
                return Some(id);
            }
            flow.in_turn[class] = false;
            self.turns[class].pop_front();
        }
        None
    }

    pub(crate) fn push<K>(&mut self, id: Id, class: usize, slab: &mut Slab<K>) {
        let number = slab[id].flow;
        let flow = &mut self.flows[number as usize];
        flow.lines[class].push(id, slab);
        if !std::mem::replace(&mut flow.in_turn[class], true) {
            self.turns[class].push_back(number);
        }
    }

    pub(crate) fn remove<K>(&mut self, id: Id, class: usize, slab: &mut Slab<K>) {
        self.flows[slab[id].flow as usize].lines[class].remove(id, slab);
    }

    /// Ends the turn of the flow that `first` found; a flow without ready keys gets its next turn when it has some again.
    pub(crate) fn next_turn(&mut self, class: usize) {
        let turns = &mut self.turns[class];
        let Some(number) = turns.front() else { return };
        let flow = &mut self.flows[*number as usize];
        if flow.lines[class].first().is_some() {
            turns.rotate_left(1);
        } else {
            flow.in_turn[class] = false;
            turns.pop_front();
        }
    }
}
