//! Fields that the former type of a Service needed and its new one does not.

use serde_json::{Value, json};

use super::service_spec::{
    has_address, has_health_check, has_node_ports, is_balanced, is_external, node_ports, remove,
};
use crate::kinds::builtin::shared::fields::elements;

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

fn remove_unchanged(before: &Value, spec: &mut Value, field: &str) {
    if spec.get(field) == before.get(field) {
        remove(spec, field);
    }
}
