//! When texts are compressed, and with which dictionary.

use serde_json::json;

use super::{
    super::super::{compression::TrainingSet, uncompressed_queue::UncompressedQueue},
    *,
};

#[test]
fn texts_are_compressed_only_when_there_are_many_objects() {
    let codec = codec(Retain::Compact);
    let mut held: Vec<_> = (0..100).map(|i| take(&codec, &alike(&i.to_string(), 1, 1))).collect();
    let Stats { trainings, text_bytes: plain, .. } = codec.stats();
    assert_eq!(trainings, 0);
    assert!(plain < TrainingSet::ENOUGH);
    held.extend((100..600).map(|i| take(&codec, &alike(&i.to_string(), 1, 1))));
    let Stats { trainings, text_bytes, objects, decoded, .. } = codec.stats();
    assert_eq!((trainings, objects, decoded), (1, 600, 0));
    assert!(text_bytes * 5 < plain * 6, "{text_bytes} bytes for 600 objects, {plain} for 100 of them before");
    for (i, object) in held.iter().enumerate() {
        assert_eq!(own(object), format!("{i} 1"));
        assert!(object.object().expect("it fits").metadata.managed_fields.is_none());
    }
    drop(held);
    let Stats { objects, text_bytes, .. } = codec.stats();
    assert_eq!((objects, text_bytes), (0, 0));
}

/// Objects of some 50 bytes each, of which there are many in the samples of a dictionary.
#[test]
fn ingesting_an_object_neither_trains_a_dictionary_nor_compresses_much() {
    for retain in [Retain::Compact, Retain::default()] {
        let codec = codec(retain);
        let small = |number: usize| {
            format!(
                r#"{{"metadata":{{"name":"{number}","namespace":"ns","resourceVersion":"1"}},"data":{{"own":"{number} 1"}}}}"#
            )
        };
        let mut held = Vec::new();
        while !codec.is_training_due() {
            held.push(codec.ingest(&IncomingObject::new(&small(held.len()))).expect("a key"));
        }
        // Objects that arrive during the training wait as well.
        let samples = codec.samples().expect("they are due");
        for number in held.len()..held.len() + 3000 {
            held.push(codec.ingest(&IncomingObject::new(&small(number))).expect("a key"));
        }
        assert_eq!(codec.stats().trainings, 0, "{retain:?}");
        codec.set_dictionary(samples.train());
        assert_eq!((codec.stats().trainings, codec.is_training_due()), (1, false), "{retain:?}");
        let plain = |codec: &ObjectCodec<ConfigMap>| codec.stats().text_bytes;
        let (all, mut pieces) = (plain(&codec), 0);
        assert!(all > TrainingSet::ENOUGH, "{all} bytes");
        let mut left = all;
        while codec.has_backlog() {
            codec.compress_backlog();
            let compressed = left - plain(&codec);
            assert!(compressed <= UncompressedQueue::AT_ONCE, "{compressed} bytes at once");
            (left, pieces) = (plain(&codec), pieces + 1);
        }
        assert!(pieces > 10, "{pieces} pieces");
        assert!(2 * left < all, "{retain:?}: {left} of {all} bytes");
        assert!(held.iter().enumerate().all(|(number, held)| own(held) == format!("{number} 1")));
    }
}

#[test]
fn a_dropped_training_stays_due() {
    let codec = codec(Retain::Compact);
    let mut held = Vec::new();
    while !codec.is_training_due() {
        held.push(codec.ingest(&IncomingObject::new(&alike(&held.len().to_string(), 1, 1))).expect("a key"));
    }
    drop(codec.samples().expect("they are due"));
    assert!(codec.is_training_due());
    train(&codec);
    assert_eq!((codec.stats().trainings, codec.is_training_due()), (1, false));
    // Texts that were replaced before they were copied do not become samples.
    let codec = self::codec(Retain::Compact);
    while !codec.is_training_due() {
        held.push(codec.ingest(&IncomingObject::new(&alike(&held.len().to_string(), 1, 1))).expect("a key"));
    }
    held.clear();
    assert!(codec.samples().is_none() && !codec.is_training_due());
}

#[test]
fn objects_with_a_new_structure_get_a_new_dictionary_and_dictionaries_are_few() {
    let codec = codec(Retain::Compact);
    let mut held = Vec::new();
    for family in 0..6 {
        let common = common_to(family);
        // Some states of earlier families stay, so their dictionaries are still used.
        held.truncate(usize::try_from(family).expect("few") * 10);
        for i in 0..4500 {
            held.push((format!("{i} 1"), take(&codec, &of_family(&common, &i.to_string(), 1))));
        }
    }
    let trainings = codec.stats().trainings;
    assert!((2..=CodecContext::DICTIONARIES).contains(&trainings), "{trainings} trainings");
    for (text, object) in &held {
        assert_eq!(own(object), *text);
    }
}

#[test]
fn a_large_object_is_compressed_by_itself() {
    let codec = codec(Retain::Compact);
    let large = codec
        .ingest(&IncomingObject::new(&object("large", 1, &json!({ "own": "large ".repeat(20_000) }))))
        .expect("a key");
    assert!(codec.stats().text_bytes < 5000, "{:?}", codec.stats());
    assert_eq!(own(&large).len(), 120_000);
}

/// Adds a new version of an object of about 4 KB.
fn change(codec: &ObjectCodec<ConfigMap>, name: usize, version: u32, reads: Reads) -> Lazy<ConfigMap> {
    let text = alike(&name.to_string(), 1, version);
    codec.ingest_unless(&IncomingObject::new(&text), |_| StoredVersion::Other { reads }).expect("a key")
}

/// Adds a new object.
fn new(codec: &ObjectCodec<ConfigMap>, name: usize) -> Lazy<ConfigMap> {
    take(codec, &alike(&name.to_string(), 1, 1))
}

#[test]
fn the_latest_texts_stay_uncompressed_and_more_of_them_if_always_read() {
    // Half of the budget is as much as new objects may use.
    let codec = codec(Retain::Budget(2 * UncompressedQueue::FRESH));
    let mut held: Vec<_> = (0..6000).map(|name| new(&codec, name)).collect();
    let text = alike("1000", 1, 1).len();
    let Stats { trainings, text_bytes: once, .. } = codec.stats();
    assert_eq!(trainings, 1);
    assert!(
        once > UncompressedQueue::FRESH / 2 && once < 6000 * text / 10 + UncompressedQueue::FRESH,
        "{once} bytes"
    );
    for (name, held) in held.iter_mut().enumerate() {
        *held = change(&codec, name, 2, Reads::default());
    }
    let again = codec.stats().text_bytes;
    assert!(again < once + UncompressedQueue::FRESH / 2, "they were not read: {again} and {once} bytes");
    assert!(again > UncompressedQueue::FRESH / 2, "{again} bytes");
    for (name, held) in held.iter_mut().enumerate() {
        *held = change(&codec, name, 3, Reads::each_time());
    }
    let always = codec.stats().text_bytes;
    assert!(
        6000 * text > 2 * UncompressedQueue::READ && always > again + UncompressedQueue::READ / 2,
        "{always} and {again} bytes"
    );
    assert!(
        always < again + UncompressedQueue::READ + UncompressedQueue::FRESH,
        "{always} and {again} bytes"
    );
    assert!(held.iter().enumerate().all(|(name, held)| own(held) == format!("{name} 3")));
}

#[test]
fn half_of_the_budget_is_for_texts_that_have_changed() {
    let (budget, text) = (8 << 20, alike("1000", 1, 1).len());
    let codec = codec(Retain::Budget(budget));
    let mut held: Vec<_> = (0..3000).map(|name| new(&codec, name)).collect();
    let compressed = codec.stats().text_bytes;
    for (name, held) in held.iter_mut().enumerate() {
        *held = change(&codec, name, 2, Reads::default());
    }
    let plain = codec.stats().text_bytes - compressed;
    assert!(3000 * text > budget / 2 && plain > budget / 4 && plain < budget / 2, "{plain} bytes");
    assert!(held.iter().enumerate().all(|(name, held)| own(held) == format!("{name} 2")));
    // Objects that are read often use the other half. Dropped objects have returned their part.
    for held in &held {
        (0..2).for_each(|_| drop(own(held)));
    }
    let decoded = codec.stats().decoded_bytes;
    assert!(decoded > budget / 4 && decoded <= budget / 2 + (64 << 10), "{decoded} bytes");
    let Retention::Budget(shared) = &codec.context.retention else { unreachable!("it has a budget") };
    let shared = Arc::clone(shared);
    assert!(shared.lock().lendable() < 64 << 10);
    drop((held, codec));
    assert_eq!(shared.lock().lendable(), budget / 2);
}

#[test]
fn a_backlog_is_compressed() {
    let codec = codec(Retain::Budget(2 * UncompressedQueue::FRESH));
    let held: Vec<_> = (0..1000).map(|name| new(&codec, name)).collect();
    let mut last = change(&codec, 0, 2, Reads::default());
    let mut version = 2;
    while !codec.has_backlog() {
        version += 1;
        last = change(&codec, 0, version, Reads::default());
    }
    let before = codec.stats().text_bytes;
    codec.compress_backlog();
    assert!(!codec.has_backlog());
    let after = codec.stats().text_bytes;
    assert_eq!(own(&last), format!("0 {version}"));
    assert!(held.iter().enumerate().all(|(name, held)| own(held) == format!("{name} 1")));
    assert!(after + (8 << 10) < before, "{after} after {before} bytes");
}

#[test]
fn compact_objects_are_never_plain_text() {
    let codec = codec(Retain::Compact);
    let _held: Vec<_> = (0..1000).map(|name| new(&codec, name)).collect();
    let before = codec.stats().text_bytes;
    // Another version of the object is in the store, and was read.
    let text = alike("0", 1, 2);
    let taken = codec
        .ingest_unless(&IncomingObject::new(&text), |_| StoredVersion::Other { reads: Reads::each_time() })
        .expect("a key");
    assert_eq!(own(&taken), "0 2");
    assert!(codec.stats().text_bytes < before + 1000);
}

#[test]
fn short_lived_objects_do_not_count_as_training_samples() {
    let codec = codec(Retain::Compact);
    let mut last = None;
    for version in 1..3000 {
        last = Some(take(&codec, &alike("a", 1, version)));
    }
    let stats = codec.stats();
    assert_eq!((stats.objects, stats.trainings), (1, 0));
    assert_eq!(own(&last.expect("a key")), "a 2999");
}

#[test]
fn managed_fields_are_kept_if_asked_for() {
    let codec = ObjectCodec::<ConfigMap>::new(&(), Retention::Compact, FULL);
    let object = codec.ingest(&IncomingObject::new(&alike("a", 1, 1))).expect("a key");
    assert_eq!(
        object.object_meta().expect("it has metadata").managed_fields.map(|fields| fields.len()),
        Some(1)
    );
}
