//! Findings of a manager, from all of its parts.

use std::sync::{Arc, Weak};

use kube_clock::Clock;
use tokio::time::Instant;

use super::{Manager, cluster::Clusters};
use crate::{
    cache::Cache,
    findings::{Finding, client::ClientFindings, watches},
    runnable::Runnables,
    webhook::Webhooks,
};

/// The parts of a manager from which explanations are made. The registry is held weakly, because it holds the server that uses
/// this.
#[derive(Clone)]
pub(super) struct Explainer {
    pub(super) name: Arc<str>,
    pub(super) clock: Clock,
    pub(super) registry: Weak<Runnables>,
    pub(super) cache: Arc<Cache>,
    pub(super) clusters: Clusters,
    pub(super) findings: Arc<ClientFindings>,
    pub(super) webhooks: Webhooks,
}

impl Manager {
    /// The problems that this manager notices in its own operation, the most urgent first: missing permissions, failing watches,
    /// refused writes, an API server that asks to wait, requests with a long back-off. Each has its evidence and the next
    /// step; `docs/explain.md` explains them.
    ///
    /// An operator without problems has no findings. Most need some events or a minute to be recognized.
    ///
    /// ```
    /// # async fn example(manager: &controller_runtime::Manager) {
    /// for finding in manager.findings().await {
    ///     println!("{finding}"); // long-back-off Guestbook shop/web waits 8 min 31 s more, …
    /// }
    /// # }
    /// ```
    ///
    /// # Cancellation
    ///
    /// Dropping the future has no effect.
    pub async fn findings(&self) -> Vec<Finding> {
        self.explainer().findings()
    }

    pub(super) fn explainer(&self) -> Explainer {
        let shared = &self.shared;
        Explainer {
            name: Arc::clone(&shared.options.name),
            clock: self.clock(),
            registry: Arc::downgrade(&shared.registry),
            cache: Arc::clone(&shared.cache),
            clusters: shared.clusters.clone(),
            findings: Arc::clone(&shared.findings),
            webhooks: shared.webhooks.registered().clone(),
        }
    }
}

impl Explainer {
    /// The findings, the most urgent first, and those of one kind by subject.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings = self.findings.findings(&self.name, &self.webhooks.names(), self.clock);
        let controllers = self.registry.upgrade().map(|registry| registry.controllers()).unwrap_or_default();
        let sources: Vec<_> =
            controllers.iter().map(|(name, controller)| (name.to_string(), controller.sources())).collect();
        let now = Instant::now();
        for state in self.cache.watch_states().into_iter().chain(self.clusters.watch_states()) {
            // A source has the name of the resource, a cache that of the resource and its selection.
            let resource = state.resource.split(' ').next().unwrap_or_default();
            let reads = |sources: &[String]| sources.iter().any(|source| source == resource);
            let readers: Vec<_> =
                sources.iter().filter(|(_, sources)| reads(sources)).map(|(name, _)| name.clone()).collect();
            findings.extend(watches::finding(&state, &readers, &self.name, now, self.clock));
        }
        findings.extend(controllers.iter().flat_map(|(_, controller)| controller.findings()));
        findings.sort_by(|one, other| {
            (one.severity, one.id, &one.subject).cmp(&(other.severity, other.id, &other.subject))
        });
        findings
    }
}
