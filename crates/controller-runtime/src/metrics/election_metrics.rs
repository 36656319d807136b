//! Metrics of leader elections.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::LabelPairs;

/// Metric families of a manager's elections.
pub(super) struct ElectionFamilies {
    master_status: Family<LabelPairs, Gauge>,
    slow_path: Family<LabelPairs, Counter>,
}

impl ElectionFamilies {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let families = Self { master_status: Family::default(), slow_path: Family::default() };
        registry.register(
            "leader_election_master_status",
            "1 if this process leads, 0 if it is a standby",
            families.master_status.clone(),
        );
        registry.register(
            "leader_election_slowpath",
            "Writes of the lease that failed because it had changed, so that it had to be read again",
            families.slow_path.clone(),
        );
        families
    }

    pub(super) fn of(&self, name: &str) -> ElectionMetrics {
        let labels = vec![("name", name.to_owned())];
        ElectionMetrics {
            master_status: self.master_status.get_or_create_owned(&labels),
            slow_path: self.slow_path.get_or_create_owned(&labels),
        }
    }
}

/// Metrics of one candidate.
#[derive(Debug, Clone)]
pub(crate) struct ElectionMetrics {
    master_status: Gauge,
    slow_path: Counter,
}

impl ElectionMetrics {
    pub(crate) fn leads(&self, leads: bool) {
        self.master_status.set(i64::from(leads));
    }

    pub(crate) fn slow_path(&self) {
        self.slow_path.inc();
    }
}
