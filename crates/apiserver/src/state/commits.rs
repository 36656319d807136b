//! Revision of the last commit, and the controllers and reads that wait for commits.
//!
//! All controllers of the server wait for each commit. They wake in the order in which they began to wait, so that their writes have the
//! same order in every run of a simulation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// Revision of the last commit to any table.
#[derive(Debug)]
pub(crate) struct Commits {
    latest: AtomicU64,
    /// Wakes waiters in the order in which they began to wait.
    changed: Notify,
    /// Whether the controllers wait for their release even if there are commits.
    held: AtomicBool,
    released: Notify,
}

impl Commits {
    pub(crate) fn new(revision: u64) -> Arc<Self> {
        let latest = AtomicU64::new(revision);
        Arc::new(Self {
            latest,
            changed: Notify::new(),
            held: AtomicBool::new(false),
            released: Notify::new(),
        })
    }

    /// Stops the controllers that wait for a [turn](CommitsSubscription::turn) until they are released.
    pub(crate) fn hold(&self) {
        self.held.store(true, Ordering::Release);
    }

    /// Releases held controllers.
    pub(crate) fn release(&self) {
        self.held.store(false, Ordering::Release);
        self.released.notify_waiters();
    }

    /// Records a commit. Commits may be reported out of order; the revision never decreases.
    pub(crate) fn publish(&self, revision: u64) {
        if self.latest.fetch_max(revision, Ordering::AcqRel) < revision {
            self.changed.notify_waiters();
        }
    }

    /// Creates a subscription for which all commits so far are seen.
    pub(crate) fn subscribe(self: &Arc<Self>) -> CommitsSubscription {
        CommitsSubscription { seen: self.latest.load(Ordering::Acquire), commits: Arc::clone(self) }
    }
}

/// One reader of the commits.
#[derive(Debug)]
pub(crate) struct CommitsSubscription {
    commits: Arc<Commits>,
    seen: u64,
}

impl CommitsSubscription {
    /// Marks all commits so far as seen. Call it before reading the store, so that later commits count as new.
    pub(crate) fn see(&mut self) {
        self.seen = self.commits.latest.load(Ordering::Acquire);
    }

    /// Waits for a commit that is not seen yet, and marks it as seen. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        self.reached(self.seen + 1).await;
        self.see();
    }

    /// Like [`changed`](Self::changed), and then waits until controllers are not held back.
    pub(crate) async fn turn(&mut self) {
        self.changed().await;
        self.released().await;
    }

    /// Waits until controllers are not held back. Cancel safe.
    pub(crate) async fn released(&self) {
        loop {
            // Created before the check, so that a release after the check ends the wait.
            let released = self.commits.released.notified();
            if !self.commits.held.load(Ordering::Acquire) {
                return;
            }
            released.await;
        }
    }

    /// Waits until a revision is committed. Cancel safe.
    pub(crate) async fn reached(&self, revision: u64) {
        loop {
            // Created before the check, so that a commit after the check ends the wait.
            let changed = self.commits.changed.notified();
            if self.commits.latest.load(Ordering::Acquire) >= revision {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use parking_lot::Mutex;
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn a_turn_comes_after_a_commit_and_a_release() {
        let commits = Commits::new(1);
        let mut subscription = commits.subscribe();
        commits.hold();
        commits.publish(2);
        let mut turn = Box::pin(subscription.turn());
        assert!(turn.as_mut().now_or_never().is_none(), "controllers are held back");
        commits.release();
        assert!(turn.now_or_never().is_some());
        assert!(Box::pin(subscription.turn()).now_or_never().is_none(), "there is no commit since");
    }

    #[tokio::test]
    async fn waiters_wake_in_the_order_in_which_they_began_to_wait() {
        let (commits, order) = (Commits::new(1), Arc::new(Mutex::new(Vec::new())));
        let mut tasks = JoinSet::new();
        for waiter in 0..64 {
            let (mut subscription, order) = (commits.subscribe(), Arc::clone(&order));
            tasks.spawn(async move {
                subscription.changed().await;
                order.lock().push(waiter);
            });
        }
        // Two yields, because one lets at most 61 tasks run.
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        commits.publish(2);
        while tasks.join_next().await.is_some() {}
        assert_eq!(*order.lock(), (0..64).collect::<Vec<_>>());
    }

    #[test]
    fn a_published_revision_never_goes_back() {
        let commits = Commits::new(1);
        let mut subscription = commits.subscribe();
        assert!(subscription.changed().now_or_never().is_none(), "the first revision is not new");
        commits.publish(20);
        assert!(subscription.changed().now_or_never().is_some());
        commits.publish(10);
        assert!(subscription.changed().now_or_never().is_none(), "an older revision is no news");
        assert!(subscription.reached(20).now_or_never().is_some());
        assert!(subscription.reached(21).now_or_never().is_none());
    }
}
