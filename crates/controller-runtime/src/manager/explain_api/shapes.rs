//! JSON shapes of the API, and values that are computed once for several readers.

use std::{future::Future, sync::Arc};

use serde::Serialize;
use tokio::{
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::{
    cache::{FailuresInARow, WatchState},
    findings::{CallSummary, Finding},
    manager::explainer::Explainer,
    request_queue::Summary,
    runnable::State,
};

/// Age up to which an overview is used again. Findings, which visit every cached object, are used again for longer.
const OVERVIEW: Duration = Duration::from_millis(500);
const FINDINGS: Duration = Duration::from_secs(3);

/// A list in an answer.
#[derive(Debug, Serialize)]
pub(super) struct Items<'i, T> {
    pub(super) items: &'i [T],
}

/// The answer of `/overview`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::manager) struct OverviewAnswer {
    /// Name of the operator.
    name: String,
    /// Version of this library.
    library: &'static str,
    state: String,
    leader: Leader,
    findings: Vec<Finding>,
    controllers: Vec<Summary>,
}

/// The answer of `/cluster`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ClusterAnswer {
    leader: Leader,
    /// Calls to the API server since the start, by verb.
    calls: Vec<CallSummary>,
    /// Names of the webhooks that this program serves.
    webhooks: Vec<String>,
}

impl ClusterAnswer {
    pub(super) fn of(explainer: &Explainer) -> Self {
        Self {
            leader: explainer.leader(),
            calls: explainer.findings.calls(),
            webhooks: explainer.webhooks.names().into_iter().collect(),
        }
    }
}

/// This process's part in a leader election.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Leader {
    /// Name of the lease; absent without leader election.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<String>,
    /// Whether controllers may run in this process.
    leads: bool,
}

/// A cache, and the state of its list and watch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CacheItem {
    resource: String,
    synced: bool,
    objects: usize,
    /// Estimated bytes of texts and decoded objects.
    bytes: usize,
    decoded: usize,
    unreadable: usize,
    lists: usize,
    watches: usize,
    dead_watches: usize,
    /// Seconds since the API server last sent anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    silence: Option<f64>,
    /// The current failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<CacheFailure>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct CacheFailure {
    text: String,
    attempts: u64,
    /// Seconds since the first failure in a row.
    lasts: f64,
}

impl CacheItem {
    pub(super) fn all(explainer: &Explainer) -> Vec<Self> {
        let mut looks = explainer.cache.resource_stats();
        looks.extend(explainer.clusters.resource_stats());
        let now = Instant::now();
        let item = |state: WatchState| {
            // Absent only if the cache was added between the two reads: it is empty.
            let look = looks.remove(&state.resource).unwrap_or_default();
            let failure = |failures: FailuresInARow| CacheFailure {
                text: failures.failure.message,
                attempts: failures.count,
                lasts: (now - failures.first).as_secs_f64(),
            };
            let stats = look.stats;
            Self {
                resource: state.resource,
                synced: state.synced,
                objects: stats.objects,
                bytes: stats.text_bytes + stats.decoded_bytes,
                decoded: stats.decoded,
                unreadable: stats.unreadable,
                lists: stats.lists,
                watches: stats.watches,
                dead_watches: stats.dead_watches,
                silence: look.silence.map(|silence| silence.as_secs_f64()),
                failure: state.failures.map(failure),
            }
        };
        explainer
            .cache
            .watch_states()
            .into_iter()
            .chain(explainer.clusters.watch_states())
            .map(item)
            .collect()
    }
}

/// A value that is computed again when it is requested and too old. Concurrent callers wait for one computation.
pub(in crate::manager) struct Recent<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Recent<T> {
    async fn get<F: Future<Output = T>>(&self, age: Duration, compute: impl FnOnce() -> F) -> Arc<T> {
        // Locked while it computes, so that other callers wait for the result instead of computing it as well.
        let mut known = self.0.lock().await;
        if let Some((at, value)) = &*known
            && at.elapsed() < age
        {
            return Arc::clone(value);
        }
        let value = Arc::new(compute().await);
        *known = Some((Instant::now(), Arc::clone(&value)));
        value
    }
}

impl Explainer {
    /// Findings that are at most three seconds old.
    pub(super) async fn recent_findings(&self) -> Arc<Vec<Finding>> {
        self.recent.findings.get(FINDINGS, || self.findings()).await
    }

    /// An overview that is at most half a second old.
    pub(super) async fn recent_overview(&self) -> Arc<OverviewAnswer> {
        self.recent.overview.get(OVERVIEW, || self.overview()).await
    }

    fn leader(&self) -> Leader {
        Leader { lease: self.lease.clone(), leads: self.lease.is_none() || *self.leads.borrow() }
    }

    async fn overview(&self) -> OverviewAnswer {
        let findings = self.recent_findings().await.to_vec();
        let registry = self.registry.upgrade();
        let state = registry.as_ref().map_or(State::Stopped, |registry| registry.state());
        let controllers = registry.map(|registry| registry.controllers()).unwrap_or_default();
        let mut controllers: Vec<Summary> =
            controllers.iter().map(|(_, controller)| controller.summary()).collect();
        controllers.sort_by(|one, other| one.name.cmp(&other.name));
        OverviewAnswer {
            name: self.name.to_string(),
            library: env!("CARGO_PKG_VERSION"),
            state: format!("{state:?}"),
            leader: self.leader(),
            findings,
            controllers,
        }
    }
}

/// Values that the API computes for several readers.
#[derive(Default)]
pub(in crate::manager) struct RecentAnswers {
    pub(super) findings: Recent<Vec<Finding>>,
    pub(super) overview: Recent<OverviewAnswer>,
}
