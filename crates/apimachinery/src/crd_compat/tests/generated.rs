//! Generated schemas, random edits of them, and objects.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::*;
use crate::schema::Schema;

/// Number of schemas, each with an edit.
const SEEDS: u64 = 3_000;
/// Number of objects for each schema.
const OBJECTS: usize = 30;

/// For every edit that reports no error, the new schema accepts each object that the old schema accepts.
#[test]
fn without_an_error_valid_objects_stay_valid() {
    let (mut silent, mut objects) = (0, 0);
    for seed in 0..SEEDS {
        let mut rng = Rng::with_seed(seed);
        let old = root(&node(&mut rng, 3));
        let mut new = old.clone();
        for _ in 0..rng.usize(1..3) {
            edit(&mut rng, &mut new["properties"]["spec"]);
        }
        let is_valid = |schema: &Value| Schema::check_crd(schema, "").reported().is_empty();
        if !is_valid(&old) || !is_valid(&new) {
            continue;
        }
        let (before, after) = (Schema::of_crd(&old), Schema::of_crd(&new));
        let (was, is) = (definition(&old), definition(&new));
        let changes = compare(&was, &is);
        assert_eq!(found(&compare(&is, &is), Level::Error), [""; 0], "seed {seed}: {new}");
        if !found(&changes, Level::Error).is_empty() {
            continue;
        }
        silent += 1;
        for _ in 0..OBJECTS {
            let mut object = json!({
                "apiVersion": "example.com/v1", "kind": "Guestbook", "metadata": {"name": "a"},
                "spec": value(&mut rng, &old["properties"]["spec"]),
            });
            before.prune(&mut object);
            before.default(&mut object);
            if !before.validate(&object).is_empty() {
                continue;
            }
            objects += 1;
            let stored = object.clone();
            after.prune(&mut object);
            after.default(&mut object);
            let errors: Vec<_> = after.validate(&object).into_iter().map(|error| error.message).collect();
            assert!(
                errors.is_empty(),
                "seed {seed}: {stored} of\n{old}\nis refused by\n{new}\n{errors:?}\n{changes:?}"
            );
            assert!(
                keeps(&stored, &object),
                "seed {seed}: {stored} of\n{old}\nloses fields in\n{new}: {object}"
            );
        }
    }
    assert!(silent > 300 && objects > 3_000, "{silent} edits without an error, {objects} objects");
}

/// Whether `new` has all fields of `old`.
fn keeps(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            old.iter().all(|(name, value)| new.get(name).is_some_and(|other| keeps(value, other)))
        }
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| keeps(old, new))
        }
        _ => old == new,
    }
}

fn root(spec: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": spec}})
}

fn definition(schema: &Value) -> Value {
    json!({
        "metadata": {"name": "guestbooks.example.com"},
        "spec": {"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    })
}

/// A schema of limited depth.
fn node(rng: &mut Rng, depth: u32) -> Value {
    let mut schema = match rng.u32(0..if depth == 0 { 5 } else { 10 }) {
        0 => json!({"type": "string"}),
        1 => json!({"type": "integer"}),
        2 => json!({"type": "boolean"}),
        3 => json!({"x-kubernetes-int-or-string": true}),
        4 => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        5 => json!({"type": "object", "additionalProperties": node(rng, depth - 1)}),
        6 => json!({"type": "array", "items": node(rng, depth - 1)}),
        _ => {
            let names = ["a", "b", "c"].iter().filter(|_| rng.bool()).collect::<Vec<_>>();
            let fields: Map<String, Value> =
                names.into_iter().map(|name| ((*name).to_owned(), node(rng, depth - 1))).collect();
            json!({"type": "object", "properties": fields})
        }
    };
    for _ in 0..rng.u32(0..3) {
        keyword(rng, &mut schema);
    }
    schema
}

/// Sets or removes a keyword that fits the type.
fn keyword(rng: &mut Rng, schema: &mut Value) {
    let number = rng.u32(0..4);
    let (name, value) = match schema["type"].as_str() {
        Some("string") => match rng.u32(0..7) {
            0 => ("minLength", json!(number)),
            1 => ("maxLength", json!(number)),
            2 => ("pattern", json!(one(rng, &["^x", "y$", "x|y"]))),
            3 => ("format", json!("date")),
            4 => ("default", json!(one(rng, &["x", "xy"]))),
            _ => ("enum", json!(some(rng, &["x", "y", "xy", "2020-01-01"]))),
        },
        Some("integer") => match rng.u32(0..7) {
            0 => ("minimum", json!(number)),
            1 => ("maximum", json!(number)),
            2 => ("exclusiveMaximum", json!(rng.bool())),
            3 => ("exclusiveMinimum", json!(rng.bool())),
            4 => ("multipleOf", json!(number + 1)),
            5 => ("default", json!(number)),
            _ => ("enum", json!(some(rng, &[0, 1, 2, 3, 4]))),
        },
        Some("array") => match rng.u32(0..4) {
            0 => ("minItems", json!(number)),
            1 => ("maxItems", json!(number)),
            2 => ("x-kubernetes-list-type", json!(one(rng, &["atomic", "set"]))),
            _ => ("default", json!([])),
        },
        Some("object") => match rng.u32(0..9) {
            0 => ("minProperties", json!(number)),
            1 => ("maxProperties", json!(number)),
            2 => ("x-kubernetes-preserve-unknown-fields", json!(true)),
            3 => ("default", json!({})),
            4 => ("not", json!({"required": [one(rng, &["a", "b"])]})),
            5 => ("anyOf", json!([{"required": ["a"]}, {"required": [one(rng, &["a", "b"])]}])),
            6 => ("oneOf", json!([{"required": ["a"]}, {"required": [one(rng, &["b", "c"])]}])),
            7 => ("allOf", json!([{"minProperties": number}])),
            _ => ("required", json!(some(rng, &["a", "b", "c"]))),
        },
        _ => ("nullable", json!(rng.bool())),
    };
    let fields = schema.as_object_mut().expect("a schema is an object");
    match rng.u32(0..8) {
        0 => drop(fields.insert("nullable".to_owned(), json!(true))),
        1 if name != "type" => drop(fields.remove(name)),
        _ => drop(fields.insert(name.to_owned(), value)),
    }
}

/// Edits a random part of a schema.
fn edit(rng: &mut Rng, schema: &mut Value) {
    let inner = rng.u32(0..3) > 0;
    if inner && schema.get("items").is_some() {
        return edit(rng, &mut schema["items"]);
    }
    if inner && schema["additionalProperties"].is_object() {
        return edit(rng, &mut schema["additionalProperties"]);
    }
    if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        let names: Vec<String> = fields.keys().cloned().collect();
        match rng.u32(0..5) {
            0 => drop(fields.insert(one(rng, &["a", "b", "c", "d"]).to_owned(), node(rng, 1))),
            1 if !names.is_empty() => drop(fields.remove(&names[rng.usize(0..names.len())])),
            2 | 3 if !names.is_empty() => {
                let name = &names[rng.usize(0..names.len())];
                return edit(rng, &mut fields[name]);
            }
            _ => {}
        }
    }
    match rng.u32(0..10) {
        0 => *schema = node(rng, 1),
        1 => {
            let fields = schema.as_object_mut().expect("a schema is an object");
            let names: Vec<String> = fields.keys().filter(|name| *name != "type").cloned().collect();
            if !names.is_empty() {
                fields.remove(&names[rng.usize(0..names.len())]);
            }
        }
        _ => keyword(rng, schema),
    }
}

/// A value that often fits a schema.
fn value(rng: &mut Rng, schema: &Value) -> Value {
    if schema["nullable"] == true && rng.u32(0..4) == 0 {
        return Value::Null;
    }
    if let Some(choice) = schema["enum"].as_array().filter(|choice| !choice.is_empty()) {
        return choice[rng.usize(0..choice.len())].clone();
    }
    match schema["type"].as_str() {
        Some("string") => json!(one(rng, &["", "x", "y", "xy", "xyx", "2020-01-01"])),
        Some("integer") => json!(rng.u32(0..6)),
        Some("boolean") => json!(rng.bool()),
        Some("array") => (0..rng.usize(0..4)).map(|_| value(rng, &schema["items"])).collect(),
        Some("object") => {
            let mut fields = Map::new();
            for name in ["a", "b", "c", "d"] {
                if rng.u32(0..3) == 0 {
                    continue;
                }
                let declared = schema["properties"].get(name);
                let field = match declared.or(schema.get("additionalProperties")) {
                    Some(inner) => value(rng, inner),
                    None => one(rng, &[json!(1), json!("x"), json!({"a": 1}), Value::Null]),
                };
                fields.insert(name.to_owned(), field);
            }
            Value::Object(fields)
        }
        _ => one(rng, &[json!(1), json!("x")]),
    }
}

/// Some of the values, at least one.
fn some<T: Clone>(rng: &mut Rng, values: &[T]) -> Vec<T> {
    let start = rng.usize(0..values.len());
    values[start..rng.usize(start + 1..=values.len())].to_vec()
}

fn one<T: Clone, const N: usize>(rng: &mut Rng, values: &[T; N]) -> T {
    values[rng.usize(0..N)].clone()
}
