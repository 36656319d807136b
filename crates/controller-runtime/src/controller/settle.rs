//! Applies the outcome of a run to its request in the queue.

use kube_workqueue::{AddOptions, Priority};

use crate::{
    reconcile::{Action, NextRun, Outcome, Request, Retry},
    request_queue::RequestQueue,
};

/// Applies the outcome of a run, which had priority `ran_as`, to the queue of `requests`.
///
/// The worker still holds the request, so the queue hands out a request added here only after the worker has released it.
///
/// Two differences from controller-runtime for Go. A terminal error resets the failure count, which Go keeps, with its map entry,
/// until a later run succeeds. And the next run of a request has at least normal priority, unless the action sets another: in Go
/// an object of the initial list keeps its low priority through every retry.
pub(super) fn settle<R: Request>(
    requests: &RequestQueue<R>,
    request: &R,
    ran_as: Priority,
    outcome: &Outcome,
) {
    let queue = &requests.queue;
    let add = |priority: Option<Priority>, how: AddOptions| {
        requests.add_again(request, how.priority(priority.unwrap_or(ran_as.max(Priority::Normal))));
    };
    match outcome {
        Outcome::Returned(Ok(Action { next: NextRun::Done, .. })) => queue.forget(request),
        Outcome::Returned(Ok(Action { next: NextRun::RequeueAfter(delay), priority })) => {
            // As in Go, a run that asks for a later one has succeeded: its failures are forgotten.
            queue.forget(request);
            add(*priority, AddOptions::default().after(*delay));
        }
        Outcome::Returned(Ok(Action { next: NextRun::Requeue, priority })) => {
            add(*priority, AddOptions::default().rate_limited());
        }
        Outcome::Returned(Err(error)) => match error.retry() {
            Retry::WithBackOff => add(None, AddOptions::default().rate_limited()),
            Retry::After(delay) => {
                // The delay comes from a service that asks for fewer requests, so back-off recovery must not add more of them
                // now.
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
    use crate::reconcile::ReconcileError;

    /// Settles `outcome` for a request that has failed three times before. Returns the delay of its next run, and its failure
    /// count.
    async fn settled(outcome: Outcome) -> (Option<Duration>, u32) {
        let requests = RequestQueue::of(Queue::<&str>::default());
        let queue = &requests.queue;
        for _ in 0..3 {
            queue.add_rate_limited("a");
        }
        let item = queue.get().await.expect("the queue is open");
        let now = Instant::now();
        settle(&requests, item.key(), item.priority(), &outcome);
        drop(item);
        (queue.when(&"a").map(|waiting| waiting.until - now), queue.num_requeues(&"a"))
    }

    fn failed(error: ReconcileError) -> Outcome {
        Outcome::Returned(Err(error))
    }

    #[tokio::test(start_paused = true)]
    async fn success_resets_failures_and_does_not_requeue() {
        assert_eq!(settled(Outcome::Returned(Ok(Action::done()))).await, (None, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn requeue_after_resets_failures_and_waits_exactly() {
        let minute = Duration::from_secs(60);
        let outcome = Outcome::Returned(Ok(Action::requeue_after(minute)));
        assert_eq!(settled(outcome).await, (Some(minute), 0));
    }

    #[tokio::test(start_paused = true)]
    async fn requeue_and_failures_back_off_further() {
        let fourth = (Some(Duration::from_millis(40)), 4);
        assert_eq!(settled(Outcome::Returned(Ok(Action::requeue()))).await, fourth);
        assert_eq!(settled(failed(ReconcileError::new("no luck"))).await, fourth);
        assert_eq!(settled(Outcome::Panicked("no luck".to_owned())).await, fourth);
        assert_eq!(settled(Outcome::TimedOut).await, fourth);
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_waits_exactly_and_leaves_the_failure_count() {
        let minute = Duration::from_secs(60);
        assert_eq!(settled(failed(ReconcileError::retry_after("busy", minute))).await, (Some(minute), 3));
    }

    /// In Go zero means that the request is done; code ported from Go must not become a loop without pauses.
    #[tokio::test(start_paused = true)]
    async fn a_delay_of_zero_backs_off() {
        let fourth = (Some(Duration::from_millis(40)), 4);
        assert_eq!(settled(Outcome::Returned(Ok(Action::requeue_after(Duration::ZERO)))).await, fourth);
        assert_eq!(settled(failed(ReconcileError::retry_after("busy", Duration::ZERO))).await, fourth);
    }

    #[tokio::test(start_paused = true)]
    async fn a_terminal_error_is_not_retried_and_resets_failures() {
        assert_eq!(settled(failed(ReconcileError::terminal("hopeless"))).await, (None, 0));
    }
}
