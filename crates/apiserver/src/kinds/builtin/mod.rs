//! Builtin kinds: the data files, and the rules that they do not contain.

pub(crate) mod amounts;
mod autoscaler;
mod batch;
pub(crate) mod certificate_request;
mod certificates;
mod cluster;
mod columns;
pub(crate) mod data;
mod defaults;
mod event;
mod immutable_fields;
mod ineffective;
mod kind_table;
mod kinds;
mod limit_range;
mod node;
mod pod;
mod pod_resize;
pub(crate) mod pod_resources;
mod pod_spec;
mod pod_template;
mod pod_update;
mod prepare;
mod priority_class;
pub(crate) mod quota;
mod resource_names;
mod roles;
mod service;
mod service_addresses;
pub(crate) mod service_pool;
mod strategy;
#[cfg(test)]
mod tests;
mod validate;
mod webhook_configuration;
mod workload;

pub(crate) use columns::of_scale as scale_columns;
#[cfg(test)]
pub(crate) use kinds::served;
pub(crate) use kinds::{delete_options, group_rank, registry};
pub(crate) use prepare::{CLAIM_PROTECTION, VOLUME_PROTECTION};
pub(crate) use strategy::PLAIN;

use serde_json::Value;

use kube_apimachinery::go_struct;
use kube_apimachinery::status::FieldError;

use crate::kind::resource::{Conversion, Resource};

/// Converts a decoded object to the form of the kind's Go type in JSON, with defaults. Idempotent.
fn conform(resource: &Resource, object: &mut Value) {
    if let Some(message) = go_struct::message_of_kind(&resource.api_version(), &resource.kind) {
        go_struct::complete(message, object);
        defaults::apply(&resource.group, &resource.kind, object);
    }
}

/// Sets the server's fields in a new object, after [`conform`].
fn prepare_create(resource: &Resource, object: &mut Value) {
    prepare::create(resource, object);
}

/// Sets the server's fields in the new state of an object, after [`conform`], and restores fields that may not
/// change.
fn prepare_update(resource: &Resource, subresource: &str, old: &Value, new: &mut Value) {
    match subresource {
        "" => {
            prepare::update(resource, old, new);
            forget_empty(resource, new);
        }
        "resize" => pod_resize::keep_all_but_resources(old, new),
        "ephemeralcontainers" => pod_update::keep_all_but_ephemeral_containers(old, new),
        _ => {}
    }
}

/// Turns empty lists into null, except in metadata. Definitions are stored as JSON and keep them.
fn forget_empty(resource: &Resource, object: &mut Value) {
    if resource.kind == "CustomResourceDefinition" {
        return;
    }
    let metadata = object.get_mut("metadata").map(Value::take);
    if let Some(message) = go_struct::message_of_kind(&resource.api_version(), &resource.kind) {
        go_struct::forget_empty(message, object);
    }
    if let (Some(metadata), Some(fields)) = (metadata, object.as_object_mut()) {
        fields.insert("metadata".to_owned(), metadata);
    }
}

/// Validates a new object, except for its metadata.
fn validate_create(resource: &Resource, object: &Value) -> Vec<FieldError> {
    validate::validate(resource, object, None)
}

/// Validates the new state of an object, except for its metadata.
fn validate_update(resource: &Resource, subresource: &str, old: &Value, new: &Value) -> Vec<FieldError> {
    match subresource {
        "" => validate::validate(resource, new, Some(old)),
        "status" if resource.group.is_empty() && resource.kind == "ResourceQuota" => {
            quota::validate_status(new)
        }
        "resize" => pod_resize::validate(resource, old, new),
        "ephemeralcontainers" => pod_update::validate_ephemeral_containers(old, new),
        _ => Vec::new(),
    }
}

/// Returns the warnings for an accepted object.
fn warnings(resource: &Resource, object: &Value) -> Vec<String> {
    validate::warnings(resource, object)
}

/// Returns the warning for a new object that has no effect in this server.
fn ineffective(resource: &Resource) -> Option<String> {
    ineffective::warning(resource)
}

/// Returns the grace period of a deletion in seconds; `None` for kinds without one.
fn grace_period(resource: &Resource, object: &Value, asked: Option<i64>) -> Option<i64> {
    (resource.group.is_empty() && resource.kind == "Pod").then(|| pod::grace_period(object, asked))
}

/// Returns the warning for every request to a deprecated resource.
fn deprecation(resource: &Resource) -> Option<&'static str> {
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        ("", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => None,
    }
}

/// Converts an object from the version of `resource` to the stored version.
fn to_storage(resource: &Resource, object: &mut Value) {
    match resource.conversion {
        Some(Conversion::Event) => event::to_storage(object),
        Some(Conversion::Autoscaler) => {
            autoscaler::to_storage(object);
            // Fields that one version writes as zero and the other omits.
            if let Some(message) = go_struct::message_of_kind(autoscaler::STORED, &resource.kind) {
                go_struct::complete(message, object);
            }
        }
        None => {}
    }
}

/// Reverses [`to_storage`]. Neither changes `apiVersion` and `kind`.
fn from_storage(resource: &Resource, object: &mut Value) {
    match resource.conversion {
        Some(Conversion::Event) => event::from_storage(object),
        Some(Conversion::Autoscaler) => autoscaler::from_storage(object),
        None => {}
    }
}
