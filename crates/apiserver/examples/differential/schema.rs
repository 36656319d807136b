//! Schemas of the genuine server's OpenAPI documents, and values that fit them, more or less.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::dice::Dice;

/// Schemas by name.
#[derive(Debug, Default)]
pub(crate) struct Schemas(BTreeMap<String, Value>);

/// Maximum depth of generated values.
const DEPTH: usize = 3;

/// Texts for fields without a known format; some are names, some are not.
const TEXTS: [&str; 14] =
    ["a", "b", "a-b", "a.b", "example.com/a", "A_B", "", "1", "80%", "a b", "Ünï", "-a", "true", "/path"];

impl Schemas {
    /// Adds the schemas of a document.
    pub(crate) fn add(&mut self, mut document: Value) {
        if let Some(schemas) = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut) {
            self.0.extend(std::mem::take(schemas));
        }
    }

    /// Returns the schema of a kind.
    pub(crate) fn of_kind(&self, group: &str, version: &str, kind: &str) -> &Value {
        let wanted = json!({"group": group, "version": version, "kind": kind});
        let is_wanted = |schema: &&Value| {
            schema["x-kubernetes-group-version-kind"].as_array().is_some_and(|kinds| kinds.contains(&wanted))
        };
        self.0.values().find(is_wanted).unwrap_or(&Value::Null)
    }

    /// Follows references.
    pub(crate) fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match reference(schema) {
            Some(name) => self.0.get(name).map_or(&Value::Null, |target| self.resolve(target)),
            None => schema,
        }
    }

    /// Returns the schema of a field or an element; null if it is unknown.
    pub(crate) fn child<'a>(&'a self, schema: &'a Value, key: &str) -> &'a Value {
        let schema = self.resolve(schema);
        match schema["properties"].get(key) {
            Some(property) => property,
            None if schema["items"].is_object() => &schema["items"],
            None => &schema["additionalProperties"],
        }
    }

    /// Draws a value for a field of this name.
    pub(crate) fn value(&self, schema: &Value, name: &str, depth: usize, dice: &mut Dice) -> Value {
        if reference(schema).is_some_and(|name| name.ends_with("resource.Quantity")) {
            return dice.pick(&["1", "100m", "1Gi", "0.5", "1e3", "-1", "1.5x", "2048Mi"]).into();
        }
        let schema = self.resolve(schema);
        if let Some(values) = schema["enum"].as_array()
            && let Some(value) = dice.one(values)
        {
            return value.clone();
        }
        let format = schema["format"].as_str().unwrap_or_default();
        if format == "int-or-string" || schema["x-kubernetes-int-or-string"] == true {
            return dice.one(&[json!(80), json!("50%"), json!("http"), json!(0), json!(-1)]).cloned().into();
        }
        match schema["type"].as_str() {
            Some("boolean") => dice.percent(50).into(),
            Some("integer") => dice.pick(&[0, 1, 2, 5, 30, 80, 1000, -1, 70_000]).into(),
            Some("number") => dice.one(&[json!(0.5), json!(1), json!(-2.5)]).cloned().into(),
            Some("string") => text(name, format, dice).into(),
            Some("array") => {
                let number = dice.below(3);
                (0..number).map(|_| self.value(&schema["items"], name, depth + 1, dice)).collect()
            }
            Some("object") => self.object(schema, depth, dice),
            _ => dice.one(&[json!("x"), json!(1), json!({"a": 1}), json!([1])]).cloned().into(),
        }
    }

    fn object(&self, schema: &Value, depth: usize, dice: &mut Dice) -> Value {
        let mut object = Map::new();
        let required = schema["required"].as_array();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = required.is_some_and(|required| required.iter().any(|field| field == name));
            if is_required || (depth < DEPTH && dice.percent(25)) {
                object.insert(name.clone(), self.value(property, name, depth + 1, dice));
            }
        }
        if schema["properties"].is_null() && depth < DEPTH {
            for _ in 0..dice.below(3) {
                let key = dice.pick(&["a", "b", "cpu", "memory", "example.com/x", "a b"]);
                let value = match &schema["additionalProperties"] {
                    property @ Value::Object(_) => self.value(property, key, depth + 1, dice),
                    _ => json!(dice.below(9)),
                };
                object.insert(key.to_owned(), value);
            }
        }
        object.into()
    }
}

/// Name of the schema that a property refers to, directly or in the form that has a default beside it.
fn reference(schema: &Value) -> Option<&str> {
    let link = schema.get("$ref").or_else(|| schema.get("allOf")?.get(0)?.get("$ref"))?;
    link.as_str()?.strip_prefix("#/components/schemas/")
}

fn text(name: &str, format: &str, dice: &mut Dice) -> String {
    let choices: &[&str] = match (format, name) {
        ("date-time", _) => &["2001-02-03T04:05:06Z", "2001-02-03T04:05:06.123456Z", "2001-02-03", "now"],
        ("byte", _) => &["YQ==", "YWI=", "", "a", "====", "YQ"],
        (_, "name" | "namespace") if dice.percent(80) => &["a", "b", "c", "a-b"],
        (_, "image") => &["a", "a:latest", "a:1", "example.com/a@sha256:00", ""],
        (_, "apiVersion") => &["v1", "apps/v1", "example.com/v1", "a/b/c"],
        (_, "operator") => &["In", "Exists", "Equal", "NotIn", "DoesNotExist"],
        _ => &TEXTS,
    };
    if dice.percent(2) {
        return "a".repeat(dice.pick(&[63, 64, 253, 254]));
    }
    dice.pick(choices).to_owned()
}
