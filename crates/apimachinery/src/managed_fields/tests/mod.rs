//! Server-side apply and ownership, tested without a server.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::schema::Schema;

mod laws;
mod recorded;
mod table;
mod versions;

/// Schema of a kind with every merge type.
static GIZMO: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer"},
        "color": {"type": "string"},
        "deep": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
        "list": {"type": "array", "items": {"type": "string"}},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "ports": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "proto"],
            "items": {"type": "object", "required": ["port"], "properties": {
                "port": {"type": "integer"}, "proto": {"type": "string", "default": "TCP"}, "label": {"type": "string"},
            }},
        },
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "atomic": {
            "type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic",
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}}});
    Schema::of_crd(&schema)
});

/// A Gizmo with this spec.
fn gizmo(spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": {"name": "g"}, "spec": spec})
}
