//! Deadline of a request, as pure arithmetic.

use std::time::Duration;

/// Default time that a request may take.
///
/// Equals the default of kube-apiserver's `--request-timeout`: a healthy server has answered by then, if only with 504.
pub(in crate::client) const DEFAULT: Duration = Duration::from_secs(60);

/// The rest of the time that a request may take, its repetitions included.
///
/// A repetition starts with the time that earlier attempts left, so the caller waits no longer than it asked for,
/// however often the API server requests a retry. Waits for the client's own rate limit do not count: they delay
/// requests, but always end.
#[derive(Debug, Clone, Copy)]
pub(in crate::client) struct Deadline {
    left: Duration,
}

impl Deadline {
    pub(in crate::client) fn after(time: Duration) -> Self {
        Self { left: time }
    }

    /// Time left.
    pub(in crate::client) fn left(self) -> Duration {
        self.left
    }

    /// Subtracts the time of an attempt, or of a wait between two.
    pub(in crate::client) fn spend(&mut self, time: Duration) {
        self.left = self.left.saturating_sub(time);
    }

    /// Returns whether a wait of `delay` leaves time for an attempt after it.
    pub(in crate::client) fn allows(self, delay: Duration) -> bool {
        delay < self.left
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_wait_that_leaves_no_time_for_an_attempt_is_not_allowed() {
        let mut deadline = Deadline::after(Duration::from_secs(60));
        assert!(deadline.allows(Duration::from_secs(59)) && !deadline.allows(Duration::from_secs(60)));
        deadline.spend(Duration::from_secs(50));
        assert!(deadline.allows(Duration::from_secs(9)) && !deadline.allows(Duration::from_secs(10)));
        assert_eq!(deadline.left(), Duration::from_secs(10));
    }

    proptest! {
        /// Attempts that end at the deadline, and waits that were allowed, together never exceed the time of the request.
        #[test]
        fn attempts_and_waits_together_keep_the_deadline(
            total in 0u64..1_000_000,
            steps in proptest::collection::vec((0u64..200_000, 0u64..200_000), 0..50),
        ) {
            let mut deadline = Deadline::after(Duration::from_millis(total));
            let mut taken = Duration::ZERO;
            for (attempt, wait) in steps {
                let attempt = Duration::from_millis(attempt).min(deadline.left());
                deadline.spend(attempt);
                taken += attempt;
                let wait = Duration::from_millis(wait);
                if !deadline.allows(wait) {
                    break;
                }
                deadline.spend(wait);
                taken += wait;
            }
            prop_assert!(taken <= Duration::from_millis(total));
            prop_assert_eq!(deadline.left(), Duration::from_millis(total) - taken);
        }
    }
}
