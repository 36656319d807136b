//! Written by `cargo operator import`, which overwrites changes: Gateway (gateways.net.example.com) in version v1.
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

use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "net.example.com",
    version = "v1",
    kind = "Gateway",
    plural = "gateways",
    schema = "disabled",
    derive = "PartialEq",
    no_spec,
    status = "GatewayStatus"
)]
#[serde(rename_all = "camelCase")]
pub struct GatewayFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<BTreeMap<String, i64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<GatewaySpec>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayStatus {
    /// Further fields.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

/// Part of `.spec` of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}
