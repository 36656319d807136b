//! Result of a reconcile that did not fail.

use std::time::Duration;

use kube_workqueue::Priority;

/// Result of a reconcile that did not fail: whether and when the request runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "return it: an action that is dropped does nothing"]
#[doc(alias = "reconcile.Result")]
pub struct Action {
    pub(crate) next: NextRun,
    pub(crate) priority: Option<Priority>,
}

/// When the request runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextRun {
    Done,
    Requeue,
    RequeueAfter(Duration),
}

impl Action {
    /// The request is done until the next event. Its failure count is reset.
    pub const fn done() -> Self {
        Self::next(NextRun::Done)
    }

    /// The request is reconciled again, with the same growing delays as after failures, but the run does not count as
    /// failed.
    pub const fn requeue() -> Self {
        Self::next(NextRun::Requeue)
    }

    /// The request is reconciled again after `delay`, or earlier if an event enqueues it. Its failure count is reset, and no
    /// rate limit applies.
    ///
    /// A delay of zero is [`Action::requeue`]: it backs off, so that a computed delay that has become zero cannot make a
    /// reconcile loop without a pause. (In Go it is no requeue at all. If the request is done, return [`Action::done`].)
    pub const fn requeue_after(delay: Duration) -> Self {
        if delay.is_zero() { Self::requeue() } else { Self::next(NextRun::RequeueAfter(delay)) }
    }

    /// Sets the priority of the next run that this action asks for. Default: the priority of the run that ends, but at least
    /// [`Priority::Normal`]. No effect on [`Action::done`], or where the controller has no
    /// [priority queue](crate::controller::ControllerOptions::use_priority_queue).
    pub const fn with_priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    const fn next(next: NextRun) -> Self {
        Self { next, priority: None }
    }
}
