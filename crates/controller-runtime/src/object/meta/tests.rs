use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::cache::objects::split::Split;

/// Formats all fields.
fn describe(meta: &Meta) -> String {
    let Meta { uid, generation, deletion_timestamp, labels, annotations, owner_references, .. } = meta;
    let finalizers: Vec<_> = meta.finalizers().collect();
    format!(
        "{meta:?} {uid:?} {generation} {deletion_timestamp:?} {labels:?} {annotations:?} {owner_references:?} {finalizers:?}"
    )
}

fn read(metadata: &Value) -> Option<Meta> {
    read_text(&json!({ "kind": "X", "metadata": metadata, "spec": {} }).to_string(), &mut Interner::default())
}

fn read_text(json: &str, interner: &mut Interner) -> Option<Meta> {
    Meta::new(Split::whole(json.as_bytes()).expect("an object").meta(), interner)
}

fn full() -> Value {
    json!({
        "namespace": "default", "name": "web-1", "uid": "5c2d1f0a-3f5e-4d8e-9d7c-2b1f0a9e8d7c", "resourceVersion": "17",
        "generation": 3, "deletionTimestamp": "2026-11-21T10:00:00Z",
        "labels": { "tier": "web", "app": "shop \"1\"" }, "annotations": { "note": "a\nb" },
        "finalizers": ["example.com/a", "example.com/b"],
        "ownerReferences": [
            { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true },
            { "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "v" },
        ],
        "managedFields": [{ "manager": "m" }],
    })
}

#[test]
fn all_metadata_fields_are_read() {
    let meta = read(&full()).expect("it has a name");
    assert_eq!(meta.to_string(), "default/web-1");
    assert_eq!(meta.labels().get("app"), Some("shop \"1\""));
    assert_eq!(meta.labels().iter().map(|(key, _)| key).collect::<Vec<_>>(), ["app", "tier"]);
    assert_eq!(meta.labels().get("web"), None);
    assert_eq!(meta.controller().map(OwnerRef::name), Some("web"));
    assert_eq!(meta.owner_references()[1].group(), "");
    assert_eq!(meta.owner_references()[0].group(), "apps");
    assert_eq!(meta.finalizers().collect::<Vec<_>>(), ["example.com/a", "example.com/b"]);
    assert_eq!(meta.generation(), Some(3));
    assert!(meta.is_deleting());
    assert_eq!(
        meta.deletion_timestamp().map(|time| time.0.to_string()).as_deref(),
        Some("2026-11-21T10:00:00Z")
    );
}

#[test]
fn json_and_decoded_metadata_say_the_same() {
    let decoded: ObjectMeta = serde_json::from_value(full()).expect("metadata");
    let decoded = Meta::new(&RawMeta::of(&decoded), &mut Interner::default()).expect("it has a name");
    assert_eq!(describe(&decoded), describe(&read(&full()).expect("it has a name")));
}

#[test]
fn a_field_of_another_type_counts_as_missing() {
    let meta = read(&json!({
        "name": "a", "namespace": null, "uid": 5, "generation": "x", "labels": { "a": 1 }, "annotations": [],
        "ownerReferences": {}, "finalizers": [1], "deletionTimestamp": "yesterday",
    }))
    .expect("it has a name");
    assert_eq!(describe(&meta), describe(&read(&json!({ "name": "a" })).expect("it has a name")));
}

#[test]
fn an_object_without_a_name_has_no_metadata() {
    assert!(read(&json!({ "name": "" })).is_none());
    assert!(read(&json!(null)).is_none());
}

#[test]
fn equal_parts_of_metadata_are_shared() {
    let (mut interner, mut objects) = (Interner::default(), Vec::new());
    let json = json!({ "metadata": full() }).to_string();
    for _ in 0..2 {
        objects.push(read_text(&json, &mut interner).expect("it has a name"));
    }
    let [one, other] = &*objects else { panic!("two were made") };
    let owners = |meta: &Meta| meta.owner_references.clone().expect("owners");
    assert!(Arc::ptr_eq(&owners(one), &owners(other)));
    let namespace = |meta: &Meta| meta.namespace.clone().expect("a namespace");
    assert!(Arc::ptr_eq(&namespace(one), &namespace(other)));
}

proptest! {
    #[test]
    fn annotations_are_the_same_whatever_their_order(
        pairs in prop::collection::btree_map(".{0,3}", ".{0,3}", 0..4),
        other in prop::collection::btree_map(".{0,3}", ".{0,3}", 0..4),
    ) {
        let meta = |text: String| {
            let json = format!(r#"{{"metadata":{{"name":"a","annotations":{{{text}}}}}}}"#);
            read_text(&json, &mut Interner::default()).expect("a name")
        };
        let text = |pairs: Vec<(&String, &String)>| {
            let pairs: Vec<_> = pairs.into_iter().map(|(key, value)| format!("{}:{}", json!(key), json!(value))).collect();
            pairs.join(",")
        };
        let one = meta(text(pairs.iter().collect()));
        prop_assert!(one.same_annotations(&meta(text(pairs.iter().rev().collect()))));
        prop_assert_eq!(one.same_annotations(&meta(text(other.iter().collect()))), pairs == other);
    }
}
