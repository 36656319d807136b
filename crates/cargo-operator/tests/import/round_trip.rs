//! Types that `cargo operator import` wrote keep the objects of their kinds.

use album::imported::{
    gateway::Gateway,
    tunnel::{Tunnel, TunnelType},
};
use kube::Resource;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Reads an object as its type, and writes it again.
fn round_trip<K: DeserializeOwned + Serialize>(object: &Value) -> (K, Value) {
    let typed: K = serde_json::from_value(object.clone()).expect("the object has the type");
    let written = serde_json::to_value(&typed).expect("the object is JSON");
    (typed, written)
}

#[test]
fn written_types_keep_objects() {
    let object = json!({
        "apiVersion": "net.example.com/v1", "kind": "Tunnel", "metadata": { "name": "a", "namespace": "b" },
        "spec": {
            "type": "wire-guard", "self": "here", "weight": null, "bytes": 5_000_000_000_i64, "mtu": 1400, "port": "http",
            "isCA": true, "renew-after": "2026-01-01T00:00:00.123456Z",
            "peers": [{ "address": "10.0.0.1", "keyRef": { "name": "k" } }], "labels": { "a": "b" },
            "routes": { "default": { "via": "10.0.0.1" } }, "names": [], "maybe": ["a", null],
            "pod": { "kind": "Pod" }, "values": [1, { "a": null }], "nothing": {},
            "driver": { "name": "x", "more": "y", "queues": 4 },
        },
        "status": { "conditions": [{
            "type": "Ready", "status": "True", "reason": "Up", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }] },
    });
    let (tunnel, written) = round_trip::<Tunnel>(&object);
    assert_eq!(written, object);
    assert_eq!(tunnel.spec.r#type, TunnelType::WireGuard);
    assert_eq!(tunnel.spec.driver.expect("a driver").more_2["queues"], 4);
    assert_eq!(Tunnel::plural(&()), "tunnels");

    // A value that a later release of the definition allows.
    let mut later = object;
    later["spec"]["type"] = json!("quic");
    let (tunnel, written) = round_trip::<Tunnel>(&later);
    assert_eq!(
        (tunnel.spec.r#type, written),
        (TunnelType::Other("quic".to_owned()), later)
    );

    let object = json!({
        "apiVersion": "net.example.com/v1", "kind": "Gateway", "metadata": { "name": "a" },
        "data": { "a": 1 }, "spec": { "address": "10.0.0.1" }, "status": { "any": [1] },
    });
    let (gateway, written) = round_trip::<Gateway>(&object);
    assert_eq!(written, object);
    assert_eq!(gateway.spec.data.expect("data")["a"], 1);
}
