//! The core against a model: a list of keys with linear search.
//!
//! The model implements the same rules in the plainest way, and a random sequence of operations must give equal results in
//! both. It covers delays, failures, back-off, debounce, priorities and their ageing, flows, recovery, cancelling and shutdown.

mod limiter;
mod reference;

use std::num::NonZeroU32;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use std::collections::BTreeSet;

use self::limiter::{Limiter, units};
use self::reference::Model;
use super::*;
use crate::{Ageing, BackOffEvents, Delay, RateLimiter};

/// `then_every` of [`BackOffEvents::Once`].
const THEN_EVERY: u64 = 30;
/// Quiet time of debouncing, and the longest time that events can postpone a key.
const DEBOUNCE: (u64, u64) = (10, 25);
const FLOWS: u8 = 3;

/// Choice of policies.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// Whether the policy is [`BackOffEvents::Once`].
    once: bool,
    fair: bool,
    debounced: bool,
    ageing: Ageing,
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

/// Runs the steps on the core and on the model, compares every result, and empties both in the end.
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
        let now = Timestamp::START.after(units(model.now));
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
            Step::Cancel { key } => {
                assert_eq!(core.cancel(&key, core.hash(&key), &mut None), model.cancel(key));
            }
            Step::Throttled => {
                core.throttled();
                model.window = 0;
            }
            Step::Pass { time } => model.now += time,
            Step::ShutDown => {
                let mut given_up = core.shut_down(now);
                let waited = given_up.len()
                    - given_up.iter().filter(|key| handed_out.iter().any(|out| out.key() == *key)).count();
                given_up[waited..].sort_unstable();
                assert_eq!(given_up, model.shut_down());
            }
        }
        for key in 0..6 {
            let now = Timestamp::START.after(units(model.now));
            let when =
                core.when(&key, core.hash(&key), now).map(|(until, _)| until.elapsed_since(Timestamp::START));
            assert_eq!(when, model.when(key).map(units), "when {key}");
            assert_eq!(core.num_requeues(&key), model.limiter.num_requeues(&key), "failures of {key}");
        }
    }
    assert!(core.is_drained(), "nothing is left");
    assert_eq!((core.index.len(), core.order.fifos.known()), (0, 0));
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
fn any_sequence_of_operations_equals_the_model() {
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
