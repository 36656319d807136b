//! Offers of an earlier slot to the first key that only a shared budget delays.

use std::sync::Arc;

use parking_lot::Mutex;

use super::*;
use crate::{Delay, RateLimiter};

/// A budget with one slot, in a thousand seconds unless a test gives it an earlier time. It counts its offers.
#[derive(Clone)]
struct Budget(Arc<Mutex<Slot>>);

struct Slot {
    delay: Duration,
    offers: u32,
}

impl Budget {
    fn full() -> Self {
        Self(Arc::new(Mutex::new(Slot { delay: seconds("1000s"), offers: 0 })))
    }

    /// A queue with the key 0, which failed.
    fn queue(&self) -> Core<u32> {
        let mut core = Core::new(Options::default().rate_limiter(self.clone()), Instant::now());
        core.add_at(Timestamp::START, 0, AddOptions::default().rate_limited());
        core
    }

    fn offers(&self) -> u32 {
        self.0.lock().offers
    }
}

impl RateLimiter<u32> for Budget {
    fn when(&mut self, key: &u32, now: Instant) -> Duration {
        self.charge(key, now).total()
    }

    fn charge(&mut self, _key: &u32, _now: Instant) -> Delay {
        Delay::shared(self.0.lock().delay)
    }

    fn move_up(&mut self, _key: &u32, _now: Instant) -> Duration {
        let mut slot = self.0.lock();
        slot.offers += 1;
        slot.delay
    }

    fn forget(&mut self, _key: &u32, _now: Instant) {}

    fn num_requeues(&self, _key: &u32) -> u32 {
        0
    }
}

fn at(time: &str) -> Timestamp {
    Timestamp::START.after(seconds(time))
}

#[test]
fn the_first_key_gets_an_offer_every_second_however_often_the_queue_is_used() {
    let budget = Budget::full();
    let mut core = budget.queue();
    let mut seen = Vec::new();
    for time in ["0s", "0.5s", "0.999s", "1s", "1.5s", "2s"] {
        core.advance(&Now::new(|| at(time)));
        seen.push((budget.offers(), core.next_due().unwrap().elapsed_since(Timestamp::START).as_secs()));
    }
    assert_eq!(
        seen,
        [(1, 1), (1, 1), (1, 1), (2, 2), (2, 2), (3, 3)],
        "offers, and the time of the next one"
    );
}

#[test]
fn a_key_that_gets_a_slot_at_once_is_ready() {
    let budget = Budget::full();
    let mut core = budget.queue();
    assert!(matches!(core.take_at(at("0s")), Taken::Nothing));
    budget.0.lock().delay = Duration::ZERO;
    assert!(matches!(core.take_at(at("0.5s")), Taken::Nothing), "the next offer is at 1 s");
    assert!(matches!(core.take_at(at("1s")), Taken::Key(_)));
}

#[test]
fn a_key_whose_place_changes_gets_no_further_offer() {
    let budget = Budget::full();
    let mut core = Core::new(Options::default().rate_limiter(budget.clone()), Instant::now());
    for key in 1..=2000 {
        core.add_at(Timestamp::START, key, AddOptions::default());
    }
    core.add_at(Timestamp::START, 0, AddOptions::default().rate_limited());
    let place = core.find(&0, core.hash(&0));
    while let Taken::Key(loan) = core.take_at(Timestamp::START) {
        core.done_at(Timestamp::START, loan);
    }
    assert!(core.find(&0, core.hash(&0)) < place, "it moved to a lower place");
    assert_eq!(budget.offers(), 1);
}
