//! Number of keys that may run ahead of their slots in a shared budget.
//!
//! A budget shared by all retries ([`Bucket`](crate::Bucket)) protects a failing service. Once the service is back, the budget
//! only delays: ten thousand keys that failed wait a quarter of an hour. Successes of keys that had failed show that the
//! service is back, so each of them releases keys that only the budget delays, in the order of their slots. As in TCP's slow
//! start, successes set the pace, not a clock or a rate, so a slow service is not flooded.
//!
//! ```text
//!              success: window = 1                    success: window + 1, at most 100
//!   CLOSED ──────────────────────────────▶ OPEN ──┐
//!   window = 0                             window ◀┘
//!      ▲                                     │
//!      └───────── failure, throttled ────────┘
//! ```
//!
//! A key is *ahead* from its release until its run ends. At most `window` keys are ahead at once. A run that succeeds frees
//! its own place and adds one, so the number of keys ahead doubles with each round of successes. A failure leaves the keys
//! that are ahead, but releases no others: the others keep their slots. A key that is ahead keeps its
//! slot until it succeeds: if it fails, its attempt has used that slot. So after a failure at most 100 attempts
//! are early, as many as the default burst of the budget; then the budget's rate is repaid, and while nothing succeeds
//! no key is ahead.

/// Largest number of keys ahead of their slots: the burst of the default budget.
pub(crate) const MAX_WINDOW: u32 = 100;

/// The state machine. It starts closed.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// Number of keys that may be ahead. 0 means closed.
    window: u32,
    /// Number of keys that are ahead. After a failure it may exceed `window`.
    ahead: u32,
}

impl Recovery {
    /// Handles the success of a key that had failed.
    pub(crate) fn succeeded(&mut self) {
        self.window = (self.window + 1).min(MAX_WINDOW);
    }

    /// Handles a failed attempt, or a service that refuses load.
    pub(crate) fn failed(&mut self) {
        self.window = 0;
    }

    /// Returns whether a key may run ahead of its slot, and counts it.
    pub(crate) fn release(&mut self) -> bool {
        let may = self.ahead < self.window;
        self.ahead += u32::from(may);
        may
    }

    /// Handles the end of a released key's run, or its cancellation.
    pub(crate) fn finished(&mut self) {
        self.ahead -= 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Releases as many keys as allowed.
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

        /// Attempts beyond the budget are bounded by successes, and by the window at any moment.
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
