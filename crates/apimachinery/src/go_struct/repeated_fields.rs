//! Repeated fields of a JSON document, as Go decodes them: each value is decoded into the struct that the one before has filled.

use serde_json::{Map, Value};

use super::{Count, Field, GoType, Message};
use crate::decode::OrderedValue;

/// Decodes a document of a kind with repeated fields. Their structs and maps are merged, and lists element by element; of other values the
/// last one counts. The fields of a map are not merged: Go decodes each of them into a new value. `None` if the text is not JSON.
#[must_use]
pub fn merge_repeated(text: &[u8], kind: &'static Message) -> Option<Value> {
    let OrderedValue::Object(fields) = OrderedValue::parse(text)? else { return None };
    let mut object = Map::new();
    fill(&mut object, kind, fields);
    Some(Value::Object(object))
}

/// Decodes fields into an object that may have values already.
fn fill(object: &mut Map<String, Value>, message: &'static Message, fields: Vec<(String, OrderedValue)>) {
    for (name, value) in fields {
        let before = object.get_mut(&name).map(Value::take);
        let value = match message.slot(&name) {
            Some(slot) => decode(before, slot.field, value),
            None => value.last(),
        };
        object.insert(name, value);
    }
}

fn decode(before: Option<Value>, field: &Field, value: OrderedValue) -> Value {
    match (field.count, field.kind, value) {
        (Count::One, GoType::Message(message), value) => decode_struct(before, message, value),
        (Count::Map, kind, OrderedValue::Object(fields)) => {
            let mut map = object(before);
            for (name, value) in fields {
                map.insert(name, decode_element(None, kind, value));
            }
            Value::Object(map)
        }
        (Count::List, kind, OrderedValue::List(items)) => {
            let mut old = match before {
                Some(Value::Array(old)) => old,
                _ => Vec::new(),
            }
            .into_iter();
            // Go reuses the slice: element by element the old value is filled, and surplus old elements are dropped.
            Value::Array(items.into_iter().map(|item| decode_element(old.next(), kind, item)).collect())
        }
        (_, _, value) => value.last(),
    }
}

fn decode_element(before: Option<Value>, kind: GoType, value: OrderedValue) -> Value {
    match kind {
        GoType::Message(message) => decode_struct(before, message, value),
        _ => value.last(),
    }
}

fn decode_struct(before: Option<Value>, message: &'static Message, value: OrderedValue) -> Value {
    match value {
        OrderedValue::Object(fields) => {
            let mut filled = object(before);
            fill(&mut filled, message, fields);
            Value::Object(filled)
        }
        value => value.last(),
    }
}

/// Returns the fields of an object; none for another value.
fn object(value: Option<Value>) -> Map<String, Value> {
    match value {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::go_struct::message_of_kind;
    use serde_json::json;

    fn check(api_version: &str, kind: &str, text: &str, expected: &Value) {
        let message = message_of_kind(api_version, kind).unwrap();
        assert_eq!(merge_repeated(text.as_bytes(), message).as_ref(), Some(expected), "{text}");
    }

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn structs_and_maps_are_merged_and_other_values_replaced() {
        check(
            "v1",
            "ConfigMap",
            r#"{"data":{"x":"2"},"data":{"y":"1"}}"#,
            &json!({"data": {"x": "2", "y": "1"}}),
        );
        check(
            "v1",
            "ConfigMap",
            r#"{"metadata":{"name":"a","labels":{"k":"v"}},"metadata":{"name":"b","labels":{"l":"w"}}}"#,
            &json!({"metadata": {"name": "b", "labels": {"k": "v", "l": "w"}}}),
        );
        check("v1", "ConfigMap", r#"{"data":{"x":"1"},"data":null}"#, &json!({"data": null}));
    }

    #[test]
    fn lists_are_merged_by_position() {
        let text =
            r#"{"spec":{"containers":[{"name":"a","image":"i"},{"name":"b"}],"containers":[{"name":"c"}]}}"#;
        check("v1", "Pod", text, &json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}));
    }
}
