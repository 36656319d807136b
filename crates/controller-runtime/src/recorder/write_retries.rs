//! Retries of events that could not be written. Pure: time and random numbers are arguments.

use std::collections::BTreeMap;

use tokio::time::{Duration, Instant};

use super::{EventRecord, series::Occurrences};

/// Number of attempts to write an event, as in client-go.
const TRIES: u32 = 12;

/// Pause after a failure, as in client-go. The first pause is shorter by a random factor, so that processes that lost the API
/// server at the same time do not return at the same time.
const PAUSE: Duration = Duration::from_secs(10);

/// Largest number of waiting events.
const CAPACITY: usize = 1000;

/// Events that wait for another attempt, by name.
#[derive(Debug, Default)]
pub(super) struct WriteRetries {
    waiting: BTreeMap<String, (Instant, WriteAttempt)>,
}

/// Request that writes an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventWrite {
    /// Creates the event: no earlier request is known to have written it.
    Create,
    /// Updates the count of an event that was written.
    Update,
}

/// An event to be written.
#[derive(Debug, PartialEq)]
pub(super) struct WriteAttempt {
    pub(super) name: String,
    pub(super) record: EventRecord,
    pub(super) write: EventWrite,
    pub(super) seen: Occurrences,
    /// Number of failed writes.
    pub(super) failures: u32,
}

impl WriteRetries {
    /// Stores an attempt that failed. Returns it if it was the last one, or if too many are waiting. `chance` is a random number from 0 to 1,
    /// by which the first pause is shortened.
    #[must_use = "a returned attempt is not retried"]
    pub(super) fn put(
        &mut self,
        mut attempt: WriteAttempt,
        now: Instant,
        chance: f64,
    ) -> Option<WriteAttempt> {
        attempt.failures += 1;
        if attempt.failures >= TRIES || self.waiting.len() >= CAPACITY {
            return Some(attempt);
        }
        // Only the first pause is random: the offsets between processes last through the later ones.
        let pause = if attempt.failures == 1 { PAUSE.mul_f64(chance) } else { PAUSE };
        self.waiting.insert(attempt.name.clone(), (now + pause, attempt));
        None
    }

    /// Returns whether an event of this name is waiting.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.waiting.contains_key(name)
    }

    /// Takes the event of this name, if it is waiting.
    pub(super) fn take(&mut self, name: &str) -> Option<WriteAttempt> {
        self.waiting.remove(name).map(|(_, attempt)| attempt)
    }

    /// Time at which the first event is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting.values().map(|(due, _)| *due).min()
    }

    /// Takes the first event, due or not.
    pub(super) fn pop(&mut self) -> Option<WriteAttempt> {
        let (name, _) = self.waiting.iter().min_by_key(|(_, (due, _))| *due)?;
        let name = name.clone();
        self.take(&name)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ObjectReference;

    use super::*;
    use crate::recorder::EventReport;

    fn attempt(name: &str) -> WriteAttempt {
        let report = EventReport::normal("Fine", "Look", "nothing new");
        let record =
            EventRecord { controller: Arc::from("c"), regarding: ObjectReference::default(), report };
        let seen = Occurrences { count: 1, last: Instant::now() };
        WriteAttempt { name: name.to_owned(), record, write: EventWrite::Create, seen, failures: 0 }
    }

    #[test]
    fn an_event_is_tried_twelve_times_ten_seconds_apart_but_for_the_first_pause() {
        let (mut retries, mut now, mut attempt) = (WriteRetries::default(), Instant::now(), attempt("a"));
        let mut pauses = Vec::new();
        while retries.put(attempt, now, 0.5).is_none() {
            let due = retries.due().expect("it waits");
            pauses.push((due - now).as_secs());
            now = due;
            attempt = retries.pop().expect("it waits");
        }
        assert_eq!(pauses, [5, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10]);
        assert_eq!((retries.due(), retries.contains("a")), (None, false));
    }

    #[test]
    fn the_event_due_first_is_returned_first() {
        let (mut retries, now) = (WriteRetries::default(), Instant::now());
        for (name, chance) in [("a", 0.9), ("b", 0.1), ("c", 0.5)] {
            assert_eq!(retries.put(attempt(name), now, chance), None);
        }
        let order: Vec<_> = std::iter::from_fn(|| retries.pop()).map(|attempt| attempt.name).collect();
        assert_eq!(order, ["b", "c", "a"]);
    }

    #[test]
    fn a_waiting_event_can_be_taken_before_it_is_due() {
        let (mut retries, now) = (WriteRetries::default(), Instant::now());
        assert_eq!(retries.put(attempt("a"), now, 0.5), None);
        assert_eq!(retries.take("b"), None);
        assert_eq!(retries.take("a").map(|attempt| attempt.failures), Some(1));
        assert_eq!((retries.due(), retries.contains("a")), (None, false));
    }

    #[test]
    fn the_number_of_waiting_events_is_bounded() {
        let (mut retries, now) = (WriteRetries::default(), Instant::now());
        for i in 0..CAPACITY {
            assert_eq!(retries.put(attempt(&i.to_string()), now, 0.5), None);
        }
        assert!(retries.put(attempt("one more"), now, 0.5).is_some());
    }
}
