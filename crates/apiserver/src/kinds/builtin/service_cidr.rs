//! ServiceCIDRs.

use kube_apimachinery::go;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::builtin_kind::BuiltinKind;
use super::shared::domain_checks::{AddressRange, canonical_range};
use super::shared::field_checks::invalid_text;
use super::shared::fields::list;
use super::shared::immutable_fields::IMMUTABLE;
use crate::kind::STATUS_METADATA;
use crate::kind::resource::Resource;

const PATH: &str = "spec.cidrs";

#[derive(Debug)]
pub(super) struct ServiceCIDR;

impl BuiltinKind for ServiceCIDR {
    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let old = old.map(|old| list(&old["spec"], "cidrs"));
        old.map_or_else(|| validate(&new["spec"]), |old| validate_update(old, &new["spec"]))
    }

    fn status_keeps(&self) -> &'static [&'static str] {
        &STATUS_METADATA
    }

    fn resets(&self, subresource: &str) -> Option<&'static [&'static str]> {
        (subresource == "status").then_some(&["metadata", "spec"])
    }
}

/// Validates the ranges: one, or one per IP family.
fn validate(spec: &Value) -> Vec<FieldError> {
    let ranges: Vec<&str> = list(spec, "cidrs").iter().filter_map(Value::as_str).collect();
    let all = go::json(&spec["cidrs"]);
    let mut errors = Vec::new();
    match ranges.len() {
        0 => return vec![FieldError::required(PATH, "at least one CIDR required")],
        1 | 2 => {}
        _ => {
            // kube-apiserver shows the whole spec in this message.
            let shown = format!("{{\"CIDRs\":{all}}}");
            return vec![FieldError::invalid(PATH, &shown, "may only hold up to 2 values")];
        }
    }
    for (index, range) in ranges.iter().enumerate() {
        errors.extend(canonical_range(range, &format!("{PATH}[{index}]")));
    }
    let families: Vec<bool> =
        ranges.iter().filter_map(|range| AddressRange::read(range)).map(AddressRange::is_ipv4).collect();
    if matches!(families[..], [first, second] if first == second) {
        let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.push(FieldError::invalid(PATH, &all, why));
    }
    errors
}

/// Checks that the ranges do not change. An update may add a second range.
fn validate_update(old: &[Value], spec: &Value) -> Vec<FieldError> {
    let new = list(spec, "cidrs");
    // The second range makes the cluster dual-stack. Addresses of the first one stay valid.
    let is_added = old.len() == 1 && new.len() == 2;
    if old.len() != new.len() && !is_added {
        return vec![FieldError::invalid(PATH, &go::json(&spec["cidrs"]), IMMUTABLE)];
    }
    let mut errors = Vec::new();
    for (index, (_, after)) in old.iter().zip(new).enumerate().filter(|(_, (old, new))| old != new) {
        errors.push(invalid_text(format!("{PATH}[{index}]"), after.as_str().unwrap_or_default(), IMMUTABLE));
    }
    if is_added {
        errors.extend(validate(spec));
    }
    errors
}
