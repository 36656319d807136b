//! The way from a handler into the queue.

use std::{fmt, time::Duration};

use kube_workqueue::{AddOptions, Priority, Queue};

use crate::reconcile::Request;

/// Where a handler puts requests: the queue of its controller, which learns why it got them.
///
/// What merely tells what is there already, objects of the initial list and resyncs, is put in class
/// [`Low`](Priority::Low), behind what really happened, unless the handler names a class.
#[derive(Clone, Copy)]
#[doc(alias = "TypedRateLimitingInterface")]
pub struct Enqueue<'a, R: Request> {
    queue: &'a Queue<R>,
    priority: Option<Priority>,
    note: Option<&'a dyn Fn(&R)>,
}

impl<'a, R: Request> Enqueue<'a, R> {
    /// Puts requests into `queue` as they are: for tests of a handler.
    #[must_use]
    pub fn to(queue: &'a Queue<R>) -> Self {
        Self { queue, priority: None, note: None }
    }

    /// The same with a class for what names none.
    pub(crate) fn in_class(self, priority: Option<Priority>) -> Self {
        Self { priority, ..self }
    }

    /// The same with somebody who is told of each request before it is added.
    pub(crate) fn noted_by(self, note: &'a dyn Fn(&R)) -> Self {
        Self { note: Some(note), ..self }
    }

    /// Asks for `request` to be reconciled: at once, whatever limits its retries.
    pub fn add(&self, request: R) {
        self.add_with(request, AddOptions::default());
    }

    /// Asks for `request` to be reconciled after `delay`, or earlier if something else asks for it.
    pub fn add_after(&self, request: R, delay: Duration) {
        self.add_with(request, AddOptions::default().after(delay));
    }

    /// Asks for `request` to be reconciled as `how` says.
    pub fn add_with(&self, request: R, mut how: AddOptions) {
        how.priority = how.priority.or(self.priority);
        if let Some(note) = self.note {
            note(&request);
        }
        self.queue.add_with(request, how);
    }
}

impl<R: Request> fmt::Debug for Enqueue<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enqueue").field("priority", &self.priority).finish_non_exhaustive()
    }
}
