//! The core against a model: a list of keys with linear search.
//!
//! The model implements the same rules in the plainest way, and a random sequence of operations must give equal results in
//! both. It covers delays, failures, back-off, debounce, priorities and their ageing, flows, recovery, cancelling and shutdown.

use std::num::NonZeroU32;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use std::collections::BTreeSet;

use super::*;
use crate::{Ageing, BackOffEvents, Delay, RateLimiter};

const THEN_EVERY: u64 = 30;
/// Quiet time of debouncing, and the longest time that events can postpone a key.
const DEBOUNCE: (u64, u64) = (10, 25);
const FLOWS: u8 = 3;

/// Choice of policies.
#[derive(Clone, Copy, Debug)]
struct Rules {
    once: bool,
    fair: bool,
    debounced: bool,
    ageing: Ageing,
}

/// The n-th failure of a key asks for n × 20 units, and a budget shared by all keys for one slot in 30 units. A slot that is
/// returned goes to the next failure, or to the key that moves up.
#[derive(Clone)]
struct Limiter {
    epoch: Instant,
    failures: BTreeMap<u8, u32>,
    slots: BTreeMap<u8, u64>,
    free: BTreeSet<u64>,
    last: u64,
}

impl Limiter {
    fn new(epoch: Instant) -> Self {
        let (failures, slots) = (BTreeMap::new(), BTreeMap::new());
        Self { epoch, failures, slots, free: BTreeSet::new(), last: 0 }
    }

    fn since_epoch(&self, now: Instant) -> u64 {
        (now - self.epoch).as_nanos().try_into().unwrap()
    }
}

impl RateLimiter<u8> for Limiter {
    fn when(&mut self, key: &u8, now: Instant) -> Duration {
        self.charge(key, now).total()
    }

    fn charge(&mut self, key: &u8, now: Instant) -> Delay {
        let now = self.since_epoch(now);
        let failures = self.failures.entry(*key).or_default();
        *failures += 1;
        self.free.retain(|slot| *slot > now);
        let slot = self.free.pop_first().unwrap_or_else(|| {
            self.last = (self.last + 30).max(now);
            self.last
        });
        self.slots.insert(*key, slot);
        Delay { own: units(u64::from(*failures) * 20), shared: units(slot - now) }
    }

    fn move_up(&mut self, key: &u8, now: Instant) -> Duration {
        let now = self.since_epoch(now);
        self.free.retain(|slot| *slot > now);
        let Some(slot) = self.slots.get_mut(key) else { return Duration::ZERO };
        if self.free.first().is_some_and(|first| first < slot) {
            let earlier = self.free.pop_first().unwrap();
            self.free.insert(std::mem::replace(slot, earlier));
        }
        units(slot.saturating_sub(now))
    }

    fn forget(&mut self, key: &u8, now: Instant) {
        self.failures.remove(key);
        self.free.extend(self.slots.remove(key).filter(|slot| *slot > self.since_epoch(now)));
    }

    fn num_requeues(&self, key: &u8) -> u32 {
        self.failures.get(key).copied().unwrap_or_default()
    }
}

fn units(count: u64) -> Duration {
    Duration::from_nanos(count)
}

#[derive(Clone, Debug)]
enum Step {
    Add { key: u8, after: Option<u64>, failed: bool, priority: Option<Priority>, urgent: bool },
    Get,
    Done { which: usize },
    Forget { key: u8 },
    Cancel { key: u8 },
    Pass { time: u64 },
    Throttled,
    ShutDown,
}

#[derive(Clone, PartialEq)]
enum Where {
    /// Due time, the number of the operation that set it, and the origin of the time.
    Waiting(u64, u64, By),
    /// The number of its move into line.
    Ready(u64),
    /// Whether an event came meanwhile and whether one was urgent, the earliest requested time, and the priority of the next
    /// run; `None` without a request.
    Processing(Option<(bool, bool, Asked, Priority)>),
}

/// Origin of a time.
#[derive(Clone, Copy, PartialEq, Debug)]
enum By {
    Delay,
    /// A failure; the key's own time ends at `own`.
    Failure {
        own: u64,
    },
    /// An event that may be postponed further.
    Debounce,
}

#[derive(Clone)]
struct Key {
    key: u8,
    place: Where,
    priority: Priority,
    back_off: u64,
    own: u64,
    failed: bool,
    ahead: bool,
    brought_forward: bool,
    urgent: u32,
    early: bool,
    ended: u64,
    /// Time beyond which no event postpones it.
    latest: u64,
}

/// A time and its origin.
type Asked = (u64, By);

struct Model {
    keys: Vec<Key>,
    limiter: Limiter,
    /// Number of keys that may run ahead of their slots.
    window: usize,
    now: u64,
    moves: u64,
    /// By priority, the highest first: since when it has been passed over.
    passed_over_since: [Option<u64>; 3],
    passed_over: u32,
    /// The priority that had a share last.
    shared: usize,
    /// By priority: flows, the next one first. Some may have no ready keys any more.
    turns: [Vec<u8>; 3],
    closed: bool,
    rules: Rules,
}

fn class(priority: Priority) -> usize {
    Priority::ALL.iter().position(|other| *other == priority).unwrap()
}

impl Model {
    fn new(rules: Rules, epoch: Instant) -> Self {
        Self {
            keys: Vec::new(),
            limiter: Limiter::new(epoch),
            window: 0,
            now: 0,
            moves: 0,
            passed_over_since: [None; 3],
            passed_over: 0,
            shared: 0,
            turns: Default::default(),
            closed: false,
            rules,
        }
    }

    fn flow(&self, key: u8) -> u8 {
        if self.rules.fair { key % FLOWS } else { 0 }
    }

    /// Gives the flow of a new ready key a turn.
    fn queue_up(&mut self, key: u8, priority: Priority) {
        let (flow, turns) = (self.flow(key), &mut self.turns[class(priority)]);
        if !turns.contains(&flow) {
            turns.push(flow);
        }
    }

    /// Drops the state of priorities without ready keys, and of flows without keys.
    fn tidy(&mut self) {
        let flows: Vec<u8> = self.keys.iter().map(|key| self.flow(key.key)).collect();
        for turns in &mut self.turns {
            turns.retain(|flow| flows.contains(flow));
        }
        for (place, priority) in Priority::ALL.into_iter().enumerate() {
            let ready = |key: &Key| matches!(key.place, Where::Ready(..)) && key.priority == priority;
            if !self.keys.iter().any(ready) {
                self.passed_over_since[place] = None;
            }
        }
    }

    fn number(&mut self) -> u64 {
        self.moves += 1;
        self.moves
    }

    fn instant(&self) -> Instant {
        self.limiter.epoch + units(self.now)
    }

    /// The key with the first slot among those that only the shared budget delays.
    fn first_held(&self) -> Option<usize> {
        let held = self.keys.iter().enumerate().filter_map(|(at, key)| match key.place {
            Where::Waiting(until, number, By::Failure { own }) if own <= self.now => {
                Some((until, number, at))
            }
            _ => None,
        });
        held.min().map(|(_, _, at)| at)
    }

    /// Makes due keys ready. The first one that only the budget delays gets the first free slot.
    fn advance(&mut self) {
        loop {
            self.line_up();
            let (now, instant) = (self.now, self.instant());
            let Some(first) = self.first_held() else { return };
            let key = &mut self.keys[first];
            let Where::Waiting(until, ..) = &mut key.place else { unreachable!() };
            let delay = self.limiter.move_up(&key.key, instant).as_nanos();
            *until = (*until).min(now + u64::try_from(delay).unwrap());
            key.back_off = key.back_off.min(*until);
            if *until > now {
                return;
            }
        }
    }

    /// Makes keys ready that only the budget delays, as many as the window allows.
    fn release(&mut self) {
        self.advance();
        while self.keys.iter().filter(|key| key.ahead).count() < self.window {
            let Some(first) = self.first_held() else { return };
            let mut key = self.keys.remove(first);
            (key.ahead, key.back_off) = (true, self.now);
            self.place(key, (self.now, By::Delay));
        }
    }

    fn forget(&mut self, key: u8) {
        let instant = self.instant();
        self.limiter.forget(&key, instant);
        let Some(known) = self.keys.iter_mut().find(|known| known.key == key) else { return };
        (known.back_off, known.own, known.early) = (0, u64::MAX, false);
        if let Where::Waiting(_, _, by) | Where::Processing(Some((_, _, (_, by), _))) = &mut known.place
            && matches!(by, By::Failure { .. })
        {
            *by = By::Delay;
        }
        if std::mem::take(&mut known.failed) && matches!(known.place, Where::Processing(_)) {
            self.window += 1;
            self.release();
        }
    }

    /// Makes due keys ready, in order of their times.
    fn line_up(&mut self) {
        let now = self.now;
        while let Some(due) = (0..self.keys.len())
            .filter_map(|at| match self.keys[at].place {
                Where::Waiting(until, number, _) if until <= now => Some((until, number, at)),
                _ => None,
            })
            .min()
        {
            self.keys[due.2].place = Where::Ready(self.number());
            self.queue_up(self.keys[due.2].key, self.keys[due.2].priority);
        }
    }

    fn place(&mut self, mut key: Key, (at, by): Asked) {
        let number = self.number();
        key.place = if at > self.now {
            Where::Waiting(at, number, by)
        } else {
            self.queue_up(key.key, key.priority);
            Where::Ready(number)
        };
        self.keys.push(key);
    }

    fn event(&mut self, key: &mut Key, urgent: bool) -> Asked {
        if self.rules.once && key.back_off > self.now {
            key.urgent += u32::from(urgent);
            if !std::mem::replace(&mut key.brought_forward, true) || urgent && key.urgent <= 10 {
                return (self.now, By::Delay);
            }
            // The second of urgent events is longer than any time here.
            let at = (key.ended + THEN_EVERY).min(key.back_off);
            return match key.place {
                Where::Waiting(until, _, by) if until <= at => (until, by),
                _ => (at, By::Delay),
            };
        }
        if !self.rules.debounced {
            return (self.now, By::Delay);
        }
        let (quiet, max) = DEBOUNCE;
        match key.place {
            Where::Waiting(_, _, By::Debounce) => {}
            Where::Waiting(until, ..) => key.latest = until.min(self.now + max),
            _ => key.latest = self.now + max,
        }
        (key.latest.min(self.now + quiet), By::Debounce)
    }

    fn failed(&mut self, key: &mut Key) -> Asked {
        self.window = 0;
        if matches!(key.place, Where::Processing(_)) && key.early {
            return (key.back_off, By::Failure { own: key.own });
        }
        let instant = self.instant();
        let delay = self.limiter.charge(&key.key, instant);
        let [until, own] =
            [delay.total(), delay.own].map(|delay| self.now + u64::try_from(delay.as_nanos()).unwrap());
        (key.failed, key.own) = (true, own);
        if self.rules.once && key.back_off <= self.now {
            (key.back_off, key.brought_forward, key.urgent) = (until, false, 0);
        }
        (until, By::Failure { own })
    }

    fn add(&mut self, key: u8, after: Option<u64>, failed: bool, priority: Option<Priority>, urgent: bool) {
        if self.closed {
            return;
        }
        self.advance();
        let event = after.is_none() && !failed;
        let known = self.keys.iter().position(|known| known.key == key).map(|at| self.keys.remove(at));
        let mut this = known.clone().unwrap_or(Key {
            key,
            place: Where::Processing(None),
            priority: priority.unwrap_or_default(),
            back_off: 0,
            own: 0,
            failed: false,
            ahead: false,
            brought_forward: false,
            urgent: 0,
            early: false,
            ended: 0,
            latest: 0,
        });
        let priority = priority.unwrap_or(if event { Priority::Normal } else { this.priority });
        let mut asked = || {
            let after = after.map(|after| (self.now + after, By::Delay));
            let failed = failed.then(|| self.failed(&mut this));
            failed.into_iter().chain(after).min_by_key(|(at, _)| *at)
        };
        match known.map(|known| known.place) {
            None => {
                let asked = asked();
                let asked = asked.unwrap_or_else(|| self.event(&mut this, urgent));
                self.place(this, asked);
            }
            Some(Where::Ready(number)) => {
                this.place = Where::Ready(number);
                if priority > this.priority {
                    this.priority = priority;
                    this.place = Where::Ready(self.number());
                    self.queue_up(key, priority);
                }
                self.keys.push(this);
            }
            Some(Where::Waiting(until, ..)) => {
                let asked = asked();
                this.priority = this.priority.max(priority);
                this.latest = asked.map_or(this.latest, |(at, _)| this.latest.min(at));
                let at = match asked {
                    Some((at, by)) => (at.min(until), by),
                    None => self.event(&mut this, urgent),
                };
                if at.0 != until {
                    self.place(this, at);
                } else {
                    self.keys.push(this);
                }
            }
            Some(Where::Processing(again)) => {
                let asked = asked();
                let (was_event, was_urgent, earlier, class) =
                    again.unwrap_or((false, false, (u64::MAX, By::Delay), priority));
                let earlier = asked.filter(|asked| asked.0 < earlier.0).unwrap_or(earlier);
                let urgent = was_urgent || event && urgent;
                this.place =
                    Where::Processing(Some((was_event || event, urgent, earlier, class.max(priority))));
                self.keys.push(this);
            }
        }
        self.tidy();
    }

    fn done(&mut self, key: u8) {
        let at = self.keys.iter().position(|known| known.key == key).unwrap();
        let mut this = self.keys.remove(at);
        let Where::Processing(again) = this.place else { panic!("{key} is being processed") };
        let was_ahead = std::mem::take(&mut this.ahead);
        let Some((event, urgent, asked, priority)) = again else {
            if was_ahead {
                self.release();
            }
            return self.tidy();
        };
        self.advance();
        this.ended = self.now;
        this.place = Where::Processing(None);
        let at =
            if event { std::cmp::min_by_key(asked, self.event(&mut this, urgent), |at| at.0) } else { asked };
        this.priority = priority;
        self.place(this, if self.closed { (self.now, By::Delay) } else { at });
        if was_ahead {
            self.release();
        }
    }

    /// The priority that is next.
    fn turn(&mut self) -> Option<usize> {
        let ready = |class: usize| {
            let mut keys = self.keys.iter().filter(|key| key.priority == Priority::ALL[class]);
            keys.any(|key| matches!(key.place, Where::Ready(..)))
        };
        let classes: Vec<usize> = (0..3).filter(|class| ready(*class)).collect();
        let (highest, lower) = classes.split_first()?;
        for class in lower {
            self.passed_over_since[*class].get_or_insert(self.now);
        }
        let after = u64::try_from(self.rules.ageing.after.as_nanos()).unwrap();
        let aged = |class: &&usize| self.passed_over_since[**class].unwrap() + after <= self.now;
        let aged: Vec<usize> = lower.iter().filter(aged).copied().collect();
        if aged.is_empty() {
            return Some(*highest);
        }
        self.passed_over += 1;
        if self.passed_over < self.rules.ageing.every.get() {
            return Some(*highest);
        }
        // Only the two lower priorities can be aged: take the one that did not have the last share.
        let other = aged.iter().find(|class| **class > self.shared).unwrap_or(&aged[0]);
        (self.passed_over, self.shared) = (0, *other);
        Some(*other)
    }

    fn get(&mut self) -> Option<u8> {
        self.advance();
        let class = self.turn()?;
        let first_of = |flow| {
            let ready = self.keys.iter().enumerate().filter_map(|(at, key)| match key.place {
                Where::Ready(number) if key.priority == Priority::ALL[class] => Some((number, at)),
                _ => None,
            });
            ready.filter(|(_, at)| self.flow(self.keys[*at].key) == flow).min()
        };
        // Flows without ready keys are skipped, and get a turn again when they have some.
        let turns = &self.turns[class];
        let turn = turns.iter().position(|flow| first_of(*flow).is_some()).unwrap();
        let flow = turns[turn];
        let (_, chosen) = first_of(flow).unwrap();
        let now = self.now;
        let once = self.rules.once;
        let key = &mut self.keys[chosen];
        key.place = Where::Processing(None);
        key.early = once && key.back_off > now;
        let key = key.key;
        let more = self.keys.iter().any(|key| {
            matches!(key.place, Where::Ready(..))
                && key.priority == Priority::ALL[class]
                && self.flow(key.key) == flow
        });
        self.turns[class].drain(..=turn);
        self.turns[class].extend(more.then_some(flow));
        self.tidy();
        Some(key)
    }

    fn when(&self, key: u8) -> Option<u64> {
        match self.keys.iter().find(|known| known.key == key)?.place {
            Where::Waiting(until, ..) | Where::Processing(Some((false, _, (until, _), _))) => Some(until),
            Where::Ready(..) | Where::Processing(_) => None,
        }
        .filter(|until| *until > self.now)
    }

    fn cancel(&mut self, key: u8) -> bool {
        let Some(at) = self.keys.iter().position(|known| known.key == key) else {
            return false;
        };
        if let Where::Processing(again) = &mut self.keys[at].place {
            return again.take().is_some();
        }
        self.keys.remove(at);
        self.tidy();
        true
    }

    fn shut_down(&mut self) -> Vec<u8> {
        self.advance();
        self.closed = true;
        let now = self.now;
        let mut given_up: Vec<_> = self
            .keys
            .iter()
            .filter_map(|key| match key.place {
                Where::Waiting(until, number, _) => Some((until, number, key.key)),
                _ => None,
            })
            .collect();
        given_up.sort_unstable();
        self.keys.retain(|key| !matches!(key.place, Where::Waiting(..)));
        let mut keys: Vec<u8> = given_up.into_iter().map(|(_, _, key)| key).collect();
        let first = keys.len();
        for key in &mut self.keys {
            if let Where::Processing(again) = &mut key.place
                && again.take_if(|(event, _, (at, _), _)| !*event && *at > now).is_some()
            {
                keys.push(key.key);
            }
        }
        keys[first..].sort_unstable();
        self.tidy();
        keys
    }
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..6_u8;
    let priority = prop::option::weighted(0.3, prop::sample::select(Priority::ALL.to_vec()));
    let after = prop_oneof![3 => Just(None), 2 => (0..60_u64).prop_map(Some)];
    prop_oneof![
        6 => (key.clone(), after, any::<bool>(), priority, any::<bool>())
            .prop_map(|(key, after, failed, priority, urgent)| Step::Add { key, after, failed, priority, urgent }),
        4 => Just(Step::Get),
        4 => (0..4_usize).prop_map(|which| Step::Done { which }),
        2 => key.clone().prop_map(|key| Step::Forget { key }),
        1 => key.prop_map(|key| Step::Cancel { key }),
        1 => Just(Step::Throttled),
        4 => (0..40_u64).prop_map(|time| Step::Pass { time }),
    ]
}

fn rules() -> impl Strategy<Value = Rules> {
    let ageing = (0..40_u64, 1..5_u32)
        .prop_map(|(after, every)| Ageing { after: units(after), every: NonZeroU32::new(every).unwrap() });
    (any::<bool>(), any::<bool>(), any::<bool>(), ageing).prop_map(|(once, fair, debounced, ageing)| Rules {
        once,
        fair,
        debounced,
        ageing,
    })
}

fn core(rules: Rules, epoch: Instant) -> Core<u8> {
    let policy = if rules.once {
        BackOffEvents::Once { then_every: units(THEN_EVERY) }
    } else {
        BackOffEvents::Always
    };
    let mut options =
        Options::default().rate_limiter(Limiter::new(epoch)).back_off_events(policy).ageing(rules.ageing);
    if rules.fair {
        options = options.fair_by(|key| Flow::from((key % FLOWS).to_string()));
    }
    if rules.debounced {
        options = options.debounce(units(DEBOUNCE.0), units(DEBOUNCE.1));
    }
    Core::new(options, epoch)
}

/// Runs the steps on both, compares every result, and empties both in the end.
fn compare(steps: &[Step], rules: Rules) {
    let epoch = Instant::now();
    let (mut core, mut model) = (core(rules, epoch), Model::new(rules, epoch));
    let mut handed_out: Vec<Loan<u8>> = Vec::new();
    for step in steps
        .iter()
        .cloned()
        .chain([Step::ShutDown])
        .chain((0..24).flat_map(|_| [Step::Get, Step::Done { which: 0 }]))
    {
        let now = Moment::START.after(units(model.now));
        match step {
            Step::Add { key, after, failed, priority, urgent } => {
                let how = AddOptions { after: after.map(units), rate_limited: failed, priority, urgent };
                core.add_at(now, key, how);
                model.add(key, after, failed, priority, urgent);
            }
            Step::Get => {
                let key = match core.take_at(now) {
                    Taken::Key(loan) => {
                        let key = *loan.key();
                        assert!(handed_out.iter().all(|other| *other.key() != key), "two runs of {key}");
                        handed_out.push(loan);
                        Some(key)
                    }
                    Taken::Nothing | Taken::Finished => None,
                };
                assert_eq!(key, model.get());
            }
            Step::Done { which } if !handed_out.is_empty() => {
                let loan = handed_out.remove(which % handed_out.len());
                model.done(*loan.key());
                core.done_at(now, loan);
            }
            Step::Done { .. } => {}
            Step::Forget { key } => {
                core.forget_at(now, &key);
                model.forget(key);
            }
            Step::Cancel { key } => assert_eq!(core.cancel(&key, core.hash(&key)), model.cancel(key)),
            Step::Throttled => {
                core.throttled();
                model.window = 0;
            }
            Step::Pass { time } => model.now += time,
            Step::ShutDown => {
                let mut given_up = core.shut_down(false, now);
                let waited = given_up.len()
                    - given_up.iter().filter(|key| handed_out.iter().any(|out| out.key() == *key)).count();
                given_up[waited..].sort_unstable();
                assert_eq!(given_up, model.shut_down());
            }
        }
        for key in 0..6 {
            let now = Moment::START.after(units(model.now));
            let when =
                core.when(&key, core.hash(&key), now).map(|(until, _)| until.elapsed_since(Moment::START));
            assert_eq!(when, model.when(key).map(units), "when {key}");
            assert_eq!(core.num_requeues(&key), model.limiter.num_requeues(&key), "failures of {key}");
        }
    }
    assert!(core.is_drained(), "nothing is left");
    assert_eq!((core.index.len(), core.order.lines.known()), (0, 0));
}

/// The second failure of key 2 asks for a later run than the first one, so the first one's times hold: when its own back-off
/// is over, only the budget delays the key, and it gets the slot that key 5 gives back.
#[test]
fn a_later_failure_during_a_run_leaves_the_own_back_off_of_the_earlier_one() {
    let add = |key, failed| Step::Add { key, after: None, failed, priority: None, urgent: false };
    let steps = [
        add(2, false),
        Step::Pass { time: 1 },
        Step::Get,
        add(5, true),
        add(2, true),
        Step::Pass { time: 25 },
        add(2, true),
        Step::Done { which: 0 },
        Step::Forget { key: 5 },
        add(0, false),
    ];
    for once in [false, true] {
        let ageing = Ageing { after: units(10), every: NonZeroU32::MIN };
        compare(&steps, Rules { once, fair: false, debounced: false, ageing });
    }
}

/// The short version by default; `WORKQUEUE_CASES=20000` makes it some two million steps.
#[test]
fn any_sequence_of_operations_comes_out_as_in_the_model() {
    let cases = std::env::var("WORKQUEUE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(500);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let steps = prop::collection::vec(step(), 0..200);
    runner
        .run(&(steps, rules()), |(steps, rules)| {
            compare(&steps, rules);
            Ok(())
        })
        .unwrap();
}
