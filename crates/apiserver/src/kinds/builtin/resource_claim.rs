//! ResourceClaims, their templates, and ResourceSlices.

use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{elements, set, within};
use crate::kind::{STATUS_METADATA, WriteContext};

#[derive(Debug)]
pub(super) struct ResourceClaim;

impl BuiltinKind for ResourceClaim {
    fn default(&self, claim: &mut Value) {
        within(claim, "spec", default_spec);
        if let Some(devices) = claim.pointer_mut("/status/allocation/devices") {
            elements(devices, "results").for_each(default_tolerations);
        }
    }

    fn status_keeps(&self) -> &'static [&'static str] {
        &STATUS_METADATA
    }

    fn resets(&self, subresource: &str) -> Option<&'static [&'static str]> {
        (subresource == "status").then_some(&["metadata", "spec"])
    }
}

#[derive(Debug)]
pub(super) struct ResourceClaimTemplate;

impl BuiltinKind for ResourceClaimTemplate {
    fn default(&self, template: &mut Value) {
        within(template, "spec", |spec| within(spec, "spec", default_spec));
    }
}

#[derive(Debug)]
pub(super) struct ResourceSlice;

impl BuiltinKind for ResourceSlice {
    fn prepare_create(&self, context: &WriteContext<'_>, slice: &mut Value) {
        date_taints(slice, context);
    }

    fn prepare_update(&self, context: &WriteContext<'_>, _old: &Value, new: &mut Value) {
        date_taints(new, context);
    }
}

/// Sets defaults in the spec of a claim: one device for each request, and the operator of tolerations.
fn default_spec(spec: &mut Value) {
    within(spec, "devices", |devices| {
        for request in elements(devices, "requests") {
            within(request, "exactly", default_request);
            elements(request, "firstAvailable").for_each(default_request);
        }
    });
}

fn default_request(request: &mut Value) {
    const EXACT: &str = "ExactCount";
    set(request, "allocationMode", json!(EXACT));
    // The number is no pointer in Go, so zero means absent.
    if request["allocationMode"] == EXACT && request["count"].as_i64().unwrap_or(0) == 0 {
        request["count"] = json!(1);
    }
    default_tolerations(request);
}

fn default_tolerations(object: &mut Value) {
    for toleration in elements(object, "tolerations") {
        set(toleration, "operator", json!("Equal"));
    }
}

/// Sets the time of taints that have none. kube-apiserver sets it as a default, to the current time.
fn date_taints(slice: &mut Value, context: &WriteContext<'_>) {
    within(slice, "spec", |spec| {
        for device in elements(spec, "devices") {
            for taint in elements(device, "taints") {
                set(taint, "timeAdded", json!(context.now_seconds()));
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_tolerations_have_defaults() {
        let request = |request: Value| json!({"devices": {"requests": [{"name": "a", "exactly": request}]}});
        for (sent, expected) in [
            (json!({}), json!({"allocationMode": "ExactCount", "count": 1})),
            (json!({"count": 3}), json!({"allocationMode": "ExactCount", "count": 3})),
            (json!({"allocationMode": "All"}), json!({"allocationMode": "All"})),
            (
                json!({"count": 2, "tolerations": [{"key": "a"}, {"operator": "Exists"}]}),
                json!({
                    "allocationMode": "ExactCount", "count": 2,
                    "tolerations": [{"key": "a", "operator": "Equal"}, {"operator": "Exists"}],
                }),
            ),
        ] {
            let mut claim = json!({ "spec": request(sent.clone()) });
            ResourceClaim.default(&mut claim);
            assert_eq!(claim["spec"], request(expected.clone()));
            let mut template =
                json!({"spec": {"spec": {"devices": {"requests": [{"firstAvailable": [sent]}]}}}});
            ResourceClaimTemplate.default(&mut template);
            assert_eq!(template["spec"]["spec"]["devices"]["requests"][0]["firstAvailable"][0], expected);
        }
        let mut claim = json!({"status": {"allocation": {"devices": {"results": [{"tolerations": [{}]}]}}}});
        ResourceClaim.default(&mut claim);
        assert_eq!(
            claim["status"]["allocation"]["devices"]["results"],
            json!([{"tolerations": [{"operator": "Equal"}]}])
        );
    }
}
