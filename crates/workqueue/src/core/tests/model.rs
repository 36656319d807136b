//! The core against a model: a list of keys, searched from end to end.
//!
//! The model says the same things in the plainest way, and a random sequence of operations has to come out of both alike.
//! It knows delays, failures, back-off, classes, cancelling and shutdown; flows and debounce are left to their own tests.

use std::num::NonZeroU32;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::{Ageing, BackOffEvents, RateLimiter};

const THEN_EVERY: u64 = 30;

/// Every failure of a key waits as many units as it is the how-manieth, times 20.
#[derive(Default)]
struct Linear(BTreeMap<u8, u32>);

impl RateLimiter<u8> for Linear {
    fn when(&mut self, key: &u8, _now: Instant) -> Duration {
        let failures = self.0.entry(*key).or_default();
        *failures += 1;
        units(u64::from(*failures) * 20)
    }

    fn forget(&mut self, key: &u8, _now: Instant) {
        self.0.remove(key);
    }

    fn num_requeues(&self, key: &u8) -> u32 {
        self.0.get(key).copied().unwrap_or_default()
    }
}

fn units(count: u64) -> Duration {
    Duration::from_nanos(count)
}

#[derive(Clone, Debug)]
enum Step {
    Add { key: u8, after: Option<u64>, failed: bool, priority: Option<Priority> },
    Get,
    Done { which: usize },
    Forget { key: u8 },
    Cancel { key: u8 },
    Pass { time: u64 },
    ShutDown,
}

#[derive(Clone, PartialEq)]
enum Where {
    /// `until`, and the number of the operation that said so.
    Waiting(u64, u64),
    /// Since when, and the number of the move into line.
    Ready(u64, u64),
    /// An event meanwhile, the earliest time asked for meanwhile, the class of the next run; `None` if nothing was asked for.
    Processing(Option<(bool, u64, Priority)>),
}

#[derive(Clone)]
struct Key {
    key: u8,
    place: Where,
    priority: Priority,
    back_off: u64,
    brought_forward: bool,
    early: bool,
    ended: u64,
}

struct Model {
    keys: Vec<Key>,
    failures: Linear,
    now: u64,
    moves: u64,
    passed_over: u32,
    closed: bool,
    once: bool,
}

impl Model {
    fn number(&mut self) -> u64 {
        self.moves += 1;
        self.moves
    }

    /// Keys that are due get in line, in order of their times.
    fn advance(&mut self) {
        let now = self.now;
        while let Some(due) = (0..self.keys.len())
            .filter_map(|at| match self.keys[at].place {
                Where::Waiting(until, number) if until <= now => Some((until, number, at)),
                _ => None,
            })
            .min()
        {
            self.keys[due.2].place = Where::Ready(due.0, self.number());
        }
    }

    fn place(&mut self, mut key: Key, at: u64) {
        let number = self.number();
        key.place = if at > self.now { Where::Waiting(at, number) } else { Where::Ready(self.now, number) };
        self.keys.push(key);
    }

    fn event(&mut self, key: &mut Key) -> u64 {
        if !self.once || key.back_off <= self.now {
            return self.now;
        }
        if !std::mem::replace(&mut key.brought_forward, true) {
            return self.now;
        }
        (key.ended + THEN_EVERY).min(key.back_off)
    }

    fn failed(&mut self, key: &mut Key) -> u64 {
        if matches!(key.place, Where::Processing(_)) && key.early {
            return key.back_off;
        }
        let delay = self.failures.when(&key.key, Instant::now()).as_nanos();
        let until = self.now + u64::try_from(delay).unwrap();
        if self.once && key.back_off <= self.now {
            (key.back_off, key.brought_forward) = (until, false);
        }
        until
    }

    fn add(&mut self, key: u8, after: Option<u64>, failed: bool, priority: Option<Priority>) {
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
            brought_forward: false,
            early: false,
            ended: 0,
        });
        let priority = priority.unwrap_or(if event { Priority::Normal } else { this.priority });
        let mut asked = || {
            let after = after.map(|after| self.now + after);
            let failed = failed.then(|| self.failed(&mut this));
            after.into_iter().chain(failed).min()
        };
        match known.map(|known| known.place) {
            None => {
                let at = asked().unwrap_or(self.now);
                self.place(this, at);
            }
            Some(Where::Ready(since, number)) => {
                if priority > this.priority {
                    this.priority = priority;
                    this.place = Where::Ready(since, self.number());
                } else {
                    this.place = Where::Ready(since, number);
                }
                self.keys.push(this);
            }
            Some(Where::Waiting(until, _)) => {
                let at = asked().unwrap_or_else(|| self.event(&mut this));
                this.priority = this.priority.max(priority);
                if at < until {
                    self.place(this, at);
                } else {
                    self.keys.push(this);
                }
            }
            Some(Where::Processing(again)) => {
                let at = asked().unwrap_or(u64::MAX);
                let (was_event, earlier, class) = again.unwrap_or((false, u64::MAX, priority));
                this.place =
                    Where::Processing(Some((was_event || event, earlier.min(at), class.max(priority))));
                self.keys.push(this);
            }
        }
    }

    fn done(&mut self, key: u8) {
        let at = self.keys.iter().position(|known| known.key == key).unwrap();
        let mut this = self.keys.remove(at);
        let Where::Processing(again) = this.place else { panic!("{key} is being processed") };
        let Some((event, asked, priority)) = again else {
            return;
        };
        self.advance();
        this.ended = self.now;
        let at = if event { self.event(&mut this).min(asked) } else { asked };
        this.priority = priority;
        self.place(this, if self.closed { self.now } else { at });
    }

    fn get(&mut self, ageing: Ageing) -> Option<u8> {
        self.advance();
        let first_of = |priority| {
            let ready = self.keys.iter().enumerate().filter_map(|(at, key)| match key.place {
                Where::Ready(since, number) if key.priority == priority => Some((number, since, at)),
                _ => None,
            });
            ready.min()
        };
        let firsts: Vec<_> = Priority::ALL.iter().filter_map(|priority| first_of(*priority)).collect();
        let (_, _, mut chosen) = *firsts.first()?;
        let after = u64::try_from(ageing.after.as_nanos()).unwrap();
        let aged = firsts[1..]
            .iter()
            .filter(|(_, since, _)| since + after <= self.now)
            .min_by_key(|(_, since, _)| *since);
        if let Some((_, _, aged)) = aged {
            self.passed_over += 1;
            if self.passed_over >= ageing.every.get() {
                (chosen, self.passed_over) = (*aged, 0);
            }
        }
        let now = self.now;
        let key = &mut self.keys[chosen];
        key.place = Where::Processing(None);
        key.early = self.once && key.back_off > now;
        Some(key.key)
    }

    fn when(&self, key: u8) -> Option<u64> {
        match self.keys.iter().find(|known| known.key == key)?.place {
            Where::Waiting(until, _) | Where::Processing(Some((false, until, _))) => Some(until),
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
                Where::Waiting(until, number) => Some((until, number, key.key)),
                _ => None,
            })
            .collect();
        given_up.sort_unstable();
        self.keys.retain(|key| !matches!(key.place, Where::Waiting(..)));
        let mut keys: Vec<u8> = given_up.into_iter().map(|(_, _, key)| key).collect();
        let first = keys.len();
        for key in &mut self.keys {
            if let Where::Processing(again) = &mut key.place
                && again.take_if(|(event, at, _)| !*event && *at > now).is_some()
            {
                keys.push(key.key);
            }
        }
        keys[first..].sort_unstable();
        keys
    }
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..6_u8;
    let priority = prop::option::weighted(0.3, prop::sample::select(Priority::ALL.to_vec()));
    let after = prop_oneof![3 => Just(None), 2 => (0..60_u64).prop_map(Some)];
    prop_oneof![
        6 => (key.clone(), after, any::<bool>(), priority)
            .prop_map(|(key, after, failed, priority)| Step::Add { key, after, failed, priority }),
        4 => Just(Step::Get),
        4 => (0..4_usize).prop_map(|which| Step::Done { which }),
        1 => key.clone().prop_map(|key| Step::Forget { key }),
        1 => key.prop_map(|key| Step::Cancel { key }),
        4 => (0..40_u64).prop_map(|time| Step::Pass { time }),
    ]
}

/// Runs the steps on both, compares every answer, and empties both in the end.
fn compare(steps: &[Step], once: bool) {
    let ageing = Ageing { after: units(25), every: NonZeroU32::new(3).unwrap() };
    let policy =
        if once { BackOffEvents::Once { then_every: units(THEN_EVERY) } } else { BackOffEvents::Always };
    let options = Options::default().rate_limiter(Linear::default()).back_off_events(policy).ageing(ageing);
    let mut core = Core::new(options, Instant::now());
    let mut model = Model {
        keys: Vec::new(),
        failures: Linear::default(),
        now: 0,
        moves: 0,
        passed_over: 0,
        closed: false,
        once,
    };
    let mut handed_out: Vec<(Id, u8)> = Vec::new();
    for step in steps
        .iter()
        .cloned()
        .chain([Step::ShutDown])
        .chain((0..24).flat_map(|_| [Step::Get, Step::Done { which: 0 }]))
    {
        let now = Moment::START.after(units(model.now));
        match step {
            Step::Add { key, after, failed, priority } => {
                let how = AddOptions { after: after.map(units), rate_limited: failed, priority };
                add(&mut core, key, how, now);
                model.add(key, after, failed, priority);
            }
            Step::Get => {
                let key = match core.take(|| now) {
                    Taken::Key(id, key, _) => {
                        assert!(handed_out.iter().all(|(_, other)| *other != key), "two runs of {key}");
                        handed_out.push((id, key));
                        Some(key)
                    }
                    Taken::Nothing | Taken::Finished => None,
                };
                assert_eq!(key, model.get(ageing));
            }
            Step::Done { which } if !handed_out.is_empty() => {
                let (id, key) = handed_out.remove(which % handed_out.len());
                core.done(id, || now);
                model.done(key);
            }
            Step::Done { .. } => {}
            Step::Forget { key } => {
                core.forget(&key, now);
                model.failures.forget(&key, Instant::now());
                if let Some(known) = model.keys.iter_mut().find(|known| known.key == key) {
                    (known.back_off, known.early) = (0, false);
                }
            }
            Step::Cancel { key } => assert_eq!(core.cancel(&key), model.cancel(key)),
            Step::Pass { time } => model.now += time,
            Step::ShutDown => {
                let mut given_up = core.shut_down(false, now);
                let waited = given_up.len()
                    - given_up.iter().filter(|key| handed_out.iter().any(|(_, out)| out == *key)).count();
                given_up[waited..].sort_unstable();
                assert_eq!(given_up, model.shut_down());
            }
        }
        for key in 0..6 {
            let now = Moment::START.after(units(model.now));
            let when = core.when(&key, now).map(|(until, _)| until.elapsed_since(Moment::START));
            assert_eq!(when, model.when(key).map(units), "when {key}");
            assert_eq!(core.num_requeues(&key), model.failures.num_requeues(&key), "failures of {key}");
        }
    }
    assert!(core.is_drained(), "nothing is left");
    assert_eq!(core.index.len(), 0);
}

/// The short version by default; `WORKQUEUE_CASES=20000` makes it some two million steps.
#[test]
fn any_sequence_of_operations_comes_out_as_in_the_model() {
    let cases = std::env::var("WORKQUEUE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(500);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let steps = prop::collection::vec(step(), 0..200);
    runner
        .run(&(steps, any::<bool>()), |(steps, once)| {
            compare(&steps, once);
            Ok(())
        })
        .unwrap();
}
