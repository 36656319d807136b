//! Round trips of generated objects, and comparisons with Go's bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use proptest::prelude::*;
use serde::de::DeserializeSeed;
use serde_json::json;

use super::*;
use crate::go_struct::{self, Alternative};

/// Wraps a message in `k8s\0` and a `runtime.Unknown`.
fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::new();
    put_bytes(&mut type_meta, 1, api_version.as_bytes());
    put_bytes(&mut type_meta, 2, kind.as_bytes());
    let mut body = MAGIC.to_vec();
    put_bytes(&mut body, 1, &type_meta);
    put_bytes(&mut body, 2, raw);
    body
}

fn put_varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
}

fn put_bytes(out: &mut Vec<u8>, number: usize, bytes: &[u8]) {
    put_varint(out, number << 3 | 2);
    put_varint(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn check(object: &Value) {
    assert_eq!(decode(&encode(object).unwrap()).unwrap(), *object);
}

/// Encodes a message; its fields have the order of the JSON text.
fn encode_message(message: &'static Message, text: &str) -> Vec<u8> {
    let mut writer = object::MessageWriter::new(Vec::new());
    let seed = object::ValueSeed::new(&mut writer, 1, GoType::Message(message));
    seed.deserialize(&mut serde_json::Deserializer::from_str(text)).unwrap();
    let written = writer.into_bytes();
    match WireReader::new(&written).next() {
        Ok(Some((1, Wire::Bytes(message)))) => message.to_vec(),
        other => panic!("{other:?}"),
    }
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
fn options_are_decoded_under_any_group() {
    let body = encode(&json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground", "preconditions": {"uid": "u"},
    }));
    let raw = Envelope::read(body.unwrap().strip_prefix(MAGIC).unwrap()).unwrap().raw.to_vec();
    assert_eq!(
        decode(&envelope("apps/v1", "DeleteOptions", &raw)).unwrap(),
        json!({
            "apiVersion": "apps/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
            "propagationPolicy": "Foreground", "preconditions": {"uid": "u"},
        })
    );
}

#[test]
fn a_message_that_occurs_twice_is_merged_on_all_levels() {
    let message = go_struct::message("core.v1.Pod").unwrap();
    let parts = [
        r#"{"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"securityContext": {"runAsUser": 1, "supplementalGroups": [1]}}}"#,
        r#"{"metadata": {"namespace": "b", "labels": {"y": "2"}}, "spec": {"securityContext": {"runAsGroup": 2, "supplementalGroups": [2]}}}"#,
    ];
    let body: Vec<u8> = parts.iter().flat_map(|part| encode_message(message, part)).collect();
    let mut object = Map::new();
    decode_message(message, &body, &mut object, 0).unwrap();
    assert_eq!(
        object["spec"]["securityContext"],
        json!({"runAsUser": 1, "runAsGroup": 2, "supplementalGroups": [1, 2]})
    );
    // The encoder writes the empty name, which replaces the first one as in any protobuf library.
    assert_eq!(object["metadata"]["labels"], json!({"x": "1", "y": "2"}));
    assert_eq!(object["metadata"]["namespace"], "b");
}

#[test]
fn packed_and_single_numbers_are_the_same_list() {
    let supplemental_groups = |body: &[u8]| {
        let mut object = Map::new();
        decode_message(go_struct::message("core.v1.PodSecurityContext").unwrap(), body, &mut object, 0)
            .unwrap();
        object["supplementalGroups"].clone()
    };
    assert_eq!(supplemental_groups(&[0x20, 1, 0x20, 2]), json!([1, 2]));
    assert_eq!(supplemental_groups(&[0x22, 2, 1, 2]), json!([1, 2]));
}

#[test]
fn a_body_without_prefix_is_refused_as_by_kube_apiserver() {
    let missing = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
    for (body, why) in
        [(&b""[..], "empty data"), (b"k8s", missing), (b"{}", missing), (b"k8s\0", "empty body")]
    {
        assert_eq!(check_prefix(body), Err(why.to_owned()));
    }
    assert_eq!(check_prefix(b"k8s\0\n"), Ok(()));
}

#[test]
fn discovery_documents_of_the_core_group_have_no_version() {
    let list = json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": []});
    assert_eq!(encode(&list).unwrap(), b"k8s\0\n\x13\n\0\x12\x0fAPIResourceList\x12\x04\n\x02v1\x1a\0\"\0");
    assert_eq!(encode(&json!({"kind": "ConfigMap"})), None);
}

#[test]
fn a_body_that_is_refused_says_why() {
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
    // `JSONSchemaProps.not` has the schema's own type, so it can nest without end.
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

#[test]
fn encoded_bytes_are_those_of_go() {
    // Written by k8s.io/apimachinery v0.36.3.
    let lease: &[u8] = b"k8s\x00\n\x1f\n\x16coordination.k8s.io/v1\x12\x05Lease\x12Y\nH\n\x01l\x12\x00\x1a\x00\"\x00*\x002\x008\
        \x00B\x08\x08\xa5\xeb\xdc\xca\x06\x10\x00Z\x06\n\x01a\x12\x011Z\x06\n\x01b\x12\x012\x8a\x01\x1c\n\x01m\x12\x00\x1a\x00\
        2\x00:\x0f\n\r{\"f:spec\":{}}B\x00\x12\r\"\t\x08\xa5\xeb\xdc\xca\x06\x10\xf0.(\x00\x1a\x00\"\x00";
    let object = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": "l", "labels": {"a": "1", "b": "2"}, "creationTimestamp": "2026-01-02T03:04:05Z",
            "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {"renewTime": "2026-01-02T03:04:05.000006Z", "leaseTransitions": 0},
    });
    assert_eq!(encode(&object).unwrap().escape_ascii().to_string(), lease.escape_ascii().to_string());
    let service: &[u8] = b"k8s\x00\n\r\n\x02v1\x12\x07Service\x12?\n\x11\n\x01s\x12\x00\x1a\x00\"\x00*\x002\x008\x00B\x00\
        \x12&\n\x14\n\x00\x12\x00\x18P\"\n\x08\x01\x10\x00\x1a\x04http(\x00\x1a\x00\"\x00:\x00B\x00R\x00Z\x00`\x00h\x00\x1a\x02\n\
        \x00\x1a\x00\"\x00";
    let object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"ports": [{"port": 80, "targetPort": "http"}]}, "status": {"loadBalancer": {}},
    });
    assert_eq!(encode(&object).unwrap().escape_ascii().to_string(), service.escape_ascii().to_string());
}

#[test]
fn views_of_metadata_and_lists_have_messages_and_custom_kinds_have_none() {
    let metadata = json!({"name": "a", "resourceVersion": "1"});
    let item = json!({"metadata": metadata});
    let kind = ("meta.k8s.io/v1", "PartialObjectMetadataList");
    let list = json!({
        "apiVersion": kind.0, "kind": kind.1, "metadata": {"resourceVersion": "7"}, "items": [item, item],
    });
    check(&list);
    let message = ListMessage::of(kind.0, kind.1).unwrap();
    let mut items = Vec::new();
    for _ in 0..2 {
        message.write_item(&mut items, item.to_string().as_bytes());
    }
    let (head, tail) = message.frame(&list["metadata"], items.len());
    assert_eq!(Some([head, items, tail].concat()), encode(&list));
    assert_eq!(encode(&json!({"apiVersion": "example.com/v1", "kind": "Thing"})), None);
    assert_eq!(encode(&json!({"apiVersion": "meta.k8s.io/v1", "kind": "Table"})), None);
}

#[test]
fn a_value_of_another_type_is_written_as_zero() {
    let body = encode(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": "x", "spec": {"containers": [7], "priority": "x"}, "status": [],
    }));
    assert!(decode(&body.unwrap()).is_ok());
}

#[test]
fn fields_are_written_in_the_order_of_their_numbers() {
    // Structs with embedded structs, and structs that contain such structs.
    for name in ["core.v1.Volume", "core.v1.Probe", "admissionregistration.v1.NamedRuleWithOperations"] {
        let message = go_struct::message(name).unwrap();
        let object = Choices([1; 4000].iter()).object(message, 0);
        let texts: Vec<String> =
            object.iter().map(|(name, value)| format!("{}:{value}", json!(name))).collect();
        let there = encode_message(message, &format!("{{{}}}", texts.join(",")));
        let back: Vec<String> = texts.into_iter().rev().collect();
        assert_eq!(encode_message(message, &format!("{{{}}}", back.join(","))), there, "{name}");
        let mut numbers = Vec::new();
        let mut fields = WireReader::new(&there);
        while let Some((number, _)) = fields.next().unwrap() {
            numbers.push(number);
        }
        assert!(numbers.is_sorted() && numbers.len() > 1, "{name}: {numbers:?}");
    }
}

/// Choices drawn from bytes. When the bytes run out, every choice is 0, which gives the smallest object, so that
/// objects shrink with their bytes.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn below(&mut self, bound: u8) -> u8 {
        self.0.next().map_or(0, |byte| byte % bound)
    }

    fn number(&mut self) -> i64 {
        i64::from_le_bytes(std::array::from_fn(|_| self.below(255)))
    }

    fn text(&mut self) -> String {
        ["a", "", "é", "x.y/z"][usize::from(self.below(4))].repeat(usize::from(self.below(64)))
    }

    /// Draws a value as JSON has it after a round trip through Go: with zeros only where Go keeps them.
    fn value(&mut self, field: &Field, depth: usize) -> Value {
        let zeros = field.always || field.pointer || field.count != Count::One;
        match field.kind {
            GoType::String => {
                Some(self.text()).filter(|text| zeros || !text.is_empty()).unwrap_or("t".into()).into()
            }
            GoType::Bytes => json!(BASE64.encode(format!("{}\u{1}", self.text()))),
            GoType::Bool => json!(!zeros || self.below(2) == 1),
            GoType::Int32 => json!((self.number() >> 32) | i64::from(!zeros)),
            GoType::Int64 => json!(self.number() | i64::from(!zeros)),
            GoType::Double => json!(f64::from(self.below(9)) + 0.5),
            GoType::Time => json!(crate::go::format_seconds(self.time())),
            GoType::MicroTime => json!(self.time().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()),
            GoType::Quantity => json!(format!("{}Mi", self.below(99))),
            GoType::IntOrString if self.below(2) == 0 => json!("25%"),
            GoType::IntOrString => json!(self.number() >> 32),
            GoType::Json => [json!({"f:a": {".": {}}}), json!([1, null])][usize::from(self.below(2))].clone(),
            GoType::OneOf(Alternative::Bool, _) => json!(self.below(2) == 1),
            GoType::OneOf(Alternative::Schemas, _) => json!([{"type": "string"}, {}]),
            GoType::Strings | GoType::OneOf(..) => json!([self.text(), "b"]),
            GoType::Message(message) => Value::Object(self.object(message, depth + 1)),
        }
    }

    /// Draws a time around the epoch, before or after it.
    fn time(&mut self) -> jiff::Timestamp {
        jiff::Timestamp::from_microsecond(self.number() >> 10).unwrap()
    }

    /// Draws some of the message's fields, and all fields that JSON always has.
    fn object(&mut self, message: &Message, depth: usize) -> Map<String, Value> {
        let mut object = Map::new();
        for field in message.fields() {
            let time = matches!(field.kind, GoType::Time | GoType::MicroTime | GoType::Bytes | GoType::Json);
            let plain = !field.pointer && field.count == Count::One && !time;
            let always = plain && (field.always || field.name.is_empty());
            if !always && (self.below(6) != 1 || depth > 12) {
                continue;
            }
            let value = match field.count {
                Count::One => self.value(field, depth),
                Count::List => (0..=self.below(3)).map(|_| self.value(field, depth)).collect(),
                Count::Map => {
                    let count = self.below(3) + 1;
                    (0..count).map(|_| (self.text(), self.value(field, depth))).collect::<Map<_, _>>().into()
                }
            };
            match value {
                Value::Object(embedded) if field.name.is_empty() => object.extend(embedded),
                // An empty struct stays in JSON only if the field is a pointer or always written.
                Value::Object(empty) if empty.is_empty() && !field.pointer && !field.always => {}
                value => {
                    object.insert(field.name.to_owned(), value);
                }
            }
        }
        object
    }
}

/// Kinds that together have every type of field.
const KINDS: [(&str, &str); 11] = [
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "Event"),
    ("v1", "Status"),
    ("v1", "ServiceList"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ControllerRevision"),
    ("coordination.k8s.io/v1", "Lease"),
    ("certificates.k8s.io/v1", "CertificateSigningRequest"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("meta.k8s.io/v1", "PartialObjectMetadataList"),
];

proptest! {
    #[test]
    fn any_object_of_a_builtin_kind_comes_back(
        (api_version, kind) in prop::sample::select(KINDS.to_vec()),
        choices in prop::collection::vec(any::<u8>(), 0..4000),
    ) {
        let message = message_of_kind(api_version, kind).unwrap();
        let mut object = Value::Object(Choices(choices.iter()).object(message, 0));
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind);
        let body = encode(&object).unwrap();
        prop_assert_eq!(&encode_text(api_version, kind, object.to_string().as_bytes()).unwrap(), &body);
        prop_assert_eq!(decode(&body).unwrap(), object);
    }
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
        })).unwrap();
        body.truncate(cut.min(body.len()));
        let _ = decode(&body);
        if let Some(place) = body.get_mut(at) {
            *place = byte;
        }
        let _ = decode(&body);
    }
}
