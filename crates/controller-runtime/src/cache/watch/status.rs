//! Sync status of an informer, and failures of its lists and watches. Pure.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::feed::Trouble;
use crate::cache::query::Part;

/// Sync status of an informer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status {
    /// All parts have been complete once.
    pub(crate) synced: bool,
    /// The cluster was removed from the manager, and no object of it is left.
    pub(crate) closed: bool,
    /// Last failure of each part until it succeeds, and the time of the first failure in a row.
    troubles: BTreeMap<Part, (Instant, Trouble)>,
}

impl Status {
    /// Records that the watch of the part works, or that the part is not watched any more; `true` if that ends a
    /// failure.
    pub(in crate::cache) fn works(&mut self, part: &Part) -> bool {
        self.troubles.remove(part).is_some()
    }

    /// Records a complete list of the part. A missing permission stays recorded until a watch works: an operator that
    /// may list but not watch has the initial list and never receives a change.
    pub(in crate::cache) fn listed(&mut self, part: &Part) {
        if self.troubles.get(part).is_some_and(|(_, trouble)| trouble.forbidden.is_none()) {
            self.troubles.remove(part);
        }
    }

    /// Clears failures when lists and watches start again.
    pub(in crate::cache) fn begin(&mut self) -> bool {
        !std::mem::take(&mut self.troubles).is_empty()
    }

    /// Records a failure of the list or watch of the part. The time of the first one in a row is kept.
    pub(in crate::cache) fn failed(&mut self, part: &Part, trouble: &Trouble, now: Instant) {
        self.troubles.entry(part.clone()).or_insert_with(|| (now, trouble.clone())).1 = trouble.clone();
    }

    /// Returns the parts that fail.
    pub(in crate::cache) fn in_trouble(&self) -> impl Iterator<Item = &Part> {
        self.troubles.keys()
    }

    /// Whether the informer is synced, or waiting does not help because permissions are missing.
    pub(crate) fn is_decided(&self) -> bool {
        self.synced || self.closed || self.forbidden().next().is_some()
    }

    /// Returns the rules that the operator lacks, by part.
    pub(crate) fn forbidden(&self) -> impl Iterator<Item = &str> {
        self.troubles.values().filter_map(|(_, trouble)| trouble.forbidden.as_deref())
    }

    /// Describes the failures: a missing permission first, since waiting does not resolve it.
    pub(crate) fn trouble(&self) -> Option<String> {
        let mut all = self.troubles.values().map(|(_, trouble)| trouble);
        let worst = all.clone().find(|trouble| trouble.forbidden.is_some()).or_else(|| all.next())?;
        Some(match self.troubles.len() {
            1 => worst.message.clone(),
            some => format!("{} (and {} more of its lists and watches fail)", worst.message, some - 1),
        })
    }

    /// Returns when the longest current failure began.
    pub(crate) fn in_trouble_since(&self) -> Option<Instant> {
        self.troubles.values().map(|(since, _)| *since).min()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;

    fn trouble(message: &str, forbidden: Option<&str>) -> Trouble {
        Trouble { message: message.to_owned(), forbidden: forbidden.map(str::to_owned) }
    }

    #[test]
    fn trouble_begins_with_the_first_failure_and_ends_where_it_was() {
        let (mut status, start) = (Status::default(), Instant::now());
        let part = |name: &str| -> Part { Some(Arc::from(name)) };
        let later = |seconds| start + Duration::from_secs(seconds);
        assert_eq!((status.trouble(), status.in_trouble_since()), (None, None));
        status.failed(&part("red"), &trouble("503", None), later(1));
        status.failed(&part("red"), &trouble("504", None), later(2));
        assert_eq!((status.trouble().as_deref(), status.in_trouble_since()), (Some("504"), Some(later(1))));

        status.failed(&part("tan"), &trouble("403", Some("a rule")), later(3));
        assert_eq!(status.trouble().as_deref(), Some("403 (and 1 more of its lists and watches fail)"));
        assert!(status.works(&part("red")) && !status.works(&part("red")));
        assert_eq!((status.trouble().as_deref(), status.in_trouble_since()), (Some("403"), Some(later(3))));
        assert_eq!(status.forbidden().collect::<Vec<_>>(), ["a rule"]);
        assert!(status.works(&part("tan")));
        assert_eq!(status.forbidden().count(), 0);
    }

    #[test]
    fn a_list_ends_trouble_and_a_watch_alone_a_refusal() {
        let (mut status, now) = (Status { synced: true, ..Status::default() }, Instant::now());
        status.failed(&None, &trouble("503", None), now);
        status.listed(&None);
        assert_eq!(status.trouble(), None);
        status.failed(&None, &trouble("403", Some("a rule")), now);
        status.listed(&None);
        assert_eq!(status.forbidden().collect::<Vec<_>>(), ["a rule"]);
        assert!(status.works(&None) && status.trouble().is_none());

        status.failed(&None, &trouble("403", Some("a rule")), now);
        assert!(status.begin() && !status.begin() && status.trouble().is_none() && status.synced);
    }
}
