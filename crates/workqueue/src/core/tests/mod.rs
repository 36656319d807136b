//! Tests of the state machine as scripts.
//!
//! A script is a list of operations on keys: `add a`, `add low a`, `add urgent a`, `after a 5s`, `limited a` (100 ms, doubling
//! up to 1 s unless the options differ), `get`, `done a`, `cancel a`, `forget a`, `when a`, `failures a`, `at 3s` (sets the
//! clock), `shut`. The output has a line per operation with a result, and the final state: the ready keys in the order in which
//! they would be handed out, the waiting ones in the order of their times.

mod back_off;
mod debounce;
mod flows;
mod model;
mod offers;
mod priority;
mod states;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::BuildHasher;
use std::time::Duration;

use expect_test::Expect;

use super::*;
use crate::AddOptions;
use crate::ItemExponentialFailure;

fn check(script: &str, expected: &Expect) {
    check_with(options(), script, expected);
}

fn check_with(options: Options<String>, script: &str, expected: &Expect) {
    expected.assert_eq(&Script::new(options).run(script));
}

fn options() -> Options<String> {
    let limiter = ItemExponentialFailure::try_new(Duration::from_millis(100), Duration::from_secs(1));
    Options::default().rate_limiter(limiter.expect("100 ms is less than 1 s"))
}

/// The operations of the core at a given time, called as [`Shared`](crate::shared::Shared) calls them.
impl<K: Clone + Eq + Hash> Core<K> {
    fn hash(&self, key: &K) -> u64 {
        self.hasher().hash_one(key)
    }

    fn add_at(&mut self, now: Timestamp, key: K, how: AddOptions) {
        let hash = self.hash(&key);
        let flow = self.options.flow_of.as_ref().map(|flow_of| flow_of(&key));
        self.add(&mut Adding { key: Some(key), flow }, hash, how, &Now::new(|| now));
    }

    fn take_at(&mut self, now: Timestamp) -> Taken<K> {
        self.take(&Now::new(|| now))
    }

    fn forget_at(&mut self, now: Timestamp, key: &K) {
        let hash = self.hash(key);
        self.forget(key, hash, &Now::new(|| now));
    }

    fn done_at(&mut self, now: Timestamp, loan: Loan<K>) {
        self.done(loan, &mut None, &Now::new(|| now));
    }
}

struct Script {
    core: Core<String>,
    epoch: Instant,
    now: Timestamp,
    handed_out: BTreeMap<String, Loan<String>>,
    output: String,
}

impl Script {
    fn new(options: Options<String>) -> Self {
        let epoch = Instant::now();
        Self {
            core: Core::new(options, epoch),
            epoch,
            now: Timestamp::START,
            handed_out: BTreeMap::new(),
            output: String::new(),
        }
    }

    fn run(mut self, script: &str) -> String {
        for operation in script.split(';').map(str::trim) {
            self.step(&operation.split(' ').collect::<Vec<_>>());
        }
        self.output + &state(&mut self.core, self.handed_out.keys(), self.now, self.epoch)
    }

    fn step(&mut self, words: &[&str]) {
        let how = AddOptions::default();
        match *words {
            ["add", key] => self.add(key, how),
            ["add", "urgent", key] => self.add(key, how.urgent()),
            ["add", class, key] => self.add(key, how.priority(priority(class))),
            ["after", key, delay] => self.add(key, how.after(seconds(delay))),
            ["limited", key] => self.add(key, how.rate_limited()),
            ["limited", key, delay] => self.add(key, how.rate_limited().after(seconds(delay))),
            ["at", time] => self.now = Timestamp::START.after(seconds(time)),
            ["forget", key] => {
                let key = key.to_owned();
                self.core.forget_at(self.now, &key);
            }
            ["done", key] => {
                let loan = self.handed_out.remove(key).expect("it was handed out");
                self.core.done_at(self.now, loan);
            }
            ["cancel", key] => {
                let key = key.to_owned();
                let cancelled = self.core.cancel(&key, self.core.hash(&key), &mut None);
                self.print(format_args!("cancel: {cancelled}"));
            }
            ["failures", key] => {
                let failures = self.core.num_requeues(&key.to_owned());
                self.print(format_args!("failures: {failures}"));
            }
            ["shut"] => {
                let given_up = self.core.shut_down(self.now);
                self.print(format_args!("given up: {given_up:?}"));
            }
            ["when", key] => {
                let key = key.to_owned();
                match self.core.when(&key, self.core.hash(&key), self.now) {
                    Some((until, why)) => {
                        self.print(format_args!("when: {:?} {why:?}", until.elapsed_since(Timestamp::START)));
                    }
                    None => self.print(format_args!("when: -")),
                }
            }
            ["get"] => match self.core.take_at(self.now) {
                Taken::Key(loan) => {
                    let key = loan.key().clone();
                    self.print(format_args!("get: {key}"));
                    assert!(self.handed_out.insert(key, loan).is_none(), "two runs of one key");
                }
                Taken::Nothing => self.print(format_args!("get: nothing")),
                Taken::Finished => self.print(format_args!("get: finished")),
            },
            _ => panic!("what is {words:?}?"),
        }
    }

    fn add(&mut self, key: &str, how: AddOptions) {
        self.core.add_at(self.now, key.to_owned(), how);
    }

    fn print(&mut self, what: std::fmt::Arguments<'_>) {
        writeln!(self.output, "{what}").unwrap();
    }
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs_f64(text.strip_suffix('s').unwrap().parse().unwrap())
}

fn priority(name: &str) -> Priority {
    Priority::ALL.into_iter().find(|priority| priority.as_str() == name).unwrap()
}

/// Empties the core: the keys that are handed out at once, and the waiting ones with their times.
fn state<'k>(
    core: &mut Core<String>,
    processing: impl Iterator<Item = &'k String>,
    now: Timestamp,
    epoch: Instant,
) -> String {
    let join = |keys: Vec<String>| {
        if keys.is_empty() { "-".to_owned() } else { keys.join(" ") }
    };
    let processing = processing.map(|key| {
        let id = core.find(key, core.hash(key)).expect("a key being processed is known");
        let State::Processing { again } = core.slab[id].state else { panic!("{key} is being processed") };
        if again.is_some() { format!("{key}+again") } else { key.clone() }
    });
    let processing = join(processing.collect());
    let waiting = core.order.all_waiting(&core.slab).into_iter().map(|id| {
        let entry = &core.slab[id];
        format!("{}@{:?}", entry.key(), entry.at.instant(epoch) - epoch)
    });
    let waiting = join(waiting.collect());
    let ready = std::iter::from_fn(|| {
        let (_, entry) = core.order.hand_out(&Now::new(|| now), &mut core.slab)?;
        entry.key.clone()
    });
    format!("ready: {}  waiting: {waiting}  processing: {processing}\n", join(ready.collect()))
}
