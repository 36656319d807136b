//! Services. `addresses` decides which cluster IPs and ports a Service needs, `pool` chooses free ones.

mod addresses;
mod former_type;
mod ip_families;
mod node_ports;
pub(crate) mod pool;
mod service_rules;
mod service_spec;

use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::discouraged;
use super::shared::fields::{elements, list, set, set_pointer, text, within};
use crate::kind::resource::Resource;
use crate::kind::{Allocator, WriteContext};

#[derive(Debug)]
pub(super) struct Service;

impl BuiltinKind for Service {
    fn default(&self, service: &mut Value) {
        default(service);
    }

    fn allocates(&self) -> bool {
        true
    }

    fn allocate(
        &self,
        allocator: &mut dyn Allocator,
        old: Option<&Value>,
        service: &mut Value,
    ) -> Result<(), ApiError> {
        addresses::allocate(allocator, old, service)
    }

    fn prepare_create(&self, _context: &WriteContext<'_>, service: &mut Value) {
        former_type::drop_traffic_policy(service);
    }

    fn prepare_update(&self, _context: &WriteContext<'_>, old: &Value, new: &mut Value) {
        former_type::drop_unneeded(old, new);
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(old) = old {
            errors.extend(validate_address(&old["spec"], &new["spec"]));
            errors.extend(service_rules::validate_update(old, new));
        }
        errors.extend(service_rules::validate(new, old));
        errors
    }

    fn validate_subresource(&self, subresource: &str, old: &Value, new: &Value) -> Vec<FieldError> {
        if subresource == "status" { service_rules::validate_status(old, new) } else { Vec::new() }
    }

    fn warnings(&self, _resource: &Resource, service: &Value, _old: Option<&Value>) -> Vec<String> {
        warnings(service)
    }

    fn status_warnings(&self, service: &Value) -> Vec<String> {
        discouraged::of_load_balancer(service)
    }
}

fn default(service: &mut Value) {
    within(service, "spec", |spec| {
        set(spec, "sessionAffinity", json!("None"));
        set(spec, "type", json!("ClusterIP"));
        if spec["sessionAffinity"] == "None" {
            if let Some(fields) = spec.as_object_mut() {
                fields.remove("sessionAffinityConfig");
            }
        } else if spec["sessionAffinity"] == "ClientIP"
            && spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null()
        {
            spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 10_800}});
        }
        for port in elements(spec, "ports") {
            set(port, "protocol", json!("TCP"));
            // For Go, the number 0 and the empty name mean absent.
            if port["targetPort"].is_null() || port["targetPort"] == 0 || port["targetPort"] == "" {
                let number = port["port"].clone();
                port["targetPort"] = number;
            }
        }
        let kind = spec["type"].as_str().unwrap_or_default().to_owned();
        if service_spec::is_external(spec) {
            set(spec, "externalTrafficPolicy", json!("Cluster"));
        }
        if kind == "LoadBalancer" {
            set(spec, "allocateLoadBalancerNodePorts", json!(true));
        }
        // A DNS alias has no address in the cluster. Unknown types are refused later.
        if ["ClusterIP", "NodePort", "LoadBalancer"].contains(&&*kind) {
            set_pointer(spec, "internalTrafficPolicy", json!("Cluster"));
        }
    });
    if service["spec"]["type"] == "LoadBalancer" {
        within(service, "status", |status| {
            within(status, "loadBalancer", |balancer| {
                for ingress in elements(balancer, "ingress").filter(|ingress| has_text(&ingress["ip"])) {
                    // Before the field existed, all load balancers behaved like this.
                    set(ingress, "ipMode", json!("VIP"));
                }
            });
        });
    }
}

fn warnings(service: &Value) -> Vec<String> {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    let spec = &service["spec"];
    let mut warnings = Vec::new();
    if service["metadata"]["annotations"].get(HINTS).is_some() {
        warnings.push(format!(
            "annotation {HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"
        ));
    }
    let (kind, address) = (text(spec, "type"), text(spec, "clusterIP"));
    let is_headless = kind == "ClusterIP" && address == "None";
    if !address.is_empty() && address != "None" {
        warnings.extend(addresses_in(spec, "clusterIPs"));
    }
    let external = list(spec, "externalIPs");
    if is_headless {
        if has_text(&spec["loadBalancerIP"]) {
            warnings.push("spec.loadBalancerIP is ignored for headless services".to_owned());
        }
        if !external.is_empty() {
            warnings.push("spec.externalIPs is ignored for headless services".to_owned());
        }
        // kube-apiserver spells the field as in Go.
        if text(spec, "sessionAffinity") != "None" {
            warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    }
    warnings.extend(addresses_in(spec, "externalIPs"));
    if !external.is_empty() && !is_headless && kind != "ExternalName" {
        let warning = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.push(warning.to_owned());
    }
    warnings.extend(discouraged::address(text(spec, "loadBalancerIP"), "spec.loadBalancerIP"));
    for (index, range) in list(spec, "loadBalancerSourceRanges").iter().enumerate() {
        let path = format!("spec.loadBalancerSourceRanges[{index}]");
        warnings.extend(discouraged::range(range.as_str().unwrap_or_default(), &path));
    }
    if kind == "ExternalName" && !external.is_empty() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if kind != "ExternalName" && has_text(&spec["externalName"]) {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec["trafficDistribution"] == "PreferClose" {
        let why = "\"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(format!("spec.trafficDistribution: {why}"));
    }
    warnings
}

/// Returns the warnings about the addresses in a list of the spec.
fn addresses_in(spec: &Value, field: &str) -> Vec<String> {
    let addresses = list(spec, field).iter().enumerate();
    let warning = |(index, address): (usize, &Value)| {
        discouraged::address(address.as_str().unwrap_or_default(), &format!("spec.{field}[{index}]"))
    };
    addresses.filter_map(warning).collect()
}

/// Checks that a cluster IP does not change once it is set. A Service that becomes a DNS alias gives it up.
fn validate_address(old: &Value, new: &Value) -> Option<FieldError> {
    let has_none =
        |spec: &Value| spec["type"] == "ExternalName" || spec["clusterIP"].as_str().is_none_or(str::is_empty);
    if has_none(old) || new["type"] == "ExternalName" || old["clusterIP"] == new["clusterIP"] {
        return None;
    }
    let addresses = match &new["clusterIPs"] {
        Value::Null => json!([new["clusterIP"]]),
        addresses => addresses.clone(),
    };
    Some(FieldError::invalid("spec.clusterIPs[0]", &addresses.to_string(), "may not change once set"))
}

fn has_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::check_update;

    fn check(spec: &Value, expected: &Value) {
        let mut service = json!({ "spec": spec });
        default(&mut service);
        assert_eq!(service["spec"], *expected);
        default(&mut service);
        assert_eq!(service["spec"], *expected, "defaults change nothing that they set");
    }

    #[test]
    fn ports_lead_to_the_port_of_the_same_number() {
        check(
            &json!({"ports": [{"port": 80}, {"port": 53, "protocol": "UDP", "targetPort": "dns"}]}),
            &json!({
                "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                "ports": [
                    {"port": 80, "protocol": "TCP", "targetPort": 80},
                    {"port": 53, "protocol": "UDP", "targetPort": "dns"},
                ],
            }),
        );
    }

    #[test]
    fn a_dns_alias_has_no_traffic_policy() {
        check(
            &json!({"type": "ExternalName", "externalName": "x.example"}),
            &json!({"type": "ExternalName", "externalName": "x.example", "sessionAffinity": "None"}),
        );
    }

    #[test]
    fn the_cluster_ip_is_immutable() {
        let service = |kind: &str, address: &str| json!({"spec": {"type": kind, "clusterIP": address, "externalName": "x.example", "ports": [{"port": 80}]}});
        let why = "spec.clusterIPs[0]: Invalid value: [\"10.96.0.2\"]: may not change once set";
        let check = |old: Value, new: Value, expected: &[&str]| check_update("Service", &old, &new, expected);
        check(service("ClusterIP", "10.96.0.1"), service("NodePort", "10.96.0.2"), &[why]);
        check(service("ClusterIP", ""), service("ClusterIP", "10.96.0.2"), &[]);
        check(service("ClusterIP", "10.96.0.1"), service("ExternalName", ""), &[]);
    }

    #[test]
    fn a_service_with_addresses_outside_is_reached_from_there() {
        check(
            &json!({"externalIPs": ["192.0.2.1"]}),
            &json!({
                "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                "externalIPs": ["192.0.2.1"], "externalTrafficPolicy": "Cluster",
            }),
        );
        check(
            &json!({"type": "ExternalName", "externalIPs": ["192.0.2.1"]}),
            &json!({"type": "ExternalName", "sessionAffinity": "None", "externalIPs": ["192.0.2.1"]}),
        );
        check(
            &json!({"type": "Other", "externalIPs": ["192.0.2.1"]}),
            &json!({"type": "Other", "sessionAffinity": "None", "externalIPs": ["192.0.2.1"]}),
        );
    }

    #[test]
    fn a_session_without_a_timeout_lasts_three_hours() {
        let expected = json!({"clientIP": {"timeoutSeconds": 10_800}});
        for config in [json!(null), json!({}), json!({"clientIP": null}), json!({"clientIP": {}})] {
            let mut service =
                json!({"spec": {"sessionAffinity": "ClientIP", "sessionAffinityConfig": config}});
            default(&mut service);
            assert_eq!(service["spec"]["sessionAffinityConfig"], expected, "{config}");
        }
        let mut service = json!({"spec": {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}}});
        default(&mut service);
        assert_eq!(service["spec"]["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"], json!(5));
    }

    #[test]
    fn a_load_balancer_is_reached_from_outside() {
        check(
            &json!({"type": "LoadBalancer", "sessionAffinity": "ClientIP"}),
            &json!({
                "type": "LoadBalancer", "sessionAffinity": "ClientIP", "internalTrafficPolicy": "Cluster",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10_800}}, "externalTrafficPolicy": "Cluster",
                "allocateLoadBalancerNodePorts": true,
            }),
        );
    }
}
