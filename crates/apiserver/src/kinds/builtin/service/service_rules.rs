//! Validation of Services. `ip_families` validates the relation between addresses and families.

use std::collections::BTreeSet;

use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::Value;

use super::ip_families;
use super::service_spec::{has_health_check, is_balanced, is_external};
use crate::kinds::builtin::shared::field_checks::{
    address, address_range, duplicate, invalid_text, labels, port, port_number, reachable_address, required,
    supported,
};
use crate::kinds::builtin::shared::fields::{list, text};
use crate::kinds::builtin::shared::label_selector::invalid;

const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
const NOT_ALIAS: &str = "may not be set for ExternalName services";
const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
/// Annotations with the mode of topology-aware routing; the second one is deprecated.
const TOPOLOGY: [&str; 2] =
    ["service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"];
/// Annotation with the ranges of clients, which `spec.loadBalancerSourceRanges` replaces.
const RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
/// Maximum number of seconds for which a client stays with a pod: one day.
const MAX_AFFINITY: i64 = 86_400;

/// Validates changes of a Service that is not an alias before and after.
pub(super) fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let (before, after) = (&old["spec"], &new["spec"]);
    let mut errors = Vec::new();
    let class = "loadBalancerClass";
    if is_balanced(before) && is_balanced(after) && before[class] != after[class] {
        let shown = after[class].to_string();
        errors.push(FieldError::invalid("spec.loadBalancerClass", &shown, "may not change once set"));
    }
    errors.extend(class_of_balancer(after));
    if has_health_check(before)
        && has_health_check(after)
        && before["healthCheckNodePort"] != after["healthCheckNodePort"]
    {
        errors.push(FieldError::forbidden("spec.healthCheckNodePort", "field is immutable"));
    }
    errors
}

/// Validates the state of a Service; `old` is its former state.
pub(super) fn validate(service: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let (spec, given) = (&service["spec"], &service["metadata"]["annotations"]);
    let kind = text(spec, "type");
    let mut errors = Vec::new();
    if let [Some(mode), Some(hints)] = TOPOLOGY.map(|name| given[name].as_str())
        && mode != hints
    {
        let why = format!("must match annotations[{}] when both are specified", TOPOLOGY[1]);
        errors.push(invalid_text(format!("metadata.annotations[{}]", TOPOLOGY[0]), mode, &why));
    }
    let is_headless = text(spec, "clusterIP") == "None";
    if list(spec, "ports").is_empty() && !is_headless && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    match kind {
        // Node ports and load balancers build on the cluster IP.
        "LoadBalancer" | "NodePort" if is_headless => {
            let why = format!("may not be set to 'None' for {kind} services");
            errors.push(invalid_text("spec.clusterIPs[0]", "None", &why));
        }
        "ExternalName" => errors.extend(alias(spec)),
        _ => {}
    }
    errors.extend(ports(spec));
    errors.extend(labels(&spec["selector"], "spec.selector"));
    errors.extend(affinity(spec));
    // The allocation of addresses has checked them already, unless a write to `/status` creates the Service.
    if old.is_none() && kind != "ExternalName" {
        errors.extend(ip_families::validate_related(None, spec));
    }
    // Older servers accepted addresses and ranges that are invalid now. An update may keep them.
    let known = |field: &str| -> BTreeSet<&str> {
        let list = old.map(|old| list(&old["spec"], field)).unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::trim).collect()
    };
    let old_addresses = known("externalIPs");
    for (index, given) in list(spec, "externalIPs").iter().enumerate() {
        let (given, field) = (given.as_str().unwrap_or_default(), format!("spec.externalIPs[{index}]"));
        match address(given, &field).filter(|_| !old_addresses.contains(given)) {
            Some(error) => errors.push(error),
            None => errors.extend(reachable_address(given, &field)),
        }
    }
    errors.extend(supported(spec, "type", "spec", &TYPES));
    errors.extend(node_ports(spec, kind));
    errors.extend(source_ranges(spec, given, old, &known("loadBalancerSourceRanges")));
    if !spec["allocateLoadBalancerNodePorts"].is_null() && !is_balanced(spec) {
        errors.push(FieldError::forbidden("spec.allocateLoadBalancerNodePorts", ONLY_BALANCED));
    }
    errors.extend(class_of_balancer(spec));
    errors.extend(traffic(spec));
    errors
}

/// Validates a Service of type `ExternalName`, a DNS alias.
fn alias(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["clusterIPs", "ipFamilies"] {
        if !list(spec, field).is_empty() {
            errors.push(FieldError::forbidden(format!("spec.{field}"), NOT_ALIAS));
        }
    }
    if !spec["ipFamilyPolicy"].is_null() {
        errors.push(FieldError::forbidden("spec.ipFamilyPolicy", NOT_ALIAS));
    }
    let name = text(spec, "externalName");
    // A fully qualified name may end with a dot.
    match name.strip_suffix('.').unwrap_or(name) {
        "" => errors.push(FieldError::required("spec.externalName", "")),
        name => errors.extend(invalid("spec.externalName", name, &names::subdomain(name))),
    }
    errors
}

fn ports(spec: &Value) -> Vec<FieldError> {
    let list = list(spec, "ports");
    let mut seen = BTreeSet::new();
    let mut errors = Vec::new();
    for (index, given) in list.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let (name, field) = (text(given, "name"), format!("{path}.name"));
        if !name.is_empty() {
            errors.extend(invalid(&field, name, &names::label(name)));
            if !seen.insert(name) {
                errors.push(duplicate(field, name));
            }
        } else if list.len() > 1 {
            errors.push(FieldError::required(field, ""));
        }
        errors.extend(port_number(given["port"].as_i64().unwrap_or_default(), format!("{path}.port")));
        errors.extend(supported(given, "protocol", &path, &PROTOCOLS));
        // Defaults make a missing port that of the Service.
        if !given["targetPort"].is_null() {
            errors.extend(port(&given["targetPort"], &format!("{path}.targetPort")));
        }
        if let Some(protocol) = given["appProtocol"].as_str() {
            errors.extend(invalid(&format!("{path}.appProtocol"), protocol, &names::qualified(protocol)));
        }
    }
    errors
}

/// Validates session affinity and its timeout.
fn affinity(spec: &Value) -> Vec<FieldError> {
    const FIELD: &str = "spec.sessionAffinityConfig";
    let mut errors: Vec<FieldError> =
        supported(spec, "sessionAffinity", "spec", &["ClientIP", "None"]).into_iter().collect();
    let config = &spec["sessionAffinityConfig"];
    match text(spec, "sessionAffinity") {
        "ClientIP" => {
            let seconds = config["clientIP"]["timeoutSeconds"].as_i64();
            let field = format!("{FIELD}.clientIP.timeoutSeconds");
            if let Some(seconds) = seconds.filter(|seconds| !(1..=MAX_AFFINITY).contains(seconds)) {
                // The text says "less than", but the maximum itself is valid.
                let why = format!("must be greater than 0 and less than {MAX_AFFINITY}");
                errors.push(FieldError::invalid(field, &seconds.to_string(), &why));
            }
        }
        "None" if !config.is_null() => {
            let why = "must not be set when session affinity is None";
            errors.push(FieldError::forbidden(FIELD, why));
        }
        _ => {}
    }
    errors
}

/// Validates that node ports are allowed, and that ports and node ports differ.
fn node_ports(spec: &Value, kind: &str) -> Vec<FieldError> {
    let ports: Vec<(usize, &Value)> = list(spec, "ports").iter().enumerate().collect();
    let node_port = |port: &Value| port["nodePort"].as_i64().filter(|number| *number != 0);
    let mut errors = Vec::new();
    if kind == "ClusterIP" {
        for (index, _) in ports.iter().filter(|(_, port)| node_port(port).is_some()) {
            let why = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(format!("spec.ports[{index}].nodePort"), why));
        }
    }
    let mut seen = BTreeSet::new();
    for (index, port) in &ports {
        let Some(number) = node_port(port) else { continue };
        if !seen.insert((text(port, "protocol"), number)) {
            errors.push(FieldError {
                reason: "FieldValueDuplicate",
                field: format!("spec.ports[{index}].nodePort"),
                message: format!("Duplicate value: {number}"),
            });
        }
    }
    let mut seen = BTreeSet::new();
    for (index, port) in &ports {
        let (protocol, number) = (text(port, "protocol"), port["port"].as_i64().unwrap_or_default());
        if !seen.insert((protocol, number)) {
            // The value is shown as a Go struct.
            errors.push(FieldError {
                reason: "FieldValueDuplicate",
                field: format!("spec.ports[{index}]"),
                message: format!(
                    "Duplicate value: {{\"Name\":\"\",\"Protocol\":\"{protocol}\",\"AppProtocol\":null,\"Port\":{number},\
                     \"TargetPort\":0,\"NodePort\":0}}"
                ),
            });
        }
    }
    errors
}

/// Validates the ranges of clients of a load balancer, in the field or in the annotation that the field replaces.
fn source_ranges(
    spec: &Value,
    annotations: &Value,
    old: Option<&Value>,
    known: &BTreeSet<&str>,
) -> Vec<FieldError> {
    // The path has the name of Go's field.
    const FIELD: &str = "spec.LoadBalancerSourceRanges";
    let mut errors = Vec::new();
    let ranges = list(spec, "loadBalancerSourceRanges");
    if !ranges.is_empty() {
        if !is_balanced(spec) {
            errors.push(FieldError::forbidden(FIELD, ONLY_BALANCED));
        }
        for (index, range) in ranges.iter().enumerate() {
            let range = range.as_str().unwrap_or_default().trim();
            if !known.contains(range) {
                errors.extend(address_range(range, &format!("{FIELD}[{index}]")));
            }
        }
    } else if let Some(ranges) = annotations[RANGES].as_str() {
        // The annotation counts only if the field is empty.
        let field = format!("metadata.annotations[{RANGES}]");
        if !is_balanced(spec) {
            errors.push(FieldError::forbidden(&*field, ONLY_BALANCED));
        }
        let is_new = old.is_none_or(|old| old["metadata"]["annotations"][RANGES] != ranges);
        if is_new && !ranges.trim().is_empty() {
            errors.extend(ranges.split(',').filter_map(|range| address_range(range.trim(), &field)));
        }
    }
    errors
}

/// Validates the class of a load balancer.
fn class_of_balancer(spec: &Value) -> Vec<FieldError> {
    const FIELD: &str = "spec.loadBalancerClass";
    match spec["loadBalancerClass"].as_str() {
        None => Vec::new(),
        Some(class) if is_balanced(spec) => invalid(FIELD, class, &names::qualified(class)),
        Some(_) => vec![FieldError::forbidden(FIELD, ONLY_BALANCED)],
    }
}

/// Validates the policies for traffic from outside and inside of the cluster.
fn traffic(spec: &Value) -> Vec<FieldError> {
    const HEALTH: &str = "spec.healthCheckNodePort";
    let policies = ["Cluster", "Local"];
    let mut errors = Vec::new();
    let policy = text(spec, "externalTrafficPolicy");
    if !is_external(spec) {
        if !policy.is_empty() {
            let why = "may only be set for externally-accessible services";
            errors.push(invalid_text("spec.externalTrafficPolicy", policy, why));
        }
    } else {
        errors.extend(supported(spec, "externalTrafficPolicy", "spec", &policies));
    }
    let health = spec["healthCheckNodePort"].as_i64().filter(|number| *number != 0);
    if has_health_check(spec) {
        errors.extend(health.and_then(|number| port_number(number, HEALTH)));
    } else if let Some(number) = health {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(FieldError::invalid(HEALTH, &number.to_string(), why));
    }
    errors.extend(supported(spec, "internalTrafficPolicy", "spec", &policies));
    errors.extend(supported(spec, "trafficDistribution", "spec", &DISTRIBUTIONS));
    errors
}

/// Validates the addresses of the load balancer in the status. Addresses of the old status are not checked again.
pub(super) fn validate_status(old: &Value, new: &Value) -> Vec<FieldError> {
    const FIELD: &str = "status.loadBalancer.ingress";
    let points = list(&new["status"]["loadBalancer"], "ingress");
    if !is_balanced(&new["spec"]) && !points.is_empty() {
        let why = "may only be used when `spec.type` is 'LoadBalancer'";
        return vec![FieldError::forbidden(FIELD, why)];
    }
    let known: BTreeSet<&str> =
        list(&old["status"]["loadBalancer"], "ingress").iter().map(|point| text(point, "ip")).collect();
    let mut errors = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let path = format!("{FIELD}[{index}]");
        let given = text(point, "ip");
        if !given.is_empty() && !known.contains(given) {
            errors.extend(address(given, &format!("{path}.ip")));
        }
        match point["ipMode"].as_str() {
            None => errors.extend(required_mode(given, &path)),
            Some(_) if given.is_empty() => {
                let why = "may not be specified when `ip` is not set";
                errors.push(FieldError::forbidden(format!("{path}.ipMode"), why));
            }
            Some(_) => errors.extend(supported(point, "ipMode", &path, &["Proxy", "VIP"])),
        }
        let host = text(point, "hostname");
        if required(point, "hostname", &path).is_none() {
            let field = format!("{path}.hostname");
            errors.extend(invalid(&field, host, &names::subdomain(host)));
            if host.parse::<std::net::IpAddr>().is_ok() {
                errors.push(invalid_text(field, host, "must be a DNS name, not an IP address"));
            }
        }
    }
    errors
}

fn required_mode(address: &str, path: &str) -> Option<FieldError> {
    let why = "must be specified when `ip` is set";
    (!address.is_empty()).then(|| FieldError::required(format!("{path}.ipMode"), why))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(spec: &Value) -> Vec<String> {
        validate(&json!({"metadata": {}, "spec": spec}), None).iter().map(ToString::to_string).collect()
    }

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn ports_have_names_and_differ() {
        assert_eq!(errors(&json!({"type": "ClusterIP"})), ["spec.ports: Required value"]);
        let headless = json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]});
        assert_eq!(errors(&headless), [""; 0]);
        assert_eq!(errors(&json!({"type": "ExternalName", "externalName": "a.example."})), [""; 0]);
        let port = |number: i64| json!({"port": number, "protocol": "TCP", "targetPort": "x--"});
        assert_eq!(
            errors(&json!({"type": "ClusterIP", "ports": [port(80), port(80)]})),
            [
                "spec.ports[0].name: Required value",
                "spec.ports[0].targetPort: Invalid value: \"x--\": must not contain consecutive hyphens",
                "spec.ports[0].targetPort: Invalid value: \"x--\": must not begin or end with a hyphen",
                "spec.ports[1].name: Required value",
                "spec.ports[1].targetPort: Invalid value: \"x--\": must not contain consecutive hyphens",
                "spec.ports[1].targetPort: Invalid value: \"x--\": must not begin or end with a hyphen",
                "spec.ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,\"Port\":80,\"TargetPort\":0,\"NodePort\":0}",
            ]
        );
    }

    #[test]
    fn fields_of_load_balancers_belong_to_them() {
        let mut spec = json!({
            "type": "ClusterIP", "ports": [{"port": 1, "nodePort": 3}], "loadBalancerSourceRanges": ["10.0.0.1/8"],
            "allocateLoadBalancerNodePorts": true, "loadBalancerClass": "a", "externalTrafficPolicy": "Local",
            "healthCheckNodePort": 5, "sessionAffinity": "X", "externalIPs": ["127.0.0.1"], "trafficDistribution": "Y",
        });
        assert_eq!(
            errors(&spec),
            [
                "spec.sessionAffinity: Unsupported value: \"X\": supported values: \"ClientIP\", \"None\"",
                "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
                "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
                "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
                "spec.LoadBalancerSourceRanges[0]: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length",
                "spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'",
                "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
                "spec.healthCheckNodePort: Invalid value: 5: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
                "spec.trafficDistribution: Unsupported value: \"Y\": supported values: \"PreferClose\", \"PreferSameZone\", \"PreferSameNode\"",
            ]
        );
        spec["externalIPs"] = json!([]);
        assert!(
            errors(&spec).contains(
                &"spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services"
                    .to_owned()
            )
        );
    }

    #[test]
    fn only_load_balancers_have_addresses_outside() {
        let service = |kind: &str| json!({"spec": {"type": kind}, "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}});
        let errors = |service: &Value| -> Vec<String> {
            validate_status(&json!({}), service).iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            errors(&service("ClusterIP")),
            ["status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"]
        );
        assert_eq!(
            errors(&service("LoadBalancer")),
            ["status.loadBalancer.ingress[0].ipMode: Required value: must be specified when `ip` is set"]
        );
    }
}
