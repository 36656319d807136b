use bytes::Bytes;
use proptest::prelude::*;
use serde_json::json;
use tokio::time::Duration;

use super::*;

const TABLE: &str = "things";
const AGE: Duration = Duration::from_secs(300);

/// Outside a runtime, this is the time of the system. Only one test depends on it.
fn now() -> Instant {
    Instant::now()
}

fn store(events: usize) -> Store<&'static str> {
    let mut store = Store::new(HistoryLimits { events, bytes: 1 << 20, age: AGE });
    store.open(&TABLE);
    store
}

fn document(size: u32) -> Document {
    Document::new(&json!({"metadata": {}, "size": size}), 0, 0)
}

fn put(store: &mut Store<&'static str>, name: &str, size: u32) -> u64 {
    let key = Key::new("ns", name);
    let expected = store.get(&TABLE, &key).map(|stored| stored.revision);
    store.commit(&TABLE, &key, expected, Change::Put(document(size)), now()).unwrap().revision
}

fn names(snapshot: &Snapshot) -> String {
    let names: Vec<String> = snapshot
        .range("", None)
        .map(|(key, stored)| format!("{}@{}", key.as_str(), stored.revision))
        .collect();
    names.join(" ")
}

#[test]
fn a_commit_that_expects_another_revision_changes_nothing() {
    let mut store = store(10);
    put(&mut store, "a", 1);
    let key = Key::new("ns", "a");
    for wrong in [None, Some(1), Some(99)] {
        assert_eq!(store.commit(&TABLE, &key, wrong, Change::Put(document(2)), now()).unwrap_err(), Conflict);
    }
    assert_eq!(
        store.commit(&TABLE, &Key::new("ns", "z"), None, Change::Delete, now()).unwrap_err(),
        Conflict
    );
    assert_eq!(store.revision(), 2);
    assert_eq!(names(&store.snapshot(&TABLE)), "ns/a@2");
}

#[test]
fn nothing_is_stored_in_a_table_that_is_not_open() {
    let mut store = store(10);
    put(&mut store, "a", 1);
    let closed = store.close(&TABLE).unwrap();
    let key = Key::new("ns", "b");
    assert_eq!(store.commit(&TABLE, &key, None, Change::Put(document(1)), now()).unwrap_err(), Conflict);
    store.open(&TABLE);
    assert_eq!(names(&store.snapshot(&TABLE)), "");
    assert_eq!(closed.events_after(1, 9).unwrap().len(), 1, "what had happened can still be read");
}

#[test]
fn keys_order_as_in_etcd() {
    let mut store = store(10);
    for namespace in ["a", "a-b", "a.b", "b"] {
        store.commit(&TABLE, &Key::new(namespace, "x"), None, Change::Put(document(0)), now()).unwrap();
    }
    assert_eq!(names(&store.snapshot(&TABLE)), "a-b/x@3 a.b/x@4 a/x@2 b/x@5");
    let snapshot = store.snapshot(&TABLE);
    assert_eq!(snapshot.range("a", None).count(), 1);
    assert_eq!(snapshot.range("", Some(&Key::new("a", "x"))).count(), 2);
}

#[test]
fn a_snapshot_does_not_see_later_commits_and_an_old_one_can_be_taken_later() {
    let mut store = store(10);
    put(&mut store, "a", 1);
    let then = store.snapshot(&TABLE);
    put(&mut store, "b", 1);
    put(&mut store, "a", 2);
    store.commit(&TABLE, &Key::new("ns", "b"), Some(3), Change::Delete, now()).unwrap();
    assert_eq!(names(&then), "ns/a@2");
    assert_eq!(names(&store.past(&TABLE, 2, now()).unwrap().snapshot()), "ns/a@2");
    assert_eq!(names(&store.past(&TABLE, 3, now()).unwrap().snapshot()), "ns/a@2 ns/b@3");
    assert_eq!(names(&store.past(&TABLE, 4, now()).unwrap().snapshot()), "ns/a@4 ns/b@3");
    assert_eq!(names(&store.past(&TABLE, 5, now()).unwrap().snapshot()), "ns/a@4");
}

#[test]
fn history_is_bounded_in_number_and_in_bytes() {
    let mut few = store(3);
    for size in 0..10 {
        put(&mut few, "a", size);
    }
    assert_eq!(few.oldest(&TABLE, now()), 8);
    assert_eq!(few.events_after(&TABLE, 7, 10).unwrap_err(), Expired);
    assert_eq!(few.events_after(&TABLE, 8, 10).unwrap().len(), 3);
    assert_eq!(few.past(&TABLE, 7, now()).map(drop), Err(Expired));

    let mut small = Store::new(HistoryLimits { events: 1000, bytes: 2000, age: AGE });
    small.open(&TABLE);
    for size in 0..100 {
        put(&mut small, "a", size);
    }
    assert!(small.events_after(&TABLE, small.oldest(&TABLE, now()), 1000).unwrap().len() < 8);
}

#[test]
fn history_is_bounded_in_age() {
    let mut store = store(10);
    let start = now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let mut commit = |name: &str, seconds: u64| {
        let key = Key::new("ns", name);
        store.commit(&TABLE, &key, None, Change::Put(document(1)), at(seconds)).unwrap();
    };
    commit("a", 0);
    commit("b", 100);
    commit("c", 300);
    assert_eq!(store.oldest(&TABLE, at(300)), 1, "as old as it may be");
    assert_eq!(store.oldest(&TABLE, at(301)), 2, "without any commit");
    assert_eq!(store.past(&TABLE, 1, at(301)).map(drop), Err(Expired));
    assert_eq!(store.events_after(&TABLE, 1, 10).unwrap().len(), 3, "a reader that has begun continues");
    assert_eq!(store.oldest(&TABLE, at(10_000)), 4, "a reader that has read all events is never too late");
    store.commit(&TABLE, &Key::new("ns", "d"), None, Change::Put(document(1)), at(401)).unwrap();
    assert_eq!(store.events_after(&TABLE, 2, 10).unwrap_err(), Expired, "a commit forgets what is old");
    assert_eq!(store.events_after(&TABLE, 3, 10).unwrap().len(), 2);
}

#[test]
fn a_table_opened_late_has_no_history_before_its_opening() {
    let mut store = store(10);
    put(&mut store, "a", 1);
    store.open(&"late");
    assert_eq!(store.events_after(&"late", 1, 10).unwrap_err(), Expired);
    assert!(store.events_after(&"late", 2, 10).unwrap().is_empty());
}

#[test]
fn a_reader_of_a_closed_table_does_not_read_a_later_table_of_its_name() {
    let mut store = store(10);
    let before = store.id(&TABLE).unwrap();
    store.close(&TABLE);
    let after = store.open(&TABLE);
    put(&mut store, "a", 1);
    assert_eq!(store.events_in(before, 1, 10).unwrap_err(), Expired);
    assert_eq!(store.events_in(after, 1, 10).unwrap().len(), 1);
}

fn event(store: &mut Store<&'static str>) -> Arc<StoreEvent> {
    let revision = put(store, "a", 1);
    store.events_after(&TABLE, revision - 1, 1).unwrap().remove(0)
}

#[test]
fn watch_events_are_encoded_once_per_form() {
    let event = event(&mut store(10));
    let made = std::cell::Cell::new(0);
    let send = |form| {
        event.bytes_as(form, || {
            made.set(made.get() + 1);
            Bytes::from(form.to_string())
        })
    };
    assert_eq!([send(1), send(2), send(1), send(2)], ["1", "2", "1", "2"]);
    assert_eq!(made.get(), 2);
}

#[test]
fn encoded_watch_events_are_cached_within_a_bound_for_the_newest_events() {
    let mut store = store(1000);
    let large = Bytes::from(vec![0; 1 << 20]);
    let events: Vec<Arc<StoreEvent>> = (0..40)
        .map(|_| {
            let event = event(&mut store);
            event.bytes_as(0, || large.clone());
            event
        })
        .collect();
    let is_remembered = |event: &Arc<StoreEvent>| {
        let mut remembered = true;
        event.bytes_as(0, || {
            remembered = false;
            Bytes::new()
        });
        remembered
    };
    assert!(is_remembered(&events[39]), "the newest is");
    let remembered = events[..39].iter().filter(|event| is_remembered(event)).count();
    assert!((1..=8).contains(&remembered), "{remembered} of 1 MiB");
    drop((store, events));
}

#[test]
fn selector_values_are_read_once_per_state_and_again_for_another_reader() {
    let mut store = store(10);
    put(&mut store, "a", 0);
    let event = event(&mut store);
    let read = std::cell::Cell::new(0);
    let ask = |state, reader: u64| {
        let traits = || {
            read.set(read.get() + 1);
            Traits::new([("reader".to_owned(), reader.to_string())].into(), Vec::new())
        };
        event.with_traits(state, reader, traits, |traits| traits.labels["reader"].clone())
    };
    assert_eq!(
        [ask(EventSide::After, 1), ask(EventSide::After, 1), ask(EventSide::Before, 1)],
        ["1", "1", "1"]
    );
    assert_eq!(read.get(), 2);
    assert_eq!([ask(EventSide::After, 2), ask(EventSide::After, 1)], ["2", "1"]);
    assert_eq!(read.get(), 3);
}

proptest! {
    /// For any writes, and wherever a watch starts, applying the events to the initial state gives the final
    /// state, with strictly increasing revisions.
    #[test]
    fn a_watch_from_any_revision_folds_to_the_list(ops in prop::collection::vec((0..6u8, 0..3u8), 1..60), keep in 1..40usize) {
        let mut store = store(keep);
        for (name, op) in ops {
            let name = format!("o{name}");
            let key = Key::new("ns", &name);
            let expected = store.get(&TABLE, &key).map(|stored| stored.revision);
            match (op, expected) {
                (0, Some(_)) => { store.commit(&TABLE, &key, expected, Change::Delete, now()).unwrap(); }
                _ => { put(&mut store, &name, u32::from(op)); }
            }
        }
        let end = store.snapshot(&TABLE);
        for start in store.oldest(&TABLE, now())..=store.revision() {
            let mut seen = store.past(&TABLE, start, now()).unwrap().snapshot();
            let mut cursor = start;
            loop {
                let events = store.events_after(&TABLE, cursor, 3).unwrap();
                if events.is_empty() {
                    break;
                }
                for event in events {
                    prop_assert!(event.revision > cursor);
                    cursor = event.revision;
                    prop_assert_eq!(
                        seen.get(&event.key).map(|stored| stored.revision),
                        event.before.as_ref().map(|stored| stored.revision)
                    );
                    match &event.after {
                        Some(after) => seen.objects.insert(event.key.clone(), Arc::clone(after)),
                        None => seen.objects.remove(&event.key),
                    };
                }
            }
            prop_assert_eq!(names(&seen), names(&end));
        }
    }
}
