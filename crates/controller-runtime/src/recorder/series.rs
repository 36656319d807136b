//! Which recorded event is new, which repeats one, and when the count of a series is told. Pure: time and chance are arguments.

use std::collections::{BTreeMap, VecDeque};

use tokio::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;

use super::{Record, limits::event_name, report::EventType};

/// How long an event may stay away and still count as the same, as in client-go.
const ENDS_AFTER: Duration = Duration::from_secs(6 * 60);

/// How long a series may go on without its count being told, as in client-go: an API server forgets an event after an hour.
const REFRESHED_AFTER: Duration = Duration::from_secs(30 * 60);

/// How many events are remembered; beyond, the one seen longest ago is forgotten.
const CAPACITY: usize = 1000;

/// The events of the last minutes.
#[derive(Debug, Default)]
pub(super) struct Series {
    known: BTreeMap<Identity, Known>,
    /// Series that are over, or forgotten for others, and whose last count is not told: in the order of their ends.
    over: VecDeque<Untold>,
}

/// What makes two events the same. The note is not part of it: it often holds a number that changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    controller: String,
    regarding: Reference,
    related: Option<Reference>,
    kind: EventType,
    reason: String,
    action: String,
}

/// API version, kind, namespace, name and uid of an object.
type Reference = [Option<String>; 5];

#[derive(Debug)]
struct Known {
    name: String,
    seen: Seen,
    /// When its count was told last.
    told: Instant,
    /// The latest repetition, if the count is not told that it made.
    untold: Option<Record>,
}

/// How often an event was seen, and when last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) count: u32,
    pub(super) last: Instant,
}

/// A count that is still to be written.
#[derive(Debug, PartialEq)]
pub(super) struct Untold {
    /// The name of the event.
    pub(super) name: String,
    /// Its latest repetition.
    pub(super) record: Record,
    pub(super) seen: Seen,
}

/// What to write.
#[derive(Debug, PartialEq)]
pub(super) enum Publish {
    /// A new event of this name.
    Create { name: String },
    /// The event of this name has now been seen `count` times.
    Repeat { name: String, count: u32 },
    /// Nothing: a later repetition will tell the count, or [`Series::untold`].
    Later,
}

impl Series {
    pub(super) fn observe(&mut self, record: &Record, now: Instant, suffix: u64) -> Publish {
        self.end(now);
        let identity = Identity::of(record);
        if let Some(known) = self.known.get_mut(&identity) {
            let count = known.seen.count.saturating_add(1);
            known.seen = Seen { count, last: now };
            if !is_told(count) {
                known.untold = Some(record.clone());
                return Publish::Later;
            }
            (known.told, known.untold) = (now, None);
            return Publish::Repeat { name: known.name.clone(), count };
        }
        if self.known.len() == CAPACITY {
            self.forget_oldest();
        }
        let name = event_name(record.regarding.name.as_deref().unwrap_or_default(), suffix);
        let seen = Seen { count: 1, last: now };
        self.known.insert(identity, Known { name: name.clone(), seen, told: now, untold: None });
        Publish::Create { name }
    }

    /// When there is a count to tell that no repetition told: of a series that is over, or that goes on for long.
    pub(super) fn due(&self) -> Option<Instant> {
        let of_known = self.known.values().filter_map(Known::due).min();
        // What is over is told at once.
        self.over.front().map(|untold| untold.seen.last).or(of_known)
    }

    /// Takes a count that is [due](Self::due), and takes it for told.
    pub(super) fn untold(&mut self, now: Instant) -> Option<Untold> {
        self.end(now);
        if let Some(untold) = self.over.pop_front() {
            return Some(untold);
        }
        let known = self.known.values_mut().find(|known| known.due().is_some_and(|due| due <= now))?;
        known.told = now;
        known.take_untold()
    }

    /// How often the event of this name was seen, if its series goes on.
    pub(super) fn seen(&self, record: &Record, name: &str) -> Option<Seen> {
        self.known.get(&Identity::of(record)).filter(|known| known.name == name).map(|known| known.seen)
    }

    /// Starts over with the event of this name: it could not be written.
    pub(super) fn forget(&mut self, record: &Record, name: &str) {
        let identity = Identity::of(record);
        if self.known.get(&identity).is_some_and(|known| known.name == name) {
            self.known.remove(&identity);
        }
    }

    /// Ends the series that have been quiet for long enough.
    fn end(&mut self, now: Instant) {
        let ended = self.known.extract_if(.., |_, known| now.duration_since(known.seen.last) >= ENDS_AFTER);
        self.over.extend(ended.filter_map(|(_, mut known)| known.take_untold()));
    }

    fn forget_oldest(&mut self) {
        let oldest =
            self.known.iter().min_by_key(|(_, known)| known.seen.last).map(|(identity, _)| identity.clone());
        let forgotten = oldest.and_then(|oldest| self.known.remove(&oldest));
        self.over.extend(forgotten.and_then(|mut known| known.take_untold()));
    }
}

impl Known {
    /// When its count is to be told, if no repetition does so before.
    fn due(&self) -> Option<Instant> {
        self.untold.as_ref()?;
        Some((self.seen.last + ENDS_AFTER).min(self.told + REFRESHED_AFTER))
    }

    fn take_untold(&mut self) -> Option<Untold> {
        let record = self.untold.take()?;
        Some(Untold { name: self.name.clone(), record, seen: self.seen })
    }
}

/// Whether a count is worth a write: a request that fails for ever must not write for ever at the rate of its retries.
fn is_told(count: u32) -> bool {
    count <= 10 || count.is_power_of_two()
}

impl Identity {
    fn of(record: &Record) -> Self {
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
