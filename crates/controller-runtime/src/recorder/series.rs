//! Series of repeated events: which event is new, which is a repetition, and when a count is written. Pure: time and random
//! numbers are arguments.

use std::collections::{BTreeMap, VecDeque};

use tokio::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;

use super::{EventRecord, limits::event_name, report::EventType};

/// Pause after which a series is over, as in client-go.
const ENDS_AFTER: Duration = Duration::from_secs(6 * 60);

/// Longest time that a series continues without its count being written, as in client-go: API servers keep events for an hour.
const REFRESHED_AFTER: Duration = Duration::from_secs(30 * 60);

/// Largest number of stored series; beyond it, the one seen longest ago is dropped.
const CAPACITY: usize = 1000;

/// The events of the last minutes.
#[derive(Debug, Default)]
pub(super) struct Series {
    known: BTreeMap<Identity, RunningSeries>,
    /// Series that are over, or were dropped to make room, with a last count to write; in the order of their ends.
    over: VecDeque<UnwrittenCount>,
}

/// Identity of an event. The note is not part of it: it often contains a number that changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    controller: String,
    regarding: Reference,
    related: Option<Reference>,
    kind: EventType,
    reason: String,
    action: String,
}

/// API version, kind, namespace, name and UID of an object.
type Reference = [Option<String>; 5];

#[derive(Debug)]
struct RunningSeries {
    name: String,
    seen: Occurrences,
    /// Time at which its count was last written.
    written_at: Instant,
    /// The latest repetition, if its count has not been written.
    unwritten: Option<EventRecord>,
}

/// Number of occurrences of an event, and the time of the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Occurrences {
    pub(super) count: u32,
    pub(super) last: Instant,
}

/// A count that must still be written.
#[derive(Debug, PartialEq)]
pub(super) struct UnwrittenCount {
    /// Name of the event.
    pub(super) name: String,
    /// Its latest repetition.
    pub(super) record: EventRecord,
    pub(super) seen: Occurrences,
}

/// Action for a recorded event.
#[derive(Debug, PartialEq)]
pub(super) enum Publish {
    /// Create an event of this name.
    Create { name: String },
    /// The event of this name has now been seen `count` times.
    Repeat { name: String, count: u32 },
    /// Do nothing: a later repetition or [`Series::unwritten`] will report the count.
    Later,
}

impl Series {
    /// Counts an event, and decides how it is written. `suffix` makes the name of a new event unique.
    pub(super) fn observe(&mut self, record: &EventRecord, now: Instant, suffix: u64) -> Publish {
        // End quiet series first, so that this record cannot extend one of them.
        self.end(now);
        let identity = Identity::of(record);
        if let Some(known) = self.known.get_mut(&identity) {
            let count = known.seen.count.saturating_add(1);
            known.seen = Occurrences { count, last: now };
            if !is_written_at(count) {
                known.unwritten = Some(record.clone());
                return Publish::Later;
            }
            (known.written_at, known.unwritten) = (now, None);
            return Publish::Repeat { name: known.name.clone(), count };
        }
        if self.known.len() == CAPACITY {
            self.forget_oldest();
        }
        let name = event_name(record.regarding.name.as_deref().unwrap_or_default(), suffix);
        let seen = Occurrences { count: 1, last: now };
        self.known
            .insert(identity, RunningSeries { name: name.clone(), seen, written_at: now, unwritten: None });
        Publish::Create { name }
    }

    /// Time at which the next unwritten count must be written: in the past if a series is over, otherwise when a series ends or has continued
    /// for long without a write.
    pub(super) fn due(&self) -> Option<Instant> {
        let of_known = self.known.values().filter_map(RunningSeries::due).min();
        // Counts of finished series are written at once: their time is in the past.
        self.over.front().map(|unwritten| unwritten.seen.last).or(of_known)
    }

    /// Takes a count that is [due](Self::due), and marks it as written.
    pub(super) fn unwritten(&mut self, now: Instant) -> Option<UnwrittenCount> {
        self.end(now);
        if let Some(unwritten) = self.over.pop_front() {
            return Some(unwritten);
        }
        let known = self.known.values_mut().find(|known| known.due().is_some_and(|due| due <= now))?;
        // Marked before the write, because the publisher retries a failed write.
        known.written_at = now;
        known.take_unwritten()
    }

    /// Count and last time of the event of this name, while its series continues.
    pub(super) fn seen(&self, record: &EventRecord, name: &str) -> Option<Occurrences> {
        self.known.get(&Identity::of(record)).filter(|known| known.name == name).map(|known| known.seen)
    }

    /// Drops the series of this event, which could not be written, so that the next repetition is new.
    pub(super) fn forget(&mut self, record: &EventRecord, name: &str) {
        let identity = Identity::of(record);
        if self.known.get(&identity).is_some_and(|known| known.name == name) {
            self.known.remove(&identity);
        }
    }

    /// Ends the series that have had no repetition for [`ENDS_AFTER`].
    fn end(&mut self, now: Instant) {
        let ended = self.known.extract_if(.., |_, known| now.duration_since(known.seen.last) >= ENDS_AFTER);
        self.over.extend(ended.filter_map(|(_, mut known)| known.take_unwritten()));
    }

    /// Drops the series that was seen longest ago; its count is still written.
    fn forget_oldest(&mut self) {
        let oldest =
            self.known.iter().min_by_key(|(_, known)| known.seen.last).map(|(identity, _)| identity.clone());
        let forgotten = oldest.and_then(|oldest| self.known.remove(&oldest));
        self.over.extend(forgotten.and_then(|mut known| known.take_unwritten()));
    }
}

impl RunningSeries {
    /// Time at which the count must be written, unless a repetition writes it before.
    fn due(&self) -> Option<Instant> {
        self.unwritten.as_ref()?;
        Some((self.seen.last + ENDS_AFTER).min(self.written_at + REFRESHED_AFTER))
    }

    fn take_unwritten(&mut self) -> Option<UnwrittenCount> {
        let record = self.unwritten.take()?;
        Some(UnwrittenCount { name: self.name.clone(), record, seen: self.seen })
    }
}

/// Returns whether a repetition is written: a request that fails forever must not write events at the rate of its retries.
fn is_written_at(count: u32) -> bool {
    count <= 10 || count.is_power_of_two()
}

impl Identity {
    fn of(record: &EventRecord) -> Self {
        let report = &record.report;
        Self {
            controller: record.controller.to_string(),
            regarding: reference(&record.regarding),
            related: report.related.as_ref().map(reference),
            kind: report.kind,
            reason: report.reason.clone(),
            action: report.action.clone(),
        }
    }
}

fn reference(to: &ObjectReference) -> Reference {
    [&to.api_version, &to.kind, &to.namespace, &to.name, &to.uid].map(Clone::clone)
}

#[cfg(test)]
mod tests;
