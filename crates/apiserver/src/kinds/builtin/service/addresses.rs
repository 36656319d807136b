//! Cluster IPs, IP families and node ports of Services: which ones a Service needs, keeps and gives back.
//!
//! The server has IPv4 addresses only, like a kube-apiserver with one range. A Service without selector and address may name both
//! families, because its endpoints may have addresses of either.

use std::collections::BTreeMap;
use std::net::IpAddr;

use kube_apimachinery::metadata;
use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::{Value, json};

use crate::kind::{Allocator, Unallocated};
use crate::kinds::builtin::shared::field_checks;
use crate::kinds::builtin::shared::fields::{elements, set};

const IPV4: &str = "IPv4";
const IPV6: &str = "IPv6";
const SINGLE_STACK: &str = "SingleStack";
const REQUIRE_DUAL_STACK: &str = "RequireDualStack";

/// Completes the addresses and ports of a Service after its fields were tracked, because fields that are set here have no manager.
///
/// # Errors
/// 422 with the fields that cannot be satisfied; 500 if a range is full.
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
    // Before `align`, which takes an address that is still missing for one that the client removed.
    if let Some(old) = old {
        keep_allocated(old, spec);
    }
    align(old, spec);
    if has_address(spec) {
        set_policy(old, spec);
        let mut errors = validate_related(old, spec);
        if errors.is_empty() {
            errors = set_families(old, spec);
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
            None => allocate_ports(allocator, spec),
            Some(old) => allocate_more_ports(allocator, old, spec),
        };
        allocated.map_err(|unmet| match unmet {
            Unmet::Field(error) => invalid(vec![error]),
            Unmet::Full(why) => full("a nodePort", &why),
            // kube-apiserver's error has no reason.
            Unmet::Duplicate(why) => ApiError::new(500, "", why),
        })?;
    }
    if has_health_check(spec) && !old.is_some_and(has_health_check) {
        let wanted = port_number(&spec["healthCheckNodePort"]);
        let port = allocator.port(wanted).map_err(|Unallocated(why)| match wanted {
            Some(port) => full(&format!("requested HealthCheck NodePort {port}"), &why),
            None => full("a HealthCheck NodePort", &why),
        })?;
        spec["healthCheckNodePort"] = json!(port);
    }
    Ok(())
}

/// Removes from the new state of a Service the fields that its former type needed and its new one does not. A field that the
/// client changed stays.
pub(super) fn drop_unneeded(old: &Value, service: &mut Value) {
    let before = &old["spec"];
    let Some(spec) = service.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    let lost = |needs: fn(&Value) -> bool, spec: &Value| needs(before) && !needs(spec);
    if lost(has_address, spec) {
        if spec["clusterIP"] == before["clusterIP"] && spec["clusterIPs"] == before["clusterIPs"] {
            remove(spec, "clusterIP");
            remove(spec, "clusterIPs");
        }
        remove_unchanged(before, spec, "ipFamilies");
        remove_unchanged(before, spec, "ipFamilyPolicy");
    }
    if lost(has_node_ports, spec) {
        // Ports may be added and removed, as long as no node port is new.
        let former = node_ports(before);
        if node_ports(spec).iter().all(|port| former.contains(port)) {
            elements(spec, "ports").for_each(|port| remove(port, "nodePort"));
        }
    }
    if lost(has_health_check, spec) {
        remove_unchanged(before, spec, "healthCheckNodePort");
    }
    if lost(is_balanced, spec) {
        remove_unchanged(before, spec, "allocateLoadBalancerNodePorts");
        remove_unchanged(before, spec, "loadBalancerClass");
    }
    if lost(is_external, spec) {
        remove_unchanged(before, spec, "externalTrafficPolicy");
    }
    // As in kube-apiserver, the status is cleared at once, although the load balancer is removed later.
    let is_balanced = is_balanced(spec);
    if !is_balanced && let Some(status) = service.get_mut("status").filter(|status| status.is_object()) {
        status["loadBalancer"] = json!({});
    }
    drop_traffic_policy(service);
}

/// Removes the traffic policy of a DNS alias, which has no address.
pub(super) fn drop_traffic_policy(service: &mut Value) {
    if service["spec"]["type"] == "ExternalName" {
        remove(&mut service["spec"], "internalTrafficPolicy");
    }
}

/// Reason why an allocation failed.
enum Unmet {
    /// An address or port that a field names is not available.
    Field(FieldError),
    /// The range is full.
    Full(String),
    /// Two entries of an update have the same node port for one protocol.
    Duplicate(String),
}

/// Sets addresses and ports that the client left out to those that the Service has.
fn keep_allocated(old: &Value, spec: &mut Value) {
    if has_address(old) && has_address(spec) {
        if is_empty(&spec["clusterIP"]) && !is_empty(&old["clusterIP"]) {
            spec["clusterIP"] = old["clusterIP"].clone();
        }
        if addresses(spec).is_empty() && spec["clusterIP"] == old["clusterIP"] && !addresses(old).is_empty() {
            spec["clusterIPs"] = old["clusterIPs"].clone();
        }
    }
    if has_node_ports(old) && has_node_ports(spec) {
        let former: BTreeMap<String, u16> = ports(old)
            .filter_map(|port| Some((port["name"].as_str().unwrap_or_default().to_owned(), node_port(port)?)))
            .collect();
        let mut used = node_ports(spec);
        for port in elements(spec, "ports").filter(|port| node_port(port).is_none()) {
            let number = former.get(port["name"].as_str().unwrap_or_default());
            if let Some(number) = number.filter(|number| !used.contains(number)) {
                port["nodePort"] = json!(number);
                used.push(*number);
            }
        }
    }
    if has_health_check(old) && has_health_check(spec) && port_number(&spec["healthCheckNodePort"]).is_none()
    {
        spec["healthCheckNodePort"] = old["healthCheckNodePort"].clone();
    }
}

/// Makes `clusterIP` and `clusterIPs` agree. The client may have changed only one of them.
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

/// Sets the policy of a Service that names none: that of its former state, or one that follows from its address.
fn set_policy(old: Option<&Value>, spec: &mut Value) {
    // A static default could move a Service between one and two families without a request to do so.
    let former = old.map(|old| &old["ipFamilyPolicy"]).filter(|policy| !is_empty(policy));
    let policy = match former {
        Some(policy) => policy.clone(),
        None if is_headless(spec) && !has_selector(spec) => json!(REQUIRE_DUAL_STACK),
        None => json!(SINGLE_STACK),
    };
    set(spec, "ipFamilyPolicy", policy);
}

/// Validates the addresses, the families and the policy that the Service names, each alone and in relation to the others.
fn validate_related(old: Option<&Value>, spec: &Value) -> Vec<FieldError> {
    const POLICIES: [&str; 3] = ["PreferDualStack", REQUIRE_DUAL_STACK, SINGLE_STACK];
    const PLACE: &str = "spec.clusterIPs";
    let mut errors = Vec::new();
    let named = addresses(spec);
    let shown = json!(named).to_string();
    match (is_empty(&spec["clusterIP"]), named.first()) {
        (true, Some(_)) => {
            let why = "must be empty when `clusterIP` is not specified";
            errors.push(FieldError::invalid(PLACE, &shown, why));
        }
        (false, Some(first)) if spec["clusterIP"] != **first => {
            errors.push(FieldError::invalid(PLACE, &shown, "first value must match `clusterIP`"));
        }
        _ => {}
    }
    let families = strings(&spec["ipFamilies"]);
    for (at, family) in families.iter().enumerate() {
        let field = format!("spec.ipFamilies[{at}]");
        if ![IPV4, IPV6].contains(&family.as_str()) {
            errors.push(FieldError::not_supported(field.clone(), family, &[IPV4, IPV6]));
        }
        if families[..at].contains(family) {
            errors.push(FieldError {
                reason: "FieldValueDuplicate",
                field,
                message: format!("Duplicate value: {}", json!(family)),
            });
        }
    }
    let policy = spec["ipFamilyPolicy"].as_str().unwrap_or_default();
    if !POLICIES.contains(&policy) {
        errors.push(FieldError::not_supported("spec.ipFamilyPolicy", policy, &POLICIES));
    }
    let before = errors.len();
    // Texts that the Service has already are not validated again.
    let known = old.map(addresses).unwrap_or_default();
    for (at, address) in named.iter().enumerate() {
        if at == 0 && *address == "None" {
            if named.len() > 1 {
                errors.push(FieldError::invalid(PLACE, &shown, "'None' must be the first and only value"));
            }
        } else if !known.contains(address) {
            errors.extend(field_checks::address(address, &format!("{PLACE}[{at}]")));
        }
    }
    let are_addresses = errors.len() == before;
    if named.len() > 2 {
        errors.push(FieldError::invalid(PLACE, &shown, "may only hold up to 2 values"));
    }
    // The checks below compare the families of the addresses.
    if !are_addresses {
        return errors;
    }
    let of_four = |address: &str| address.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4());
    if named.len() > 1 && named.iter().all(|address| of_four(address) == of_four(&named[0])) {
        let why = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid(PLACE, &shown, why));
    }
    if !is_headless(spec) {
        for (at, (address, family)) in named.iter().zip(&families).enumerate() {
            if [IPV4, IPV6].contains(&family.as_str()) && of_four(address) != (family == IPV4) {
                let why = format!("expected an {family} value as indicated by `ipFamilies[{at}]`");
                errors.push(FieldError::invalid(format!("{PLACE}[{at}]"), &json!(address).to_string(), &why));
            }
        }
    }
    errors
}

/// Sets the IP families of a Service that names none, and returns the errors in those that it names.
fn set_families(old: Option<&Value>, spec: &mut Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut families: Vec<String> = strings(&spec["ipFamilies"]);
    let is_single = spec["ipFamilyPolicy"] == SINGLE_STACK;
    let policy = spec["ipFamilyPolicy"].to_string();
    let mut refuse_policy = |why: &str| errors.push(FieldError::invalid("spec.ipFamilyPolicy", &policy, why));
    // A client that changes only the policy, to a single stack, gives up the second address and the second family. With another policy it
    // cannot give them up.
    if let Some(old) = old {
        if is_single && old["clusterIPs"] == spec["clusterIPs"] && addresses(spec).len() > 1 {
            spec["clusterIPs"] = json!([spec["clusterIPs"][0]]);
        }
        if is_single && old["ipFamilies"] == spec["ipFamilies"] {
            families.truncate(1);
        }
        let is_less = |new: usize, old: usize| !is_single && (1..old).contains(&new);
        if is_less(addresses(spec).len(), addresses(old).len()) {
            refuse_policy("must be 'SingleStack' to release the secondary cluster IP");
        }
        if is_less(families.len(), strings(&old["ipFamilies"]).len()) {
            refuse_policy("must be 'SingleStack' to release the secondary IP family");
        }
    }
    let named = addresses(spec);
    if is_single && named.len() == 2 {
        refuse_policy(
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified",
        );
    }
    if is_single && families.len() == 2 {
        refuse_policy(
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        );
    }
    let shown = json!(named).to_string();
    for (at, text) in named.iter().enumerate().take_while(|(_, text)| *text != "None") {
        let Ok(address) = text.parse::<IpAddr>() else { continue };
        let (field, family) = (format!("spec.clusterIPs[{at}]"), if address.is_ipv4() { IPV4 } else { IPV6 });
        match families.get(at) {
            Some(_) => {}
            None if family == IPV4 => families.push(IPV4.to_owned()),
            // Reported for the address, which the client named, instead of the family, which it did not.
            None => errors.push(FieldError::invalid(field, &shown, "IPv6 is not configured on this cluster")),
        }
    }
    if !errors.is_empty() {
        return errors;
    }
    // Before the checks below, because such a Service may have combinations that they refuse.
    if is_headless(spec) && !has_selector(spec) {
        if families.is_empty() {
            families.push(IPV4.to_owned());
        }
        if families.len() == 1 && !is_single {
            families.push(if families[0] == IPV6 { IPV4 } else { IPV6 }.to_owned());
        }
    } else {
        if spec["ipFamilyPolicy"] == REQUIRE_DUAL_STACK {
            let why = "this cluster is not configured for dual-stack services";
            errors.push(FieldError::invalid("spec.ipFamilyPolicy", &policy, why));
        }
        for (at, family) in families.iter().enumerate().filter(|(_, family)| *family != IPV4) {
            let shown = json!(family).to_string();
            let why = "not configured on this cluster";
            errors.push(FieldError::invalid(format!("spec.ipFamilies[{at}]"), &shown, why));
        }
        if families.is_empty() {
            families.push(IPV4.to_owned());
        }
    }
    spec["ipFamilies"] = json!(families);
    errors
}

/// Whether an address is to be allocated: one that the client names, or any. An update only allocates one for a former DNS alias. That of
/// another Service cannot change, which is validated later; one that a write of `/status` created without an address stays so.
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

/// Allocates the node ports of a new Service. Entries with the same `port`, such as those for TCP and UDP, share a node port.
fn allocate_ports(allocator: &mut dyn Allocator, spec: &mut Value) -> Result<(), Unmet> {
    let all = allocates_all(spec);
    let mut requested: BTreeMap<u64, u16> = BTreeMap::new();
    for port in ports(spec) {
        if let (Some(number), Some(node_port)) = (port["port"].as_u64(), node_port(port)) {
            requested.entry(number).or_insert(node_port);
        }
    }
    let mut shared: BTreeMap<u64, u16> = BTreeMap::new();
    for (at, port) in elements(spec, "ports").enumerate() {
        let (wanted, number) = (node_port(port), port["port"].as_u64().unwrap_or_default());
        if wanted.is_none() && !all {
            continue;
        }
        let chosen = match shared.get(&number) {
            Some(chosen) if wanted.is_none_or(|wanted| wanted == *chosen) => *chosen,
            Some(_) => take_port(allocator, at, wanted)?,
            None => {
                let chosen = take_port(allocator, at, requested.get(&number).copied())?;
                shared.insert(number, chosen);
                chosen
            }
        };
        port["nodePort"] = json!(chosen);
    }
    Ok(())
}

/// Allocates the node ports of a Service that its former state did not have.
fn allocate_more_ports(allocator: &mut dyn Allocator, old: &Value, spec: &mut Value) -> Result<(), Unmet> {
    let all = allocates_all(spec);
    let mut taken = node_ports(old);
    let mut seen: Vec<(String, u16)> = Vec::new();
    for (at, port) in elements(spec, "ports").enumerate() {
        let wanted = node_port(port);
        if wanted.is_none() && !all {
            continue;
        }
        let chosen = match wanted.filter(|wanted| taken.contains(wanted)) {
            Some(own) => own,
            None => take_port(allocator, at, wanted)?,
        };
        taken.push(chosen);
        port["nodePort"] = json!(chosen);
        let place = (port["protocol"].as_str().unwrap_or_default().to_owned(), chosen);
        if seen.contains(&place) {
            return Err(Unmet::Duplicate(format!("duplicate nodePort: {{{} {chosen}}}", place.0)));
        }
        seen.push(place);
    }
    Ok(())
}

fn take_port(allocator: &mut dyn Allocator, at: usize, wanted: Option<u16>) -> Result<u16, Unmet> {
    allocator.port(wanted).map_err(|Unallocated(why)| match wanted {
        Some(port) => {
            let field = format!("spec.ports[{at}].nodePort");
            Unmet::Field(FieldError::invalid(field, &port.to_string(), &why))
        }
        None => Unmet::Full(why),
    })
}

/// Whether a Service has an address, or states that it has none. A DNS alias does neither.
fn has_address(spec: &Value) -> bool {
    spec["type"] != "ExternalName"
}

fn is_headless(spec: &Value) -> bool {
    spec["clusterIP"] == "None"
}

fn has_selector(spec: &Value) -> bool {
    spec["selector"].as_object().is_some_and(|selector| !selector.is_empty())
}

fn has_node_ports(spec: &Value) -> bool {
    spec["type"] == "NodePort" || is_balanced(spec)
}

fn is_balanced(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer"
}

/// Whether a Service is reached from outside of the cluster.
pub(super) fn is_external(spec: &Value) -> bool {
    has_node_ports(spec)
        || spec["type"] == "ClusterIP"
            && spec["externalIPs"].as_array().is_some_and(|addresses| !addresses.is_empty())
}

fn has_health_check(spec: &Value) -> bool {
    is_balanced(spec) && spec["externalTrafficPolicy"] == "Local"
}

/// Whether every port gets a node port, and not only those that name one.
fn allocates_all(spec: &Value) -> bool {
    !is_balanced(spec) || spec["allocateLoadBalancerNodePorts"] != false
}

fn addresses(spec: &Value) -> Vec<String> {
    strings(&spec["clusterIPs"])
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn ports(spec: &Value) -> impl Iterator<Item = &Value> {
    spec["ports"].as_array().into_iter().flatten()
}

fn node_ports(spec: &Value) -> Vec<u16> {
    ports(spec).filter_map(node_port).collect()
}

fn node_port(port: &Value) -> Option<u16> {
    port_number(&port["nodePort"])
}

/// Reads a port. Zero stands for any.
fn port_number(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|number| u16::try_from(number).ok()).filter(|number| *number != 0)
}

fn is_empty(text: &Value) -> bool {
    text.as_str().is_none_or(str::is_empty)
}

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}

fn remove_unchanged(before: &Value, spec: &mut Value, field: &str) {
    if spec.get(field) == before.get(field) {
        remove(spec, field);
    }
}

#[cfg(test)]
mod tests {
    use super::super::default;
    use super::super::pool::{ServiceAllocation, ServicePool};
    use super::*;

    /// Returns the spec of a Service after a write, or the message of the error, from a pool without free choices: the next address
    /// is 10.0.0.1.
    fn write(pool: &mut ServicePool, old: Option<&Value>, spec: &Value) -> Value {
        let mut service = json!({"metadata": {"name": "svc"}, "spec": spec});
        default(&mut service);
        let old = old.map(|spec| json!({"metadata": {"name": "svc"}, "spec": spec}));
        let mut taken = ServiceAllocation::default();
        match allocate(&mut pool.reserving(&mut taken, false), old.as_ref(), &mut service) {
            Ok(()) => {
                if let Some(old) = &old {
                    drop_unneeded(old, &mut service);
                }
                service["spec"].take()
            }
            Err(error) => json!(error.message()),
        }
    }

    fn pool() -> ServicePool {
        ServicePool::new("10.0.0.0/30".parse().unwrap(), 1)
    }

    fn merged(spec: &Value, change: &Value) -> Value {
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
    fn an_address_that_a_service_has_is_not_validated_again() {
        let old = json!({"clusterIP": "None", "clusterIPs": ["None"]});
        let new = json!({"clusterIP": "None", "clusterIPs": ["None", "None"]});
        assert_eq!(
            write(&mut pool(), Some(&old), &new),
            "Service \"svc\" is invalid: spec.clusterIPs: Invalid value: [\"None\",\"None\"]: 'None' must be the first and only \
             value"
        );
    }

    #[test]
    fn a_changed_address_reaches_the_validation() {
        let mut pool = pool();
        let first = write(&mut pool, None, &json!({"ports": [{"port": 80}]}));
        let changed = write(&mut pool, Some(&first), &merged(&first, &json!({"clusterIP": "192.168.1.1"})));
        assert_eq!(changed["clusterIPs"], json!(["192.168.1.1"]));
    }

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn only_a_single_stack_gives_up_the_second_family() {
        let mut pool = pool();
        let first = write(&mut pool, None, &json!({"clusterIP": "None"}));
        assert_eq!(first["ipFamilies"], json!(["IPv4", "IPv6"]));
        for policy in ["RequireDualStack", "PreferDualStack"] {
            let change = json!({"ipFamilies": ["IPv4"], "ipFamilyPolicy": policy});
            let why = format!(
                "Service \"svc\" is invalid: spec.ipFamilyPolicy: Invalid value: \"{policy}\": must be 'SingleStack' to release the \
                 secondary IP family"
            );
            assert_eq!(write(&mut pool, Some(&first), &merged(&first, &change)), why);
        }
        let swapped =
            write(&mut pool, Some(&first), &merged(&first, &json!({"ipFamilies": ["IPv6", "IPv4"]})));
        let single =
            write(&mut pool, Some(&swapped), &merged(&swapped, &json!({"ipFamilyPolicy": "SingleStack"})));
        assert_eq!(single["ipFamilies"], json!(["IPv6"]));
    }

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn errors_in_the_policy_come_first() {
        let policy = "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple";
        let two = json!({"ipFamilyPolicy": "SingleStack", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"]});
        assert_eq!(
            write(&mut pool(), None, &two),
            format!(
                "Service \"svc\" is invalid: [{policy} cluster IPs are specified, spec.clusterIPs[1]: Invalid value: \
                 [\"10.0.0.1\",\"fd00::1\"]: IPv6 is not configured on this cluster]"
            )
        );
        assert_eq!(
            write(&mut pool(), None, &merged(&two, &json!({"ipFamilies": ["IPv4", "IPv6"]}))),
            format!(
                "Service \"svc\" is invalid: [{policy} cluster IPs are specified, {policy} IP families are specified]"
            )
        );
    }

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn an_update_names_each_node_port_once_per_protocol() {
        let updated = |second: Value| {
            let mut pool = pool();
            let one = json!({"type": "NodePort", "ports": [{"name": "a", "port": 80}]});
            let first = write(&mut pool, None, &one);
            let mut second = second;
            second["name"] = json!("b");
            let ports =
                json!({"ports": [{"name": "a", "port": 80, "protocol": "TCP", "nodePort": 30_123}, second]});
            write(&mut pool, Some(&first), &merged(&first, &ports))
        };
        let twice = updated(json!({"port": 81, "protocol": "TCP", "nodePort": 30_123}));
        assert_eq!(twice, "duplicate nodePort: {TCP 30123}");
        let both = updated(json!({"port": 80, "protocol": "UDP", "nodePort": 30_123}));
        assert_eq!(node_ports(&both), [30_123, 30_123]);
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

    #[test]
    fn a_headless_service_has_the_families_of_its_endpoints() {
        let check = |more: &Value, families: &Value, policy: &str| {
            let spec = write(&mut pool(), None, &merged(&json!({"clusterIP": "None"}), more));
            assert_eq!(spec["clusterIPs"], json!(["None"]));
            assert_eq!((&spec["ipFamilies"], &spec["ipFamilyPolicy"]), (families, &json!(policy)), "{more}");
        };
        check(&json!({"selector": {"a": "b"}}), &json!(["IPv4"]), "SingleStack");
        check(&json!({}), &json!(["IPv4", "IPv6"]), "RequireDualStack");
        check(&json!({"ipFamilies": ["IPv6"]}), &json!(["IPv6", "IPv4"]), "RequireDualStack");
        check(&json!({"ipFamilyPolicy": "SingleStack"}), &json!(["IPv4"]), "SingleStack");
    }
}
