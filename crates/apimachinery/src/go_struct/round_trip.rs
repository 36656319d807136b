//! Completion: the effect of decoding JSON to a typed Go struct and encoding it again. Fields without `omitempty`
//! appear, empty fields with it disappear, and times, quantities and numbers get their canonical form.
//!
//! Validation comes first, so values have the types of the kind. A value of another type is left unchanged.

use serde_json::{Map, Value, json};

use super::scalar;
use super::{Count, Field, GoType, Message};

/// Completes an object of a builtin kind in place.
pub fn complete(message: &Message, object: &mut Value) {
    // An empty list of managed fields is a request to discard all entries, which the tracking of owners must see.
    let discards_managers = object["metadata"]["managedFields"].as_array().is_some_and(Vec::is_empty);
    complete_part(message, object);
    if discards_managers {
        object["metadata"]["managedFields"] = json!([]);
    }
}

fn complete_part(message: &Message, part: &mut Value) {
    if let Value::Object(fields) = part {
        complete_fields(message, fields);
    }
}

fn complete_fields(message: &Message, object: &mut Map<String, Value>) {
    for field in message.fields() {
        match (field.count, field.kind) {
            // The fields of an embedded struct are members of the object itself.
            (Count::One, GoType::Message(inner)) if field.name.is_empty() => complete_fields(inner, object),
            _ => complete_field(field, object),
        }
    }
}

fn complete_field(field: &Field, object: &mut Map<String, Value>) {
    // Go decodes null like an absent field.
    let Some(value) = object.get_mut(field.name).filter(|value| !value.is_null()) else {
        match absent(field) {
            Some(value) => object.insert(field.name.to_owned(), value),
            None => object.remove(field.name),
        };
        return;
    };
    match (field.count, value) {
        (Count::One, value) => single(field.kind, value),
        (Count::List, Value::Array(list)) => list.iter_mut().for_each(|value| element(field.kind, value)),
        (Count::Map, Value::Object(map)) => map.values_mut().for_each(|value| element(field.kind, value)),
        _ => {}
    }
    if !field.always && object.get(field.name).is_some_and(|value| is_left_out(field, value)) {
        object.remove(field.name);
    }
}

/// Returns the JSON of an absent field; `None` if it is omitted.
fn absent(field: &Field) -> Option<Value> {
    if !field.always {
        return None;
    }
    // A nil pointer, list or map without `omitempty` is null in JSON.
    if field.pointer || field.count != Count::One {
        return Some(Value::Null);
    }
    Some(match field.kind {
        GoType::String => json!(""),
        GoType::Bool => json!(false),
        GoType::Int32 | GoType::Int64 | GoType::Double | GoType::IntOrString => json!(0),
        GoType::Quantity => json!("0"),
        GoType::Time
        | GoType::MicroTime
        | GoType::Json
        | GoType::Bytes
        | GoType::Strings
        | GoType::OneOf(..) => Value::Null,
        GoType::Message(message) => {
            // A struct without `omitempty` appears with all its own fields of this kind.
            let mut empty = Map::new();
            complete_fields(message, &mut empty);
            Value::Object(empty)
        }
    })
}

/// Whether Go's `omitempty` omits the field: its value is empty and not a pointer.
fn is_left_out(field: &Field, value: &Value) -> bool {
    match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => {
            map.is_empty() && (field.count == Count::Map || (!field.pointer && field.kind != GoType::Json))
        }
        _ if field.pointer => false,
        Value::String(text) => text.is_empty() && matches!(field.kind, GoType::String | GoType::Bytes),
        Value::Bool(on) => !on && field.kind == GoType::Bool,
        Value::Number(number) => {
            matches!(field.kind, GoType::Int32 | GoType::Int64 | GoType::Double)
                && number.as_f64() == Some(0.0)
        }
        Value::Null => true,
    }
}

fn single(kind: GoType, value: &mut Value) {
    match kind {
        GoType::Message(message) => complete_part(message, value),
        GoType::OneOf(_, schema) => match value {
            // `JSONSchemaPropsOrArray` may be a list of schemas; texts and booleans pass unchanged.
            Value::Array(list) => list.iter_mut().for_each(|value| complete_part(schema, value)),
            value => complete_part(schema, value),
        },
        GoType::Int32 | GoType::Int64 => scalar::whole_number(value),
        GoType::Time => scalar::time(value),
        GoType::MicroTime => scalar::micro_time(value),
        GoType::Quantity => scalar::quantity(value),
        GoType::Bytes => scalar::bytes(value),
        GoType::String
        | GoType::Bool
        | GoType::Double
        | GoType::IntOrString
        | GoType::Json
        | GoType::Strings => {}
    }
}

/// Completes an element of a list or map, where null is the zero value.
fn element(kind: GoType, value: &mut Value) {
    if value.is_null() {
        *value = match kind {
            GoType::String | GoType::Bytes => json!(""),
            GoType::Bool => json!(false),
            GoType::Int32 | GoType::Int64 | GoType::Double | GoType::IntOrString => json!(0),
            GoType::Quantity => json!("0"),
            GoType::Message(_) => json!({}),
            _ => return,
        };
    }
    single(kind, value);
}

/// Turns empty lists and maps into null, as a round trip through protobuf does: protobuf cannot represent empty ones.
pub fn forget_empty(message: &Message, object: &mut Value) {
    for field in message.fields() {
        let Value::Object(fields) = object else {
            return;
        };
        let inner = if let GoType::Message(message) = field.kind { Some(message) } else { None };
        if field.name.is_empty() {
            // The fields of an embedded struct are members of the object itself.
            if let Some(embedded) = inner {
                forget_empty(embedded, object);
            }
            continue;
        }
        match (field.count, fields.get_mut(field.name)) {
            (_, Some(empty)) if field.count != Count::One && (*empty == json!([]) || *empty == json!({})) => {
                *empty = Value::Null;
            }
            (Count::One, Some(value)) => {
                if let Some(inner) = inner {
                    forget_empty(inner, value);
                }
            }
            (Count::List, Some(Value::Array(list))) => {
                if let Some(inner) = inner {
                    list.iter_mut().for_each(|value| forget_empty(inner, value));
                }
            }
            _ => {}
        }
    }
}

/// Reverses [`forget_empty`]: puts the empty lists and maps of `typed` back where `stored` has null.
pub fn recall_empty(typed: &Value, stored: &mut Value) {
    match (typed, stored) {
        (Value::Array(list), stored @ Value::Null) if list.is_empty() => *stored = Value::Array(Vec::new()),
        (Value::Object(map), stored @ Value::Null) if map.is_empty() => *stored = json!({}),
        (Value::Object(typed), Value::Object(stored)) => {
            for (name, value) in typed {
                if let Some(stored) = stored.get_mut(name) {
                    recall_empty(value, stored);
                }
            }
        }
        (Value::Array(typed), Value::Array(stored)) => {
            typed.iter().zip(stored).for_each(|(typed, stored)| recall_empty(typed, stored));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, mut object: Value, expected: &Value) {
        complete(super::super::message(message).unwrap(), &mut object);
        assert_eq!(object, *expected);
        let again = object.clone();
        complete(super::super::message(message).unwrap(), &mut object);
        assert_eq!(object, again, "completing twice changes nothing");
    }

    #[test]
    fn structs_that_are_always_written_appear() {
        check(
            "apps.v1.Deployment",
            json!({"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}),
            &json!({
                "metadata": {},
                "spec": {
                    "selector": null, "strategy": {},
                    "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {}}]}},
                },
                "status": {},
            }),
        );
        check(
            "apiextensions.v1.CustomResourceDefinitionStatus",
            json!({}),
            &json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": null}),
        );
    }

    #[test]
    fn plain_zeros_are_dropped_and_pointers_to_zero_stay() {
        check(
            "apps.v1.DeploymentSpec",
            json!({"replicas": 0, "minReadySeconds": 0, "paused": false, "selector": {}, "strategy": null}),
            &json!({
                "replicas": 0, "selector": {}, "strategy": {},
                "template": {"metadata": {}, "spec": {"containers": null}},
            }),
        );
    }

    #[test]
    fn empty_lists_and_maps_are_dropped_unless_they_are_always_written() {
        check(
            "core.v1.PodSpec",
            json!({"containers": [], "volumes": [], "nodeSelector": {}, "securityContext": {}, "tolerations": null}),
            &json!({"containers": [], "securityContext": {}}),
        );
        check("admissionregistration.v1.WebhookClientConfig", json!({"caBundle": ""}), &json!({}));
        check("core.v1.Volume", json!({"name": "v", "emptyDir": {}}), &json!({"name": "v", "emptyDir": {}}));
    }

    #[test]
    fn nulls_in_maps_and_lists_are_zeros() {
        check("core.v1.ConfigMap", json!({"data": {"y": null}}), &json!({"metadata": {}, "data": {"y": ""}}));
        check("core.v1.Secret", json!({"data": {"y": null}}), &json!({"metadata": {}, "data": {"y": ""}}));
        check(
            "core.v1.ResourceRequirements",
            json!({"limits": {"cpu": null}}),
            &json!({"limits": {"cpu": "0"}}),
        );
        check(
            "core.v1.PodSpec",
            json!({"containers": [null]}),
            &json!({"containers": [{"name": "", "resources": {}}]}),
        );
    }

    #[test]
    fn times_and_quantities_take_their_canonical_form() {
        check(
            "coordination.v1.LeaseSpec",
            json!({"renewTime": "2026-01-02T03:04:05.678901+01:00", "leaseTransitions": 2.0}),
            &json!({"renewTime": "2026-01-02T02:04:05.678901Z", "leaseTransitions": 2}),
        );
        check(
            "core.v1.ResourceRequirements",
            json!({"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.5}}),
            &json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}),
        );
    }

    #[test]
    fn empty_values_in_embedded_structs_are_forgotten() {
        let mut pod = json!({"spec": {
            "volumes": [{"name": "a", "configMap": {"items": []}}, {"name": "b", "projected": {"sources": []}}],
            "ephemeralContainers": [{"name": "e", "command": [], "env": [{"name": "x"}]}],
        }});
        forget_empty(super::super::message_of_kind("v1", "Pod").unwrap(), &mut pod);
        assert_eq!(
            pod["spec"],
            json!({
                "volumes": [{"name": "a", "configMap": {"items": null}}, {"name": "b", "projected": {"sources": null}}],
                "ephemeralContainers": [{"name": "e", "command": null, "env": [{"name": "x"}]}],
            })
        );
    }

    #[test]
    fn forgotten_empty_values_are_recalled_where_they_were() {
        let role = json!({"metadata": {}, "rules": [], "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {}}]}});
        let mut stored = role.clone();
        forget_empty(
            super::super::message_of_kind("rbac.authorization.k8s.io/v1", "ClusterRole").unwrap(),
            &mut stored,
        );
        assert_eq!((&stored["rules"], stored["metadata"].is_object()), (&Value::Null, true));
        stored["metadata"]["generation"] = json!(2);
        recall_empty(&role, &mut stored);
        let mut expected = role;
        expected["metadata"]["generation"] = json!(2);
        assert_eq!(stored, expected);
        // Values that were set meanwhile stay.
        stored["rules"] = json!([{"verbs": ["get"]}]);
        let set = stored.clone();
        recall_empty(&json!({"rules": []}), &mut stored);
        assert_eq!(stored, set);
    }
}
