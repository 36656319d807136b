//! Result of a reconcile that did not fail.

use std::time::Duration;

use kube_workqueue::Priority;

/// Result of a reconcile that did not fail: whether and when the request runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an action has no effect unless the reconciler returns it"]
#[doc(alias = "reconcile.Result")]
pub struct Action {
    pub(crate) next: NextRun,
    pub(crate) priority: Option<Priority>,
}

/// Next run of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextRun {
    Done,
    Requeue,
    RequeueAfter(Duration),
}

impl Action {
    /// Ends the work on the request until the next event. Resets the failure count of the request.
    pub const fn done() -> Self {
        Self::next(NextRun::Done)
    }

    /// Reconciles the request again after the growing delays of the rate limiter, as after failures. Metrics and logs do not count
    /// the run as failed.
    pub const fn requeue() -> Self {
        Self::next(NextRun::Requeue)
    }

    /// Reconciles the request again after `delay`, or earlier if an event enqueues it. Resets the failure count of the request; no
    /// rate limit applies.
    ///
    /// A delay of zero is the same as [`Action::requeue`], whose back-off prevents a busy loop. In Go, a delay of zero means no requeue;
    /// for that, return [`Action::done`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use controller_runtime::Action;
    ///
    /// /// Reconciles again when a certificate has to be renewed.
    /// fn until_renewal(remaining: Duration) -> Action {
    ///     Action::requeue_after(remaining.saturating_sub(Duration::from_secs(86_400)))
    /// }
    /// # assert_eq!(until_renewal(Duration::from_secs(86_400)), Action::requeue());
    /// ```
    pub const fn requeue_after(delay: Duration) -> Self {
        if delay.is_zero() { Self::requeue() } else { Self::next(NextRun::RequeueAfter(delay)) }
    }

    /// Sets the priority with which the request is requeued. Default: the priority of the run that ends, but at least
    /// [`Priority::Normal`]. Has no effect on [`Action::done`], or if the controller has no
    /// [priority queue](crate::controller::ControllerOptions::use_priority_queue).
    pub const fn with_priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    const fn next(next: NextRun) -> Self {
        Self { next, priority: None }
    }
}
