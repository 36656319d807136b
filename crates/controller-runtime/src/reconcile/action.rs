use std::time::Duration;

use kube_workqueue::Priority;

/// What happens after a reconcile that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "return it: an action that is dropped does nothing"]
#[doc(alias = "reconcile.Result")]
pub struct Action {
    pub(crate) next: Next,
    pub(crate) priority: Option<Priority>,
}

/// The three ways on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Done,
    Requeue,
    RequeueAfter(Duration),
}

impl Action {
    /// The request is settled until the next event. Earlier failures are forgotten.
    pub const fn done() -> Self {
        Self::next(Next::Done)
    }

    /// The request is reconciled again, with the same growing delays as after failures, but without being one.
    pub const fn requeue() -> Self {
        Self::next(Next::Requeue)
    }

    /// The request is reconciled again after `delay`, or earlier if an event asks for it. Earlier failures are
    /// forgotten, and no rate limit applies.
    ///
    /// A delay of zero is [`Action::requeue`]: it backs off, so that a computed delay that has become zero cannot make a
    /// reconcile loop without a pause. (In Go it is no requeue at all. To settle the request, return [`Action::done`].)
    pub const fn requeue_after(delay: Duration) -> Self {
        if delay.is_zero() { Self::requeue() } else { Self::next(Next::RequeueAfter(delay)) }
    }

    /// The next run that this asks for is of class `priority`. Default: the class of the run that ends, but not below
    /// normal. No effect on [`Action::done`], and where the controller has no
    /// [classes](crate::controller::Options::use_priority_queue).
    pub const fn with_priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    const fn next(next: Next) -> Self {
        Self { next, priority: None }
    }
}
