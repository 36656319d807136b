//! Encoding of watch events: lines of JSON, frames of protobuf.

use bytes::Bytes;
use kube_apimachinery::go;
use kube_apimachinery::protobuf;
use kube_apimachinery::status::ApiError;
use kube_apimachinery::table::ColumnDefinitions;
use serde_json::{Value, json};

use super::{Bookmark, Watch};
use crate::api::verbs::reply;
use crate::request::accept::{Encoding, View};
use crate::store::Stored;

impl Watch {
    /// Returns the key of an encoding that watches share. Tables are not shared, because they contain ages.
    pub(super) fn shared_form(&self, kind: &str) -> Option<u64> {
        let accept = self.call.accept;
        let view = match accept.view {
            View::Object => 0,
            View::Metadata | View::MetadataList => 1,
            View::Table => return None,
        };
        let kind = match kind {
            "ADDED" => 0,
            "MODIFIED" => 1,
            _ => 2,
        };
        let beta = u64::from(accept.view_version != "v1");
        let encoding = match accept.encoding {
            // Watches in YAML are refused.
            Encoding::Json | Encoding::Yaml => 0,
            Encoding::Protobuf => 1,
        };
        // The lower five bits distinguish the encodings of one served version.
        Some(self.call.served.id * 32 + encoding * 16 + view * 8 + beta * 4 + kind)
    }

    /// Encodes an event.
    pub(super) fn line(&mut self, kind: &str, stored: &Stored, revision: u64) -> Bytes {
        let accept = self.call.accept;
        let plain = accept.view == View::Object && accept.encoding == Encoding::Json;
        if plain && self.call.served.reads_as_stored(stored) {
            let mut line = Vec::with_capacity(stored.document.len() + 160);
            line.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
            stored.document.write(&mut line, Some(&self.call.served.kind), revision);
            line.extend_from_slice(b"}\n");
            return Bytes::from(line);
        }
        if accept.encoding == Encoding::Protobuf
            && let Some(object) = reply::in_protobuf(&self.call, stored, revision)
        {
            return Bytes::from(protobuf::watch_frame(kind, &object));
        }
        let mut object = self.call.served.value(stored);
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        let mut shown = self.view(object, revision);
        if accept.view == View::Table
            && let Some(row) = shown.pointer_mut("/rows/0")
        {
            self.call.served.print_stored(row, stored, self.call.cluster.clock.now());
        }
        self.encode(kind, &shown)
    }

    fn view(&mut self, mut object: Value, revision: u64) -> Value {
        reply::hide_version_annotations(&self.call, &mut object);
        match self.call.accept.view {
            View::Object => object,
            View::Metadata | View::MetadataList => reply::partial_metadata(self.call.accept, &object),
            View::Table => {
                let objects = [object];
                // `includeObject` was validated when the watch began.
                let metadata = json!({"resourceVersion": revision.to_string()});
                let column_definitions =
                    std::mem::replace(&mut self.column_definitions, ColumnDefinitions::Omitted);
                self.call
                    .table(&objects, &metadata, column_definitions)
                    .unwrap_or_else(|error| error.to_json())
            }
        }
    }

    fn encode(&self, kind: &str, object: &Value) -> Bytes {
        encode(self.call.accept.encoding, kind, object)
    }

    pub(super) fn bookmark_line(&mut self, bookmark: Bookmark) -> Bytes {
        self.events.increment();
        self.sent = self.sent.max(self.cursor);
        let kind = &self.call.served.kind;
        let mut metadata = json!({"resourceVersion": self.sent.to_string()});
        if bookmark == Bookmark::InitialEnd {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let mut object = json!({"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata});
        if !self.call.served.is_custom() && self.call.accept.view == View::Object {
            // A bookmark of a builtin kind contains an empty object of the kind, as from Go's typed server.
            for (name, value) in self.call.served.schema.empty_object().as_object().into_iter().flatten() {
                if object.get(name).is_none() {
                    object[name] = value.clone();
                }
            }
        }
        let revision = self.sent;
        let shown = self.view(object, revision);
        self.encode("BOOKMARK", &shown)
    }

    /// Ends the watch with an error event.
    pub(super) fn fail(&mut self, error: &ApiError) {
        self.events.increment();
        let line = self.encode("ERROR", &error.to_json());
        self.pending = Some(line);
        self.ended = true;
    }
}

/// Encodes an event with this object.
pub(super) fn encode(encoding: Encoding, kind: &str, object: &Value) -> Bytes {
    Bytes::from(match encoding {
        Encoding::Json | Encoding::Yaml => {
            let mut line = format!("{{\"type\":\"{kind}\",\"object\":").into_bytes();
            go::write_json(&mut line, object);
            line.extend_from_slice(b"}\n");
            line
        }
        Encoding::Protobuf => {
            // All objects that reach this line have protobuf messages: builtin kinds (checked by a test),
            // metadata views, and errors.
            protobuf::watch_frame(kind, &protobuf::encode(object).unwrap_or_default())
        }
    })
}
