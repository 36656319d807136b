//! Quantiles of durations.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// Quantiles of durations, in JSON in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Quantiles {
    #[serde(serialize_with = "seconds")]
    p50: Duration,
    #[serde(serialize_with = "seconds")]
    p99: Duration,
}

impl Quantiles {
    /// Quantiles of these durations; `None` if there are none.
    pub(crate) fn of(mut durations: Vec<Duration>) -> Option<Self> {
        durations.sort_unstable();
        let at = |percent: usize| durations.get(durations.len().saturating_sub(1) * percent / 100).copied();
        Some(Self { p50: at(50)?, p99: at(99)? })
    }
}

fn seconds<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(duration.as_secs_f64())
}
