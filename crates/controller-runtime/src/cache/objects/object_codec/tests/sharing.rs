//! Rust types that share the text of their objects.

use std::collections::BTreeMap;

use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use serde::Deserialize;
use serde_json::json;

use super::{super::super::split::Split, *};

#[test]
fn the_same_text_can_be_read_as_another_type() {
    #[derive(Deserialize, PartialEq, Debug)]
    struct Slim {
        data: Data,
    }
    #[derive(Deserialize, PartialEq, Debug)]
    struct Data {
        own: String,
    }
    for retain in [Retain::Compact, Retain::Decoded] {
        let codec = codec(retain);
        let object = codec.ingest(&IncomingObject::new(&alike("a", 1, 7))).expect("a key");
        let slim = Slim { data: Data { own: "a 7".to_owned() } };
        assert_eq!(object.decode_as::<Slim>().expect("it fits"), slim, "{retain:?}");
        let error = object.decode_as::<BTreeMap<String, String>>().expect_err("data are no string");
        assert_eq!(error.path(), "data");
        let meta = object.object_meta().expect("it has metadata");
        assert_eq!(meta.annotations.expect("annotations")["note"], "a");
    }
}

#[test]
fn several_types_of_one_kind_hold_its_text_once() {
    let dynamic = |retain, ingest_options| {
        ObjectCodec::<DynamicObject>::new(
            &ApiResource::erase::<ConfigMap>(&()),
            Retention::of(retain),
            ingest_options,
        )
    };
    let text = alike("a", 1, 1);
    let theme = |object: &Lazy<DynamicObject>| object.object().expect("it fits").data["data"]["own"].clone();

    let (first, second) = (codec(Retain::Compact), dynamic(Retain::Compact, LEAN));
    let metadata = ObjectCodec::<PartialObjectMeta<ConfigMap>>::new(&(), Retention::Compact, LEAN);
    let incoming = IncomingObject::new(&text);
    let held = (first.ingest(&incoming), second.ingest(&incoming), metadata.ingest(&incoming));
    let (Some(typed), Some(untyped), Some(meta)) = held else { panic!("they have a key") };
    assert_eq!((own(&typed), theme(&untyped)), ("a 1".to_owned(), json!("a 1")));
    assert_eq!(
        meta.object().expect("it fits").metadata.annotations.as_ref().expect("annotations")["note"],
        "a"
    );
    let (first, second) = (first.stats(), second.stats());
    assert_eq!((first.objects, first.shared), (1, 0));
    assert_eq!((second.objects, second.shared, second.text_bytes), (1, 1, 0));

    drop((typed, meta));
    assert_eq!(theme(&untyped), json!("a 1"), "the text stays as long as a state refers to it");
    drop(untyped);
    assert_eq!(metadata.stats().objects, 0);
}

#[test]
fn states_without_text_or_with_other_options_share_none() {
    let text = alike("a", 1, 1);
    for (first, ingest_options, shared) in
        [(Retain::Compact, LEAN, 1), (Retain::Decoded, LEAN, 0), (Retain::Compact, FULL, 0)]
    {
        let (first, second, incoming) = (codec(first), codec(Retain::Compact), IncomingObject::new(&text));
        let other = ObjectCodec::<ConfigMap>::new(&(), Retention::Compact, ingest_options.clone());
        let held = (first.ingest(&incoming), other.ingest(&incoming), second.ingest(&incoming));
        assert_eq!(other.stats().shared, shared, "{ingest_options:?}");
        assert_eq!(own(&held.1.expect("a key")), "a 1");
    }
    let (first, decoded, incoming) =
        (codec(Retain::Compact), codec(Retain::Decoded), IncomingObject::new(&text));
    let held = [first.ingest(&incoming), decoded.ingest(&incoming)];
    assert_eq!(own(held[1].as_ref().expect("a key")), "a 1");
    assert_eq!((decoded.stats().decoded, decoded.stats().shared), (1, 0), "a decoded object needs no text");
}

#[test]
fn metadata_received_alone_are_not_shared_with_whole_objects() {
    let metadata = ObjectCodec::<PartialObjectMeta<ConfigMap>>::new(&(), Retention::Compact, LEAN);
    let alone = json!({
        "metadata": { "namespace": "ns", "name": "a", "uid": "a", "resourceVersion": "1" },
    })
    .to_string();
    let before = metadata.ingest(&IncomingObject::new(&alone)).expect("a key");
    // From now on whole objects are read, so they are listed again.
    let (whole, text) = (codec(Retain::Compact), alike("a", 1, 1));
    let incoming = IncomingObject::new(&text);
    assert!(
        metadata
            .ingest_unless(&incoming, |_| StoredVersion::Same(before.clone()))
            .expect("a key")
            .ptr_eq(&before)
    );
    assert_eq!(own(&whole.ingest(&incoming).expect("a key")), "a 1");
}

#[test]
fn metadata_readers_store_only_metadata_unless_whole_objects_are_read() {
    let metadata = |ingest_options| {
        ObjectCodec::<PartialObjectMeta<ConfigMap>>::new(&(), Retention::Compact, ingest_options)
    };
    let note = |object: &Lazy<PartialObjectMeta<ConfigMap>>| {
        let object = object.object().expect("it fits");
        object.metadata.annotations.as_ref().expect("annotations")["note"].clone()
    };
    let text = alike("a", 1, 1);
    for (first, ingest_options, managed_fields) in
        [(Retain::Decoded, LEAN, None), (Retain::Compact, FULL, Some(1))]
    {
        let (first, alone, incoming) = (codec(first), metadata(ingest_options), IncomingObject::new(&text));
        let held = (first.ingest(&incoming), alone.ingest(&incoming).expect("a key"));
        assert_eq!(alone.stats().shared, 0);
        assert!(alone.stats().text_bytes * 4 < text.len(), "{:?} of {}", alone.stats(), text.len());
        let object = held.1.object().expect("it fits");
        assert_eq!(
            (note(&held.1).as_str(), object.metadata.managed_fields.as_ref().map(Vec::len)),
            ("a", managed_fields)
        );
    }
}

#[test]
fn the_text_of_a_whole_object_is_freed_with_its_last_reader() {
    let (whole, metadata) = (
        codec(Retain::Compact),
        ObjectCodec::<PartialObjectMeta<ConfigMap>>::new(&(), Retention::Compact, LEAN),
    );
    let text = alike("a", 1, 1);
    let incoming = IncomingObject::new(&text);
    let (first, held) = (whole.ingest(&incoming), metadata.ingest(&incoming).expect("a key"));
    drop((first, incoming));
    assert_eq!((whole.stats().objects, metadata.stats().shared), (1, 1), "the metadata are in it");
    // Whole objects are not read any more: only metadata are listed.
    let alone = Split::whole(text.as_bytes()).expect("an object").metadata_alone().expect("metadata");
    let again = metadata
        .ingest_unless(&IncomingObject::new(&alone), |_| StoredVersion::Same(held.clone()))
        .expect("a key");
    assert!(again.ptr_eq(&held), "it is the same state");
    let stats = metadata.stats();
    assert_eq!((whole.stats().objects, whole.stats().text_bytes), (0, 0));
    assert_eq!((stats.objects, stats.shared), (1, 0));
    assert!(stats.text_bytes > 0 && stats.text_bytes * 4 < text.len(), "{stats:?}");
    assert_eq!(
        held.object().expect("it fits").metadata.annotations.as_ref().expect("annotations")["note"],
        "a"
    );
    drop((held, again));
    assert_eq!((metadata.stats().objects, metadata.stats().text_bytes), (0, 0));
}

#[test]
fn a_state_in_the_store_is_returned_in_place_of_a_new_one() {
    let codec = codec(Retain::Compact);
    let first = codec.ingest(&IncomingObject::new(&alike("a", 1, 1))).expect("a key");
    let known = |meta: &Meta| match first.meta().same_version(meta) {
        true => StoredVersion::Same(first.clone()),
        false => StoredVersion::Other { reads: first.reads() },
    };
    assert!(
        codec.ingest_unless(&IncomingObject::new(&alike("a", 1, 1)), known).expect("a key").ptr_eq(&first)
    );
    assert!(
        !codec.ingest_unless(&IncomingObject::new(&alike("a", 1, 2)), known).expect("a key").ptr_eq(&first)
    );
}
