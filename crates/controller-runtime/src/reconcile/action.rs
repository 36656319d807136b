use std::time::Duration;

/// What happens after a reconcile that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "return it: an action that is dropped does nothing"]
#[doc(alias = "reconcile.Result")]
pub struct Action(pub(crate) Next);

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
        Self(Next::Done)
    }

    /// The request is reconciled again, with the same growing delays as after failures, but without being one.
    pub const fn requeue() -> Self {
        Self(Next::Requeue)
    }

    /// The request is reconciled again after `delay`, or earlier if an event asks for it. Earlier failures are
    /// forgotten, and no rate limit applies: a delay of zero comes back at once, each time.
    pub const fn requeue_after(delay: Duration) -> Self {
        Self(Next::RequeueAfter(delay))
    }
}
