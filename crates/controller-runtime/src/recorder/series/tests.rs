//! Tests of series, with explicit times.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;

use super::*;
use crate::recorder::EventReport;

fn record(name: &str, reason: &str) -> EventRecord {
    EventRecord {
        controller: Arc::from("c"),
        regarding: ObjectReference {
            namespace: Some("ns".to_owned()),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        },
        report: EventReport::normal(reason, "Act", "note"),
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
fn a_repeated_event_is_counted_and_another_is_new() {
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
    let mut count_of = |change: fn(EventReport) -> EventReport| {
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
    assert_eq!(count(&series.observe(&record("a", "R"), now + Duration::from_secs(359), 2)), 2);
    assert_eq!(count(&series.observe(&record("a", "R"), now + Duration::from_secs(719), 3)), 1);
    assert_eq!(series.due(), None, "each of its counts was written");
}

#[test]
fn the_series_seen_longest_ago_is_dropped_first() {
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
fn repetitions_are_written_ten_times_and_then_at_every_doubling() {
    let (mut series, now) = (Series::default(), Instant::now());
    let written: Vec<u32> = (0..1000)
        .map(|_| count(&series.observe(&record("a", "R"), now, 1)))
        .filter(|count| *count > 0)
        .collect();
    assert_eq!(written, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 32, 64, 128, 256, 512]);
}

/// A series of `times` events, one second apart.
fn repeated(times: u32, began: Instant) -> Series {
    let mut series = Series::default();
    for second in 0..times {
        series.observe(&record("a", "R"), began + Duration::from_secs(second.into()), 1);
    }
    series
}

/// Counts that are written if no more events come: count, seconds since `began`, and age of the last event then.
fn written(series: &mut Series, began: Instant) -> Vec<(u32, u64, u64)> {
    let mut written = Vec::new();
    while let Some(due) = series.due() {
        let UnwrittenCount { name, seen, .. } = series.unwritten(due).expect("it is due");
        assert_eq!(name, "a.0000000000000001");
        written.push((seen.count, (due - began).as_secs(), (due - seen.last).as_secs()));
    }
    written
}

#[test]
fn the_last_count_of_a_series_is_written_at_its_end() {
    let now = Instant::now();
    assert_eq!(written(&mut repeated(1000, now), now), [(1000, 999 + 360, 360)]);
    assert_eq!(written(&mut repeated(11, now), now), [(11, 10 + 360, 360)]);
    assert_eq!(written(&mut repeated(10, now), now), [], "10 was written when it was observed");
    assert_eq!(written(&mut repeated(512, now), now), [], "512 was written when it was observed");

    let mut series = repeated(20, now);
    assert_eq!(series.unwritten(now + Duration::from_secs(378)), None, "the series may still go on");
    let later = now + Duration::from_secs(1000);
    let next = series.observe(&record("a", "R"), later, 2);
    assert_eq!(next, Publish::Create { name: "a.0000000000000002".to_owned() }, "another series");
    assert!(series.due().is_some_and(|due| due <= later));
    let Some(UnwrittenCount { name, seen, .. }) = series.unwritten(later) else { panic!("{series:?}") };
    assert_eq!((&*name, seen.count), ("a.0000000000000001", 20), "and the end of the first");
    assert_eq!(series.due(), None);
}

#[test]
fn the_count_of_a_continuing_series_is_written_every_half_hour() {
    let (mut series, now) = (Series::default(), Instant::now());
    let mut refreshed = Vec::new();
    for minute in 0..200 {
        let at = now + Duration::from_secs(60 * minute);
        if series.due().is_some_and(|due| due <= at) {
            let UnwrittenCount { seen, .. } = series.unwritten(at).expect("it is due");
            refreshed.push((seen.count, minute));
        }
        series.observe(&record("a", "R"), at, 1);
    }
    // The doublings 16, 32, 64 and 128 were written at minutes 15, 31, 63 and 127, and each begins another half hour.
    assert_eq!(refreshed, [(61, 61), (93, 93), (123, 123), (157, 157), (187, 187)]);
}

#[test]
fn the_count_of_a_dropped_series_is_written_first() {
    let now = Instant::now();
    let mut series = repeated(20, now);
    let later = now + Duration::from_secs(20);
    for i in 0..CAPACITY {
        series.observe(&record(&format!("o{i}"), "R"), later, 0);
    }
    let written = series.unwritten(later).map(|unwritten| unwritten.seen.count);
    assert_eq!((written, series.due()), (Some(20), None));
}

#[test]
fn an_event_that_could_not_be_written_is_new_again() {
    let (mut series, now) = (Series::default(), Instant::now());
    series.observe(&record("a", "R"), now, 1);
    series.forget(&record("a", "R"), "a.0000000000000007");
    assert_eq!(
        count(&series.observe(&record("a", "R"), now, 2)),
        2,
        "the event that failed has another name"
    );
    series.forget(&record("a", "R"), "a.0000000000000001");
    assert_eq!(count(&series.observe(&record("a", "R"), now, 3)), 1);
}
