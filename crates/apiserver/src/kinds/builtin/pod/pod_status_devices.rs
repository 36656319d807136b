//! Validation of a pod's status: resource claims, users of containers and allocated devices.

use std::collections::BTreeSet;

use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use crate::kinds::builtin::shared::field_checks::{duplicate, invalid_text, required, supported, too_long};
use crate::kinds::builtin::shared::fields::{list, text};
use crate::kinds::builtin::shared::label_selector::invalid;

/// Lists of container statuses, and the list in the spec that has the containers.
const STATUSES: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];
/// Maximum length of a message about a device in bytes.
const MAX_MESSAGE: usize = 1024;
/// Valid IDs of users and groups.
const IDS: std::ops::RangeInclusive<i64> = 0..=2_147_483_647;

/// Validates the statuses of resource claims. Each belongs to an entry of the spec.
pub(super) fn claims(pod: &Value) -> Vec<FieldError> {
    let known: BTreeSet<&str> =
        list(&pod["spec"], "resourceClaims").iter().map(|claim| text(claim, "name")).collect();
    let mut seen = BTreeSet::new();
    let mut errors = Vec::new();
    for (index, status) in list(&pod["status"], "resourceClaimStatuses").iter().enumerate() {
        let path = format!("status.resourceClaimStatuses[{index}]");
        let name = text(status, "name");
        if !known.contains(name) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(invalid_text(format!("{path}.name"), name, why));
        }
        if !seen.insert(name) {
            errors.push(duplicate(format!("{path}.name"), name));
        }
        if let Some(claim) = status["resourceClaimName"].as_str() {
            errors.extend(invalid(&format!("{path}.resourceClaimName"), claim, &names::subdomain(claim)));
        }
    }
    errors
}

/// Validates the status of the claim that is generated for extended resources of device classes.
pub(super) fn extended_claim(pod: &Value) -> Vec<FieldError> {
    const PATH: &str = "status.extendedResourceClaimStatus";
    let (spec, status) = (&pod["spec"], &pod["status"]["extendedResourceClaimStatus"]);
    if status.is_null() {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let mappings = list(status, "requestMappings");
    if mappings.is_empty() {
        let why = "at least one request mapping is required";
        errors.push(FieldError::required(format!("{PATH}.requestMappings"), why));
    }
    // Ephemeral containers cannot request resources.
    let containers: Vec<&Value> =
        ["containers", "initContainers"].iter().flat_map(|kind| list(spec, kind)).collect();
    let mut seen = BTreeSet::new();
    for (index, mapping) in mappings.iter().enumerate() {
        let path = format!("{PATH}.requestMappings[{index}]");
        let key = ["containerName", "resourceName", "requestName"].map(|field| (field, text(mapping, field)));
        let [(_, container), (_, resource), (_, request)] = key;
        match containers.iter().find(|one| text(one, "name") == container) {
            None => {
                let why =
                    "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                errors.push(invalid_text(format!("{path}.containerName"), container, why));
            }
            Some(one) if one["resources"]["requests"][resource].is_null() => {
                let why = "must match the extended resource name of an entry in spec.initContainers.resources.requests or \
                           spec.containers.resources.requests";
                errors.push(invalid_text(format!("{path}.resourceName"), resource, why));
            }
            Some(_) => {}
        }
        // kube-apiserver's path lacks the list and the index.
        errors.extend(invalid(&format!("{PATH}.requestName"), request, &names::label(request)));
        if !seen.insert(key) {
            // The key of a mapping consists of three fields, and kube-apiserver reports a repetition at each of them.
            errors.extend(key.map(|(field, value)| duplicate(format!("{path}.{field}"), value)));
        }
    }
    match required(status, "resourceClaimName", PATH) {
        Some(error) => errors.push(error),
        None => {
            let claim = text(status, "resourceClaimName");
            errors.extend(invalid(&format!("{PATH}.resourceClaimName"), claim, &names::subdomain(claim)));
        }
    }
    errors
}

/// Validates the users under which the processes of containers run.
pub(super) fn users(pod: &Value) -> Vec<FieldError> {
    let is_windows = pod["spec"]["os"]["name"] == "windows";
    let mut errors = Vec::new();
    for (field, _) in STATUSES {
        for (index, status) in list(&pod["status"], field).iter().enumerate() {
            let path = format!("status.{field}[{index}].user.linux");
            let user = &status["user"]["linux"];
            // User and group IDs have no meaning on Windows.
            if is_windows && !user.is_null() {
                errors.push(FieldError::forbidden(path, "cannot be set for a windows pod"));
                continue;
            }
            errors.extend(id(&user["uid"], &format!("{path}.uid")));
            errors.extend(id(&user["gid"], &format!("{path}.gid")));
            for (index, group) in list(user, "supplementalGroups").iter().enumerate() {
                errors.extend(id(group, &format!("{path}.supplementalGroups[{index}]")));
            }
        }
    }
    errors
}

fn id(id: &Value, path: &str) -> Option<FieldError> {
    let number = id.as_i64().filter(|number| !IDS.contains(number))?;
    let why = format!("must be between {} and {}, inclusive", IDS.start(), IDS.end());
    Some(FieldError::invalid(path, &number.to_string(), &why))
}

/// Validates the statuses of allocated devices. Ephemeral containers cannot have any.
pub(super) fn allocated(pod: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (field, kind) in STATUSES {
        for (index, status) in list(&pod["status"], field).iter().enumerate() {
            let path = format!("status.{field}[{index}].allocatedResourcesStatus");
            let resources = list(status, "allocatedResourcesStatus");
            if kind == "ephemeralContainers" {
                if !resources.is_empty() {
                    errors.push(FieldError::forbidden(path, "must not be specified in container status"));
                }
                continue;
            }
            let container =
                list(&pod["spec"], kind).iter().find(|container| container["name"] == status["name"]);
            for (index, resource) in resources.iter().enumerate() {
                let path = format!("{path}[{index}]");
                errors.extend(container.and_then(|container| unknown_resource(resource, container, &path)));
                errors.extend(health(resource, &path));
            }
        }
    }
    errors
}

/// Checks that the container requests the named resource. `claim:NAME/REQUEST` names one of its resource claims.
fn unknown_resource(resource: &Value, container: &Value, path: &str) -> Option<FieldError> {
    let name = text(resource, "name");
    let (is_known, why) = match name.strip_prefix("claim:") {
        Some(claim) => {
            let is_claim = |one: &Value| match text(one, "request") {
                "" => text(one, "name") == claim,
                request => format!("{}/{request}", text(one, "name")) == claim,
            };
            let why = "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or \
                       'claim:<claimName>' if request is empty";
            (list(&container["resources"], "claims").iter().any(is_claim), why)
        }
        None => {
            let is_requested = !container["resources"]["requests"][name].is_null();
            (is_requested, "must match one of the container's resource requests")
        }
    };
    (!is_known).then(|| invalid_text(format!("{path}.name"), name, why))
}

/// Validates the health of a resource's devices.
fn health(resource: &Value, path: &str) -> Vec<FieldError> {
    let mut seen = BTreeSet::new();
    let mut errors = Vec::new();
    for (index, device) in list(resource, "resources").iter().enumerate() {
        let path = format!("{path}.resources[{index}]");
        match text(device, "health") {
            // In Go the field is not a pointer, so an absent health is the empty text, which is not supported.
            "" => errors.push(FieldError::not_supported(format!("{path}.health"), "", &HEALTH)),
            _ => errors.extend(supported(device, "health", &path, &HEALTH)),
        }
        match device["message"].as_str() {
            Some("") => {
                errors
                    .push(FieldError::required(format!("{path}.message"), "must be non-empty if specified"));
            }
            Some(message) if message.len() > MAX_MESSAGE => {
                errors.push(too_long(format!("{path}.message"), MAX_MESSAGE));
            }
            _ => {}
        }
        let id = text(device, "resourceID");
        if !seen.insert(id) {
            errors.push(duplicate(format!("{path}.resourceID"), id));
        }
    }
    errors
}

const HEALTH: [&str; 3] = ["Healthy", "Unhealthy", "Unknown"];
