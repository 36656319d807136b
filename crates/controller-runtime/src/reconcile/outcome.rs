//! What becomes of a request after its reconcile: the outcome table.

use kube_workqueue::{AddOptions, Priority};

use super::{Action, Error, Next, Request, Retry};
use crate::controller::Inbox;

/// How a reconcile ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It returned.
    Returned(Result<Action, Error>),
    /// It panicked: what it said, and where.
    Panicked(String),
    /// It took longer than the controller allows, and was dropped.
    TimedOut,
}

impl Outcome {
    /// Whether the request is settled until the next event.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Returned(Ok(Action { next: Next::Done, .. })))
    }
}

/// Tells the queue of `inbox` what the outcome of a run in class `ran_as` asks for.
///
/// The request is still held by the worker, so whatever is added here is handed out after it is done.
///
/// Differs from controller-runtime in two points. A terminal error forgets the failures before it, where Go keeps their
/// count (and its map entry) for good. And what a run asks for is real work, of normal class at least, unless the action
/// names another: in Go an object of the initial list stays behind all others through every retry.
pub(crate) fn settle<R: Request>(inbox: &Inbox<R>, request: &R, ran_as: Priority, outcome: &Outcome) {
    let queue = &inbox.queue;
    let add = |priority: Option<Priority>, how: AddOptions| {
        inbox.add_again(request, how.priority(priority.unwrap_or(ran_as.max(Priority::Normal))));
    };
    match outcome {
        Outcome::Returned(Ok(Action { next: Next::Done, .. })) => queue.forget(request),
        Outcome::Returned(Ok(Action { next: Next::RequeueAfter(delay), priority })) => {
            queue.forget(request);
            add(*priority, AddOptions::default().after(*delay));
        }
        Outcome::Returned(Ok(Action { next: Next::Requeue, priority })) => {
            add(*priority, AddOptions::default().rate_limited());
        }
        Outcome::Returned(Err(error)) => match error.retry() {
            Retry::WithBackOff => add(None, AddOptions::default().rate_limited()),
            Retry::After(delay) => {
                // The service says when it wants the next request: it is no time to send more of them.
                queue.throttled();
                add(None, AddOptions::default().after(delay));
            }
            Retry::Never => queue.forget(request),
        },
        Outcome::Panicked(_) | Outcome::TimedOut => add(None, AddOptions::default().rate_limited()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube_workqueue::Queue;
    use tokio::time::Instant;

    use super::*;

    /// Settles `outcome` for a request that has failed three times before, and says when it runs next and how many
    /// failures are remembered.
    async fn settled(outcome: Outcome) -> (Option<Duration>, u32) {
        let inbox = Inbox::of(Queue::<&str>::default());
        let queue = &inbox.queue;
        for _ in 0..3 {
            queue.add_rate_limited("a");
        }
        let item = queue.get().await.expect("the queue is open");
        let now = Instant::now();
        settle(&inbox, item.key(), item.priority(), &outcome);
        drop(item);
        (queue.when(&"a").map(|waiting| waiting.until - now), queue.num_requeues(&"a"))
    }

    fn failed(error: Error) -> Outcome {
        Outcome::Returned(Err(error))
    }

    #[tokio::test(start_paused = true)]
    async fn success_forgets_and_does_not_come_back() {
        assert_eq!(settled(Outcome::Returned(Ok(Action::done()))).await, (None, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn requeue_after_forgets_and_waits_exactly() {
        let minute = Duration::from_secs(60);
        let outcome = Outcome::Returned(Ok(Action::requeue_after(minute)));
        assert_eq!(settled(outcome).await, (Some(minute), 0));
    }

    #[tokio::test(start_paused = true)]
    async fn requeue_and_failures_back_off_further() {
        let fourth = (Some(Duration::from_millis(40)), 4);
        assert_eq!(settled(Outcome::Returned(Ok(Action::requeue()))).await, fourth);
        assert_eq!(settled(failed(Error::new("no luck"))).await, fourth);
        assert_eq!(settled(Outcome::Panicked("no luck".to_owned())).await, fourth);
        assert_eq!(settled(Outcome::TimedOut).await, fourth);
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_that_says_when_waits_exactly_and_is_neither_counted_nor_forgets() {
        let minute = Duration::from_secs(60);
        assert_eq!(settled(failed(Error::retry_after("busy", minute))).await, (Some(minute), 3));
    }

    /// In Go zero settles the request, and a port of such code must not become a loop that never pauses.
    #[tokio::test(start_paused = true)]
    async fn a_delay_of_zero_backs_off() {
        let fourth = (Some(Duration::from_millis(40)), 4);
        assert_eq!(settled(Outcome::Returned(Ok(Action::requeue_after(Duration::ZERO)))).await, fourth);
        assert_eq!(settled(failed(Error::retry_after("busy", Duration::ZERO))).await, fourth);
    }

    #[tokio::test(start_paused = true)]
    async fn a_terminal_error_is_not_retried_and_leaves_nothing_behind() {
        assert_eq!(settled(failed(Error::terminal("hopeless"))).await, (None, 0));
    }
}
