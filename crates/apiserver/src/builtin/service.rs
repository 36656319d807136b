//! Services: their defaults. Addresses and node ports are not allocated: a service has those that it was given.

use serde_json::{Value, json};

use super::defaults::{elements, set, within};

/// Fills in the defaults of a Service whose fields were completed.
pub(super) fn default(service: &mut Value) {
    within(service, "spec", |spec| {
        set(spec, "sessionAffinity", json!("None"));
        set(spec, "type", json!("ClusterIP"));
        if spec["sessionAffinity"] == "None" {
            if let Some(fields) = spec.as_object_mut() {
                fields.remove("sessionAffinityConfig");
            }
        } else if spec["sessionAffinity"] == "ClientIP" {
            set(spec, "sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10_800}}));
        }
        for port in elements(spec, "ports") {
            set(port, "protocol", json!("TCP"));
            if port["targetPort"].is_null() || port["targetPort"] == 0 || port["targetPort"] == "" {
                let number = port["port"].clone();
                port["targetPort"] = number;
            }
        }
        let kind = spec["type"].as_str().unwrap_or_default().to_owned();
        if kind == "NodePort" || kind == "LoadBalancer" {
            set(spec, "externalTrafficPolicy", json!("Cluster"));
        }
        if kind == "LoadBalancer" {
            set(spec, "allocateLoadBalancerNodePorts", json!(true));
        }
        if kind == "ExternalName" {
            return;
        }
        set(spec, "internalTrafficPolicy", json!("Cluster"));
        addresses(spec);
    });
}

/// One address and the list of them say the same.
fn addresses(spec: &mut Value) {
    let first = spec["clusterIPs"][0].clone();
    if first.is_string() {
        set(spec, "clusterIP", first);
    }
    let address = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
    if address.is_empty() {
        return;
    }
    set(spec, "clusterIPs", json!([address]));
    let family = if address.contains(':') { "IPv6" } else { "IPv4" };
    set(spec, "ipFamilies", json!([family]));
    set(spec, "ipFamilyPolicy", json!("SingleStack"));
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_service_keeps_the_address_it_is_given() {
        check(
            &json!({"clusterIP": "None"}),
            &json!({
                "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                "clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            }),
        );
        check(
            &json!({"type": "ExternalName", "externalName": "x.example"}),
            &json!({"type": "ExternalName", "externalName": "x.example", "sessionAffinity": "None"}),
        );
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
