//! Parts of a leader election that a manager makes before it runs.

use std::sync::Arc;

use super::{ManagerOptions, clients::metered};
use crate::{
    leader_election::{LeaderElectionOptions, LeasePermitIssuer},
    metrics::{ElectionMetrics, Metrics},
};

/// Options, connection, metrics and permit of a manager's leader election.
pub(super) struct ElectionSetup {
    pub(super) options: LeaderElectionOptions,
    pub(super) issuer: Arc<LeasePermitIssuer>,
    pub(super) metrics: ElectionMetrics,
    /// Connection for requests about the lease.
    pub(super) client: kube::Client,
}

impl ElectionSetup {
    /// Returns `None` without leader election.
    pub(super) fn new(
        client: &kube::Client,
        host: &str,
        options: &ManagerOptions,
        metrics: &Metrics,
    ) -> Option<Self> {
        let election = options.leader_election.clone()?;
        let connection = election.own_client().unwrap_or(client).clone();
        Some(Self {
            // Without the options of the other clients: their rate limit could delay a renewal.
            client: metered(connection, host, options, metrics).build().kube().clone(),
            metrics: metrics.election(election.id()),
            issuer: Arc::new(LeasePermitIssuer::new()),
            options: election,
        })
    }
}
