//! Services: their defaults. Addresses and node ports are not allocated: a Service keeps those that the client
//! set.

use serde_json::{Value, json};

use super::defaults::{elements, set, within};

/// Sets defaults of a Service after its fields were completed.
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
        // A DNS alias has no address in the cluster.
        if kind == "ExternalName" {
            return;
        }
        set(spec, "internalTrafficPolicy", json!("Cluster"));
    });
}

/// Completes the addresses of a Service after its fields were tracked, because the fields set here have no manager.
///
/// Makes `clusterIP` and `clusterIPs` agree, and derives the IP families. A headless Service without selector and policy gets
/// both families, because its endpoints may have addresses of either.
pub(super) fn complete_addresses(service: &mut Value) {
    let Some(spec) = service.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    if spec["type"] == "ExternalName" {
        return;
    }
    let first = spec["clusterIPs"][0].clone();
    if first.is_string() {
        set(spec, "clusterIP", first);
    }
    let address = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
    if address.is_empty() {
        return;
    }
    set(spec, "clusterIPs", json!([address]));
    let selects = spec["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    if address == "None" && !selects && spec["ipFamilyPolicy"].is_null() {
        spec["ipFamilyPolicy"] = json!("RequireDualStack");
        set(spec, "ipFamilies", json!(["IPv4"]));
        let other = if spec["ipFamilies"][0] == "IPv6" { "IPv4" } else { "IPv6" };
        if let Some(families) = spec["ipFamilies"].as_array_mut().filter(|families| families.len() == 1) {
            families.push(json!(other));
        }
        return;
    }
    let family = if address.contains(':') { "IPv6" } else { "IPv4" };
    set(spec, "ipFamilies", json!([family]));
    set(spec, "ipFamilyPolicy", json!("SingleStack"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spec: &Value, expected: &Value) {
        let mut service = json!({ "spec": spec });
        let complete = |service: &mut Value| {
            default(service);
            complete_addresses(service);
        };
        complete(&mut service);
        assert_eq!(service["spec"], *expected);
        complete(&mut service);
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
        let headless = |more: &Value, families: &Value, policy: &str| {
            let mut spec = json!({"clusterIP": "None"});
            let mut expected = json!({
                "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                "clusterIP": "None", "clusterIPs": ["None"],
            });
            for (name, value) in more.as_object().unwrap() {
                spec[name] = value.clone();
                expected[name] = value.clone();
            }
            expected["ipFamilies"] = families.clone();
            expected["ipFamilyPolicy"] = json!(policy);
            check(&spec, &expected);
        };
        headless(&json!({"selector": {"a": "b"}}), &json!(["IPv4"]), "SingleStack");
        headless(&json!({}), &json!(["IPv4", "IPv6"]), "RequireDualStack");
        headless(&json!({"ipFamilies": ["IPv4"]}), &json!(["IPv4", "IPv6"]), "RequireDualStack");
        headless(&json!({"ipFamilyPolicy": "SingleStack"}), &json!(["IPv4"]), "SingleStack");
        check(
            &json!({"clusterIP": "10.0.0.77"}),
            &json!({
                "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                "clusterIP": "10.0.0.77", "clusterIPs": ["10.0.0.77"], "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
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
