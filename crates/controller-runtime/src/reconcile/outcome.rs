//! What becomes of a request after its reconcile: the outcome table.

use kube_workqueue::Queue;

use super::{Action, Error, Next, Request};

/// How a reconcile ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It returned.
    Returned(Result<Action, Error>),
    /// It panicked, with this message.
    Panicked(String),
    /// It took longer than the controller allows, and was dropped.
    TimedOut,
}

/// Tells the queue what the outcome asks for.
///
/// The request is still held by the worker, so whatever is added here is handed out after it is done.
///
/// Differs from controller-runtime in one row: a terminal error forgets the failures before it, where Go keeps their
/// count (and its map entry) for good.
pub(crate) fn settle<R: Request>(queue: &Queue<R>, request: &R, outcome: &Outcome) {
    match outcome {
        Outcome::Returned(Ok(Action(Next::Done))) => queue.forget(request),
        Outcome::Returned(Ok(Action(Next::RequeueAfter(delay)))) => {
            queue.forget(request);
            queue.add_after(request.clone(), *delay);
        }
        Outcome::Returned(Err(error)) if error.is_terminal() => queue.forget(request),
        Outcome::Returned(Ok(Action(Next::Requeue)) | Err(_)) | Outcome::Panicked(_) | Outcome::TimedOut => {
            queue.add_rate_limited(request.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    /// Settles `outcome` for a request that has failed three times before, and says when it runs next and how many
    /// failures are remembered.
    async fn settled(outcome: Outcome) -> (Option<Duration>, u32) {
        let queue = Queue::<&str>::default();
        for _ in 0..3 {
            queue.add_rate_limited("a");
        }
        let item = queue.get().await.expect("the queue is open");
        let now = Instant::now();
        settle(&queue, item.key(), &outcome);
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
    async fn a_terminal_error_is_not_retried_and_leaves_nothing_behind() {
        assert_eq!(settled(failed(Error::terminal("hopeless"))).await, (None, 0));
    }
}
