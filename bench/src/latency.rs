//! Latency from a change to the reconciler's read, in total and relative to a bare watch.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

/// Number, round, time of sending, and time of arrival at the bare watch. Times are nanoseconds of the monotonic clock.
type Event = [u64; 4];

/// Number, round, and time of a reconciler's read.
type Read = [u64; 3];

/// Percentiles of the latencies of events.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Latencies {
    /// Time since before the change was sent.
    pub(crate) from_sent: Percentiles,
    /// Time since the bare watch received the event; 0 if the reconciler was earlier.
    pub(crate) beyond_bare_watch: Percentiles,
    /// Percentage of events that the reconciler read before the bare watch received them.
    pub(crate) sooner_percent: f64,
}

/// Percentiles in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Latencies {
    /// Computes latencies from the cluster's events and a peer's reads.
    pub(crate) fn of(events: &Value, reads: &Value) -> anyhow::Result<Self> {
        let events = Vec::<Event>::deserialize(events).context("invalid events of the cluster")?;
        let reads = Vec::<Read>::deserialize(reads).context("invalid reads of the peer")?;
        // Only the first read of each round counts; later reconciles have other causes.
        let mut first: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for [number, round, at] in reads {
            first.entry((number, round)).and_modify(|first| *first = at.min(*first)).or_insert(at);
        }
        let (mut from_sent, mut beyond, mut sooner) = (Vec::new(), Vec::new(), 0);
        for [number, round, sent, came] in events {
            let read =
                first.get(&(number, round)).with_context(|| format!("message {number} was not read"))?;
            from_sent.push(read.saturating_sub(sent));
            beyond.push(read.saturating_sub(came));
            sooner += usize::from(*read < came);
        }
        let count = from_sent.len();
        anyhow::ensure!(count > 0, "there were no events");
        Ok(Self {
            from_sent: Percentiles::of(from_sent),
            beyond_bare_watch: Percentiles::of(beyond),
            sooner_percent: sooner as f64 * 100.0 / count as f64,
        })
    }
}

impl Percentiles {
    /// Returns the percentiles of values, of which there is at least one.
    pub(crate) fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let at = |share: usize| values[(values.len() - 1) * share / 100] as f64;
        Self { p50: at(50), p99: at(99) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn latency_is_counted_from_the_change_and_from_the_bare_watch() -> anyhow::Result<()> {
        let events = json!([[1, 4, 1_000, 1_300], [2, 4, 2_000, 2_300], [3, 4, 3_000, 3_300]]);
        // The second event was read before the bare watch received it; the third was read twice.
        let reads = json!([[1, 4, 1_400], [2, 4, 2_200], [3, 3, 100], [3, 4, 3_350], [3, 4, 9_000]]);
        let latencies = Latencies::of(&events, &reads)?;
        assert_eq!(latencies.from_sent, Percentiles { p50: 350.0, p99: 350.0 });
        assert_eq!(latencies.beyond_bare_watch, Percentiles { p50: 50.0, p99: 50.0 });
        assert!((latencies.sooner_percent - 100.0 / 3.0).abs() < 1e-9);
        Ok(())
    }

    #[test]
    fn an_unread_event_is_an_error_and_not_a_short_latency() {
        let error = Latencies::of(&json!([[1, 4, 1, 2]]), &json!([[1, 3, 5]]))
            .expect_err("there is no matching read");
        assert_eq!(error.to_string(), "message 1 was not read");
        assert!(Latencies::of(&json!([]), &json!([])).is_err());
    }
}
