//! Builtin kinds: data files, and by hand what no data file says.

mod autoscaler;
mod batch;
pub(crate) mod certificates;
mod cluster;
mod columns;
mod complete;
pub(crate) mod data;
mod defaults;
mod event;
mod kept;
mod kinds;
mod message;
mod pod;
mod pod_resize;
mod pod_spec;
mod pod_template;
mod pod_update;
mod prepare;
mod rows;
mod scalar;
mod service;
#[cfg(test)]
mod tests;
mod validate;
mod workload;

#[cfg(test)]
pub(crate) use data::message;
pub(crate) use data::{has_kind, message_of_kind};
pub(crate) use kinds::{delete_options, group_rank, schema_of_kind, served};
pub(crate) use message::{Alternative, Count, Field, Message, Slot, Type};
pub(crate) use prepare::{CLAIM_PROTECTION, VOLUME_PROTECTION};

use serde_json::Value;

use crate::resource::{Conversion, Resource};
use crate::status::FieldError;

/// Makes a decoded object what the kind's Go type would be in JSON, with its defaults. Nothing happens to an object
/// that has been through it.
pub(crate) fn conform(resource: &Resource, object: &mut Value) {
    if let Some(message) = message_of_kind(&resource.api_version(), &resource.kind) {
        complete::complete(message, object);
        defaults::apply(&resource.group, &resource.kind, object);
    }
}

/// What the kind writes into a new object, after [`conform`].
pub(crate) fn prepare_create(resource: &Resource, object: &mut Value) {
    prepare::create(resource, object);
    forget_empty(resource, object);
}

/// What the kind writes into the new state of an object, after [`conform`], and what it keeps of the old one.
pub(crate) fn prepare_update(
    resource: &Resource,
    subresource: &str,
    now: &str,
    old: &Value,
    new: &mut Value,
) {
    if resource.kind == "CertificateSigningRequest" {
        certificates::prepare_update(subresource, now, old, new);
    }
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

/// Lists that were empty read as null; metadata and free-form parts are left alone. Definitions are JSON to the end.
fn forget_empty(resource: &Resource, object: &mut Value) {
    if resource.kind == "CustomResourceDefinition" {
        return;
    }
    let metadata = object.get_mut("metadata").map(Value::take);
    if let Some(message) = message_of_kind(&resource.api_version(), &resource.kind) {
        complete::forget_empty(message, object);
    }
    if let (Some(metadata), Some(fields)) = (metadata, object.as_object_mut()) {
        fields.insert("metadata".to_owned(), metadata);
    }
}

/// What is wrong with a new object, metadata apart.
pub(crate) fn validate_create(resource: &Resource, object: &Value) -> Vec<FieldError> {
    validate::validate(resource, object, None)
}

/// What is wrong with the new state of an object, metadata apart.
pub(crate) fn validate_update(
    resource: &Resource,
    subresource: &str,
    old: &Value,
    new: &Value,
) -> Vec<FieldError> {
    if resource.kind == "CertificateSigningRequest" {
        return certificates::validate_update(subresource, old, new);
    }
    match subresource {
        "" => validate::validate(resource, new, Some(old)),
        "resize" => pod_resize::validate(resource, old, new),
        "ephemeralcontainers" => pod_update::validate_ephemeral_containers(old, new),
        _ => Vec::new(),
    }
}

/// What clients are told about an object that is accepted.
pub(crate) fn warnings(resource: &Resource, object: &Value) -> Vec<String> {
    validate::warnings(resource, object)
}

/// Seconds that an object has left once it is deleted; `None` for kinds that go at once.
pub(crate) fn grace_period(resource: &Resource, object: &Value, asked: Option<i64>) -> Option<i64> {
    (resource.group.is_empty() && resource.kind == "Pod").then(|| pod::grace_period(object, asked))
}

/// What every request to a deprecated resource is told.
pub(crate) fn deprecation(resource: &Resource) -> Option<&'static str> {
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        ("", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => None,
    }
}

/// Whether objects are stored in another version than `resource` serves.
pub(crate) fn converts(resource: &Resource) -> bool {
    resource.conversion.is_some()
}

/// Makes an object of the version that `resource` serves one of the version that is stored.
pub(crate) fn to_storage(resource: &Resource, object: &mut Value) {
    match resource.conversion {
        Some(Conversion::Event) => event::to_storage(object),
        Some(Conversion::Autoscaler) => autoscaler::to_storage(object),
        None => {}
    }
}

/// The reverse of [`to_storage`]. `apiVersion` and `kind` are left alone by both.
pub(crate) fn from_storage(resource: &Resource, object: &mut Value) {
    match resource.conversion {
        Some(Conversion::Event) => event::from_storage(object),
        Some(Conversion::Autoscaler) => autoscaler::from_storage(object),
        None => {}
    }
}
