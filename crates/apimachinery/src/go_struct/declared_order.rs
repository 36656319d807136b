//! JSON texts with the order of fields that Go's encoder has.
//!
//! Go's JSON and merge patches keep the text of the parts of an object that the patch does not enter: their fields have the order of the
//! struct's declaration. Parts that the patch enters are maps, and Go sorts their keys.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{Count, GoType, Message};
use crate::data_file::Table;
use crate::go;

/// Structs whose fields are not declared in the order of their protobuf numbers.
static ORDERS: LazyLock<Table> = LazyLock::new(|| Table::new(include_str!("../../data/declared-order.txt")));

/// Characters that Go escapes in texts, although JSON does not require it.
const ESCAPED: [(char, &str); 5] =
    [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];

/// Returns the text of a patched object. `entered` has the objects that the patch enters, by the same paths; any other value in it stands
/// for a part that the patch replaces. Without a `message` all keys are sorted.
#[must_use]
pub fn patched_text(
    message: Option<&'static Message>,
    object: &Value,
    entered: &Map<String, Value>,
) -> String {
    escape(entered_text(message, object, entered))
}

/// Escapes characters of a JSON text as Go's encoder does.
pub(super) fn escape(mut text: String) -> String {
    // Outside of texts JSON has none of these characters.
    for (character, escape) in ESCAPED {
        // Most texts have none of the characters, and `contains` needs no copy.
        if text.contains(character) {
            text = text.replace(character, escape);
        }
    }
    text
}

/// Returns the text of an object that the patch enters.
fn entered_text(message: Option<&'static Message>, object: &Value, entered: &Map<String, Value>) -> String {
    let Some(fields) = object.as_object() else {
        return go::json(object);
    };
    let texts = fields.iter().map(|(name, value)| {
        let kind = message.and_then(|message| part(message, name));
        (name.as_str(), patched_part(kind, value, entered.get(name)))
    });
    object_text(texts)
}

/// Type of a part of an object.
#[derive(Clone, Copy)]
enum PartType {
    Struct(&'static Message),
    /// Struct in a list or a map.
    Element(&'static Message),
}

fn part(message: &'static Message, name: &str) -> Option<PartType> {
    let field = message.slot(name)?.field;
    match (field.kind, field.count) {
        (GoType::Message(message), Count::One) => Some(PartType::Struct(message)),
        (GoType::Message(message), Count::List | Count::Map) => Some(PartType::Element(message)),
        _ => None,
    }
}

fn patched_part(kind: Option<PartType>, value: &Value, entered: Option<&Value>) -> String {
    match (entered, value) {
        (None, value) => declared_text(kind, value),
        (Some(Value::Object(entered)), Value::Array(items)) => {
            let element = element(kind);
            // The patch enters a list by index, and `entered` has the indices as names.
            let items = items.iter().enumerate().map(|(index, item)| {
                let entered = entered.get(&index.to_string());
                patched_part(element, item, entered)
            });
            list_text(items)
        }
        (Some(Value::Object(entered)), Value::Object(_)) => {
            // The entries of an entered map get no type, so their keys are sorted, too.
            let message = match kind {
                Some(PartType::Struct(message)) => Some(message),
                _ => None,
            };
            entered_text(message, value, entered)
        }
        // Any other value of `entered` marks a part that the patch replaces: its keys are sorted.
        (Some(_), value) => go::json(value),
    }
}

/// Returns the type of the elements of a list or a map.
fn element(kind: Option<PartType>) -> Option<PartType> {
    match kind? {
        PartType::Element(message) => Some(PartType::Struct(message)),
        PartType::Struct(_) => None,
    }
}

/// Returns the position of a field in the declaration of its struct; `None` if the struct does not have it.
pub(crate) fn declared_place(message: &'static Message, name: &str) -> Option<usize> {
    declared_names(message).iter().position(|declared| *declared == name)
}

/// Returns the JSON names of a struct's fields in the order of its declaration.
fn declared_names(message: &'static Message) -> Vec<&'static str> {
    // The type of an object is an embedded struct without a protobuf number.
    let mut names = vec!["kind", "apiVersion"];
    names.retain(|name| message.slot(name).is_none());
    push_declared(message, &mut names);
    names
}

fn push_declared(message: &'static Message, names: &mut Vec<&'static str>) {
    let order: Vec<&str> =
        ORDERS.get(message.name()).into_iter().flat_map(|order| order.split(' ')).collect();
    let mut fields: Vec<_> = message.fields().iter().collect();
    // The sort is stable: without an entry in the table all keys are equal, and the order of the numbers stays.
    fields.sort_by_key(|field| order.iter().position(|name| *name == field.name));
    for field in fields {
        match field.embedded() {
            Some(message) => push_declared(message, names),
            None => names.push(field.name),
        }
    }
}

/// Returns the text of a part as Go encodes it.
fn declared_text(kind: Option<PartType>, value: &Value) -> String {
    match (kind, value) {
        (Some(PartType::Struct(message)), Value::Object(fields)) => {
            let declared = declared_names(message);
            let place = |name: &str| declared.iter().position(|declared| *declared == name);
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            // Undeclared fields come last and keep their order.
            fields.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
            object_text(
                fields
                    .into_iter()
                    .map(|(name, value)| (name.as_str(), declared_text(part(message, name), value))),
            )
        }
        (Some(PartType::Element(_)), Value::Array(items)) => {
            list_text(items.iter().map(|item| declared_text(element(kind), item)))
        }
        (Some(PartType::Element(_)), Value::Object(fields)) => object_text(
            fields.iter().map(|(name, value)| (name.as_str(), declared_text(element(kind), value))),
        ),
        _ => go::json(value),
    }
}

fn object_text<'a>(fields: impl Iterator<Item = (&'a str, String)>) -> String {
    let fields: Vec<String> =
        fields.map(|(name, text)| format!("{}:{text}", go::json(&Value::from(name)))).collect();
    format!("{{{}}}", fields.join(","))
}

fn list_text(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<String>>().join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::go_struct::message_of_kind;

    fn text(object: &Value, entered: &Value) -> String {
        patched_text(message_of_kind("v1", "ConfigMap"), object, entered.as_object().unwrap())
    }

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn only_parts_that_a_patch_enters_are_sorted() {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "1", "a": {}},
            "metadata": {
                "name": "x", "namespace": "n", "uid": "u", "resourceVersion": "5", "creationTimestamp": "t", "labels": {"z": "1", "a": "2"},
                "managedFields": [{
                    "manager": "m", "operation": "Update", "apiVersion": "v1", "time": "t", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}},
                }],
            },
        });
        assert_eq!(
            text(&map, &json!({"data": {"a": {}}})),
            r#"{"apiVersion":"v1","data":{"a":{},"b":"1"},"kind":"ConfigMap","metadata":{"name":"x","namespace":"n","uid":"u","resourceVersion":"5","creationTimestamp":"t","labels":{"a":"2","z":"1"},"managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","time":"t","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}}]}}"#
        );
        assert_eq!(
            text(&json!({"data": {"c": "<&>\u{2028}"}}), &json!({"data": {"c": ""}})),
            r#"{"data":{"c":"\u003c\u0026\u003e\u2028"}}"#
        );
        let labelled = json!({"metadata": {"uid": "u", "name": "x", "labels": 5}});
        assert_eq!(
            text(&labelled, &json!({"metadata": {"labels": 5}})),
            r#"{"metadata":{"labels":5,"name":"x","uid":"u"}}"#
        );
    }

    #[test]
    fn elements_of_lists_are_entered_by_index() {
        let pod = json!({"spec": {"containers": [{"image": "i", "name": "a"}, {"image": "i", "name": "b"}]}});
        let entered = json!({"spec": {"containers": {"1": {"image": null}}}});
        assert_eq!(
            patched_text(message_of_kind("v1", "Pod"), &pod, entered.as_object().unwrap()),
            r#"{"spec":{"containers":[{"name":"a","image":"i"},{"image":"i","name":"b"}]}}"#
        );
        assert_eq!(
            patched_text(None, &pod, &Map::new()),
            r#"{"spec":{"containers":[{"image":"i","name":"a"},{"image":"i","name":"b"}]}}"#
        );
    }

    /// Order of kube-apiserver v1.36.3.
    #[test]
    fn some_structs_declare_their_fields_in_another_order_than_that_of_their_numbers() {
        let pod = json!({"spec": {
            "containers": [{
                "image": "i", "imagePullPolicy": "Always", "name": "c", "resources": {}, "terminationMessagePath": "/t",
                "terminationMessagePolicy": "File", "volumeMounts": [{"mountPath": "/m", "name": "v", "recursiveReadOnly": "Enabled"}],
            }],
            "initContainers": [], "volumes": [{"emptyDir": {}, "name": "v"}],
        }});
        assert_eq!(
            patched_text(message_of_kind("v1", "Pod"), &pod, &Map::new()),
            r#"{"spec":{"volumes":[{"name":"v","emptyDir":{}}],"initContainers":[],"containers":[{"name":"c","image":"i","resources":{},"volumeMounts":[{"name":"v","recursiveReadOnly":"Enabled","mountPath":"/m"}],"terminationMessagePath":"/t","terminationMessagePolicy":"File","imagePullPolicy":"Always"}]}}"#
        );
        let set = json!({"spec": {"volumeClaimTemplates": [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {}}]}});
        assert_eq!(
            patched_text(message_of_kind("apps/v1", "StatefulSet"), &set, &Map::new()),
            r#"{"spec":{"volumeClaimTemplates":[{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{}}]}}"#
        );
    }

    #[test]
    fn an_order_has_all_fields_of_its_struct() {
        assert!(ORDERS.entries().is_sorted_by_key(|(name, _)| *name));
        for (name, order) in ORDERS.entries() {
            let message = crate::go_struct::message(name).unwrap();
            let mut known: Vec<&str> = message.fields().iter().map(|field| field.name).collect();
            let mut ordered: Vec<&str> = order.split(' ').collect();
            known.sort_unstable();
            ordered.sort_unstable();
            assert_eq!(known, ordered, "{name}");
        }
    }
}
