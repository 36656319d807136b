//! The way from a handler into the queue.

use std::{cell::Cell, fmt, time::Duration};

use kube_workqueue::{AddOptions, Priority, Queue};

use crate::{cache::DecodeError, reconcile::Request};

/// Where a handler puts requests: the queue of its controller, which learns why it got them.
///
/// What merely tells what is there already, objects of the initial list and resyncs, is put in class
/// [`Low`](Priority::Low), behind what really happened, unless the handler names a class.
#[derive(Clone, Copy)]
#[doc(alias = "TypedRateLimitingInterface")]
#[doc(alias = "WithLowPriorityWhenUnchanged")]
pub struct Enqueue<'a, R: Request> {
    queue: &'a Queue<R>,
    class: Class,
    /// Records a request before it is added, and returns whether the event is urgent for it.
    note: Option<&'a dyn Fn(&R) -> bool>,
    /// Where a handler of ours reports that the object does not decode.
    undecodable: Option<&'a Cell<Option<DecodeError>>>,
}

/// In which class requests are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The one that the handler names, or else what the queue makes of it.
    AsSaid,
    /// The one that the handler names, or else the lowest.
    Low,
    /// One and the same, whatever the handler says.
    One,
}

impl<'a, R: Request> Enqueue<'a, R> {
    /// Puts requests into `queue` as they are: for tests of a handler.
    #[must_use]
    pub fn to(queue: &'a Queue<R>) -> Self {
        Self { queue, class: Class::AsSaid, note: None, undecodable: None }
    }

    /// The same with another class.
    pub(crate) fn in_class(self, class: Class) -> Self {
        Self { class, ..self }
    }

    /// Calls `note` with each request before it is added; the event is urgent for requests for which it returns true.
    pub(crate) fn noted_by(self, note: &'a dyn Fn(&R) -> bool) -> Self {
        Self { note: Some(note), ..self }
    }

    /// Reports to `undecodable` that the object does not decode.
    pub(crate) fn reporting_to(self, undecodable: &'a Cell<Option<DecodeError>>) -> Self {
        Self { undecodable: Some(undecodable), ..self }
    }

    /// Reports that the newest state of the object does not decode, so that the event is delivered again when it changes.
    pub(crate) fn report(&self, error: DecodeError) {
        if let Some(undecodable) = self.undecodable {
            undecodable.set(Some(error));
        }
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
        how.priority = match self.class {
            Class::AsSaid => how.priority,
            Class::Low => how.priority.or(Some(Priority::Low)),
            Class::One => Some(Priority::Normal),
        };
        if let Some(note) = self.note {
            how.urgent |= note(&request);
        }
        self.queue.add_with(request, how);
    }
}

impl<R: Request> fmt::Debug for Enqueue<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enqueue").field("class", &self.class).finish_non_exhaustive()
    }
}
