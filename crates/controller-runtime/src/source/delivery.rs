//! Delivery of events to the predicates and the handler of a source, with redelivery of failed events.

use tokio::time::{Instant, sleep_until};

use super::{
    Sink,
    delivery_retries::{DeliveryAttempt, DeliveryRetries},
    event_rules::Rules,
};
use crate::{
    cache::Event,
    object::{Object, ObjectKey},
    reconcile::Request,
    request_queue::FailedEventsOfSource,
};

/// Delivers the events of one run of a source.
pub(super) struct Delivery<'s, K: Object, R: Request> {
    sink: &'s Sink<R>,
    rules: &'s Rules<K, R>,
    retries: DeliveryRetries<K>,
    /// Failed events for metrics and explanations.
    report: FailedEventsOfSource,
}

impl<'s, K: Object, R: Request> Delivery<'s, K, R> {
    pub(super) fn new(sink: &'s Sink<R>, rules: &'s Rules<K, R>) -> Self {
        Self { sink, rules, retries: DeliveryRetries::new(), report: sink.failed_events() }
    }

    /// Delivers an event.
    pub(super) fn deliver(&mut self, event: Event<K>) {
        let key = event.key();
        let attempt = self.retries.superseded_by(event);
        self.attempt(&key, attempt);
    }

    /// Redelivers failed events of one object, if they are due.
    pub(super) fn retry(&mut self) {
        if let Some((key, attempt)) = self.retries.take_due(Instant::now()) {
            self.attempt(&key, attempt);
        }
    }

    /// Returns whether failed events are waiting for redelivery.
    pub(super) fn is_retrying(&self) -> bool {
        self.retries.next_due().is_some()
    }

    /// Waits until failed events are due for redelivery.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn due(&self) {
        match self.retries.next_due() {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    fn attempt(&mut self, key: &ObjectKey<K>, attempt: DeliveryAttempt<K>) {
        let DeliveryAttempt { mut events, attempts } = attempt;
        let mut failed = Vec::new();
        let mut failure = None;
        // Every event is tried even if an earlier one fails; those that fail stay in order.
        for event in events.drain(..) {
            if let Err(why) = self.sink.try_receive(&event, self.rules) {
                failed.push(event);
                failure = Some(why);
            }
        }
        let Some(failure) = failure else { return self.report.handled(key) };
        let attempts = attempts.saturating_add(1);
        let now = Instant::now();
        let (delay, dropped) =
            self.retries.fail(key, DeliveryAttempt { events: failed, attempts }, &failure, now);
        self.report.failed(key, &failure, attempts, delay.map(|delay| now + delay));
        if let Some(dropped) = dropped {
            self.report.dropped(&dropped);
        }
    }
}
