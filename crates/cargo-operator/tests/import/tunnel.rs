//! Written by `cargo operator import`, which overwrites changes: Tunnel (tunnels.net.example.com) in version v1.
//!
//! - source: definitions.yaml
//! - sha256: 14ce35c97602338ed9baef2062d7845319ca1467f52e430b75e9520034c354ec
//!
//! The definition belongs to another program: install it from its source, not from these types.

#![allow(
    clippy::all,
    clippy::pedantic,
    missing_docs,
    rustdoc::all,
    reason = "texts and names are those of the source"
)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tunnel between two networks.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "net.example.com",
    version = "v1",
    kind = "Tunnel",
    plural = "tunnels",
    schema = "disabled",
    derive = "PartialEq",
    namespaced,
    status = "TunnelStatus"
)]
#[serde(rename_all = "camelCase")]
pub struct TunnelSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<TunnelDriver>,
    #[serde(rename = "isCA", default, skip_serializing_if = "Option::is_none")]
    pub is_ca: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Any value: null items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maybe: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,
    /// Any value: the definition names no fields of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nothing: Option<Value>,
    pub peers: Vec<TunnelPeers>,
    /// Any value: x-kubernetes-embedded-resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<IntOrString>,
    /// Format: date-time.
    #[serde(
        rename = "renew-after",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub renew_after: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<BTreeMap<String, TunnelRoutes>>,
    #[serde(rename = "self")]
    pub self_: String,
    /// Protocol.
    ///
    /// tunnel --type=ipsec   # an indented line is no code
    ///
    /// neither is this one <T> [link]
    ///
    ///
    /// Default: `"ipsec"`.
    pub r#type: TunnelType,
    /// Any value: x-kubernetes-preserve-unknown-fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Value>,
    pub weight: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TunnelStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

/// Protocol.
///
/// tunnel --type=ipsec   # an indented line is no code
///
/// neither is this one <T> [link]
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub enum TunnelType {
    #[serde(rename = "ipsec")]
    Ipsec,
    #[serde(rename = "wire-guard")]
    WireGuard,
    #[serde(rename = "1.2")]
    N12,
    #[serde(rename = "")]
    Empty,
    /// A value that the definition did not name when it was imported.
    #[serde(untagged)]
    Other(String),
}

/// Part of `.spec.routes.*` of a Tunnel.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TunnelRoutes {
    pub via: String,
}

/// The other end.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TunnelPeers {
    pub address: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_ref: Option<TunnelPeersKeyRef>,
}

/// Part of `.spec.peers[].keyRef` of a Tunnel.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TunnelPeersKeyRef {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Part of `.spec.driver` of a Tunnel.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TunnelDriver {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Further fields.
    #[serde(flatten)]
    pub more_2: BTreeMap<String, Value>,
}
