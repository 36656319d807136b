//! An encoder driven by the same tables, so that what it writes must come back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// `k8s\0` and a `runtime.Unknown` around a message.
fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::new();
    put_bytes(&mut type_meta, 1, api_version.as_bytes());
    put_bytes(&mut type_meta, 2, kind.as_bytes());
    let mut body = MAGIC.to_vec();
    put_bytes(&mut body, 1, &type_meta);
    put_bytes(&mut body, 2, raw);
    put_bytes(&mut body, 3, b"");
    put_bytes(&mut body, 4, b"");
    body
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
}

fn put_number(out: &mut Vec<u8>, number: u64, value: i64) {
    put_varint(out, number << 3);
    put_varint(out, value.cast_unsigned());
}

fn put_bytes(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_varint(out, number << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn encode(object: &Value) -> Vec<u8> {
    let (api_version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let message = builtin::message_of_kind(api_version, kind).unwrap();
    envelope(api_version, kind, &encode_message(message, object))
}

fn encode_message(message: &Message, object: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for field in message.fields() {
        let value = &object[field.name];
        match (field.count, field.kind, value) {
            (Count::One, Type::Message(name), _) if field.name.is_empty() => {
                put_bytes(&mut out, field.number, &encode_message(find(name).unwrap(), object));
            }
            // Plain values are always on the wire, zero or not.
            (Count::One, Type::Int32 | Type::Int64 | Type::Bool, Value::Null) if !field.pointer => {
                put_number(&mut out, field.number, 0);
            }
            (Count::One, Type::String, Value::Null) if !field.pointer => {
                put_bytes(&mut out, field.number, b"");
            }
            (_, _, Value::Null) => {}
            (Count::List, _, Value::Array(list)) => {
                for value in list {
                    encode_value(&mut out, field.number, field.kind, value);
                }
            }
            (Count::Map, _, Value::Object(map)) => {
                for (key, value) in map {
                    let mut entry = Vec::new();
                    put_bytes(&mut entry, 1, key.as_bytes());
                    encode_value(&mut entry, 2, field.kind, value);
                    put_bytes(&mut out, field.number, &entry);
                }
            }
            (_, kind, value) => encode_value(&mut out, field.number, kind, value),
        }
    }
    out
}

fn encode_value(out: &mut Vec<u8>, number: u64, kind: Type, value: &Value) {
    let mut inner = Vec::new();
    match kind {
        Type::String => return put_bytes(out, number, value.as_str().unwrap().as_bytes()),
        Type::Bytes => return put_bytes(out, number, &BASE64.decode(value.as_str().unwrap()).unwrap()),
        Type::Bool => return put_number(out, number, i64::from(value.as_bool().unwrap())),
        Type::Int32 | Type::Int64 => return put_number(out, number, value.as_i64().unwrap()),
        Type::Double => {
            put_varint(out, number << 3 | 1);
            return out.extend_from_slice(&value.as_f64().unwrap().to_bits().to_le_bytes());
        }
        Type::Time | Type::MicroTime => {
            let time: jiff::Timestamp = value.as_str().unwrap().parse().unwrap();
            put_number(&mut inner, 1, time.as_second());
            put_number(&mut inner, 2, i64::from(time.subsec_nanosecond()));
        }
        Type::Quantity => put_bytes(&mut inner, 1, value.as_str().unwrap().as_bytes()),
        Type::IntOrString => {
            put_number(&mut inner, 1, i64::from(value.is_string()));
            put_number(&mut inner, 2, value.as_i64().unwrap_or_default());
            put_bytes(&mut inner, 3, value.as_str().unwrap_or_default().as_bytes());
        }
        Type::Json => put_bytes(&mut inner, 1, value.to_string().as_bytes()),
        Type::Strings => {
            for text in value.as_array().unwrap() {
                put_bytes(&mut inner, 1, text.as_str().unwrap().as_bytes());
            }
        }
        Type::OneOf(_) => match value {
            Value::Bool(allowed) => put_number(&mut inner, 1, i64::from(*allowed)),
            Value::Array(list) if list.iter().all(Value::is_string) => {
                for text in list {
                    put_bytes(&mut inner, 2, text.as_str().unwrap().as_bytes());
                }
            }
            Value::Array(list) => {
                for schema in list {
                    encode_value(&mut inner, 2, Type::Message("apiextensions.v1.JSONSchemaProps"), schema);
                }
            }
            schema => {
                let number =
                    if matches!(kind, Type::OneOf(name) if name.ends_with("OrBool")) { 2 } else { 1 };
                encode_value(&mut inner, number, Type::Message("apiextensions.v1.JSONSchemaProps"), schema);
            }
        },
        Type::Message(name) => inner = encode_message(find(name).unwrap(), value),
    }
    put_bytes(out, number, &inner);
}

fn check(object: &Value) {
    assert_eq!(decode(&encode(object)).unwrap(), *object);
}

fn error(body: &[u8]) -> String {
    let error = decode(body).unwrap_err();
    assert_eq!((error.code(), error.reason()), (400, "BadRequest"));
    error.message().to_owned()
}

#[test]
fn a_deployment_keeps_pointers_to_zero_and_loses_plain_zeros() {
    check(&json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}, "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [{
                        "name": "c", "image": "nginx", "resources": {"limits": {"cpu": "100m"}},
                        "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}}],
                        "livenessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 3},
                    }],
                    "securityContext": {},
                    "volumes": [{"name": "tmp", "emptyDir": {}}],
                    "priority": -5,
                },
            },
        },
        "status": {},
    }));
}

#[test]
fn a_definition_keeps_its_schema() {
    check(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "size": {"type": "integer", "default": 3, "minimum": 0, "maximum": 1.5},
                        "list": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
                        "map": {"type": "object", "additionalProperties": {"type": "string"}},
                        "any": {"type": "object", "additionalProperties": true},
                    },
                }},
            }],
        },
        "status": {"acceptedNames": {"kind": "", "plural": ""}},
    }));
}

#[test]
fn times_bytes_and_field_sets_become_text() {
    check(&json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {"holderIdentity": "me", "renewTime": "2026-01-02T03:04:05.000006Z", "leaseTransitions": 0},
    }));
    check(&json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "s", "managedFields": [{"manager": "m", "fieldsV1": {"f:data": {".": {}}}}]},
        "data": {"k": "aHVudGVyMg==", "empty": ""},
    }));
}

#[test]
fn options_come_under_any_group() {
    let raw = encode_message(
        find("meta.v1.DeleteOptions").unwrap(),
        &json!({"gracePeriodSeconds": 0, "propagationPolicy": "Foreground", "preconditions": {"uid": "u"}}),
    );
    assert_eq!(
        decode(&envelope("apps/v1", "DeleteOptions", &raw)).unwrap(),
        json!({
            "apiVersion": "apps/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
            "propagationPolicy": "Foreground", "preconditions": {"uid": "u"},
        })
    );
}

#[test]
fn packed_and_single_numbers_are_the_same_list() {
    let supplemental_groups = |body: &[u8]| {
        let mut object = Map::new();
        decode_message(find("core.v1.PodSecurityContext").unwrap(), body, &mut object, 0).unwrap();
        object["supplementalGroups"].clone()
    };
    assert_eq!(supplemental_groups(&[0x20, 1, 0x20, 2]), json!([1, 2]));
    assert_eq!(supplemental_groups(&[0x22, 2, 1, 2]), json!([1, 2]));
}

#[test]
fn what_is_not_a_body_says_why() {
    assert_eq!(error(b"{}"), "invalid protobuf body: it does not start with the bytes 6b 38 73 00");
    assert_eq!(error(MAGIC), "invalid protobuf body: Object 'Kind' is missing in the type meta");
    assert_eq!(
        error(&envelope("example.com/v1", "Thing", b"")),
        "invalid protobuf body: no kind \"Thing\" is registered for version \"example.com/v1\""
    );
    assert_eq!(
        error(&envelope("v1", "ConfigMap", &[0x08, 1])),
        "invalid protobuf body: core.v1.ConfigMap.metadata: not length-delimited"
    );
    assert_eq!(
        error(&envelope("v1", "ConfigMap", &[0x0a, 3, 0x0a, 1, 0xff])),
        "invalid protobuf body: meta.v1.ObjectMeta.name: not UTF-8"
    );
}

#[test]
fn a_body_nested_too_deep_is_refused() {
    // JSONSchemaProps.not is the schema's own type, so it can go on for ever.
    let mut schema = Vec::new();
    for _ in 0..5_000 {
        let mut outer = Vec::new();
        put_bytes(&mut outer, 28, &schema);
        schema = outer;
    }
    let mut body = Vec::new();
    for number in [1, 4, 7, 2] {
        body.clear();
        put_bytes(&mut body, number, &schema);
        schema.clone_from(&body);
    }
    assert_eq!(
        error(&envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", &body)),
        "invalid protobuf body: apiextensions.v1.JSONSchemaProps.not: messages are nested more than 100 levels deep"
    );
}

proptest! {
    #[test]
    fn any_config_map_comes_back(
        name in "[a-z]{1,10}",
        data in prop::collection::btree_map("[a-z.]{1,8}", "\\PC{0,20}", 1..5),
        binary in prop::collection::btree_map("[A-Z]{1,8}", prop::collection::vec(any::<u8>(), 0..20), 1..3),
        immutable in any::<bool>(),
        generation in 1i64..,
    ) {
        let binary: Map<String, Value> =
            binary.into_iter().map(|(key, bytes)| (key, json!(BASE64.encode(bytes)))).collect();
        check(&json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "generation": generation},
            "data": data, "binaryData": binary, "immutable": immutable,
        }));
    }

    #[test]
    fn arbitrary_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&body);
        let _ = decode(&envelope("v1", "Pod", &body));
        let _ = decode(&envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", &body));
    }

    #[test]
    fn a_truncated_or_changed_body_never_panics(cut in 0usize..400, at in 0usize..400, byte in any::<u8>()) {
        let mut body = encode(&json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "d"},
            "involvedObject": {"kind": "Pod", "name": "p"}, "count": 3,
            "firstTimestamp": "2026-01-02T03:04:05Z", "eventTime": "2026-01-02T03:04:05.000006Z",
        }));
        body.truncate(cut.min(body.len()));
        let _ = decode(&body);
        if let Some(place) = body.get_mut(at) {
            *place = byte;
        }
        let _ = decode(&body);
    }
}
