//! Changes that make a valid object a different one, or an invalid one.

use serde_json::{Value, json};

use super::dice::Dice;
use super::schema::Schemas;

/// Values of the wrong type for most fields.
const ODD: [&str; 12] = [
    "null",
    "\"x\"",
    "\"\"",
    "1",
    "-1",
    "1.5",
    "4294967296",
    "9223372036854775808",
    "true",
    "[]",
    "{}",
    "[null]",
];

/// Applies one random change to an object with this schema.
pub(crate) fn mutate(object: &mut Value, schema: &Value, schemas: &Schemas, dice: &mut Dice) {
    let mut nodes = Vec::new();
    collect(object, schema, schemas, String::new(), &mut nodes);
    match dice.weighted(&[
        (35, Change::Add),
        (15, Change::Replace),
        (12, Change::Remove),
        (10, Change::Odd),
        (6, Change::Unknown),
        (8, Change::List),
        (14, Change::Metadata),
    ]) {
        Change::Add => {
            let fitting: Vec<_> = nodes
                .iter()
                .filter_map(|(pointer, schema)| {
                    let properties = schemas.resolve(schema)["properties"].as_object()?;
                    let present = object.pointer(pointer)?.as_object()?;
                    let absent: Vec<_> =
                        properties.iter().filter(|(name, _)| !present.contains_key(*name)).collect();
                    (!absent.is_empty()).then_some((pointer, absent))
                })
                .collect();
            let Some((pointer, absent)) = dice.one(&fitting) else { return };
            let Some((name, property)) = dice.one(absent) else { return };
            let value = schemas.value(property, name, 1, dice);
            if let Some(Value::Object(target)) = object.pointer_mut(pointer) {
                target.insert((*name).clone(), value);
            }
        }
        Change::Replace => {
            let Some((pointer, schema)) = dice.one(&nodes) else { return };
            let name = pointer.rsplit('/').next().unwrap_or_default();
            let value = schemas.value(schema, name, 1, dice);
            set(object, pointer, value);
        }
        Change::Odd => {
            let Some((pointer, _)) = dice.one(&nodes) else { return };
            set(object, pointer, serde_json::from_str(dice.pick(&ODD)).unwrap_or_default());
        }
        Change::Remove => {
            let Some((pointer, _)) = dice.one(&nodes) else { return };
            remove(object, pointer);
        }
        Change::Unknown => {
            let objects: Vec<_> =
                nodes.iter().filter(|(at, _)| object.pointer(at).is_some_and(Value::is_object)).collect();
            let Some((pointer, _)) = dice.one(&objects) else { return };
            if let Some(Value::Object(target)) = object.pointer_mut(pointer) {
                let name = dice.pick(&["unknown", "Spec", "$patch", "a.b", "", "x/y~"]);
                target.insert(
                    name.to_owned(),
                    dice.one(&[json!(1), json!({"a": [1]}), json!(null)]).cloned().into(),
                );
            }
        }
        Change::List => {
            let lists: Vec<_> =
                nodes.iter().filter(|(at, _)| object.pointer(at).is_some_and(Value::is_array)).collect();
            let Some((pointer, _)) = dice.one(&lists) else { return };
            let Some(Value::Array(list)) = object.pointer_mut(pointer) else { return };
            match dice.below(3) {
                0 => list.reverse(),
                1 => drop(list.pop()),
                _ => list.extend(list.first().cloned()),
            }
        }
        Change::Metadata => metadata(object, dice),
    }
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Add,
    Replace,
    Remove,
    Odd,
    Unknown,
    List,
    Metadata,
}

/// Changes metadata as clients do.
fn metadata(object: &mut Value, dice: &mut Dice) {
    let kind = object["kind"].clone();
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    let (field, value) = match dice.below(14) {
        0 => ("labels", json!({"story": "{{ns}}", "a": dice.pick(&["b", "", "a b", "-", "x/y"])})),
        1 => ("labels", json!({(dice.pick(&["a/b/c", "", "a b", "A.b/c"])): "x"})),
        2 => ("annotations", json!({(dice.pick(&["a", "a b", "example.com/x", ""])): "x y"})),
        3 => ("finalizers", json!(["example.com/a"])),
        4 => (
            "finalizers",
            json!([dice.pick(&["a", "", "foregroundDeletion", "example.com/a b", "kubernetes"])]),
        ),
        5 => {
            let owner =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u", "controller": true});
            ("ownerReferences", if dice.percent(70) { json!([owner]) } else { json!([owner, owner]) })
        }
        6 => (
            "ownerReferences",
            json!([{"apiVersion": dice.pick(&["", "v1", "a/b/c"]), "kind": "", "name": ""}]),
        ),
        7 => ("generateName", json!(dice.pick(&["g-", "G", "g.", ""]))),
        8 => ("namespace", json!(dice.pick(&["default", "", "A", "{{ns}}"]))),
        9 => ("uid", json!(dice.pick(&["", "x", "00000000-0000-0000-0000-000000000000"]))),
        10 => ("resourceVersion", json!(dice.pick(&["", "0", "1", "x", "99999999999"]))),
        11 => ("name", json!(dice.pick(&["", "A", "a_b", "a.b", "-", &format!("{name}x")]))),
        12 => ("deletionTimestamp", json!("2001-02-03T04:05:06Z")),
        _ => match kind.as_str() {
            Some(_) if dice.percent(50) => {
                object["kind"] = json!(dice.pick(&["", "X", "configmap"]));
                return;
            }
            _ => {
                object["apiVersion"] = json!(dice.pick(&["", "v2", "example.com/v1", "a/b/c"]));
                return;
            }
        },
    };
    metadata.insert(field.to_owned(), value);
}

/// Lists all values of an object with their pointers and schemas, without those that the server sets.
fn collect<'a>(
    value: &Value,
    schema: &'a Value,
    schemas: &'a Schemas,
    pointer: String,
    nodes: &mut Vec<(String, &'a Value)>,
) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if matches!(&*format!("{pointer}/{name}"), "/apiVersion" | "/kind")
                    || (pointer == "/metadata" && name != "labels" && name != "annotations")
                {
                    continue;
                }
                let at = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                collect(value, schemas.child(schema, name), schemas, at, nodes);
            }
        }
        Value::Array(elements) => {
            for (index, value) in elements.iter().enumerate() {
                collect(value, schemas.child(schema, ""), schemas, format!("{pointer}/{index}"), nodes);
            }
        }
        _ => {}
    }
    nodes.push((pointer, schema));
}

fn set(object: &mut Value, pointer: &str, value: Value) {
    // The root itself stays an object, so that the request has a name.
    if !pointer.is_empty()
        && let Some(target) = object.pointer_mut(pointer)
    {
        *target = value;
    }
}

/// Removes the value at a pointer.
pub(crate) fn remove(object: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    match object.pointer_mut(parent) {
        Some(Value::Object(fields)) => drop(fields.remove(&name.replace("~1", "/").replace("~0", "~"))),
        Some(Value::Array(elements)) => {
            if let Some(index) = name.parse().ok().filter(|index| *index < elements.len()) {
                elements.remove(index);
            }
        }
        _ => {}
    }
}

/// Returns the pointers of all values in an object, the outermost first.
pub(crate) fn pointers(value: &Value) -> Vec<String> {
    let mut nodes = Vec::new();
    let schemas = Schemas::default();
    collect(value, &Value::Null, &schemas, String::new(), &mut nodes);
    let mut pointers: Vec<String> = nodes.into_iter().map(|(pointer, _)| pointer).collect();
    pointers.sort_by_key(|pointer| pointer.matches('/').count());
    pointers
}
