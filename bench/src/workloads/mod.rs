//! Workloads, by part of a run.

mod cache;
mod failover;
mod guestbooks;
mod outage;
mod queue;
mod reconciles;
pub(crate) mod server;
mod webhooks;

use clap::ValueEnum;

use crate::session::Session;

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Work queues, without a cluster.
    Queue,
    /// A cache of pods.
    Cache,
    /// Throughput and latency from events to reconciles.
    Reconciles,
    /// Ten controllers of one kind.
    Controllers,
    /// A thousand guestbooks.
    Guestbooks,
    /// An idle operator.
    Idle,
    /// Time to the first reconcile.
    Start,
    /// Takeover after the loss of a leader.
    Failover,
    /// Ten thousand keys after an outage.
    Outage,
    /// Connections that fall silent.
    Silence,
    /// Admission and conversion webhooks.
    Webhooks,
    /// The embedded API server.
    Server,
}

/// Returns the selected parts, or all if none is selected.
pub(crate) fn parts(only: &[Part]) -> Vec<Part> {
    let is_wanted = |part: &Part| only.is_empty() || only.contains(part);
    Part::value_variants().iter().copied().filter(is_wanted).collect()
}

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Cache => "cache",
            Self::Reconciles => "reconciles",
            Self::Controllers => "controllers",
            Self::Guestbooks => "guestbooks",
            Self::Idle => "idle",
            Self::Start => "start",
            Self::Failover => "failover",
            Self::Outage => "outage",
            Self::Silence => "silence",
            Self::Webhooks => "webhooks",
            Self::Server => "server",
        }
    }

    pub(crate) async fn run(self, session: &mut Session) {
        match self {
            Self::Queue => queue::run(session).await,
            Self::Cache => cache::run(session).await,
            Self::Reconciles => reconciles::run(session).await,
            Self::Controllers => reconciles::many_controllers(session).await,
            Self::Guestbooks => guestbooks::run(session).await,
            Self::Idle => guestbooks::idle(session).await,
            Self::Start => failover::first_reconcile(session).await,
            Self::Failover => failover::run(session).await,
            Self::Outage => outage::run(session).await,
            Self::Silence => outage::silence(session).await,
            Self::Webhooks => webhooks::run(session).await,
            Self::Server => server::run(session).await,
        }
    }
}
