//! Queues of ready keys, per priority and flow; the flows of a priority take turns.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::sync::Arc;

use super::entry::Entry;
use super::fifo::Fifo;
use super::slab::{Id, Slab};
use super::vacancies::fit;
use crate::Priority;
use crate::map::Map;

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

/// The ready keys by priority: one FIFO list per priority, or one per priority and flow.
pub(crate) enum Fifos {
    Plain([Fifo; Priority::ALL.len()]),
    Fair(Box<Flows>),
}

impl Fifos {
    /// One list per priority.
    pub(crate) fn plain() -> Self {
        Self::Plain([Fifo::EMPTY; _])
    }

    /// One list per priority and flow.
    pub(crate) fn fair() -> Self {
        Self::Fair(Box::new(Flows::new()))
    }

    /// Adds an entry to a flow. Returns the number of the flow.
    pub(crate) fn join(&mut self, name: Option<&Flow>) -> u32 {
        match self {
            Self::Plain(_) => 0,
            Self::Fair(flows) => flows.join(name.expect("a key that enters a queue with flows has one")),
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
            Self::Fair(flows) => flows.flows.get(number as usize)?.as_ref().map(|flow| &flow.name),
        }
    }

    #[inline]
    pub(crate) fn push<K>(&mut self, id: Id, class: usize, slab: &mut Slab<K>) {
        match self {
            Self::Plain(fifos) => fifos[class].push(id, slab),
            Self::Fair(flows) => flows.push(id, class, slab),
        }
    }

    #[inline]
    pub(crate) fn remove<K>(&mut self, id: Id, class: usize, slab: &mut Slab<K>) {
        match self {
            Self::Plain(fifos) => fifos[class].remove(id, slab),
            Self::Fair(flows) => flows.flow(slab[id].flow).fifos[class].remove(id, slab),
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
            Self::Plain(fifos) => fifos[class].pop(slab),
            Self::Fair(flows) => flows.pop(class, slab),
        }
    }

    /// Returns the first key of each FIFO list, in up to `limit` flows.
    pub(crate) fn heads(&self, limit: usize) -> impl Iterator<Item = Id> {
        let (plain, fair) = match self {
            Self::Plain(fifos) => (Some(fifos), None),
            Self::Fair(flows) => (None, Some(flows.flows.iter().flatten().take(limit))),
        };
        let fair = fair.into_iter().flatten().map(|flow| &flow.fifos);
        plain.into_iter().chain(fair).flatten().filter_map(|fifo| fifo.first())
    }

    /// Numbers of flows, of vacant ones, and of places for turns.
    #[cfg(test)]
    pub(crate) fn places(&self) -> [usize; 3] {
        match self {
            Self::Plain(_) => [0; 3],
            Self::Fair(flows) => {
                let turns = flows.turns.iter().map(VecDeque::capacity).max().unwrap_or_default();
                [flows.flows.len(), flows.vacant.len(), turns]
            }
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

/// The flows that have keys in the queue, numbered, and their turns. All of it shrinks when many flows have lost their keys.
pub(crate) struct Flows {
    /// The flows by their numbers. The last one is present.
    flows: Vec<Option<Box<FlowState>>>,
    /// Numbers without a flow. Those beyond the last flow are meaningless. The lowest one is used first, so that high ones become
    /// vacant.
    vacant: BinaryHeap<Reverse<u32>>,
    /// Name to number. The order of the hash is not visible; the order of flows comes from `turns`.
    numbers: Map<Flow, u32>,
    turns: [VecDeque<u32>; Priority::ALL.len()],
}

struct FlowState {
    name: Flow,
    /// Number of its entries, in whatever state.
    members: usize,
    fifos: [Fifo; Priority::ALL.len()],
    /// Whether it has a place in the turns of the class. It may keep the place with an empty list until its turn comes.
    in_turn: [bool; Priority::ALL.len()],
}

impl Flows {
    fn new() -> Self {
        Self { flows: Vec::new(), vacant: BinaryHeap::new(), numbers: Map::new(), turns: Default::default() }
    }

    fn flow(&mut self, number: u32) -> &mut FlowState {
        self.flows[number as usize].as_mut().expect("a flow with entries is present")
    }

    fn join(&mut self, name: &Flow) -> u32 {
        let (flows, vacant) = (&mut self.flows, &mut self.vacant);
        let add = || {
            let place = vacant.pop().map_or(flows.len(), |Reverse(number)| number as usize);
            // If the lowest vacant number is beyond the last flow, then all others are as well.
            let place = place.min(flows.len());
            let number = u32::try_from(place).expect("there are no more flows than places in the slab");
            let (fifos, in_turn) = ([Fifo::EMPTY; _], [false; _]);
            let flow = Some(Box::new(FlowState { name: name.clone(), members: 0, fifos, in_turn }));
            match flows.get_mut(place) {
                Some(vacant) => *vacant = flow,
                None => flows.push(flow),
            }
            number
        };
        let number = *self.numbers.get_or_insert(name, |_| false, add);
        self.flow(number).members += 1;
        number
    }

    /// Removes an entry from its flow; a flow without entries is dropped.
    fn leave(&mut self, number: u32) {
        let flow = self.flow(number);
        flow.members -= 1;
        if flow.members == 0 {
            self.remove(number);
        }
    }

    fn remove(&mut self, number: u32) {
        let Some(flow) = self.flows[number as usize].take() else { return };
        self.numbers.remove(&flow.name);
        // The number is given to another flow later, so no turn may refer to it.
        for (turns, _) in self.turns.iter_mut().zip(flow.in_turn).filter(|(_, in_turn)| *in_turn) {
            turns.retain(|other| *other != number);
            shrink(turns);
        }
        self.vacant.push(Reverse(number));
        while let Some(None) = self.flows.last() {
            self.flows.pop();
        }
        fit(&mut self.flows);
        // Numbers beyond the last flow accumulate in `vacant`. They are dropped rarely, so that the cost per removal stays constant.
        if self.vacant.len() > 2 * self.flows.len() + 64 {
            let numbers = 0..self.flows.len() as u32;
            self.vacant.retain(|Reverse(number)| numbers.contains(number));
            self.vacant.shrink_to_fit();
        }
    }

    /// Flows without ready keys are skipped and lose their turn, until they have ready keys again.
    fn pop<'s, K>(&mut self, class: usize, slab: &'s mut Slab<K>) -> Option<(Id, &'s mut Entry<K>)> {
        while let Some(number) = self.turns[class].pop_front() {
            let flow = self.flow(number);
            if let Some(id) = flow.fifos[class].first() {
                flow.fifos[class].remove(id, slab);
                // Round robin: a flow with more ready keys goes to the end.
                flow.in_turn[class] = flow.fifos[class].first().is_some();
                let again = flow.in_turn[class].then_some(number);
                self.turns[class].extend(again);
                shrink(&mut self.turns[class]);
                return Some((id, &mut slab[id]));
            }
            flow.in_turn[class] = false;
        }
        None
    }

    fn push<K>(&mut self, id: Id, class: usize, slab: &mut Slab<K>) {
        let number = slab[id].flow;
        let flow = self.flow(number);
        flow.fifos[class].push(id, slab);
        // A flow that was without ready keys joins at the end, so it cannot overtake flows that wait for their turn.
        if !std::mem::replace(&mut flow.in_turn[class], true) {
            self.turns[class].push_back(number);
        }
    }
}

/// Shrinks turns of which less than a quarter is used.
fn shrink(turns: &mut VecDeque<u32>) {
    if turns.capacity() > 64 && turns.len() < turns.capacity() / 4 {
        turns.shrink_to(turns.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_that_shrink_keep_room_for_as_many_again() {
        let mut turns = VecDeque::with_capacity(1000);
        turns.extend(0..100);
        shrink(&mut turns);
        assert!((200..250).contains(&turns.capacity()), "{}", turns.capacity());
    }

    #[test]
    fn only_turns_that_use_less_than_a_quarter_of_many_places_shrink() {
        for (places, used, expected) in
            [(64, 0, 64), (65, 0, 0), (400, 100, 400), (400, 99, 198), (400, 300, 400)]
        {
            let mut turns = VecDeque::with_capacity(places);
            assert_eq!(turns.capacity(), places);
            turns.extend(0..used);
            shrink(&mut turns);
            assert_eq!(turns.capacity(), expected, "{used} of {places}");
        }
    }

    #[test]
    fn numbers_of_former_flows_are_kept_up_to_twice_the_number_of_flows() {
        let mut flows = Flows::new();
        let mut numbers: Vec<u32> = (0..1000).map(|flow| flows.join(&Flow::from(flow.to_string()))).collect();
        let mut vacant = Vec::new();
        while let Some(number) = numbers.pop() {
            flows.leave(number);
            assert_eq!(flows.flows.len(), numbers.len());
            vacant.push(flows.vacant.len());
        }
        // The numbers beyond the last flow are dropped once they are more than 2 × 311 + 64.
        assert_eq!(vacant[..688], (1..=688).collect::<Vec<_>>());
        assert_eq!(vacant[688], 0);
        assert!(vacant[688..].iter().all(|vacant| *vacant <= 2 * 311 + 64), "{vacant:?}");
    }
}
