//! Objects generated from the schema of a kind, for tests of conversions. Pure.

use fastrand::Rng;
use serde_json::{Map, Number, Value, json};

/// Nesting below which objects and lists stay empty, so that recursive schemas end.
const DEEPEST: u32 = 12;
/// Texts of fields without a format: empty, long, with characters that need escapes.
const TEXTS: [&str; 8] = ["", "a", "b-2", "Example 1", "ä€𝄞", "\"quoted\" \\ /", "10", "example.com/name"];

/// Generates an object of a kind with this schema, with a name, labels and annotations.
pub(super) fn object(schema: &Value, api_version: &str, kind: &str, rng: &mut Rng) -> Value {
    let mut object = match value(schema, rng, 0) {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    let mut metadata = json!({ "name": "generated", "namespace": "default", "uid": "7", "generation": 3 });
    for field in ["labels", "annotations"] {
        if rng.bool() {
            metadata[field] = json!({ (name(rng)): text(&json!({}), rng), (name(rng)): "x" });
        }
    }
    object.insert("apiVersion".to_owned(), json!(api_version));
    object.insert("kind".to_owned(), json!(kind));
    object.insert("metadata".to_owned(), metadata);
    Value::Object(object)
}

/// Generates a value that the schema accepts, patterns and CEL rules aside.
fn value(schema: &Value, rng: &mut Rng, depth: u32) -> Value {
    if let Some(values) = schema["enum"].as_array() {
        return rng.choice(values).cloned().unwrap_or_default();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return if rng.bool() { json!(rng.u16(..)) } else { json!("50%") };
    }
    match schema["type"].as_str() {
        Some("object") => fields(schema, rng, depth),
        Some("array") => list(schema, rng, depth),
        Some("string") => json!(text(schema, rng)),
        Some("integer") => integer(schema, rng),
        // Fractions that decimals represent exactly.
        Some("number") => {
            Number::from_f64(f64::from(rng.i16(..)) / 4.0).map(Value::Number).unwrap_or_default()
        }
        Some("boolean") => json!(rng.bool()),
        // A schema without a type accepts any value; an object is the most common one.
        _ => json!({}),
    }
}

fn fields(schema: &Value, rng: &mut Rng, depth: u32) -> Value {
    let mut fields = Map::new();
    if depth >= DEEPEST {
        return Value::Object(fields);
    }
    let names = |list: &Value| -> Vec<String> {
        let names = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    };
    let mut required = names(&schema["required"]);
    // Variants of a Rust enum: each branch requires other fields, and only those of one may be set.
    let branches = ["oneOf", "anyOf"].into_iter().find_map(|key| schema[key].as_array());
    let branches: Vec<Vec<String>> =
        branches.into_iter().flatten().map(|branch| names(&branch["required"])).collect();
    let chosen = rng.choice(&branches).cloned().unwrap_or_default();
    let excluded: Vec<_> = branches.into_iter().flatten().filter(|name| !chosen.contains(name)).collect();
    required.extend(chosen);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if required.contains(name) || (!excluded.contains(name) && rng.bool()) {
            fields.insert(name.clone(), value(field, rng, depth + 1));
        }
    }
    if schema["additionalProperties"].is_object() {
        for _ in 0..rng.u8(..3) {
            fields.insert(name(rng), value(&schema["additionalProperties"], rng, depth + 1));
        }
    }
    Value::Object(fields)
}

fn list(schema: &Value, rng: &mut Rng, depth: u32) -> Value {
    let least = schema["minItems"].as_u64().unwrap_or(0);
    let most = schema["maxItems"].as_u64().unwrap_or(u64::MAX).min(least.saturating_add(3));
    let length = if depth >= DEEPEST { least } else { rng.u64(least..=most.max(least)) };
    let mut elements: Vec<Value> = Vec::new();
    for _ in 0..length {
        let element = value(&schema["items"], rng, depth + 1);
        let is_set = schema["uniqueItems"] == true || schema["x-kubernetes-list-type"] == "set";
        if !is_set || !elements.contains(&element) {
            elements.push(element);
        }
    }
    Value::Array(elements)
}

fn text(schema: &Value, rng: &mut Rng) -> String {
    let text = match schema["format"].as_str() {
        Some("date-time") => {
            let (day, hour, second) = (rng.u8(1..29), rng.u8(..24), rng.u8(..60));
            return format!("2026-01-{day:02}T{hour:02}:30:{second:02}Z");
        }
        Some("date") => return format!("2026-01-{:02}", rng.u8(1..29)),
        Some("uuid") => {
            return uuid::Builder::from_random_bytes(rng.u128(..).to_be_bytes()).into_uuid().to_string();
        }
        Some("byte") => return "AAECAw==".to_owned(),
        Some("duration") => return format!("{}s", rng.u8(..)),
        Some("ip" | "ipv4") => return format!("10.0.0.{}", rng.u8(..)),
        Some("ipv6") => return format!("fd00::{:x}", rng.u16(1..)),
        Some("uri") => return "https://example.com/".to_owned(),
        _ => rng.choice(TEXTS).unwrap_or_default(),
    };
    let limit = |name: &str, default: usize| {
        schema[name].as_u64().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(default)
    };
    let (least, most) = (limit("minLength", 0), limit("maxLength", usize::MAX));
    let padding = least.saturating_sub(text.chars().count());
    text.chars().take(most).chain(std::iter::repeat_n('x', padding)).collect()
}

fn integer(schema: &Value, rng: &mut Rng) -> Value {
    let (lowest, highest) = match schema["format"].as_str() {
        Some("uint8") => (0, i64::from(u8::MAX)),
        Some("uint16") => (0, i64::from(u16::MAX)),
        Some("uint32" | "uint") => (0, i64::from(u32::MAX)),
        Some("uint64") => (0, i64::MAX),
        Some("int8") => (i64::from(i8::MIN), i64::from(i8::MAX)),
        Some("int16") => (i64::from(i16::MIN), i64::from(i16::MAX)),
        Some("int64") => (i64::MIN, i64::MAX),
        _ => (i64::from(i32::MIN), i64::from(i32::MAX)),
    };
    // Schemas may have bounds as decimals, such as 0.0.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a cast saturates, and the type's bounds apply as well"
    )]
    let bound =
        |name: &str| schema[name].as_i64().or_else(|| schema[name].as_f64().map(|bound| bound as i64));
    let lowest = bound("minimum").unwrap_or(lowest).max(lowest);
    let highest = bound("maximum").unwrap_or(highest).min(highest).max(lowest);
    // Bounds and zero reveal most mistakes.
    let all = [lowest, highest, 0_i64.clamp(lowest, highest), rng.i64(lowest..=highest)];
    json!(rng.choice(all).unwrap_or_default())
}

fn name(rng: &mut Rng) -> String {
    std::iter::repeat_with(|| rng.lowercase()).take(4).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_values_are_within_the_bounds_of_their_schema() {
        let schema = json!({ "type": "object", "required": ["size", "name", "set"], "properties": {
            "size": { "type": "integer", "format": "uint8", "minimum": 1.0, "maximum": 3 },
            "name": { "type": "string", "minLength": 2, "maxLength": 3 },
            "set": { "type": "array", "uniqueItems": true, "minItems": 1, "items": { "type": "boolean" } },
            "mode": { "type": "string", "enum": ["On", "Off"] },
            "a": { "type": "object" }, "b": { "type": "object" },
        }, "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] });
        let (mut modes, mut sizes) = (0, std::collections::BTreeSet::new());
        for seed in 0..200 {
            let made = value(&schema, &mut Rng::with_seed(seed), 0);
            let size = made["size"].as_i64().expect("a number");
            assert!((1..=3).contains(&size), "{made}");
            sizes.insert(size);
            assert!((2..=3).contains(&made["name"].as_str().expect("a text").chars().count()), "{made}");
            assert!((1..=2).contains(&made["set"].as_array().expect("a list").len()), "{made}");
            assert_ne!(made.get("a").is_some(), made.get("b").is_some(), "{made}");
            modes += usize::from(made.get("mode").is_some_and(|mode| mode == "On" || mode == "Off"));
        }
        assert_eq!(sizes.len(), 3);
        assert!((1..200).contains(&modes), "an optional field is sometimes set: {modes}");
    }

    #[test]
    fn a_schema_that_contains_itself_ends() {
        let mut schema = json!({ "type": "object", "properties": {} });
        for _ in 0..30 {
            schema = json!({ "type": "object", "required": ["child"], "properties": { "child": schema } });
        }
        let made = value(&schema, &mut Rng::with_seed(1), 0).to_string();
        assert_eq!(made.matches("child").count(), usize::try_from(DEEPEST).expect("it is small"));
    }
}
