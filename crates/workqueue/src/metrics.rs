//! Metrics of a queue.

use std::time::Duration;

use crate::{Priority, Reason};

/// Receives measurements of a queue. With [`Gauges`] they make up client-go's seven families.
///
/// | Family | Source |
/// |---|---|
/// | `workqueue_adds_total` | [`added`](Self::added) |
/// | `workqueue_queue_duration_seconds` | [`waited`](Self::waited) |
/// | `workqueue_work_duration_seconds` | [`worked`](Self::worked) |
/// | `workqueue_retries_total` | [`retried`](Self::retried) |
/// | `workqueue_depth` | [`Gauges::depth`] |
/// | `workqueue_unfinished_work_seconds` | [`Gauges::unfinished`] |
/// | `workqueue_longest_running_processor_seconds` | [`Gauges::longest_running`] |
///
/// The queue calls these methods under its lock and in the middle of a change. So they must not block, must not panic, and must not call
/// the queue: the call would panic, and the change would remain incomplete. They should do no more than an atomic addition.
pub trait Metrics: Send + Sync {
    /// Counts a key that became ready. Adds of ready keys do not count, and a delayed key counts when it is due.
    fn added(&self, priority: Priority);

    /// Records how long a key was ready before it was handed out.
    fn waited(&self, priority: Priority, ready: Duration);

    /// Records how long the processing of a key took, when it ends.
    fn worked(&self, running: Duration);

    /// Counts a key that the caller or the rate limiter added with a delay.
    fn retried(&self);
}

/// The state of a queue at one moment, for gauges: see [`Queue::gauges`](crate::Queue::gauges).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Gauges {
    /// Ready keys by priority, the highest first as in [`Priority::ALL`].
    pub depth: [usize; Priority::ALL.len()],
    /// Keys that wait until they are due, by the reason, in the order of [`Reason::ALL`].
    pub waiting: [usize; Reason::ALL.len()],
    /// Keys that are being processed.
    pub processing: usize,
    /// The sum of the processing times so far of keys that are being processed.
    pub unfinished: Duration,
    /// The longest of these times.
    pub longest_running: Duration,
}
