//! ResourceClaims, their templates, DeviceClasses and ResourceSlices.

mod capacity_rules;
mod claim_status;
mod device_rules;
mod slice_rules;

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::field_checks::template_metadata;
use super::shared::fields::{elements, list, put, set, within};
use super::shared::immutable_fields::immutable_struct;
use crate::kind::resource::Resource;
use crate::kind::{STATUS_METADATA, WriteContext};

/// Label of namespaces in which claims may request administrative access to devices.
pub(crate) const ADMIN_ACCESS: &str = "resource.kubernetes.io/admin-access";

/// Returns the path of the first field in which a claim or a template requests administrative access, as messages show it.
pub(crate) fn admin_access(resource: &Resource, object: &Value) -> Option<String> {
    let spec = match (resource.group.as_str(), resource.kind.as_str()) {
        ("resource.k8s.io", "ResourceClaim") => &object["spec"],
        ("resource.k8s.io", "ResourceClaimTemplate") => &object["spec"]["spec"],
        _ => return None,
    };
    let asks = |request: &Value| request["exactly"]["adminAccess"] == true;
    let index = list(&spec["devices"], "requests").iter().position(asks)?;
    // kube-apiserver shows this path for templates too, and leaves out `exactly`.
    Some(format!("spec.devices.requests[{index}].adminAccess"))
}

#[derive(Debug)]
pub(super) struct ResourceClaim;

impl BuiltinKind for ResourceClaim {
    fn default(&self, claim: &mut Value) {
        within(claim, "spec", default_spec);
        if let Some(devices) = claim.pointer_mut("/status/allocation/devices") {
            elements(devices, "results").for_each(default_tolerations);
        }
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let spec = &new["spec"];
        match old {
            None => device_rules::validate_devices(&spec["devices"], "spec.devices"),
            // An update can change only the metadata. The unchanged spec is not validated again.
            Some(old) => {
                let changed = immutable_struct("spec", "resource.ResourceClaimSpec", &old["spec"], spec);
                changed.into_iter().collect()
            }
        }
    }

    fn prepare_subresource(
        &self,
        _context: &WriteContext<'_>,
        subresource: &str,
        old: &Value,
        new: &mut Value,
    ) {
        if subresource == "status" {
            claim_status::drop_deallocated(old, new);
        }
    }

    fn validate_subresource(&self, subresource: &str, old: &Value, new: &Value) -> Vec<FieldError> {
        if subresource == "status" { claim_status::validate(old, new) } else { Vec::new() }
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

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let (spec, name) = (&new["spec"], "resource.ResourceClaimTemplateSpec");
        let mut errors = template_metadata(&spec["metadata"], "spec.metadata");
        errors.extend(device_rules::validate_devices(&spec["spec"]["devices"], "spec.spec.devices"));
        errors.extend(old.and_then(|old| immutable_struct("spec", name, &old["spec"], spec)));
        errors
    }
}

#[derive(Debug)]
pub(super) struct DeviceClass;

impl BuiltinKind for DeviceClass {
    fn validate(&self, _resource: &Resource, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        device_rules::validate_class(&new["spec"])
    }
}

#[derive(Debug)]
pub(super) struct ResourceSlice;

impl BuiltinKind for ResourceSlice {
    fn prepare_create(&self, context: &WriteContext<'_>, slice: &mut Value) {
        date_taints(slice, context);
        drop_mappings(None, slice);
        drop_lists(None, slice);
    }

    fn prepare_update(&self, context: &WriteContext<'_>, old: &Value, new: &mut Value) {
        date_taints(new, context);
        drop_mappings(Some(old), new);
        drop_lists(Some(old), new);
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        slice_rules::validate(&new["spec"], old.map(|old| &old["spec"]))
    }
}

/// Sets defaults in the spec of a claim: one device per request, and the operator of tolerations.
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
    // Go's field is not a pointer, so zero means absent.
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

/// Sets the time of taints without one to the current time. kube-apiserver does this in its defaults; here, defaults do not read the clock.
fn date_taints(slice: &mut Value, context: &WriteContext<'_>) {
    within(slice, "spec", |spec| {
        for device in elements(spec, "devices") {
            for taint in elements(device, "taints") {
                set(taint, "timeAdded", json!(context.now_seconds()));
            }
        }
    });
}

/// Drops mappings to node resources, whose feature gate is off by default, unless the old slice has any.
fn drop_mappings(old: Option<&Value>, slice: &mut Value) {
    const FIELD: &str = "nodeAllocatableResourceMappings";
    let devices = old.map(|old| list(&old["spec"], "devices")).unwrap_or_default();
    // The feature gate is `DRANodeAllocatableResources`.
    if devices.iter().any(|device| device[FIELD].as_object().is_some_and(|mappings| !mappings.is_empty())) {
        return;
    }
    within(slice, "spec", |spec| {
        for device in elements(spec, "devices") {
            put(device, FIELD, Value::Null);
        }
    });
}

/// Drops the lists of attributes, whose feature gate is off by default, unless the old slice has any.
fn drop_lists(old: Option<&Value>, slice: &mut Value) {
    let devices = old.map(|old| list(&old["spec"], "devices")).unwrap_or_default();
    // The feature gate is `DRAListTypeAttributes`.
    if devices.iter().any(slice_rules::has_lists) {
        return;
    }
    within(slice, "spec", |spec| {
        for device in elements(spec, "devices") {
            let attributes = device.get_mut("attributes").and_then(Value::as_object_mut);
            for attribute in attributes.into_iter().flat_map(|attributes| attributes.values_mut()) {
                for field in slice_rules::LISTS {
                    put(attribute, field, Value::Null);
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn requests_for_devices_are_validated() {
        const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
                             end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        const REFERENCE: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        let check = |devices: Value, expected: &[&str]| {
            let mut claim = json!({"spec": {"devices": devices}});
            ResourceClaim.default(&mut claim);
            crate::kinds::builtin::test_helpers::check("ResourceClaim", &claim, None, expected);
        };
        let request = |parts: Value| {
            let mut exact = json!({"deviceClassName": "c"});
            exact.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
            json!({"name": "r", "exactly": exact})
        };
        check(json!({"requests": [request(json!({}))]}), &[]);
        check(
            json!({"requests": [{"name": "r"}]}),
            &[
                "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
            ],
        );
        check(
            json!({"requests": [{"name": "r", "firstAvailable": [
                {"name": "s", "deviceClassName": "c"}, {"name": "s", "deviceClassName": ""},
                {"name": "BAD_", "deviceClassName": "c", "allocationMode": "X", "count": 3},
            ]}]}),
            &[
                "spec.devices.requests[0].firstAvailable[1].deviceClassName: Required value",
                &format!("spec.devices.requests[0].firstAvailable[2].name: Invalid value: \"BAD_\": {LABEL}"),
                "spec.devices.requests[0].firstAvailable[2].allocationMode: Unsupported value: \"X\": supported values: \"All\", \"ExactCount\"",
                "spec.devices.requests[0].firstAvailable[1]: Duplicate value: \"s\"",
            ],
        );
        check(
            json!({"requests": [request(json!({"allocationMode": "All", "count": 5}))]}),
            &[
                "spec.devices.requests[0].exactly.count: Invalid value: 5: must not be specified when allocationMode is 'All'",
            ],
        );
        check(
            json!({"requests": [request(json!({"selectors": [
                {}, {"cel": {"expression": "1"}}, {"cel": {"expression": "device.foo == 1"}},
                {"cel": {"expression": "device.attributes[\"a\"].b"}}, {"cel": {"expression": "device"}},
                {"cel": {"expression": "device.capacity[\"a\"].b.isGreaterThan(quantity(\"1\"))"}},
            ]}))]}),
            &[
                "spec.devices.requests[0].exactly.selectors[0].cel: Required value",
                "spec.devices.requests[0].exactly.selectors[1].cel.expression: Invalid value: \"1\": must evaluate to bool or the unknown type, not int",
                "spec.devices.requests[0].exactly.selectors[2].cel.expression: Invalid value: \"device.foo == 1\": compilation failed: ERROR: <input>:1:7: undefined field 'foo'\n | device.foo == 1\n | ......^",
                "spec.devices.requests[0].exactly.selectors[4].cel.expression: Invalid value: \"device\": must evaluate to bool or the unknown type, not kubernetes.DRADevice",
            ],
        );
        check(
            json!({
                "requests": [request(json!({}))],
                "constraints": [{"matchAttribute": "a.b/c", "requests": ["r", "r", "r/s", "r/s/t", "BAD_"]}, {"matchAttribute": "/"}, {}],
            }),
            &[
                &format!("spec.devices.constraints[0].requests[2]: Invalid value: \"r/s\": {REFERENCE}"),
                &format!("spec.devices.constraints[0].requests[3]: Invalid value: \"r/s/t\": {REFERENCE}"),
                &format!("spec.devices.constraints[0].requests[4]: Invalid value: \"BAD_\": {LABEL}"),
                &format!("spec.devices.constraints[0].requests[4]: Invalid value: \"BAD_\": {REFERENCE}"),
                "spec.devices.constraints[0].requests[1]: Duplicate value: \"r\"",
                "spec.devices.constraints[1].matchAttribute: Invalid value: \"\": the domain must not be empty",
                "spec.devices.constraints[1].matchAttribute: Invalid value: \"\": the name must not be empty",
                "spec.devices.constraints[2]: Required value: exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
            ],
        );
        check(
            json!({"requests": [request(json!({}))], "config": [
                {}, {"requests": ["x", "r", "r"], "opaque": {"driver": ""}}, {"opaque": {"driver": "d", "parameters": "x"}},
            ]}),
            &[
                "spec.devices.config[0].opaque: Required value",
                &format!("spec.devices.config[1].requests[0]: Invalid value: \"x\": {REFERENCE}"),
                "spec.devices.config[1].requests[2]: Duplicate value: \"r\"",
                "spec.devices.config[1].opaque.driver: Required value",
                "spec.devices.config[1].opaque.parameters: Required value",
                "spec.devices.config[2].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object",
            ],
        );
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn classes_and_slices_are_validated() {
        use crate::kinds::builtin::test_helpers::check;
        let spec = |spec: Value| json!({"spec": spec});
        check(
            "DeviceClass",
            &spec(json!({"selectors": [{}], "config": [{}], "extendedResourceName": "kubernetes.io/c"})),
            None,
            &[
                "spec.selectors[0].cel: Required value",
                "spec.config[0].opaque: Required value",
                "spec.extendedResourceName: Invalid value: \"kubernetes.io/c\": must be a valid extended resource name",
            ],
        );
        check("DeviceClass", &spec(json!({"extendedResourceName": "a.b/c"})), None, &[]);
        let one =
            "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
        check(
            "ResourceSlice",
            &spec(json!({})),
            None,
            &[
                "spec.driver: Required value",
                "spec.pool.name: Required value",
                "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
                &format!("spec: Required value: {one}"),
            ],
        );
        let slice = |parts: Value| {
            let mut slice =
                json!({"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1, "generation": 1}});
            slice.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
            spec(slice)
        };
        check(
            "ResourceSlice",
            &slice(json!({"nodeName": "n", "allNodes": true})),
            None,
            &[&format!(
                "spec: Invalid value: \"{{`nodeName`, `allNodes`}}\": {one}, but multiple fields are set"
            )],
        );
        check(
            "ResourceSlice",
            &slice(
                json!({"allNodes": true, "sharedCounters": [{"name": "c"}], "devices": [{"name": "a"}, {"name": "a"}]}),
            ),
            None,
            &[
                "spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed",
                "spec.devices[1]: Duplicate value: \"a\"",
                "spec.sharedCounters[0].counters: Required value",
            ],
        );
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn the_spec_of_a_claim_is_immutable() {
        let claim = |name: &str| {
            json!({"spec": {"devices": {"requests": [{"name": name, "exactly": {
                "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1,
            }}], "config": [{"opaque": {"driver": "d", "parameters": {"a": "<"}}}]}}})
        };
        crate::kinds::builtin::test_helpers::check_update(
            "ResourceClaim",
            &claim("a"),
            &claim("b"),
            &[
                r#"spec: Invalid value: {"Devices":{"Requests":[{"Name":"b","Exactly":{"DeviceClassName":"c","Selectors":null,"AllocationMode":"ExactCount","Count":1,"AdminAccess":null,"Tolerations":null,"Capacity":null},"FirstAvailable":null}],"Constraints":null,"Config":[{"Requests":null,"Opaque":{"Driver":"d","Parameters":{"a":"\u003c"}}}]}}: field is immutable"#,
            ],
        );
    }

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
