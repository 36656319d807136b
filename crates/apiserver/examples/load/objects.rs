//! ConfigMaps of about 1 KB like those of clients, in JSON and protobuf.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::json;

/// Collection used by all measurements.
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Names have equal lengths, so that a body can be created by overwriting the name in a template.
const PLACEHOLDER: &str = "settings-00000000";

/// Encoding of bodies and responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Protobuf,
}

impl Form {
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Protobuf => "protobuf",
        }
    }
}

/// Returns the name of the object with this number.
pub(crate) fn name(number: usize) -> String {
    format!("settings-{number:08}")
}

/// Bodies that only differ in the name.
#[derive(Debug)]
pub(crate) struct Template {
    body: Vec<u8>,
    /// Offsets of the name.
    at: Vec<usize>,
}

impl Template {
    pub(crate) fn new(form: Form) -> Self {
        let body = match form {
            Form::Json => in_json(),
            Form::Protobuf => in_protobuf(),
        };
        let at = body
            .windows(PLACEHOLDER.len())
            .enumerate()
            .filter(|(_, window)| *window == PLACEHOLDER.as_bytes())
            .map(|(at, _)| at)
            .collect();
        Self { body, at }
    }

    pub(crate) fn len(&self) -> usize {
        self.body.len()
    }

    pub(crate) fn body(&self, number: usize) -> Bytes {
        let mut body = self.body.clone();
        let name = name(number);
        for at in &self.at {
            body[*at..*at + name.len()].copy_from_slice(name.as_bytes());
        }
        Bytes::from(body)
    }
}

fn labels() -> [(&'static str, &'static str); 3] {
    [
        ("app.kubernetes.io/name", "checkout"),
        ("app.kubernetes.io/instance", PLACEHOLDER),
        ("app.kubernetes.io/managed-by", "load"),
    ]
}

fn annotations() -> [(&'static str, &'static str); 1] {
    [("example.com/checksum", "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab")]
}

/// Some 700 bytes in lines like those of a configuration file.
fn data() -> [(&'static str, String); 3] {
    let line = "listen = \"0.0.0.0:8080\"\nupstream = \"http://backend.default.svc:9000\"\n";
    [
        ("server.toml", line.repeat(8)),
        ("log.level", "info".to_owned()),
        ("feature.flags", "fast-path,retry-budget,trace-sampling".to_owned()),
    ]
}

fn in_json() -> Vec<u8> {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": PLACEHOLDER,
            "namespace": "default",
            "labels": BTreeMap::from(labels()),
            "annotations": BTreeMap::from(annotations()),
        },
        "data": BTreeMap::from(data()),
    });
    object.to_string().into_bytes()
}

/// Encodes a `runtime.Unknown` with a `v1.ConfigMap`; field numbers are those of Kubernetes'
/// `generated.proto`.
fn in_protobuf() -> Vec<u8> {
    let mut metadata = [field(1, PLACEHOLDER.as_bytes()), field(3, b"default")].concat();
    for (key, value) in labels() {
        metadata.extend(field(11, &entry(key, value)));
    }
    for (key, value) in annotations() {
        metadata.extend(field(12, &entry(key, value)));
    }
    let mut object = field(1, &metadata);
    for (key, value) in data() {
        object.extend(field(2, &entry(key, &value)));
    }
    let kind = [field(1, b"v1"), field(2, b"ConfigMap")].concat();
    [b"k8s\0".to_vec(), field(1, &kind), field(2, &object)].concat()
}

fn entry(key: &str, value: &str) -> Vec<u8> {
    [field(1, key.as_bytes()), field(2, value.as_bytes())].concat()
}

/// Encodes a field of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
    out
}
