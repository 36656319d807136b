//! Metric of the events that lead to reconciles.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use serde::Serialize;

use super::LabelPairs;
use crate::reconcile::{Cause, Causes, ChangeType};

/// The family `controller_runtime_reconcile_reasons_total`.
#[derive(Clone, Default)]
pub(super) struct ReasonFamily(Family<LabelPairs, Counter>);

impl ReasonFamily {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let family = Self::default();
        let help = "Reconciles per controller, by the source and type of the events that led to them";
        registry.register("controller_runtime_reconcile_reasons", help, family.0.clone());
        family
    }

    pub(super) fn of(&self, controller: &str) -> Reasons {
        let no_event = self.counter(controller, "", "none");
        Reasons { controller: Arc::from(controller), family: self.clone(), no_event, met: Arc::default() }
    }

    fn counter(&self, controller: &str, source: &str, change: &str) -> Counter {
        let labels = [("controller", controller), ("source", source), ("change", change)];
        self.0.get_or_create_owned(&labels.map(|(name, value)| (name, value.to_owned())).to_vec())
    }
}

/// Number of reconciles with events of one type from one source; without a source, of those without an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RunsByCause {
    pub(crate) source: String,
    pub(crate) change: &'static str,
    pub(crate) runs: u64,
}

/// A source and the type of its event, with their counter.
type ReasonCounter = (Arc<str>, ChangeType, Counter);

/// Counters of one controller.
#[derive(Clone)]
pub(super) struct Reasons {
    controller: Arc<str>,
    family: ReasonFamily,
    no_event: Counter,
    /// Counters used so far. They are few, and found faster here than in the family.
    met: Arc<Mutex<Vec<ReasonCounter>>>,
}

impl Reasons {
    /// Counts a reconcile. Several events of the same type from one source count once.
    pub(super) fn count(&self, causes: &Causes) {
        let causes = causes.first();
        if causes.is_empty() {
            self.no_event.inc();
        }
        for (index, cause) in causes.iter().enumerate() {
            let is_same = |other: &Cause| other.change == cause.change && other.source == cause.source;
            if !causes[..index].iter().any(is_same) {
                self.count_one(cause);
            }
        }
    }

    /// The counts, those without an event first.
    pub(super) fn totals(&self) -> Vec<RunsByCause> {
        let no_event = RunsByCause { source: String::new(), change: "none", runs: self.no_event.get() };
        let met = self.met.lock();
        let others = met.iter().map(|(source, change, counter)| RunsByCause {
            source: source.to_string(),
            change: change.as_str(),
            runs: counter.get(),
        });
        std::iter::once(no_event).chain(others).collect()
    }

    fn count_one(&self, Cause { source, change, .. }: &Cause) {
        let mut met = self.met.lock();
        if let Some((.., counter)) = met.iter().find(|(known, what, _)| what == change && known == source) {
            counter.inc();
            return;
        }
        let counter = self.family.counter(&self.controller, source, change.as_str());
        counter.inc();
        met.push((Arc::clone(source), *change, counter));
    }
}

impl fmt::Debug for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reasons").field("controller", &self.controller).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes(of: &[(ChangeType, &str, &str)]) -> Causes {
        let mut causes = Causes::default();
        for (change, source, object) in of {
            causes.add(Cause {
                change: *change,
                source: Arc::from(*source),
                object: Some(Arc::from(*object)),
            });
        }
        causes
    }

    #[test]
    fn a_reconcile_counts_once_for_each_source_and_change() {
        let reasons = ReasonFamily::default().of("web");
        reasons.count(&Causes::default());
        reasons.count(&causes(&[
            (ChangeType::Updated, "pods", "a"),
            (ChangeType::Updated, "pods", "b"),
            (ChangeType::Deleted, "pods", "a"),
            (ChangeType::Updated, "secrets", "a"),
        ]));
        reasons.clone().count(&causes(&[(ChangeType::Updated, "pods", "c")]));
        let counted = |source, change| reasons.family.counter("web", source, change).get();
        assert_eq!(counted("", "none"), 1);
        assert_eq!((counted("pods", "updated"), counted("pods", "deleted")), (2, 1));
        assert_eq!((counted("secrets", "updated"), counted("secrets", "created")), (1, 0));
        let totals = reasons.totals();
        let totals =
            totals.iter().map(|total| (&*total.source, total.change, total.runs)).collect::<Vec<_>>();
        assert_eq!(
            totals,
            [("", "none", 1), ("pods", "updated", 2), ("pods", "deleted", 1), ("secrets", "updated", 1)]
        );
    }
}
