//! How long a request may take: the pure core.

use std::time::Duration;

/// Time that a request may take unless the client or the request has another figure.
///
/// It is the figure of kube-apiserver's `--request-timeout`: a server that is well has answered by then, if only with 504.
pub(super) const DEFAULT: Duration = Duration::from_secs(60);

/// What is left of the time that a request may take, its repetitions included.
///
/// A repetition begins with the time that its predecessors left, so the caller waits no longer than it asked for, however often
/// the API server says to come later. The client's own rate limit is not counted: it delays requests, and cannot hang.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    left: Duration,
}

impl Deadline {
    pub(super) fn after(time: Duration) -> Self {
        Self { left: time }
    }

    /// Time that is left.
    pub(super) fn left(self) -> Duration {
        self.left
    }

    /// Counts time that an attempt took, or a wait between two.
    pub(super) fn spend(&mut self, time: Duration) {
        self.left = self.left.saturating_sub(time);
    }

    /// Whether a wait of `delay` leaves time for an attempt after it.
    pub(super) fn allows(self, delay: Duration) -> bool {
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
        /// Attempts that end when no time is left, and waits that were allowed, never take longer together than the request may.
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
