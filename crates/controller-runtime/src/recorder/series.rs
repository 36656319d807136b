//! Which recorded event is new, and which repeats one. Pure: time and chance are arguments.

use std::collections::BTreeMap;

use tokio::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;

use super::{Record, limits::event_name, report::EventType};

/// How long an event may stay away and still count as the same, as in client-go.
const ENDS_AFTER: Duration = Duration::from_secs(6 * 60);

/// How many events are remembered; beyond, the one seen longest ago is forgotten.
const CAPACITY: usize = 1000;

/// The events of the last minutes.
#[derive(Debug, Default)]
pub(super) struct Series {
    known: BTreeMap<Identity, Known>,
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
    count: u32,
    last: Instant,
}

/// What to write.
#[derive(Debug, PartialEq)]
pub(super) enum Publish {
    /// A new event of this name.
    Create { name: String },
    /// The event of this name has now been seen `count` times.
    Repeat { name: String, count: u32 },
    /// Nothing: a later repetition will tell the count.
    Later,
}

impl Series {
    pub(super) fn observe(&mut self, record: &Record, now: Instant, suffix: u64) -> Publish {
        self.known.retain(|_, known| now.duration_since(known.last) <= ENDS_AFTER);
        let identity = Identity::of(record);
        if let Some(known) = self.known.get_mut(&identity) {
            known.count = known.count.saturating_add(1);
            known.last = now;
            if !is_told(known.count) {
                return Publish::Later;
            }
            return Publish::Repeat { name: known.name.clone(), count: known.count };
        }
        if self.known.len() == CAPACITY {
            self.forget_oldest();
        }
        let name = event_name(record.regarding.name.as_deref().unwrap_or_default(), suffix);
        self.known.insert(identity, Known { name: name.clone(), count: 1, last: now });
        Publish::Create { name }
    }

    /// How often this event was seen.
    pub(super) fn count(&self, record: &Record) -> Option<u32> {
        self.known.get(&Identity::of(record)).map(|known| known.count)
    }

    /// Starts over with this event: it could not be written.
    pub(super) fn forget(&mut self, record: &Record) {
        self.known.remove(&Identity::of(record));
    }

    fn forget_oldest(&mut self) {
        let oldest =
            self.known.iter().min_by_key(|(_, known)| known.last).map(|(identity, _)| identity.clone());
        if let Some(oldest) = oldest {
            self.known.remove(&oldest);
        }
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
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Secret;

    use super::{super::Report, *};

    fn record(name: &str, reason: &str) -> Record {
        Record {
            controller: Arc::from("c"),
            regarding: ObjectReference {
                namespace: Some("ns".to_owned()),
                name: Some(name.to_owned()),
                ..ObjectReference::default()
            },
            report: Report::normal(reason, "Act", "note"),
        }
    }

    fn count(publish: &Publish) -> u32 {
        match publish {
            Publish::Create { .. } => 1,
            Publish::Repeat { count, .. } => *count,
            Publish::Later => 0,
        }
    }

    #[test]
    fn the_same_event_again_is_counted_and_another_is_new() {
        let (mut series, now) = (Series::default(), Instant::now());
        assert_eq!(count(&series.observe(&record("a", "R"), now, 1)), 1);
        assert_eq!(count(&series.observe(&record("a", "R"), now, 2)), 2);
        assert_eq!(count(&series.observe(&record("a", "Other"), now, 3)), 1);
        assert_eq!(count(&series.observe(&record("b", "R"), now, 4)), 1);
        let repeat = series.observe(&record("a", "R"), now, 5);
        let name = "a.0000000000000001".to_owned();
        assert_eq!(repeat, Publish::Repeat { name, count: 3 });
    }

    #[test]
    fn another_related_object_is_another_event_and_an_annotation_is_not() {
        let (mut series, now) = (Series::default(), Instant::now());
        let mut count_of = |change: fn(Report) -> Report| {
            let mut record = record("a", "R");
            record.report = change(record.report);
            count(&series.observe(&record, now, 1))
        };
        assert_eq!(count_of(|report| report), 1);
        assert_eq!(count_of(|report| report.related(&Secret::default())), 1);
        assert_eq!(count_of(|report| report.related(&Secret::default()).annotation("k", "v")), 2);
        assert_eq!(count_of(|report| report.annotation("k", "v")), 2);
    }

    #[test]
    fn a_series_ends_after_six_quiet_minutes() {
        let (mut series, now) = (Series::default(), Instant::now());
        series.observe(&record("a", "R"), now, 1);
        assert_eq!(count(&series.observe(&record("a", "R"), now + Duration::from_secs(360), 2)), 2);
        assert_eq!(count(&series.observe(&record("a", "R"), now + Duration::from_secs(721), 3)), 1);
    }

    #[test]
    fn memory_is_bounded_by_forgetting_what_was_seen_longest_ago() {
        let (mut series, now) = (Series::default(), Instant::now());
        for i in 0..=CAPACITY {
            let at = now + Duration::from_micros(i as u64);
            series.observe(&record(&format!("o{i}"), "R"), at, 0);
        }
        assert_eq!(series.known.len(), CAPACITY);
        let at = now + Duration::from_secs(1);
        assert_eq!(count(&series.observe(&record("o0", "R"), at, 0)), 1, "o0 was forgotten");
        assert_eq!(count(&series.observe(&record("o2", "R"), at, 0)), 2, "o2 was not");
    }

    #[test]
    fn a_storm_is_told_ten_times_and_then_at_every_doubling() {
        let (mut series, now) = (Series::default(), Instant::now());
        let told: Vec<u32> = (0..1000)
            .map(|_| count(&series.observe(&record("a", "R"), now, 1)))
            .filter(|count| *count > 0)
            .collect();
        assert_eq!(told, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 32, 64, 128, 256, 512]);
    }

    #[test]
    fn an_event_that_could_not_be_written_is_new_again() {
        let (mut series, now) = (Series::default(), Instant::now());
        series.observe(&record("a", "R"), now, 1);
        series.forget(&record("a", "R"));
        assert_eq!(count(&series.observe(&record("a", "R"), now, 2)), 1);
    }
}
