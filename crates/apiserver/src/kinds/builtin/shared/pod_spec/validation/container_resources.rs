//! Validation of requests, limits and claims of containers and pods.

use std::collections::BTreeSet;

use kube_apimachinery::go::quote;
use kube_apimachinery::names;
use kube_apimachinery::quantity::Quantity;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use crate::kinds::builtin::shared::amounts::Amounts;
use crate::kinds::builtin::shared::field_checks::{duplicate, invalid_text};
use crate::kinds::builtin::shared::fields::{list, text};
use crate::kinds::builtin::shared::label_selector::invalid;
use crate::kinds::builtin::shared::resource_names;

const HUGE_PAGES: &str = "hugepages-";

/// Owner of the requests and limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResourceOwner {
    Container,
    /// The pod as a whole.
    Pod,
}

/// Validates requests, limits and claims. `claims` contains the names of the pod's resource claims.
pub(super) fn validate(
    resources: &Value,
    owner: ResourceOwner,
    claims: &BTreeSet<&str>,
    path: &str,
) -> Vec<FieldError> {
    let (limits, requests) = (Amounts::read(&resources["limits"]), Amounts::read(&resources["requests"]));
    let (limits_path, requests_path) = (format!("{path}.limits"), format!("{path}.requests"));
    let mut errors = Vec::new();
    for (name, amount) in limits.iter() {
        let path = format!("{limits_path}[{name}]");
        errors.extend(one(name, amount, owner, &path));
        errors.extend(huge_pages(name, amount, &path));
    }
    // A request must not exceed its limit. Resources that cannot be overcommitted need a limit equal to the request.
    for (name, amount) in requests.iter() {
        let path = format!("{requests_path}[{name}]");
        errors.extend(one(name, amount, owner, &path));
        // kube-apiserver's paths lack the name of the resource in these errors.
        errors.extend(match limits.get(name) {
            Some(limit) if amount != limit && !resource_names::can_overcommit(name) => {
                let why = format!("must be equal to {name} limit of {limit}");
                Some(invalid_text(&*requests_path, &amount.to_string(), &why))
            }
            Some(limit) if amount > limit => {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                Some(invalid_text(&*requests_path, &amount.to_string(), &why))
            }
            None if !resource_names::can_overcommit(name) => {
                let why = "Limit must be set for non overcommitable resources";
                Some(FieldError::required(&*limits_path, why))
            }
            _ => None,
        });
        errors.extend(huge_pages(name, amount, &path));
    }
    let has = |wanted: &dyn Fn(&str) -> bool| limits.names().chain(requests.names()).any(wanted);
    if has(&|name| name.starts_with(HUGE_PAGES)) && !has(&|name| ["cpu", "memory"].contains(&name)) {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
    errors.extend(claim_names(resources, claims, &format!("{path}.claims")));
    errors
}

/// Validates the name and the amount of a resource.
fn one(name: &str, amount: Quantity, owner: ResourceOwner, path: &str) -> Vec<FieldError> {
    let mut errors = match owner {
        ResourceOwner::Container => resource_names::validate_of_container(name, path),
        ResourceOwner::Pod => {
            let mut errors = resource_names::validate(name, path);
            let is_supported = ["cpu", "memory"].contains(&name) || name.starts_with(HUGE_PAGES);
            if errors.is_empty() && !is_supported {
                errors.push(FieldError::not_supported(path, name, &["cpu", HUGE_PAGES, "memory"]));
            }
            errors
        }
    };
    if amount < Quantity::ZERO {
        errors.push(invalid_text(path, &amount.to_string(), "must be greater than or equal to 0"));
    }
    if resource_names::is_whole(name) && amount.millis() % 1000 != 0 {
        errors.push(invalid_text(path, &amount.to_string(), "must be an integer"));
    }
    errors
}

/// Checks that an amount of huge pages is a number of whole pages.
fn huge_pages(name: &str, amount: Quantity, path: &str) -> Option<FieldError> {
    let size = Quantity::read(name.strip_prefix(HUGE_PAGES)?);
    // kube-apiserver compares whole bytes, and rounds fractions up.
    let is_divisible = size.is_some_and(|size| {
        size > Quantity::ZERO
            && size.millis() % 1000 == 0
            && amount.rounded_up().millis() % size.millis() == 0
    });
    let why = || format!("{amount} is not positive integer multiple of {name}");
    (!is_divisible).then(|| invalid_text(path, &amount.to_string(), &why()))
}

/// Validates the claims that a container uses. Each must be a claim of the pod. A claim is used as a whole, or by single requests.
fn claim_names(resources: &Value, known: &BTreeSet<&str>, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut used: BTreeSet<String> = BTreeSet::new();
    for (index, claim) in list(resources, "claims").iter().enumerate() {
        let path = format!("{path}[{index}]");
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        // A claim that is used as a whole cannot be used again.
        if used.contains(name) {
            errors.push(duplicate(&*path, name));
        } else {
            let key = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
            if !request.is_empty() {
                errors.extend(invalid(&format!("{path}.request"), request, &names::label(request)));
            }
            let start = format!("{name}/");
            if used.contains(&key) {
                errors.push(duplicate(&*path, &key));
            // Using a claim as a whole conflicts with each of its requests that is already used.
            } else if request.is_empty() {
                let requests = used.iter().filter(|key| key.starts_with(&start));
                errors.extend(requests.map(|_| duplicate(&*path, name)));
            }
            used.insert(key);
        }
        if !known.contains(name) {
            let names: Vec<&str> = known.iter().copied().collect();
            let end = if names.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", names.join(", "))
            };
            errors.push(FieldError {
                reason: "FieldValueNotFound",
                field: path,
                message: format!(
                    "Not found: {}: must be one of the names in pod.spec.resourceClaims{end}",
                    quote(name)
                ),
            });
        }
    }
    errors
}
