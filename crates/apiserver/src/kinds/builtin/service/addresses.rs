//! Allocation of a Service's cluster IP and ports: those that it needs, and those that it keeps.

use std::collections::BTreeMap;

use kube_apimachinery::metadata;
use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::{Value, json};

use super::node_ports::{self, Unmet};
use super::service_spec::{
    addresses, has_address, has_health_check, has_node_ports, is_empty, is_headless, node_port, port_number,
    ports, remove,
};
use super::{ip_families, service_spec};
use crate::kind::{Allocator, Unallocated};
use crate::kinds::builtin::shared::fields::elements;

/// Completes the addresses and ports of a Service. This runs after the tracking of fields, so the fields that it sets have no manager.
///
/// # Errors
/// 422 if a field names an address or port that is not available; 500 if a range is full.
pub(super) fn allocate(
    allocator: &mut dyn Allocator,
    old: Option<&Value>,
    service: &mut Value,
) -> Result<(), ApiError> {
    let name = metadata::text(service, "name").to_owned();
    let invalid = |errors| ApiError::invalid("", "Service", &name, errors);
    let full = |what: &str, why: &str| ApiError::internal_error(&format!("failed to allocate {what}: {why}"));
    let Some(spec) = service.get_mut("spec").filter(|spec| spec.is_object()) else { return Ok(()) };
    let old = old.map(|old| &old["spec"]);
    // This runs before `align`, for which a missing address is one that the client removed.
    if let Some(old) = old {
        keep_allocated(old, spec);
    }
    align(old, spec);
    if has_address(spec) {
        ip_families::set_policy(old, spec);
        let mut errors = ip_families::validate_related(old, spec);
        if errors.is_empty() {
            errors = ip_families::set_families(old, spec);
        }
        if !errors.is_empty() {
            return Err(invalid(errors));
        }
        if wants_address(old, spec) {
            allocate_address(allocator, spec).map_err(|unmet| match unmet {
                Unmet::Field(error) => invalid(vec![error]),
                Unmet::Full(why) | Unmet::Duplicate(why) => {
                    full(&format!("a serviceIP for Service \"{name}\""), &why)
                }
            })?;
        }
    }
    if has_node_ports(spec) {
        let allocated = match old {
            None => node_ports::allocate(allocator, spec),
            Some(old) => node_ports::allocate_more(allocator, old, spec),
        };
        allocated.map_err(|unmet| match unmet {
            Unmet::Field(error) => invalid(vec![error]),
            Unmet::Full(why) => full("a nodePort", &why),
            // kube-apiserver's error has no reason.
            Unmet::Duplicate(why) => ApiError::new(500, "", why),
        })?;
    }
    // The port for health checks is allocated once, when the Service first needs it.
    if has_health_check(spec) && !old.is_some_and(has_health_check) {
        let wanted = port_number(&spec["healthCheckNodePort"]);
        let port = allocator.port(wanted).map_err(|Unallocated(why)| match wanted {
            Some(port) => full(&format!("requested HealthCheck NodePort {port}"), &why),
            // kube-apiserver names the port that it did not get.
            None => full("a HealthCheck NodePort 0", &why),
        })?;
        spec["healthCheckNodePort"] = json!(port);
    }
    Ok(())
}

/// Fills in addresses and ports that the client omitted with those that the Service already has.
fn keep_allocated(old: &Value, spec: &mut Value) {
    if has_address(old) && has_address(spec) {
        if is_empty(&spec["clusterIP"]) && !is_empty(&old["clusterIP"]) {
            spec["clusterIP"] = old["clusterIP"].clone();
        }
        // With a new `clusterIP`, the old list would contradict it.
        if addresses(spec).is_empty() && spec["clusterIP"] == old["clusterIP"] && !addresses(old).is_empty() {
            spec["clusterIPs"] = old["clusterIPs"].clone();
        }
    }
    if has_node_ports(old) && has_node_ports(spec) {
        let former: BTreeMap<String, i64> = ports(old)
            .filter_map(|port| Some((port["name"].as_str().unwrap_or_default().to_owned(), node_port(port)?)))
            .collect();
        let mut used = service_spec::node_ports(spec);
        let is_open = |port: &&mut Value| port["nodePort"].as_i64().unwrap_or_default() == 0;
        for port in elements(spec, "ports").filter(is_open) {
            let number = former.get(port["name"].as_str().unwrap_or_default());
            // The client may have moved the number to another port in the same update.
            if let Some(number) = number.filter(|number| !used.contains(number)) {
                port["nodePort"] = json!(number);
                used.push(*number);
            }
        }
    }
    if has_health_check(old)
        && has_health_check(spec)
        && spec["healthCheckNodePort"].as_i64().unwrap_or_default() == 0
    {
        spec["healthCheckNodePort"] = old["healthCheckNodePort"].clone();
    }
}

/// Makes `clusterIP` and `clusterIPs` agree if the client changed only `clusterIP`, the older field.
fn align(old: Option<&Value>, spec: &mut Value) {
    let changed_only_one = old
        .is_some_and(|old| spec["clusterIP"] != old["clusterIP"] && spec["clusterIPs"] == old["clusterIPs"]);
    if changed_only_one {
        remove(spec, "clusterIPs");
    }
    if addresses(spec).is_empty() && !is_empty(&spec["clusterIP"]) {
        spec["clusterIPs"] = json!([spec["clusterIP"]]);
    }
}

/// Whether the Service needs an allocation: of the address that the client names, or of any. In an update, only a former DNS alias does.
/// Other Services keep their address, or their lack of one; validation refuses a change.
fn wants_address(old: Option<&Value>, spec: &Value) -> bool {
    !old.is_some_and(has_address) && !is_headless(spec)
}

fn allocate_address(allocator: &mut dyn Allocator, spec: &mut Value) -> Result<(), Unmet> {
    let named = addresses(spec);
    let wanted = named.first().and_then(|text| text.parse().ok());
    let address = allocator.address(wanted).map_err(|Unallocated(why)| match wanted {
        Some(address) => {
            let why = format!("failed to allocate IP {address}: {why}");
            Unmet::Field(FieldError::invalid("spec.clusterIPs", &json!(named).to_string(), &why))
        }
        None => Unmet::Full(why),
    })?;
    spec["clusterIP"] = json!(address);
    spec["clusterIPs"] = json!([address]);
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::default;
    use super::super::former_type::drop_unneeded;
    use super::super::pool::{AllocationMode, ServiceAllocation, ServicePool};
    use super::super::service_spec::node_ports;
    use super::*;

    /// Returns the spec of a Service after a write, or the message of the error, from a pool without free choices: the next address
    /// is 10.0.0.1.
    pub(in super::super) fn write(pool: &mut ServicePool, old: Option<&Value>, spec: &Value) -> Value {
        let mut service = json!({"metadata": {"name": "svc"}, "spec": spec});
        default(&mut service);
        let old = old.map(|spec| json!({"metadata": {"name": "svc"}, "spec": spec}));
        let mut taken = ServiceAllocation::default();
        match allocate(&mut pool.reserving(&mut taken, AllocationMode::Reserve), old.as_ref(), &mut service) {
            Ok(()) => {
                if let Some(old) = &old {
                    drop_unneeded(old, &mut service);
                }
                service["spec"].take()
            }
            Err(error) => json!(error.message()),
        }
    }

    pub(in super::super) fn pool() -> ServicePool {
        ServicePool::new("10.0.0.0/30".parse().unwrap(), 1)
    }

    pub(in super::super) fn merged(spec: &Value, change: &Value) -> Value {
        let mut spec = spec.clone();
        for (field, value) in change.as_object().unwrap() {
            if value.is_null() {
                remove(&mut spec, field);
            } else {
                spec[field] = value.clone();
            }
        }
        spec
    }

    #[test]
    fn a_service_gets_what_its_type_needs() {
        let plain = write(&mut pool(), None, &json!({"ports": [{"port": 80}]}));
        let address = plain["clusterIP"].as_str().unwrap();
        assert!(["10.0.0.1", "10.0.0.2"].contains(&address), "{address}");
        assert_eq!(plain["clusterIPs"], json!([address]));
        assert_eq!(
            (&plain["ipFamilies"], &plain["ipFamilyPolicy"]),
            (&json!(["IPv4"]), &json!("SingleStack"))
        );
        assert_eq!(plain["ports"][0]["nodePort"], Value::Null);

        let ports = json!([
            {"name": "a", "port": 53, "protocol": "UDP"}, {"name": "b", "port": 53, "protocol": "TCP", "nodePort": 30_007},
            {"name": "c", "port": 80},
        ]);
        let balanced = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports});
        let balanced = write(&mut pool(), None, &balanced);
        let numbers = node_ports(&balanced);
        assert_eq!(numbers[..2], [30_007, 30_007], "entries of one port share a node port");
        assert!(numbers[2] != 30_007 && port_number(&balanced["healthCheckNodePort"]).is_some());
        let without =
            json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 80}]});
        assert!(node_ports(&write(&mut pool(), None, &without)).is_empty());
    }

    #[test]
    fn a_service_keeps_what_it_has_when_the_client_leaves_it_out() {
        let mut pool = pool();
        let port = json!([{"name": "a", "port": 80}]);
        let first = write(&mut pool, None, &json!({"type": "NodePort", "ports": port}));
        let same = write(&mut pool, Some(&first), &json!({"type": "NodePort", "ports": port}));
        assert_eq!(same, first);
        assert_eq!(write(&mut pool, Some(&first), &merged(&first, &json!({"clusterIP": ""}))), first);
        // Both are given up, and allocated again.
        let alias = json!({"type": "ExternalName", "externalName": "example.com"});
        let alias = write(&mut pool, Some(&first), &merged(&first, &alias));
        let expected = json!({
            "type": "ExternalName", "externalName": "example.com", "sessionAffinity": "None",
            "ports": [{"name": "a", "port": 80, "protocol": "TCP", "targetPort": 80}],
        });
        assert_eq!(alias, expected);
        let again = write(&mut pool, Some(&alias), &merged(&alias, &json!({"type": "ClusterIP"})));
        assert!(has_address(&again) && !is_empty(&again["clusterIP"]) && node_ports(&again).is_empty());
    }

    #[test]
    fn an_update_allocates_an_address_for_a_former_alias_only() {
        let plain = json!({"type": "ClusterIP", "ports": [{"port": 80}]});
        let updated = write(&mut pool(), Some(&plain), &plain);
        assert_eq!((&updated["clusterIP"], &updated["clusterIPs"]), (&Value::Null, &Value::Null));
        assert_eq!(updated["ipFamilies"], json!(["IPv4"]));
        let alias = json!({"type": "ExternalName", "externalName": "example.com"});
        assert!(!is_empty(&write(&mut pool(), Some(&alias), &plain)["clusterIP"]));
    }

    #[test]
    fn a_changed_address_reaches_the_validation() {
        let mut pool = pool();
        let first = write(&mut pool, None, &json!({"ports": [{"port": 80}]}));
        let changed = write(&mut pool, Some(&first), &merged(&first, &json!({"clusterIP": "192.168.1.1"})));
        assert_eq!(changed["clusterIPs"], json!(["192.168.1.1"]));
    }

    #[test]
    fn what_a_service_cannot_have_is_named() {
        let refused = |spec: &Value| write(&mut pool(), None, spec);
        let begin = "Service \"svc\" is invalid: spec.";
        for (spec, why) in [
            (
                json!({"clusterIP": "10.1.0.1"}),
                "clusterIPs: Invalid value: [\"10.1.0.1\"]: failed to allocate IP 10.1.0.1: the provided network does not match \
                 the current range",
            ),
            (
                json!({"clusterIPs": ["10.0.0.1"]}),
                "clusterIPs: Invalid value: [\"10.0.0.1\"]: must be empty when `clusterIP` is not specified",
            ),
            (
                json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.2"]}),
                "clusterIPs: Invalid value: [\"10.0.0.2\"]: first value must match `clusterIP`",
            ),
            (
                json!({"clusterIP": "10.0.0.1", "ipFamilies": ["IPv6"]}),
                "clusterIPs[0]: Invalid value: \"10.0.0.1\": expected an IPv6 value as indicated by `ipFamilies[0]`",
            ),
            (
                json!({"clusterIP": "x"}),
                "clusterIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ),
            (
                json!({"clusterIP": "010.0.0.1"}),
                "clusterIPs[0]: Invalid value: \"010.0.0.1\": must not have leading 0s",
            ),
            (
                json!({"clusterIP": "::ffff:10.0.0.1"}),
                "clusterIPs[0]: Invalid value: \"::ffff:10.0.0.1\": must not be an IPv4-mapped IPv6 address",
            ),
            (
                json!({"clusterIP": "fd00::1"}),
                "clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster",
            ),
            (
                json!({"ipFamilyPolicy": "RequireDualStack"}),
                "ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
            ),
            (
                json!({"ipFamilies": ["IPv6"]}),
                "ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
            ),
            (
                json!({"type": "NodePort", "ports": [{"port": 1}, {"port": 2, "nodePort": 80}]}),
                "ports[1].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is \
                 30000-32767",
            ),
            (
                json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": -1}]}),
                "ports[0].nodePort: Invalid value: -1: provided port is not in the valid range. The range of valid ports is \
                 30000-32767",
            ),
        ] {
            assert_eq!(refused(&spec), format!("{begin}{why}"), "{spec}");
        }
        let mut pool = pool();
        let plain = json!({"ports": [{"port": 80}]});
        assert!(write(&mut pool, None, &plain).is_object() && write(&mut pool, None, &plain).is_object());
        let why =
            "Internal error occurred: failed to allocate a serviceIP for Service \"svc\": range is full";
        assert_eq!(write(&mut pool, None, &plain), why);
    }
}
