//! Properties of server-side apply that hold for every input.

use proptest::collection::{btree_map, btree_set};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::extract::fields_of;
use super::super::fields_v1::decode;
use super::super::set::FieldSet;
use super::super::typed::Ty;
use super::super::{OnConflict, Schemas, Versions, Writer, apply, apply_across, track_update};
use super::{GIZMO, gizmo};
use crate::schema::Schema;
use crate::status::ApiError;
use crate::testing::json_value;

fn writer(manager: &str) -> Writer<'_> {
    Writer { manager, subresource: "", api_version: "example.com/v1", now: "2024-01-01T00:00:00Z" }
}

fn applied(live: Option<&Value>, manager: &str, spec: &Value, now: &str) -> Value {
    let writer = Writer { now, ..writer(manager) };
    let mut object = apply(&GIZMO, live, &gizmo(spec), &writer, OnConflict::Force, &[]).unwrap();
    GIZMO.default(&mut object);
    object
}

const NOW: &str = "2024-01-01T00:00:00Z";
const LATER: &str = "2024-01-01T00:00:01Z";

/// Draws a spec of a Gizmo that fits its schema.
fn spec() -> impl Strategy<Value = Value> {
    let text = || prop_oneof![Just("x"), Just("y"), Just("z")];
    let port = (0i64..3, option::of(prop_oneof![Just("TCP"), Just("UDP")]), option::of(text()));
    let ports = prop::collection::vec(port, 0..3).prop_map(|ports| {
        let mut list: Vec<Value> = Vec::new();
        for (port, proto, label) in ports {
            let proto = proto.unwrap_or("TCP");
            if list.iter().all(|other| other["port"] != port || other["proto"] != proto) {
                let mut item = json!({"port": port, "proto": proto});
                if let Some(label) = label {
                    item["label"] = json!(label);
                }
                list.push(item);
            }
        }
        json!(list)
    });
    let fields = (
        option::of((0i64..3).prop_map(Value::from)),
        option::of(btree_map("[ab]", (0i64..2).prop_map(Value::from), 0..3).prop_map(|map| json!(map))),
        option::of(prop::collection::vec(text(), 0..3).prop_map(|list| json!(list))),
        option::of(btree_set(text(), 0..4).prop_map(|set| json!(set))),
        option::of(ports),
        option::of(btree_map("[ab]", text(), 0..3).prop_map(|map| json!(map))),
        option::of(btree_map("[ab]", text(), 0..3).prop_map(|map| json!(map))),
    );
    fields.prop_map(|(size, deep, list, set, ports, map, atomic)| {
        let fields = [
            ("size", size),
            ("deep", deep),
            ("list", list),
            ("set", set),
            ("ports", ports),
            ("map", map),
            ("atomic", atomic),
        ];
        let present = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(present.collect::<Map<_, _>>())
    })
}

/// Versions with the same fields: conversion only changes the `apiVersion`.
struct SameFields;

impl Versions for SameFields {
    fn schema(&self, _api_version: &str) -> Option<&Schema> {
        Some(&GIZMO)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ApiError> {
        let mut object = object.clone();
        object["apiVersion"] = json!(api_version);
        Ok(object)
    }
}

/// Like [`applied`], in a version of [`SameFields`].
fn applied_in(version: &str, live: Option<&Value>, manager: &str, spec: &Value) -> Value {
    let api_version = format!("example.com/{version}");
    let as_version = |object: &Value| SameFields.convert(object, &api_version).unwrap();
    let writer = Writer { api_version: &api_version, ..writer(manager) };
    let schemas = Schemas { own: &GIZMO, others: Some(&SameFields), versions: &[] };
    let (live, applied) = (live.map(as_version), as_version(&gizmo(spec)));
    let mut object = apply_across(schemas, live.as_ref(), &applied, &writer, OnConflict::Force, &[]).unwrap();
    GIZMO.default(&mut object);
    object
}

/// Whether `whole` has every field of `part` with its value; a null counts as no value.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, part)| match whole.get(name) {
                Some(whole) => contains(whole, part),
                // An empty structure may disappear together with the last field of another manager in it.
                None => is_hollow(part),
            })
        }
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().all(|part| whole.iter().any(|whole| contains(whole, part)))
        }
        (_, Value::Null) => true,
        (whole, part) => whole == part,
    }
}

fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_hollow),
        _ => false,
    }
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(a in spec(), b in spec()) {
        let live = applied(None, "a", &a, NOW);
        let once = applied(Some(&live), "b", &b, NOW);
        let twice = applied(Some(&once), "b", &b, LATER);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn applied_fields_are_in_the_object_and_owned(a in spec(), b in spec()) {
        let live = applied(None, "a", &a, NOW);
        let object = applied(Some(&live), "b", &b, NOW);
        prop_assert!(contains(&object["spec"], &b), "{}", object);
        let given = fields_of(Ty::Schema(GIZMO.root()), &json!({"spec": b}));
        let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
        let owned = entries.filter(|entry| entry["manager"] == "b").map(|entry| &entry["fieldsV1"]);
        let owned: FieldSet = owned.filter_map(decode).next().unwrap_or_default();
        prop_assert_eq!(owned, given);
    }

    #[test]
    fn a_shared_field_stays_when_one_owner_leaves_it(a in spec(), b in spec()) {
        let first = applied(None, "a", &a, NOW);
        let both = applied(Some(&first), "b", &b, NOW);
        let rest = applied(Some(&both), "a", &json!({}), NOW);
        prop_assert!(contains(&rest, &json!({"spec": b})), "{} after {}", rest, both);
        let alone = applied(None, "b", &b, NOW);
        prop_assert!(contains(&json!({"spec": alone["spec"]}), &json!({"spec": rest["spec"]})), "{} is more than {}", rest, alone);
    }

    #[test]
    fn versions_with_the_same_fields_give_the_same_result_as_one_version(a in spec(), b in spec(), c in spec()) {
        let of = |versions: [&str; 4]| {
            let first = applied_in(versions[0], None, "a", &a);
            let second = applied_in(versions[1], Some(&first), "b", &b);
            let third = applied_in(versions[2], Some(&second), "a", &c);
            let last = applied_in(versions[3], Some(&third), "b", &a);
            [second, third, last].map(|object| object["spec"].clone())
        };
        prop_assert_eq!(of(["v1", "v2", "v2", "v1"]), of(["v1"; 4]));
    }

    #[test]
    fn no_object_makes_tracking_panic(old in json_value(), new in json_value(), brought in json_value()) {
        let (old, mut new) = (gizmo(&old), gizmo(&new));
        new["metadata"]["managedFields"] = brought;
        track_update(&GIZMO, None, &mut new, &writer("a"), &["status"]);
        track_update(&GIZMO, Some(&old), &mut new, &writer("a"), &["status"]);
        let mut odd = old["spec"].clone();
        track_update(&GIZMO, Some(&old), &mut odd, &writer("a"), &[]);
        let _ = apply(&GIZMO, Some(&old), &new, &writer("b"), OnConflict::Force, &[]);
        new["metadata"] = json!({"name": "g"});
        let _ = apply(&GIZMO, Some(&old), &new, &writer("b"), OnConflict::Force, &[]);
        let _ = apply(&GIZMO, Some(&odd), &odd, &writer("b"), OnConflict::Force, &[]);
    }
}
