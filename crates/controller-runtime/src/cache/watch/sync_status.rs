//! Sync status of an informer, and failures of its lists and watches. Pure.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::subscriber::WatchFailure;
use crate::cache::query::WatchScope;

/// Sync status of an informer.
#[derive(Debug, Clone, Default)]
pub(crate) struct SyncStatus {
    /// All scopes have been complete once.
    pub(crate) synced: bool,
    /// The cluster was removed from the manager, and no object of it is left.
    pub(crate) closed: bool,
    /// Failures in a row of each scope.
    failures: BTreeMap<WatchScope, FailuresInARow>,
}

/// Failures of a list or watch since it last succeeded.
#[derive(Debug, Clone)]
pub(crate) struct FailuresInARow {
    pub(crate) first: Instant,
    pub(crate) last: Instant,
    pub(crate) count: u64,
    /// The last failure.
    pub(crate) failure: WatchFailure,
}

impl SyncStatus {
    /// Records that the watch of the scope works, or that the scope is not watched any more. Returns whether it had
    /// failures.
    pub(in crate::cache) fn watch_works(&mut self, scope: &WatchScope) -> bool {
        self.failures.remove(scope).is_some()
    }

    /// Records a complete list of the scope. A missing permission stays recorded until a watch works: an operator that
    /// may list but not watch has the initial list and never receives a change.
    pub(in crate::cache) fn listed(&mut self, scope: &WatchScope) {
        if self.failures.get(scope).is_some_and(|failures| failures.failure.forbidden.is_none()) {
            self.failures.remove(scope);
        }
    }

    /// Clears the failures when lists and watches start again. Returns whether there were any.
    pub(in crate::cache) fn restarted(&mut self) -> bool {
        !std::mem::take(&mut self.failures).is_empty()
    }

    /// Records a failure of the list or watch of the scope. The time of the first one in a row is kept.
    pub(in crate::cache) fn watch_failed(
        &mut self,
        scope: &WatchScope,
        failure: &WatchFailure,
        now: Instant,
    ) {
        let first = || FailuresInARow { first: now, last: now, count: 0, failure: failure.clone() };
        let failures = self.failures.entry(scope.clone()).or_insert_with(first);
        failures.count += 1;
        (failures.last, failures.failure) = (now, failure.clone());
    }

    /// Returns the scopes that fail.
    pub(in crate::cache) fn failing(&self) -> impl Iterator<Item = &WatchScope> {
        self.failures.keys()
    }

    /// Whether the informer is synced, or waiting does not help because permissions are missing.
    pub(crate) fn is_decided(&self) -> bool {
        self.synced || self.closed || self.forbidden().next().is_some()
    }

    /// Returns the rules that the operator lacks, by scope.
    pub(crate) fn forbidden(&self) -> impl Iterator<Item = &str> {
        self.failures.values().filter_map(|failures| failures.failure.forbidden.as_deref())
    }

    /// Describes the failures: a missing permission first, since waiting does not resolve it.
    pub(crate) fn failure(&self) -> Option<String> {
        let message = &self.worst()?.failure.message;
        Some(match self.failures.len() {
            1 => message.clone(),
            some => format!("{message} (and {} more of its lists and watches fail)", some - 1),
        })
    }

    /// Returns the failures of the scope that [`failure`](Self::failure) describes.
    pub(crate) fn worst(&self) -> Option<&FailuresInARow> {
        let mut all = self.failures.values();
        all.clone().find(|failures| failures.failure.forbidden.is_some()).or_else(|| all.next())
    }

    /// Returns when the longest current failure began.
    pub(crate) fn failing_since(&self) -> Option<Instant> {
        self.failures.values().map(|failures| failures.first).min()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;

    fn failure(message: &str, forbidden: Option<&str>) -> WatchFailure {
        WatchFailure { message: message.to_owned(), forbidden: forbidden.map(str::to_owned) }
    }

    #[test]
    fn failures_begin_with_the_first_in_a_row_and_end_per_scope() {
        let (mut status, start) = (SyncStatus::default(), Instant::now());
        let scope = |name: &str| -> WatchScope { Some(Arc::from(name)) };
        let later = |seconds| start + Duration::from_secs(seconds);
        assert_eq!((status.failure(), status.failing_since()), (None, None));
        status.watch_failed(&scope("red"), &failure("503", None), later(1));
        status.watch_failed(&scope("red"), &failure("504", None), later(2));
        assert_eq!((status.failure().as_deref(), status.failing_since()), (Some("504"), Some(later(1))));
        let worst = status.worst().map(|failures| (failures.first, failures.last, failures.count));
        assert_eq!(worst, Some((later(1), later(2), 2)));

        status.watch_failed(&scope("tan"), &failure("403", Some("a rule")), later(3));
        assert_eq!(status.failure().as_deref(), Some("403 (and 1 more of its lists and watches fail)"));
        assert!(status.watch_works(&scope("red")) && !status.watch_works(&scope("red")));
        assert_eq!((status.failure().as_deref(), status.failing_since()), (Some("403"), Some(later(3))));
        assert_eq!(status.forbidden().collect::<Vec<_>>(), ["a rule"]);
        assert!(status.watch_works(&scope("tan")));
        assert_eq!(status.forbidden().count(), 0);
    }

    #[test]
    fn a_list_ends_a_failure_and_only_a_watch_ends_a_refusal() {
        let (mut status, now) = (SyncStatus { synced: true, ..SyncStatus::default() }, Instant::now());
        status.watch_failed(&None, &failure("503", None), now);
        status.listed(&None);
        assert_eq!(status.failure(), None);
        status.watch_failed(&None, &failure("403", Some("a rule")), now);
        status.listed(&None);
        assert_eq!(status.forbidden().collect::<Vec<_>>(), ["a rule"]);
        assert!(status.watch_works(&None) && status.failure().is_none());

        status.watch_failed(&None, &failure("403", Some("a rule")), now);
        assert!(status.restarted() && !status.restarted() && status.failure().is_none() && status.synced);
    }
}
