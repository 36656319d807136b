//! Durations of leader election.

use std::time::Duration;

/// Durations of leader election, which determine how fast a leader is replaced and how much clocks may differ.
///
/// A leader renews its lease every `retry_period`, and stops leading when no renewal that it started succeeded for
/// `renew_deadline`. Another candidate takes the lease over when it has observed no change of the lease for `lease_duration` by its
/// own clock. So two processes never lead at the same time unless one clock runs faster than another by the factor
/// `lease_duration / renew_deadline`: 1.5 with the defaults, which are client-go's.
///
/// ```
/// use std::time::Duration;
/// use controller_runtime::leader_election::Timing;
///
/// let seconds = Duration::from_secs;
/// assert_eq!(Timing::default(), Timing::try_new(seconds(15), seconds(10), seconds(2))?);
/// assert!(Timing::try_new(seconds(10), seconds(10), seconds(2)).is_err());
/// # Ok::<(), controller_runtime::leader_election::TimingError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

/// A candidate waits up to 1 + this many retry periods between two attempts: client-go's `JitterFactor`.
pub(super) const JITTER_FACTOR: f64 = 1.2;

impl Timing {
    /// Makes timing from `lease_duration`, after which others take over (client-go: 15 s), `renew_deadline`, for which a leader
    /// leads without a renewal (10 s), and `retry_period` between two attempts (2 s).
    ///
    /// # Errors
    ///
    /// Unless `lease_duration > renew_deadline > 1.2 × retry_period > 0`.
    pub fn try_new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, TimingError> {
        if retry_period.is_zero() {
            return Err(TimingError::NoRetryPeriod);
        }
        if renew_deadline <= retry_period.mul_f64(JITTER_FACTOR) {
            return Err(TimingError::RenewDeadline { renew_deadline, retry_period });
        }
        if lease_duration <= renew_deadline {
            return Err(TimingError::LeaseDuration { lease_duration, renew_deadline });
        }
        Ok(Self { lease_duration, renew_deadline, retry_period })
    }

    /// Time that others wait before they take over a lease that does not change.
    #[must_use]
    #[doc(alias = "LeaseDuration")]
    pub fn lease_duration(&self) -> Duration {
        self.lease_duration
    }

    /// Time that a leader leads after the start of its last successful renewal.
    #[must_use]
    #[doc(alias = "RenewDeadline")]
    pub fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// Time between two attempts to take or renew the lease.
    #[must_use]
    #[doc(alias = "RetryPeriod")]
    pub fn retry_period(&self) -> Duration {
        self.retry_period
    }

    /// Timeout of one request about the lease, as in controller-runtime: half the renew deadline, at least 1 s.
    pub(super) fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// Duration written into the lease: whole seconds, rounded up, because other candidates wait for that long.
    pub(super) fn lease_seconds(&self) -> i32 {
        let partial = u64::from(self.lease_duration.subsec_nanos() > 0);
        i32::try_from(self.lease_duration.as_secs() + partial).unwrap_or(i32::MAX)
    }
}

impl Default for Timing {
    fn default() -> Self {
        let [lease_duration, renew_deadline, retry_period] = [15, 10, 2].map(Duration::from_secs);
        Self { lease_duration, renew_deadline, retry_period }
    }
}

/// Inconsistent durations of leader election.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimingError {
    /// Attempts would follow each other without a pause.
    #[error("the retry period must be longer than zero")]
    NoRetryPeriod,
    /// A leader would stop leading before its first attempt to renew can fail.
    #[error(
        "the renew deadline of {} s must be longer than 1.2 × the retry period of {} s",
        renew_deadline.as_secs_f32(),
        retry_period.as_secs_f32()
    )]
    RenewDeadline {
        /// The renew deadline given.
        renew_deadline: Duration,
        /// The retry period given.
        retry_period: Duration,
    },
    /// Others would take over while the leader leads.
    #[error(
        "the lease duration of {} s must be longer than the renew deadline of {} s",
        lease_duration.as_secs_f32(),
        renew_deadline.as_secs_f32()
    )]
    LeaseDuration {
        /// The lease duration given.
        lease_duration: Duration,
        /// The renew deadline given.
        renew_deadline: Duration,
    },
}
