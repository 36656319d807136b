//! Services: their defaults, and the rules for DNS aliases. [`service_addresses`](super::service_addresses) allocates addresses and node ports.

use kube_apimachinery::status::FieldError;
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
    if service["spec"]["type"] == "LoadBalancer" {
        within(service, "status", |status| {
            within(status, "loadBalancer", |balancer| {
                for ingress in elements(balancer, "ingress").filter(|ingress| has_text(&ingress["ip"])) {
                    set(ingress, "ipMode", json!("VIP"));
                }
            });
        });
    }
}

/// Returns the errors of a Service.
pub(super) fn validate(service: &Value) -> Vec<FieldError> {
    let spec = &service["spec"];
    if spec["type"] == "ExternalName" && !has_text(&spec["externalName"]) {
        return vec![FieldError::required("spec.externalName", "")];
    }
    let kind = spec["type"].as_str().unwrap_or_default();
    if spec["clusterIP"] == "None" && ["NodePort", "LoadBalancer"].contains(&kind) {
        let why = format!("may not be set to 'None' for {kind} services");
        return vec![FieldError::invalid("spec.clusterIPs[0]", "\"None\"", &why)];
    }
    Vec::new()
}

/// Returns the warnings for an accepted Service.
pub(super) fn warnings(service: &Value) -> Vec<String> {
    let spec = &service["spec"];
    let is_ignored = spec["type"] != "ExternalName" && has_text(&spec["externalName"]);
    let warning = "spec.externalName is ignored when spec.type is not \"ExternalName\"";
    is_ignored.then(|| warning.to_owned()).into_iter().collect()
}

fn has_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
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
    fn a_dns_alias_has_no_traffic_policy() {
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
