//! Which objects are kept decoded.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::{super::super::decode_list, *};

#[test]
fn an_unreadable_object_is_counted_once_however_often_it_is_read() {
    for retain in [Retain::Compact, Retain::Decoded, Retain::default()] {
        let codec = codec(retain);
        let bad =
            codec.ingest(&IncomingObject::new(&object("bad", 3, &json!({ "a": 5 })))).expect("it has a key");
        for _ in 0..3 {
            let error = bad.object().expect_err("its data are no strings");
            assert_eq!(error.path(), "data.a");
        }
        assert_eq!(codec.stats().unreadable, 1, "{retain:?}");
        assert_eq!(bad.object_meta().expect("its metadata are fine").name.as_deref(), Some("bad"));
    }
}

#[test]
fn retention_decides_how_often_objects_are_decoded() {
    for (retain, decodes, decoded) in
        [(Retain::Compact, 6, 0), (Retain::Budget(1 << 20), 4, 2), (Retain::Budget(10), 6, 0)]
    {
        let codec = codec(retain);
        let held: Vec<_> = ["a", "b"]
            .map(|name| codec.ingest(&IncomingObject::new(&alike(name, 1, 1))).expect("a key"))
            .into();
        for _ in 0..3 {
            held.iter().for_each(|object| drop(object.object().expect("it fits")));
        }
        let stats = codec.stats();
        assert_eq!((stats.decodes, stats.decoded), (decodes, decoded), "{retain:?}");
    }
    let codec = codec(Retain::Decoded);
    let object = codec.ingest(&IncomingObject::new(&alike("a", 1, 1))).expect("a key");
    assert!(Arc::ptr_eq(&object.object().expect("it fits"), &object.object().expect("it fits")));
    let stats = codec.stats();
    assert_eq!((stats.decodes, stats.text_bytes, stats.decoded), (1, 0, 1));
    drop(object);
    assert_eq!((codec.stats().decoded, codec.stats().decoded_bytes), (0, 0));
}

#[test]
fn an_evicted_object_stays_valid_for_its_reader() {
    let codec = codec(Retain::Budget(CodecContext::DECODED_PER_TEXT_BYTE * 4000));
    let first = codec.ingest(&IncomingObject::new(&alike("first", 1, 1))).expect("a key");
    first.object().expect("it fits");
    let read = first.object().expect("it fits");
    assert_eq!(Arc::strong_count(&read), 2, "the second read keeps it");
    let others: Vec<_> = (0..20)
        .map(|i| codec.ingest(&IncomingObject::new(&alike(&i.to_string(), 1, 1))).expect("a key"))
        .collect();
    others
        .iter()
        .for_each(|other| drop((other.object().expect("it fits"), other.object().expect("it fits"))));
    assert_eq!(Arc::strong_count(&read), 1, "the cache has dropped it");
    assert_eq!(read.metadata.name.as_deref(), Some("first"));
    assert_eq!(first.object().expect("it fits"), read);
}

#[test]
fn kinds_share_a_budget() {
    let budget = Retention::of(Retain::Budget(CodecContext::DECODED_PER_TEXT_BYTE * 3000));
    let codecs = [(); 2].map(|()| ObjectCodec::<ConfigMap>::new(&(), budget.clone(), LEAN));
    let held: Vec<_> = codecs
        .iter()
        .map(|codec| codec.ingest(&IncomingObject::new(&alike("a", 1, 1))).expect("a key"))
        .collect();
    held.iter()
        .for_each(|object| drop((object.object().expect("it fits"), object.object().expect("it fits"))));
    assert_eq!(codecs.each_ref().map(|codec| codec.stats().decoded), [0, 1]);
}

/// Returns the number of objects that are kept decoded.
fn decoded(held: &[Lazy<ConfigMap>]) -> usize {
    held.iter().filter(|object| object.is_kept()).count()
}

fn list(held: &[Lazy<ConfigMap>]) -> Vec<Arc<ConfigMap>> {
    decode_list::decode_all(|| held.iter()).expect("they fit")
}

#[test]
fn a_long_list_is_in_order_and_fails_with_its_first_undecodable_object() {
    let codec = codec(Retain::Compact);
    let mut held: Vec<_> = (0..5000).map(|i| take(&codec, &alike(&i.to_string(), 1, 1))).collect();
    let names: Vec<_> = list(&held).into_iter().map(|object| object.metadata.name.clone()).collect();
    assert_eq!(names, (0..5000).map(|i| Some(i.to_string())).collect::<Vec<_>>());
    for wrong in [4000, 2500] {
        held[wrong] = take(&codec, &object(&wrong.to_string(), 2, &json!({ "own": 1 })));
    }
    let error = decode_list::decode_all(|| held.iter()).expect_err("two do not fit").to_string();
    assert!(error.contains("ns/2500"), "{error}");
}

/// Returns objects of which the budget can keep three.
fn more_than_fit() -> Vec<Lazy<ConfigMap>> {
    let one = CodecContext::decoded_bytes::<ConfigMap>(alike("10", 1, 1).len());
    let codec = codec(Retain::Budget(3 * one));
    (10..30)
        .map(|name| codec.ingest(&IncomingObject::new(&alike(&name.to_string(), 1, 1))).expect("a key"))
        .collect()
}

#[test]
fn a_repeated_list_that_fits_is_kept_decoded() {
    let held = more_than_fit();
    held[0].object().expect("it fits");
    let first = held[0].object().expect("it fits");
    list(&held[..3]);
    assert_eq!(decoded(&held), 1, "one list is not enough");
    let listed = list(&held[..3]);
    assert!(Arc::ptr_eq(&listed[0], &first), "it stayed");
    assert_eq!((decoded(&held), decoded(&held[..3])), (3, 3), "there was room for two more");
    list(&held[3..5]);
    list(&held[3..5]);
    assert_eq!(decoded(&held[..3]), 3, "lists evict nothing");
    assert!(held.iter().all(|object| object.object().is_ok()));
    assert!(held.iter().all(|object| object.object().is_ok()));
    assert_eq!((decoded(&held), held[0].is_kept()), (3, false), "single reads evict other objects");
}

#[test]
fn a_list_that_does_not_fit_the_budget_is_not_kept_decoded() {
    let held = more_than_fit();
    held[0].object().expect("it fits");
    let first = held[0].object().expect("it fits");
    for _ in 0..3 {
        assert!(Arc::ptr_eq(&list(&held)[0], &first), "what is kept is used");
    }
    assert_eq!((decoded(&held), decoded(&held[..1])), (1, 1));
    list(&held[..2]);
    assert_eq!(decoded(&held), 1, "lists that did not fit do not count as reads");
}

#[test]
fn an_object_read_once_between_two_changes_is_not_kept() {
    let codec = codec(Retain::default());
    let mut held: Option<Lazy<ConfigMap>> = None;
    let mut change_and_read = |version, times| {
        let text = alike("a", 1, version);
        let known = |_: &Meta| {
            held.as_ref().map_or(StoredVersion::None, |held| StoredVersion::Other { reads: held.reads() })
        };
        let taken = codec.ingest_unless(&IncomingObject::new(&text), known).expect("a key");
        let before = codec.stats().decodes;
        (0..times).for_each(|_| assert_eq!(own(&taken), format!("a {version}")));
        held = Some(taken);
        let stats = codec.stats();
        (stats.decodes - before, stats.decoded)
    };
    assert_eq!(change_and_read(1, 1), (1, 0));
    assert_eq!(change_and_read(2, 1), (1, 0));
    assert_eq!(change_and_read(3, 4), (2, 1), "the second read keeps it");
    assert_eq!(change_and_read(4, 4), (1, 1), "the last state was read often");
    assert_eq!(change_and_read(5, 1), (1, 1));
    assert_eq!(change_and_read(6, 1), (1, 0), "the last state was read once");
    assert_eq!(change_and_read(7, 0), (0, 0));
}

proptest! {
    /// For every sequence of additions, removals and reads: each handle returns the object it was created with, and the
    /// counters match the existing states.
    #[test]
    fn behaves_like_a_plain_map(
        budget in prop_oneof![Just(0usize), Just(3000), Just(9000), Just(1 << 20)],
        steps in prop::collection::vec((0..4u8, 0..6usize, 0..400usize), 1..80),
    ) {
        let codec = codec(Retain::Budget(budget));
        let mut model: BTreeMap<usize, (Lazy<ConfigMap>, String)> = BTreeMap::new();
        let mut old = Vec::new();
        for (version, (what, name, size)) in steps.into_iter().enumerate() {
            match what {
                0 => {
                    let text = format!("{version} {}", "x".repeat(size));
                    let version = u32::try_from(version).expect("few steps");
                    let taken = codec.ingest(&IncomingObject::new(&object(&name.to_string(), version, &json!({ "own": text })))).expect("a key");
                    old.extend(model.insert(name, (taken, text)));
                }
                1 => drop(model.remove(&name)),
                2 => {
                    if let Some((object, text)) = model.get(&name) {
                        prop_assert_eq!(&own(object), text);
                    }
                }
                // A replaced state keeps its contents and does not affect its successor.
                _ => {
                    for (object, text) in &old {
                        prop_assert_eq!(&own(object), text);
                    }
                    old.truncate(2);
                }
            }
            let stats = codec.stats();
            prop_assert!(stats.decoded_bytes <= budget, "{:?}", stats);
            prop_assert_eq!(stats.objects, model.len() + old.len());
            prop_assert!(stats.decoded <= stats.objects);
        }
        drop((model, old));
        let stats = codec.stats();
        prop_assert_eq!((stats.objects, stats.decoded, stats.decoded_bytes, stats.text_bytes), (0, 0, 0, 0));
    }
}
