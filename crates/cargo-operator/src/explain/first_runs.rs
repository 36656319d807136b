//! The first reconciles of an operator after its start. Without this report, a restart that changes no object would go unnoticed.

use std::fmt;

use tokio::time::{Duration, sleep};

use super::{OperatorApi, Overview, Place, text::plural};
use crate::failure::Failure;

/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of requests. An operator that needs more time, because it has very many objects, gets no report.
const REQUESTS: usize = 100;

/// Result of the first reconciles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirstRuns {
    /// Number of reconciles.
    runs: u64,
    /// Requests with a failed latest reconcile.
    failing: usize,
}

impl FirstRuns {
    /// Asks an operator that has just started until it has reconciled all its objects. `None` if it has none, does not answer, or needs more
    /// than ten seconds.
    ///
    /// # Errors
    ///
    /// The address cannot be used.
    pub(crate) fn at(place: &Place) -> Result<impl Future<Output = Option<Self>> + Send + use<>, Failure> {
        let api = OperatorApi::new(place)?;
        Ok(async move {
            for _ in 0..REQUESTS {
                // On an error, the operator does not listen yet or is not ready.
                if let Ok(overview) = api.get::<Overview>(&["overview"], &[]).await
                    && let Some(runs) = Self::of(&overview)
                {
                    return Some(runs);
                }
                sleep(PAUSE).await;
            }
            None
        })
    }

    /// `None` before the first reconciles, and while some are left.
    fn of(overview: &Overview) -> Option<Self> {
        let controllers = &overview.controllers;
        let is_busy = controllers.iter().any(|controller| controller.queued + controller.running > 0);
        let runs: u64 = controllers.iter().map(|controller| controller.runs).sum();
        let failing = controllers.iter().map(|controller| controller.failing).sum();
        (overview.state == "Ready" && !is_busy && runs > 0).then_some(Self { runs, failing })
    }
}

/// `in 3 runs, 1 object fails`
impl fmt::Display for FirstRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = plural(self.runs, "run");
        match self.failing {
            0 => write!(f, "in {runs}, nothing fails"),
            1 => write!(f, "in {runs}, 1 object fails"),
            failing => write!(f, "in {runs}, {failing} objects fail"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_operator_is_asked_until_it_is_idle() {
        let controller = |queued: usize, running: usize, runs: u64, failing: usize| json!({ "name": "a", "queued": queued, "running": running, "waiting": 9, "runs": runs, "failing": failing });
        for (state, controllers, expected) in [
            ("Starting", vec![controller(0, 0, 1, 0)], None),
            ("Ready", vec![], None),
            ("Ready", vec![controller(0, 0, 0, 0)], None),
            ("Ready", vec![controller(1, 0, 3, 0)], None),
            ("Ready", vec![controller(0, 0, 3, 0), controller(0, 1, 3, 0)], None),
            ("Ready", vec![controller(0, 0, 1, 0)], Some("in 1 run, nothing fails")),
            ("Ready", vec![controller(0, 0, 3, 1)], Some("in 3 runs, 1 object fails")),
            (
                "Ready",
                vec![controller(0, 0, 3, 1), controller(0, 0, 2, 1)],
                Some("in 5 runs, 2 objects fail"),
            ),
        ] {
            let overview = json!({ "state": state, "controllers": controllers });
            let overview: Overview = serde_json::from_value(overview).expect("an overview");
            assert_eq!(FirstRuns::of(&overview).map(|runs| runs.to_string()).as_deref(), expected);
        }
    }
}
