//! How many keys run ahead of the slots that a shared budget gave them.
//!
//! A budget that all retries share ([`Bucket`](crate::Bucket)) protects a service that fails. When the service is back it only
//! delays: ten thousand keys that failed wait a quarter of an hour. Successes of keys that had failed show that it is back,
//! so each of them releases keys that wait for nothing but the budget, in the order of their slots. As in TCP's slow start
//! the successes set the pace, and neither a clock nor a rate does: a slow service is not flooded.
//!
//! ```text
//!              success: window = 1                    success: window + 1, at most 100
//!   CLOSED ──────────────────────────────▶ OPEN ──┐
//!   window = 0                             window ◀┘
//!      ▲                                     │
//!      └───────── failure, throttled ────────┘
//! ```
//!
//! *Ahead* is a key from its release until its run ends. At most `window` keys are ahead at once. A run that succeeds frees
//! its own place and adds one, so the number of keys ahead doubles with each round of successes. A failure leaves the keys
//! that are ahead where they are and releases no further ones: the others keep to their slots. A key that is ahead keeps the
//! slot that it had, until it succeeds: if it fails, its attempt has used that slot. So after a failure at most 100 attempts
//! are made early, as many as the default burst of the budget, then the budget's rate is paid back, and while nothing succeeds
//! no key is ahead.

/// Most keys that are ahead of their slots at once: the burst of the default budget.
pub(crate) const MAX_WINDOW: u32 = 100;

/// The state machine. It begins closed.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// How many keys may be ahead at once. 0 is closed.
    window: u32,
    /// How many are. After a failure more than `window`.
    ahead: u32,
}

impl Recovery {
    /// A key that had failed succeeded.
    pub(crate) fn succeeded(&mut self) {
        self.window = (self.window + 1).min(MAX_WINDOW);
    }

    /// An attempt failed, or the service refused load.
    pub(crate) fn failed(&mut self) {
        self.window = 0;
    }

    /// Returns whether a key may run ahead of its slot, and counts it.
    pub(crate) fn release(&mut self) -> bool {
        let may = self.ahead < self.window;
        self.ahead += u32::from(may);
        may
    }

    /// The run of a key that was released has ended, or will not take place.
    pub(crate) fn finished(&mut self) {
        self.ahead -= 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Releases as many keys as may run.
    fn released(recovery: &mut Recovery) -> u32 {
        std::iter::repeat_with(|| recovery.release()).take_while(|released| *released).count() as u32
    }

    #[test]
    fn the_number_of_keys_ahead_doubles_with_each_round_of_successes_up_to_the_burst() {
        let mut recovery = Recovery::default();
        assert_eq!(released(&mut recovery), 0, "nothing has succeeded");
        recovery.succeeded();
        let mut round = released(&mut recovery);
        let mut rounds = vec![round];
        for _ in 0..8 {
            let running = std::mem::take(&mut round);
            for _ in 0..running {
                recovery.succeeded();
                recovery.finished();
                round += released(&mut recovery);
            }
            rounds.push(round);
        }
        assert_eq!(rounds, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
    }

    #[test]
    fn a_failure_stops_the_release_until_the_next_success() {
        let mut recovery = Recovery::default();
        (0..10).for_each(|_| recovery.succeeded());
        assert_eq!(released(&mut recovery), 10);
        recovery.failed();
        recovery.finished();
        assert_eq!(released(&mut recovery), 0);
        recovery.succeeded();
        assert_eq!(released(&mut recovery), 0, "nine are still ahead");
        (0..9).for_each(|_| recovery.finished());
        assert_eq!(released(&mut recovery), 1, "it begins with one again");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Attempts that exceed the budget are bounded by successes, and by the window at any moment.
        #[test]
        fn no_more_keys_are_released_than_successes_allow(steps in prop::collection::vec(0..4_u8, 0..500)) {
            let (mut recovery, mut successes, mut all, mut failed) = (Recovery::default(), 0_u32, 0_u32, true);
            for step in steps {
                match step {
                    0 => {
                        recovery.succeeded();
                        (successes, failed) = (successes + 1, false);
                    }
                    1 => {
                        recovery.failed();
                        failed = true;
                    }
                    2 if recovery.ahead > 0 => recovery.finished(),
                    _ => {
                        let may = recovery.release();
                        prop_assert!(!may || !failed, "released after a failure");
                        all += u32::from(may);
                    }
                }
                prop_assert!(recovery.ahead <= MAX_WINDOW && recovery.window <= MAX_WINDOW);
                prop_assert!(successes > 0 || all == 0);
            }
        }
    }
}
