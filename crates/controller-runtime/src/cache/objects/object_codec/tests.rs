//! Tests of the codec: compression, retention, and texts shared between Rust types.

mod compression;
mod retention;
mod sharing;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::{super::split::ManagedFields, *};

const LEAN: IngestOptions = IngestOptions { managed_fields: ManagedFields::Strip, transform: None };
const FULL: IngestOptions = IngestOptions { managed_fields: ManagedFields::Keep, transform: None };

fn codec(retain: Retain) -> ObjectCodec<ConfigMap> {
    ObjectCodec::new(&(), Retention::of(retain), LEAN)
}

fn object(name: &str, version: u32, data: &Value) -> String {
    let metadata = json!({
        "namespace": "ns", "name": name, "uid": name, "resourceVersion": version.to_string(),
        "annotations": { "note": "a" }, "managedFields": [{ "manager": "m" }],
    });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data }).to_string()
}

/// Returns an object of about 2 KB that resembles the others of its family.
fn alike(name: &str, family: u64, version: u32) -> String {
    of_family(&common_to(family), name, version)
}

/// Returns the data that the objects of a family have in common.
fn common_to(family: u64) -> String {
    let mut rng = fastrand::Rng::with_seed(family);
    (0..40).map(|i| format!("\"key{i}\":\"{:x}\",", rng.u128(..))).collect()
}

fn of_family(common: &str, name: &str, version: u32) -> String {
    let text = object(name, version, &json!({ "own": format!("{name} {version}") }));
    text.replacen("\"data\":{", &format!("\"data\":{{{common}"), 1)
}

/// Adds an object, then trains and compresses if that is due, like the reflector.
fn take(codec: &ObjectCodec<ConfigMap>, text: &str) -> Lazy<ConfigMap> {
    let taken = codec.ingest(&IncomingObject::new(text)).expect("a key");
    if codec.is_training_due() {
        train(codec);
    }
    taken
}

/// Trains the dictionary that is due, and compresses the texts that wait for it.
fn train(codec: &ObjectCodec<ConfigMap>) {
    if let Some(samples) = codec.samples() {
        codec.set_dictionary(samples.train());
    }
    while codec.has_backlog() {
        codec.compress_backlog();
    }
}

fn own(object: &Lazy<ConfigMap>) -> String {
    object.object().expect("it fits").data.as_ref().expect("data")["own"].clone()
}
