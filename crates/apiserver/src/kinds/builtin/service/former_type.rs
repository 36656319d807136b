//! Fields that the old type of a Service needed and the new type does not.

use serde_json::{Value, json};

use super::service_spec::{
    has_address, has_health_check, has_node_ports, is_balanced, is_external, node_ports, remove,
};
use crate::kinds::builtin::shared::fields::elements;

/// Removes fields that the old type of a Service needed and the new type does not. A field that the client changed in the same update
/// stays, so that validation reports it.
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
        // The client may have added or removed ports. Only a new node port counts as a change.
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
    // kube-apiserver clears the status at once, although a controller removes the load balancer later.
    let is_balanced = is_balanced(spec);
    if !is_balanced && let Some(status) = service.get_mut("status").filter(|status| status.is_object()) {
        status["loadBalancer"] = json!({});
    }
    drop_traffic_policy(service);
}

/// Removes the internal traffic policy of a DNS alias: without an address there is no traffic to direct.
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
