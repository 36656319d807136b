//! Pure transformations of Kubernetes objects, with the results and the error messages of Kubernetes' own libraries.
//!
//! Kubernetes' `apimachinery` and `structured-merge-diff` decide how objects are defaulted, pruned, validated, patched, applied and
//! selected. This crate makes the same decisions for objects as [`serde_json::Value`]. Each function depends only on its arguments: the
//! crate reads no clock, never waits, and does no I/O. An API server, a client or a test can use any module without the others.
//!
//! ```
//! use kube_apimachinery::selector::LabelSelector;
//! use serde_json::json;
//!
//! let selector = LabelSelector::parse("app=web,tier in (front, back)").unwrap();
//! assert!(selector.matches(&json!({"metadata": {"labels": {"app": "web", "tier": "front"}}})));
//! ```
//!
//! # Modules in reading order
//!
//! - [`status`]: errors as `Status` objects; [`go`]: Go's text formats; [`names`] and `metadata` (feature `time`): rules for
//!   every object;
//! - [`selector`]: label and field selectors; [`quantity`]: amounts such as `500m`; [`decode`]: JSON with the errors of Go's decoder;
//! - `go_struct` (feature `go-struct`): the fields of builtin kinds;
//! - `schema` (feature `schema`): defaulting, pruning, validation;
//! - `cel` (feature `cel`): expressions in match conditions and in rules of custom resources;
//! - `patch` (feature `patch`): JSON patch, merge patch, strategic merge patch; `managed_fields` (feature `apply`): owners of fields,
//!   server-side apply;
//! - `protobuf`, `table` and `yaml` (features of these names): encodings for clients;
//! - `crd_compat` (feature `crd-compat`): changes of a CustomResourceDefinition that break objects or clients;
//! - `rbac` (feature `rbac`): decisions of role-based access control.
//!
//! # Features
//!
//! No feature is on by default. Without features the crate depends only on `serde` and `serde_json`: a program that uses only selectors
//! compiles no regular expressions, no YAML parser and no data about builtin kinds.
//!
//! # Limitations
//!
//! - Data about builtin kinds and all messages are those of Kubernetes 1.36.

#[cfg(feature = "cel")]
pub mod cel;
#[cfg(feature = "crd-compat")]
pub mod crd_compat;
#[cfg(any(feature = "go-struct", feature = "schema"))]
pub mod data_file;
pub mod decode;
#[cfg(feature = "schema")]
mod field_path;
pub mod go;
#[cfg(feature = "go-struct")]
pub mod go_struct;
#[cfg(feature = "apply")]
pub mod managed_fields;
#[cfg(feature = "time")]
pub mod metadata;
pub mod names;
#[cfg(feature = "patch")]
pub mod patch;
#[cfg(feature = "protobuf")]
pub mod protobuf;
pub mod quantity;
#[cfg(feature = "rbac")]
pub mod rbac;
#[cfg(feature = "schema")]
pub mod schema;
pub mod selector;
pub mod status;
#[cfg(feature = "table")]
pub mod table;
#[cfg(test)]
mod testing;
#[cfg(feature = "yaml")]
pub mod yaml;
