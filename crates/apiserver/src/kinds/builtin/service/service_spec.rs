//! Reads the spec of a Service: the needs of its type, and the addresses and ports that it names.

use serde_json::Value;

/// Whether the type has the field `clusterIP`. Headless Services have it, with the value `None`; a DNS alias does not.
pub(super) fn has_address(spec: &Value) -> bool {
    spec["type"] != "ExternalName"
}

pub(super) fn is_headless(spec: &Value) -> bool {
    spec["clusterIP"] == "None"
}

pub(super) fn has_selector(spec: &Value) -> bool {
    spec["selector"].as_object().is_some_and(|selector| !selector.is_empty())
}

pub(super) fn has_node_ports(spec: &Value) -> bool {
    spec["type"] == "NodePort" || is_balanced(spec)
}

/// Whether the Service has a load balancer.
pub(super) fn is_balanced(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer"
}

/// Whether clients outside of the cluster can reach the Service.
pub(super) fn is_external(spec: &Value) -> bool {
    has_node_ports(spec)
        || spec["type"] == "ClusterIP"
            && spec["externalIPs"].as_array().is_some_and(|addresses| !addresses.is_empty())
}

/// Whether the load balancer checks the health of nodes. With the policy `Local`, only nodes with a pod of the Service are healthy.
pub(super) fn has_health_check(spec: &Value) -> bool {
    is_balanced(spec) && spec["externalTrafficPolicy"] == "Local"
}

/// Whether every port gets a node port, instead of only those that name one.
pub(super) fn allocates_all(spec: &Value) -> bool {
    !is_balanced(spec) || spec["allocateLoadBalancerNodePorts"] != false
}

pub(super) fn addresses(spec: &Value) -> Vec<String> {
    strings(&spec["clusterIPs"])
}

pub(super) fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(super) fn ports(spec: &Value) -> impl Iterator<Item = &Value> {
    spec["ports"].as_array().into_iter().flatten()
}

pub(super) fn node_ports(spec: &Value) -> Vec<i64> {
    ports(spec).filter_map(node_port).collect()
}

pub(super) fn node_port(port: &Value) -> Option<i64> {
    port_number(&port["nodePort"])
}

/// Reads a port, which may be any number. Zero stands for any.
pub(super) fn port_number(value: &Value) -> Option<i64> {
    value.as_i64().filter(|number| *number != 0)
}

pub(super) fn is_empty(text: &Value) -> bool {
    text.as_str().is_none_or(str::is_empty)
}

/// Removes a field from an object.
pub(super) fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}
