use std::time::Duration;

/// How fast a leader is replaced, and how much clocks may differ meanwhile.
///
/// A leader renews its lease every `retry_period`, and stops leading when no renewal that it began succeeded for
/// `renew_deadline`. Others take the lease over when they have not seen it change for `lease_duration`, each by its own
/// clock. So no two lead at once as long as no clock runs faster than another by the factor
/// `lease_duration / renew_deadline`: 1.5 with the defaults, which are client-go's.
///
/// ```
/// use std::time::Duration;
/// use controller_runtime::leader_election::Timing;
///
/// let seconds = Duration::from_secs;
/// assert_eq!(Timing::default(), Timing::try_new(seconds(15), seconds(10), seconds(2))?);
/// assert!(Timing::try_new(seconds(10), seconds(10), seconds(2)).is_err());
/// # Ok::<(), controller_runtime::leader_election::InvalidTiming>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

/// How much longer than the retry period a candidate waits at most, as a multiple of it. client-go's `JitterFactor`.
pub(super) const JITTER_FACTOR: f64 = 1.2;

impl Timing {
    /// `lease_duration` is how long others wait (client-go: 15 s), `renew_deadline` how long a leader leads without a
    /// renewal (10 s), `retry_period` the time between two attempts (2 s).
    ///
    /// # Errors
    ///
    /// Unless `lease_duration > renew_deadline > 1.2 × retry_period > 0`.
    pub fn try_new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, InvalidTiming> {
        if retry_period.is_zero() {
            return Err(InvalidTiming::NoRetryPeriod);
        }
        if renew_deadline <= retry_period.mul_f64(JITTER_FACTOR) {
            return Err(InvalidTiming::RenewDeadline { renew_deadline, retry_period });
        }
        if lease_duration <= renew_deadline {
            return Err(InvalidTiming::LeaseDuration { lease_duration, renew_deadline });
        }
        Ok(Self { lease_duration, renew_deadline, retry_period })
    }

    /// How long others wait until they take over a lease that does not change.
    #[must_use]
    #[doc(alias = "LeaseDuration")]
    pub fn lease_duration(&self) -> Duration {
        self.lease_duration
    }

    /// How long after the begin of its last successful renewal a leader leads.
    #[must_use]
    #[doc(alias = "RenewDeadline")]
    pub fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// How long to wait between two attempts to take or renew the lease.
    #[must_use]
    #[doc(alias = "RetryPeriod")]
    pub fn retry_period(&self) -> Duration {
        self.retry_period
    }

    /// How long one request about the lease may take, as in controller-runtime: half the renew deadline, at least 1 s.
    pub(super) fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// What the lease says of its duration: whole seconds, rounded up, because others wait as long as it says.
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

/// Why the times of a leader election do not fit each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTiming {
    /// Attempts without a pause.
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
