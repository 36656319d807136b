//! Waits until the caches of a manager are synced, and reports why they are not.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use k8s_openapi::jiff::Timestamp;
use tokio::time::{sleep, timeout};

use super::{informer::AnyInformer, registry::Cache, troubled_objects::TroubledObject};
use crate::cache::watch::{
    missing_right::MissingRight,
    sync_status::{FailuresInARow, SyncStatus},
};

/// Time to wait for more missing permissions after the first, so that they are reported together.
const TOGETHER: Duration = Duration::from_millis(500);

/// Reason why caches are not synced.
#[derive(Debug)]
pub(crate) enum NotSynced {
    /// The operator lacks permissions, so waiting does not help.
    Forbidden(Vec<MissingRight>),
    /// A cache did not sync in time.
    Late { resource: String, reason: String },
}

/// State of the lists and watches of an informer.
#[derive(Debug, Clone)]
pub(crate) struct WatchState {
    /// Resource and selection.
    pub(crate) resource: String,
    /// Whether the initial list is complete.
    pub(crate) synced: bool,
    /// Time since the API server last sent anything; `None` before its first answer.
    pub(crate) silence: Option<Duration>,
    /// Current failures: those of a missing permission, if there is one.
    pub(crate) failures: Option<FailuresInARow>,
}

impl Cache {
    /// Returns the states of all lists and watches, ordered by resource and selection.
    pub(crate) fn watch_states(&self) -> Vec<WatchState> {
        let state = |informer: &Arc<dyn AnyInformer>| {
            let (resource, status) = (informer.resource(), informer.status().borrow().clone());
            let failures = status.worst().cloned();
            (
                resource.clone(),
                WatchState { resource, synced: status.synced, silence: informer.silence(), failures },
            )
        };
        // Informers of several Rust types share a watch.
        let by_resource: BTreeMap<_, _> = self.informers().iter().map(state).collect();
        by_resource.into_values().collect()
    }

    /// Returns objects that are not reconciled as usual: of each informer the first unreadable ones, and the first that
    /// were deleted before this time and still have finalizers. Visits all cached objects and yields in between.
    pub(crate) async fn troubled_objects(&self, deleted_before: Timestamp) -> Vec<TroubledObject> {
        let mut troubled: Vec<TroubledObject> = Vec::new();
        for informer in self.informers() {
            for object in informer.troubled_objects(deleted_before).await {
                // Several Rust types of one kind may have the same object.
                if !troubled.iter().any(|known| known.is_like(&object)) {
                    troubled.push(object);
                }
            }
        }
        troubled
    }

    /// Waits until every informer is synced.
    ///
    /// # Errors
    ///
    /// The operator lacks permissions for some of them, or one is not synced within `limit`.
    pub(crate) async fn synced(&self, limit: Duration) -> Result<(), NotSynced> {
        let informers = self.informers();
        let decided = informers.iter().enumerate().map(|(place, informer)| {
            let mut status = informer.status();
            // Returns the status that ended the wait: it may change afterwards.
            async move { (place, status.wait_for(SyncStatus::is_decided).await) }
        });
        let mut decided: FuturesUnordered<_> = decided.collect();
        let refused = async {
            while let Some((place, status)) = decided.next().await {
                // An error cannot occur, since the sender is in the informer. A synced informer may lack the permission
                // to watch.
                if let Ok(status) = status
                    && status.forbidden().next().is_some()
                {
                    return Some((place, status));
                }
            }
            None
        };
        match timeout(limit, refused).await {
            Ok(None) => Ok(()),
            Ok(Some((place, refused))) => {
                sleep(TOGETHER).await;
                // A set, because several Rust types of one kind lack the same permission.
                let missing: BTreeSet<_> = informers
                    .iter()
                    .enumerate()
                    .flat_map(|(other, informer)| {
                        let now = missing_rights(&**informer, &informer.status().borrow());
                        // The refusal that ended the wait is reported even if the status has changed since.
                        match other == place && now.is_empty() {
                            true => missing_rights(&**informer, &refused),
                            false => now,
                        }
                    })
                    .collect();
                Err(NotSynced::Forbidden(missing.into_iter().collect()))
            }
            // The last cache may have synced just when the time was over.
            Err(_) => late(&informers).map_or(Ok(()), Err),
        }
    }

    /// Returns the problem of the first list or watch that fails now.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.informers().iter().find_map(|informer| {
            let trouble = informer.status().borrow().failure()?;
            Some(format!("{}: {trouble}", informer.resource()))
        })
    }

    /// Describes the first cache that is not synced, or whose watch has been failing for longer than `limit`. Without a
    /// limit only caches that are not synced count.
    pub(crate) fn problem(&self, limit: Option<Duration>) -> Option<String> {
        self.informers().iter().find_map(|informer| {
            let status = informer.status().borrow().clone();
            let resource = informer.resource();
            let trouble = status.failure().map_or_else(String::new, |trouble| format!(": {trouble}"));
            if !status.synced {
                return Some(format!("the cache of {resource} is not complete{trouble}"));
            }
            let age = status.failing_since()?.elapsed();
            let stale = || format!("the cache of {resource} was up to date {} s ago{trouble}", age.as_secs());
            limit.is_some_and(|limit| age > limit).then(stale)
        })
    }
}

/// Returns the rules that an informer lacks.
pub(in crate::cache) fn missing_rights(informer: &dyn AnyInformer, status: &SyncStatus) -> Vec<MissingRight> {
    let of = |rule: &str| MissingRight { resource: informer.resource(), rule: rule.to_owned() };
    status.forbidden().map(of).collect()
}

/// Returns the first informer that is not synced, preferring one with a known reason.
fn late(informers: &[Arc<dyn AnyInformer>]) -> Option<NotSynced> {
    let late = informers.iter().filter_map(|informer| {
        let status = informer.status().borrow().clone();
        (!status.synced).then(|| (informer.resource(), status.failure()))
    });
    let (resource, reason) = late.min_by_key(|(_, trouble)| trouble.is_none())?;
    let reason = reason.unwrap_or_else(|| "the API server has not answered yet".to_owned());
    Some(NotSynced::Late { resource, reason })
}
