//! Schedule of redelivery of events that user code failed to handle. Pure.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::{Duration, Instant};

use crate::{
    cache::Event,
    object::{Object, ObjectKey},
    request_queue::EventFailure,
};

/// Failed events of one source, by object.
///
/// An event on which a predicate or handler panics, or that a handler [fails](crate::request_queue::Enqueue::fail) to handle,
/// is delivered again with back-off until it is handled. An event of an object that cannot be decoded is not delivered again,
/// because the same state would fail again. A later event of the object supersedes a failed one: it is delivered at once, as the change from the
/// last handled state.
pub(super) struct DeliveryRetries<K: Object> {
    failed: BTreeMap<ObjectKey<K>, FailedDeliveries<K>>,
    /// Due times of the events that will be delivered again.
    due: BTreeSet<(Instant, ObjectKey<K>)>,
    /// Objects in the order of their latest failures, which are numbered.
    order: BTreeMap<u64, ObjectKey<K>>,
    next: u64,
}

struct FailedDeliveries<K: Object> {
    events: Vec<Event<K>>,
    attempts: u32,
    due: Option<Instant>,
    place: u64,
}

/// Events of one object to be delivered, in order.
pub(super) struct DeliveryAttempt<K: Object> {
    pub(super) events: Vec<Event<K>>,
    /// Number of failed deliveries so far.
    pub(super) attempts: u32,
}

impl<K: Object> DeliveryRetries<K> {
    /// Largest number of objects with failed events. Beyond it, the object that has not failed for the longest time is dropped.
    pub(super) const MOST: usize = 10_000;

    /// Largest number of failed events of one object: deletions of successive objects of the name, and the change after them.
    /// Beyond it, the oldest is dropped.
    const OF_ONE: usize = 4;

    const FIRST: Duration = Duration::from_secs(1);
    const LONGEST: Duration = Duration::from_secs(300);

    pub(super) fn new() -> Self {
        Self { failed: BTreeMap::new(), due: BTreeSet::new(), order: BTreeMap::new(), next: 0 }
    }

    /// Returns the events to deliver now that `event` has arrived.
    pub(super) fn superseded_by(&mut self, event: Event<K>) -> DeliveryAttempt<K> {
        let mut events = match self.failed.is_empty() {
            true => Vec::new(),
            false => self.take(&event.key()).map(|failed| failed.events).unwrap_or_default(),
        };
        supersede(&mut events, event);
        let surplus = events.len().saturating_sub(Self::OF_ONE);
        events.drain(..surplus);
        // The back-off starts again: the new state may not make user code panic.
        DeliveryAttempt { events, attempts: 0 }
    }

    /// Records that events of an object failed `attempts` times. Returns the delay until their redelivery, if there is one, and
    /// the object that was dropped to make room.
    pub(super) fn fail(
        &mut self,
        key: &ObjectKey<K>,
        failed: DeliveryAttempt<K>,
        failure: &EventFailure,
        now: Instant,
    ) -> (Option<Duration>, Option<ObjectKey<K>>) {
        let DeliveryAttempt { events, attempts } = failed;
        let delay = failure.is_worth_a_retry().then(|| {
            // Limited to 2^16 seconds, far above the longest delay.
            let doubled = 2u32.saturating_pow(attempts.saturating_sub(1).min(16));
            Self::FIRST.saturating_mul(doubled).min(Self::LONGEST)
        });
        let due = delay.map(|delay| now + delay);
        // `before` is `None` if the events were taken for this attempt; otherwise the object keeps its place.
        let before = self.take(key);
        let place = before.map_or(self.next, |before| before.place);
        self.next = self.next.max(place + 1);
        self.due.extend(due.map(|due| (due, key.clone())));
        self.order.insert(place, key.clone());
        self.failed.insert(key.clone(), FailedDeliveries { events, attempts, due, place });
        let dropped = match self.failed.len() > Self::MOST {
            true => self.order.first_key_value().map(|(_, key)| key.clone()),
            false => None,
        };
        if let Some(key) = &dropped {
            self.take(key);
        }
        (delay, dropped)
    }

    /// Returns when the next events are due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Takes events that are due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(ObjectKey<K>, DeliveryAttempt<K>)> {
        let (due, key) = self.due.first()?;
        if *due > now {
            return None;
        }
        let key = key.clone();
        let FailedDeliveries { events, attempts, .. } = self.take(&key)?;
        Some((key, DeliveryAttempt { events, attempts }))
    }

    fn take(&mut self, key: &ObjectKey<K>) -> Option<FailedDeliveries<K>> {
        let failed = self.failed.remove(key)?;
        self.order.remove(&failed.place);
        if let Some(due) = failed.due {
            self.due.remove(&(due, key.clone()));
        }
        Some(failed)
    }
}

/// Appends an event to failed events of the same object. A change is merged with the one before it, so that it leads from the
/// last state that was handled, if any, to the newest. A deletion replaces the changes before it.
fn supersede<K: Object>(failed: &mut Vec<Event<K>>, next: Event<K>) {
    let merged = match (failed.last(), next) {
        (Some(Event::Create { .. }), Event::Update { new, .. }) => {
            Event::Create { object: new, in_initial_list: false }
        }
        (Some(Event::Update { old, .. }), Event::Update { new, .. }) => {
            Event::Update { old: old.clone(), new }
        }
        (Some(Event::Create { .. } | Event::Update { .. }), next @ Event::Delete { .. }) => next,
        (Some(Event::Generic { .. }), next @ Event::Generic { .. }) => next,
        (_, next) => return failed.push(next),
    };
    failed.pop();
    failed.push(merged);
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::cache::Lazy;

    fn object(name: &str, version: &str) -> Lazy<ConfigMap> {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some("default".to_owned());
        map.metadata.name = Some(name.to_owned());
        map.metadata.resource_version = Some(version.to_owned());
        Lazy::of(map).expect("it has a name")
    }

    fn create(version: &str) -> Event<ConfigMap> {
        Event::Create { object: object("a", version), in_initial_list: true }
    }

    fn update(old: &str, new: &str) -> Event<ConfigMap> {
        Event::Update { old: object("a", old), new: object("a", new) }
    }

    fn delete(version: &str) -> Event<ConfigMap> {
        Event::Delete { object: object("a", version), state_unknown: false }
    }

    fn show(events: &[Event<ConfigMap>]) -> String {
        let version =
            |state: &Lazy<ConfigMap>| state.meta().resource_version().expect("a version").to_string();
        let show = |event: &Event<ConfigMap>| match event {
            Event::Create { object, .. } => format!("create {}", version(object)),
            Event::Update { old, new } => format!("update {} {}", version(old), version(new)),
            Event::Delete { object, .. } => format!("delete {}", version(object)),
            Event::Generic { object } => format!("generic {}", version(object)),
        };
        events.iter().map(show).collect::<Vec<_>>().join(", ")
    }

    fn superseded(events: &[Event<ConfigMap>]) -> String {
        let mut failed = Vec::new();
        events.iter().for_each(|event| supersede(&mut failed, event.clone()));
        show(&failed)
    }

    #[test]
    fn a_later_event_leads_from_the_last_state_that_was_handled() {
        assert_eq!(superseded(&[create("1"), update("1", "2")]), "create 2");
        assert_eq!(superseded(&[update("1", "2"), update("2", "3")]), "update 1 3");
        assert_eq!(superseded(&[update("1", "2"), delete("3")]), "delete 3");
        assert_eq!(superseded(&[create("1"), delete("2")]), "delete 2");
        assert_eq!(superseded(&[delete("1"), create("2"), update("2", "3")]), "delete 1, create 3");
    }

    #[test]
    fn a_panic_is_retried_with_back_off_and_an_undecodable_object_is_not() {
        let (mut retries, mut now) = (DeliveryRetries::new(), Instant::now());
        let key = object("a", "1").key();
        let mut attempt = retries.superseded_by(create("1"));
        let mut delays = Vec::new();
        for _ in 0..11 {
            attempt.attempts += 1;
            let (delay, _) = retries.fail(&key, attempt, &EventFailure::Panicked("a bug".to_owned()), now);
            now += delay.expect("it is delivered again");
            delays.push(delay.expect("it is delivered again").as_secs());
            assert_eq!(retries.next_due(), Some(now));
            assert!(retries.take_due(now - Duration::from_nanos(1)).is_none());
            attempt = retries.take_due(now).expect("it is due").1;
        }
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        let undecodable = EventFailure::Undecodable("no number".to_owned());
        assert_eq!(retries.fail(&key, attempt, &undecodable, now), (None, None));
        assert_eq!(retries.next_due(), None);
        assert_eq!(show(&retries.superseded_by(update("1", "2")).events), "create 2");
        assert!(retries.failed.is_empty() && retries.order.is_empty() && retries.due.is_empty());
    }

    #[test]
    fn at_most_ten_thousand_objects_wait() {
        let (mut retries, now) = (DeliveryRetries::new(), Instant::now());
        for number in 0..=DeliveryRetries::<ConfigMap>::MOST {
            let object = object(&number.to_string(), "1");
            let key = object.key();
            let attempt = retries.superseded_by(Event::Generic { object });
            let (_, dropped) = retries.fail(&key, attempt, &EventFailure::Panicked(String::new()), now);
            let is_one_too_many = number == DeliveryRetries::<ConfigMap>::MOST;
            assert_eq!(dropped.map(|key| key.name().to_owned()), is_one_too_many.then(|| "0".to_owned()));
        }
        assert_eq!(retries.due.len(), DeliveryRetries::<ConfigMap>::MOST);
    }
}
