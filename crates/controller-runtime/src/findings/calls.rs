//! Statistics of the client's calls by verb: their number, errors and durations. Pure.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use serde::Serialize;

use crate::{metrics::Quantiles, rights::Verb};

/// Number of durations stored for each verb: those of its latest calls.
const KEPT: usize = 256;

/// Key among the errors for calls without an answer.
const NO_ANSWER: &str = "no answer";

/// Calls by verb.
#[derive(Debug, Default)]
pub(super) struct CallNumbers(BTreeMap<Verb, CallsOfVerb>);

#[derive(Debug, Default)]
struct CallsOfVerb {
    count: u64,
    /// Failed calls by the code of the answer; `None` without one.
    errors: BTreeMap<Option<u16>, u64>,
    /// Durations of the latest calls.
    took: VecDeque<Duration>,
}

/// Calls of one verb since the start, and how long the latest took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct CallSummary {
    verb: String,
    calls: u64,
    /// Failed calls by the code of the answer.
    errors: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    took: Option<Quantiles>,
}

impl CallNumbers {
    /// Counts a call with its final outcome: `Err` has the code of the answer, if there was one.
    pub(super) fn ended(&mut self, verb: Verb, outcome: Result<(), Option<u16>>, took: Duration) {
        let calls = self.0.entry(verb).or_default();
        calls.count += 1;
        if let Err(code) = outcome {
            *calls.errors.entry(code).or_default() += 1;
        }
        if calls.took.len() == KEPT {
            calls.took.pop_front();
        }
        calls.took.push_back(took);
    }

    /// Numbers of each verb that was used, in the order of [`Verb`].
    pub(super) fn summaries(&self) -> Vec<CallSummary> {
        let code = |code: &Option<u16>| code.map_or_else(|| NO_ANSWER.to_owned(), |code| code.to_string());
        let summary = |(verb, calls): (&Verb, &CallsOfVerb)| CallSummary {
            verb: verb.to_string(),
            calls: calls.count,
            errors: calls.errors.iter().map(|(error, count)| (code(error), *count)).collect(),
            took: Quantiles::of(calls.took.iter().copied().collect()),
        };
        self.0.iter().map(summary).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_are_counted_by_verb_and_the_latest_are_timed() {
        let mut numbers = CallNumbers::default();
        for number in 0..300_u64 {
            let outcome = match number {
                0 => Err(Some(403)),
                1 | 2 => Err(None),
                _ => Ok(()),
            };
            // The first calls were slow, and are forgotten.
            let took = if number < 44 { 9000 } else { 2 };
            numbers.ended(Verb::Patch, outcome, Duration::from_millis(took));
        }
        numbers.ended(Verb::Get, Ok(()), Duration::from_millis(5));
        assert_eq!(
            serde_json::to_value(numbers.summaries()).expect("JSON"),
            json!([
                { "verb": "get", "calls": 1, "errors": {}, "took": { "p50": 0.005, "p99": 0.005 } },
                { "verb": "patch", "calls": 300, "errors": { "403": 1, "no answer": 2 }, "took": { "p50": 0.002, "p99": 0.002 } },
            ])
        );
    }
}
