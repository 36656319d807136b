//! Matching with a bounded number of steps.
//!
//! The automaton is a lazy DFA: it computes a transition when it is first taken, and remembers it. Taking a remembered transition costs a
//! few nanoseconds. A new one costs time in proportion to the states of the pattern that it visits, which may be all of them, and a text
//! can be constructed so that each of its characters needs a new one. No bound on the length of a text excludes such texts without
//! excluding usual ones, so the matcher counts steps.

use std::cell::Cell;

use parking_lot::Mutex;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, NFA, State, WhichCaptures};
use regex_automata::{Anchored, Input, MatchKind};

/// Steps for all matches of an object, about 20 ms. A usual pattern needs 3 million of them for the largest text that fits into a request
/// body.
const STEPS: usize = 6_000_000;
/// Steps for a new transition. A remembered one costs 1 step.
const NEW: usize = 512;
/// Additional steps for a new transition, for each state of the pattern that it visits.
const PER_STATE: usize = 8;
/// Maximum memory of the remembered transitions of a pattern, in bytes. When it is full, all are forgotten.
const REMEMBERED: usize = 256 << 10;
/// Number of states after which the search for [`Automaton::detour`] gives up.
const FAR: usize = 64;

/// Steps that are left for matching the texts of an object.
#[derive(Debug)]
pub(crate) struct Budget(Cell<usize>);

/// The budget was exhausted before the result of a search was known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl Default for Budget {
    fn default() -> Self {
        Self(Cell::new(STEPS))
    }
}

impl Budget {
    /// Creates a budget of `steps`, each of which takes about 3 ns.
    pub(crate) fn new(steps: usize) -> Self {
        Self(Cell::new(steps))
    }

    pub(crate) fn left(&self) -> usize {
        self.0.get()
    }

    /// Takes steps from the budget; returns whether there were enough.
    fn take(&self, steps: usize) -> bool {
        let left = self.0.get().checked_sub(steps);
        self.0.set(left.unwrap_or(0));
        left.is_some()
    }
}

/// Compiled pattern.
#[derive(Debug)]
pub(super) struct Automaton {
    dfa: DFA,
    /// Number of states of the pattern.
    states: usize,
    /// Largest number of states that consume no character, such as the branches of `?`, between one character and the next.
    detour: usize,
    /// Bytes of a remembered state, not counting the states of the pattern that it contains.
    frame: usize,
    /// Remembered transitions; `None` while a match uses them.
    idle: Mutex<Option<Box<Remembered>>>,
}

/// Order in which an automaton reads a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forwards,
    Backwards,
}

/// Match that a search looks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// The first one that is found.
    AnyMatch,
    /// The match that begins first, with the end that Go's rules give it.
    FirstMatch,
}

/// Transitions that were computed before.
#[derive(Debug)]
struct Remembered {
    cache: Cache,
    /// Largest number of states of the pattern in one state of the automaton: each takes at least one byte of the cache.
    largest: usize,
}

impl Automaton {
    /// Compiles a pattern in the syntax of the `regex` crate; `None` if it takes more than `largest` bytes.
    pub(super) fn new(pattern: &str, largest: usize) -> Option<Self> {
        Self::compile(pattern, largest, Direction::Forwards)
    }

    /// Compiles an automaton that reads texts backwards, for [`start_of_match`](Self::start_of_match).
    pub(super) fn reversed(pattern: &str, largest: usize) -> Option<Self> {
        Self::compile(pattern, largest, Direction::Backwards)
    }

    fn compile(pattern: &str, largest: usize, direction: Direction) -> Option<Self> {
        let kind = match direction {
            // The first of several alternatives wins.
            Direction::Forwards => MatchKind::LeftmostFirst,
            // The longest match is the one that begins first.
            Direction::Backwards => MatchKind::All,
        };
        let config =
            DFA::config().match_kind(kind).cache_capacity(REMEMBERED).skip_cache_capacity_check(true);
        let nfa = thompson::Config::new()
            .reverse(direction == Direction::Backwards)
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(largest));
        let dfa = DFA::builder().configure(config).thompson(nfa).build(pattern).ok()?;
        let states = dfa.get_nfa().states().len();
        let detour = detour(dfa.get_nfa());
        let frame = (1 << dfa.byte_classes().stride2()) * size_of::<LazyStateID>();
        Some(Self { detour, frame, states, dfa, idle: Mutex::default() })
    }

    /// Whether the pattern occurs in `text`.
    pub(super) fn matches(&self, text: &str, budget: &Budget) -> Result<bool, Exhausted> {
        self.with_remembered(|remembered| self.forwards(remembered, text, 0, Wanted::AnyMatch, budget))
            .map(|end| end.is_some())
    }

    /// Returns the end of the first match that begins at or after `from`.
    pub(super) fn end_of_match(
        &self,
        text: &str,
        from: usize,
        budget: &Budget,
    ) -> Result<Option<usize>, Exhausted> {
        self.with_remembered(|remembered| self.forwards(remembered, text, from, Wanted::FirstMatch, budget))
    }

    /// Returns the start of the first match that ends at `end` and begins at or after `from`.
    pub(super) fn start_of_match(
        &self,
        text: &str,
        from: usize,
        end: usize,
        budget: &Budget,
    ) -> Result<Option<usize>, Exhausted> {
        self.with_remembered(|remembered| self.backwards(remembered, text, from, end, budget))
    }

    fn with_remembered<T>(&self, search: impl FnOnce(&mut Remembered) -> Option<T>) -> Result<T, Exhausted> {
        let idle = self.idle.lock().take();
        let mut remembered =
            idle.unwrap_or_else(|| Box::new(Remembered { cache: self.dfa.create_cache(), largest: 1 }));
        // Without a result forget the transitions, so that a second attempt has none either.
        let found = search(&mut remembered).ok_or(Exhausted)?;
        *self.idle.lock() = Some(remembered);
        Ok(found)
    }

    /// Reads `text` from `from` on, and returns the end of a match; `None` if the budget is exhausted.
    fn forwards(
        &self,
        remembered: &mut Remembered,
        text: &str,
        from: usize,
        wanted: Wanted,
        budget: &Budget,
    ) -> Option<Option<usize>> {
        let input = Input::new(text).range(from..);
        let mut state = self.dfa.start_state_forward(&mut remembered.cache, &input).ok()?;
        let mut found = None;
        for (at, byte) in text.bytes().enumerate().skip(from) {
            state = self.next(remembered, state, byte, budget)?;
            if state.is_tagged() {
                // The automaton reports a match one byte late.
                if state.is_match() {
                    found = Some(at);
                    if wanted == Wanted::AnyMatch {
                        return Some(found);
                    }
                }
                if state.is_dead() {
                    return Some(found);
                }
                if state.is_quit() {
                    return None;
                }
            }
        }
        let end = self.dfa.next_eoi_state(&mut remembered.cache, state).ok()?;
        Some(if end.is_match() { Some(text.len()) } else { found })
    }

    fn backwards(
        &self,
        remembered: &mut Remembered,
        text: &str,
        from: usize,
        end: usize,
        budget: &Budget,
    ) -> Option<Option<usize>> {
        let input = Input::new(text).range(from..end).anchored(Anchored::Yes);
        let mut state = self.dfa.start_state_reverse(&mut remembered.cache, &input).ok()?;
        let mut found = None;
        for at in (from..end).rev() {
            state = self.next(remembered, state, text.as_bytes()[at], budget)?;
            if state.is_tagged() {
                if state.is_match() {
                    found = Some(at + 1);
                }
                if state.is_dead() {
                    return Some(found);
                }
                if state.is_quit() {
                    return None;
                }
            }
        }
        // As a match is reported one byte late, the byte before `from` is read too. It also decides assertions such as `\b`.
        let last = match from.checked_sub(1) {
            Some(before) => self.next(remembered, state, text.as_bytes()[before], budget)?,
            None => self.dfa.next_eoi_state(&mut remembered.cache, state).ok()?,
        };
        Some(if last.is_match() { Some(from) } else { found })
    }

    /// Takes a transition; `None` if the budget is exhausted.
    fn next(
        &self,
        remembered: &mut Remembered,
        state: LazyStateID,
        byte: u8,
        budget: &Budget,
    ) -> Option<LazyStateID> {
        if !state.is_tagged() {
            let next = self.dfa.next_state_untagged(&remembered.cache, state, byte);
            if !next.is_unknown() {
                return budget.take(1).then_some(next);
            }
        }
        self.new_transition(remembered, state, byte, budget)
    }

    fn new_transition(
        &self,
        remembered: &mut Remembered,
        from: LazyStateID,
        byte: u8,
        budget: &Budget,
    ) -> Option<LazyStateID> {
        let visited = remembered.largest.saturating_mul(1 + self.detour).min(self.states);
        if !budget.take(NEW + PER_STATE * visited) {
            return None;
        }
        let before = remembered.cache.memory_usage();
        let next = self.dfa.next_state(&mut remembered.cache, from, byte).ok()?;
        let added = remembered.cache.memory_usage().saturating_sub(before + self.frame);
        remembered.largest = remembered.largest.max(added);
        Some(next)
    }
}

/// Computes [`Automaton::detour`]; the number of all states if it is above [`FAR`].
fn detour(nfa: &NFA) -> usize {
    let states = nfa.states();
    let mut visit_of = vec![0; states.len()];
    let mut pending = Vec::new();
    let mut longest = 0;
    let targets = states.iter().flat_map(|state| match state {
        State::ByteRange { trans } => std::slice::from_ref(trans),
        State::Sparse(sparse) => &*sparse.transitions,
        // The compiler creates no dense states.
        _ => &[],
    });
    let starts = [nfa.start_anchored(), nfa.start_unanchored()];
    let firsts = starts.into_iter().chain(targets.map(|transition| transition.next));
    for (visit, first) in firsts.enumerate().map(|(number, first)| (number + 1, first)) {
        let mut length = 0;
        pending.push(first);
        while let Some(id) = pending.pop() {
            if std::mem::replace(&mut visit_of[id.as_usize()], visit) == visit {
                continue;
            }
            match &states[id.as_usize()] {
                State::Union { alternates } => pending.extend(alternates),
                State::BinaryUnion { alt1, alt2 } => pending.extend([alt1, alt2]),
                State::Look { next, .. } | State::Capture { next, .. } => pending.push(*next),
                _ => continue,
            }
            length += 1;
            if length > FAR {
                return states.len();
            }
        }
        longest = longest.max(length);
    }
    longest
}
