//! NetworkPolicies.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::discouraged;
use super::shared::field_checks::{address_range, invalid_text, port_name, port_number, required, supported};
use super::shared::fields::{elements, list, set, set_pointer, text, within};
use super::shared::label_selector::{self, invalid};
use crate::kind::resource::Resource;

/// Fields with rules, and the field of a rule that lists its peers.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

#[derive(Debug)]
pub(super) struct NetworkPolicy;

impl BuiltinKind for NetworkPolicy {
    fn default(&self, policy: &mut Value) {
        within(policy, "spec", |spec| {
            for direction in ["ingress", "egress"] {
                for rule in elements(spec, direction) {
                    elements(rule, "ports").for_each(|port| set_pointer(port, "protocol", json!("TCP")));
                }
            }
            // Every policy isolates pods for ingress, but only one with egress rules does so for egress.
            let egress = spec["egress"].as_array().is_some_and(|rules| !rules.is_empty());
            set(spec, "policyTypes", if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
        });
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let known = old.map(|old| ranges(&old["spec"])).unwrap_or_default();
        validate(&new["spec"], &known)
    }

    fn compares_empty(&self) -> bool {
        true
    }

    fn warnings(&self, _resource: &Resource, policy: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (direction, peers) in DIRECTIONS {
            for (rule, given) in list(&policy["spec"], direction).iter().enumerate() {
                for (index, peer) in list(given, peers).iter().enumerate() {
                    let (block, path) =
                        (&peer["ipBlock"], format!("spec.{direction}[{rule}].{peers}[{index}].ipBlock"));
                    warnings.extend(discouraged::range(text(block, "cidr"), &format!("{path}.cidr")));
                    for (number, except) in list(block, "except").iter().enumerate() {
                        let range = except.as_str().unwrap_or_default();
                        warnings.extend(discouraged::range(range, &format!("{path}.except[{number}]")));
                    }
                }
            }
        }
        warnings
    }
}

/// Returns all address ranges in a spec.
fn ranges(spec: &Value) -> BTreeSet<&str> {
    let rules = DIRECTIONS
        .into_iter()
        .flat_map(|(direction, peers)| list(spec, direction).iter().flat_map(move |rule| list(rule, peers)));
    let blocks = rules.map(|peer| &peer["ipBlock"]);
    blocks
        .flat_map(|block| list(block, "except").iter().chain([&block["cidr"]]))
        .filter_map(Value::as_str)
        .collect()
}

/// Validates the spec. Address ranges in `known`, those of the old spec, are not validated again.
fn validate(spec: &Value, known: &BTreeSet<&str>) -> Vec<FieldError> {
    const TYPES: [&str; 2] = ["Ingress", "Egress"];
    let mut errors = label_selector::validate(&spec["podSelector"], "spec.podSelector");
    for (direction, peers) in DIRECTIONS {
        for (index, rule) in list(spec, direction).iter().enumerate() {
            let path = format!("spec.{direction}[{index}]");
            for (index, port) in list(rule, "ports").iter().enumerate() {
                errors.extend(validate_port(port, &format!("{path}.ports[{index}]")));
            }
            for (index, peer) in list(rule, peers).iter().enumerate() {
                errors.extend(validate_peer(peer, known, &format!("{path}.{peers}[{index}]")));
            }
        }
    }
    let types = list(spec, "policyTypes");
    // Only the number is checked, so one type may occur twice.
    if types.len() > TYPES.len() {
        let why = "may not specify more than two policyTypes";
        errors.push(FieldError::invalid("spec.policyTypes", &spec["policyTypes"].to_string(), why));
        return errors;
    }
    for (index, given) in types.iter().enumerate() {
        let given = given.as_str().unwrap_or_default();
        if !TYPES.contains(&given) {
            errors.push(FieldError::not_supported(format!("spec.policyTypes[{index}]"), given, &TYPES));
        }
    }
    errors
}

fn validate_port(port: &Value, path: &str) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> =
        supported(port, "protocol", path, &["TCP", "UDP", "SCTP"]).into_iter().collect();
    let (own, end_field) = (format!("{path}.port"), format!("{path}.endPort"));
    let end = port["endPort"].as_i64();
    let refuse = |number: i64, why: &str| FieldError::invalid(&*end_field, &number.to_string(), why);
    if let Some(number) = port["port"].as_i64() {
        errors.extend(port_number(number, own));
        if let Some(end) = end {
            // kube-apiserver shows the port in this error, not the end.
            if end < number {
                errors.push(refuse(number, "must be greater than or equal to `port`"));
            }
            errors.extend(port_number(end, &*end_field));
        }
    } else if let Some(name) = port["port"].as_str() {
        errors.extend(end.map(|end| refuse(end, "may not be specified when `port` is non-numeric")));
        errors.extend(invalid(&own, name, &port_name(name)));
    } else {
        errors.extend(end.map(|end| refuse(end, "may not be specified when `port` is not specified")));
    }
    errors
}

fn validate_peer(peer: &Value, known: &BTreeSet<&str>, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut has_selector = false;
    for selector in ["podSelector", "namespaceSelector"] {
        if !peer[selector].is_null() {
            has_selector = true;
            errors.extend(label_selector::validate(&peer[selector], &format!("{path}.{selector}")));
        }
    }
    let block = &peer["ipBlock"];
    if !block.is_null() {
        errors.extend(validate_block(block, known, &format!("{path}.ipBlock")));
        if has_selector {
            errors.push(FieldError::forbidden(path, "may not specify both ipBlock and another peer"));
        }
    } else if !has_selector {
        errors.push(FieldError::required(path, "must specify a peer"));
    }
    errors
}

fn validate_block(block: &Value, known: &BTreeSet<&str>, path: &str) -> Vec<FieldError> {
    if let Some(error) = required(block, "cidr", path) {
        return vec![error];
    }
    let check = |range: &str, field: &str| address_range(range, field).filter(|_| !known.contains(range));
    let range = text(block, "cidr");
    let mut errors: Vec<FieldError> = check(range, &format!("{path}.cidr")).into_iter().collect();
    // Exceptions can be compared only with a valid range.
    let Some((start, bits)) = read_range(range) else { return errors };
    for (index, except) in list(block, "except").iter().enumerate() {
        let (except, field) = (except.as_str().unwrap_or_default(), format!("{path}.except[{index}]"));
        errors.extend(check(except, &field));
        let Some((inner, inner_bits)) = read_range(except) else { continue };
        // A shift by 128, for a prefix of length 0, is not defined; both sides then count as equal.
        let shift = 128_u32.saturating_sub(bits);
        let is_inside =
            inner.checked_shr(shift).unwrap_or_default() == start.checked_shr(shift).unwrap_or_default();
        if except.contains(':') != range.contains(':') || !is_inside || bits >= inner_bits {
            errors.push(invalid_text(field, except, "must be a strict subset of `cidr`"));
        }
    }
    errors
}

/// Reads an address range as its first address in 128 bits and the length of its prefix. IPv4 addresses fill the upper 32 bits, so both
/// families are compared alike.
fn read_range(range: &str) -> Option<(u128, u32)> {
    let (start, bits) = range.split_once('/')?;
    let bits: u32 = bits.parse().ok()?;
    match start.parse().ok()? {
        IpAddr::V4(v4) => Some((u128::from(u32::from(v4)) << 96, bits)),
        IpAddr::V6(v6) => Some((u128::from(v6), bits)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::check;

    /// Texts of kube-apiserver v1.36.3, observed or read in its source.
    #[test]
    fn rules_are_valid() {
        let check = |spec: Value, expected: &[&str]| {
            check("NetworkPolicy", &json!({ "spec": spec }), None, expected);
        };
        check(
            json!({"egress": [{
                "to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "11.0.0.0/8"]}}],
                "ports": [{"port": 80, "endPort": 90}, {"port": "x", "endPort": 5}],
            }]}),
            &[
                "spec.egress[0].ports[1].endPort: Invalid value: 5: may not be specified when `port` is non-numeric",
                "spec.egress[0].to[0].ipBlock.except[1]: Invalid value: \"11.0.0.0/8\": must be a strict subset of `cidr`",
            ],
        );
        check(
            json!({"policyTypes": ["Bogus"], "ingress": [{"from": [{}], "ports": [{"protocol": "X"}]}]}),
            &[
                "spec.ingress[0].ports[0].protocol: Unsupported value: \"X\": supported values: \"TCP\", \"UDP\", \"SCTP\"",
                "spec.ingress[0].from[0]: Required value: must specify a peer",
                "spec.policyTypes[0]: Unsupported value: \"Bogus\": supported values: \"Ingress\", \"Egress\"",
            ],
        );
        check(
            json!({"policyTypes": ["Egress", "Ingress", "Egress"], "ingress": [{"from": [{"ipBlock": {"cidr": "bad"}}]}]}),
            &[
                "spec.ingress[0].from[0].ipBlock.cidr: Invalid value: \"bad\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                "spec.policyTypes: Invalid value: [\"Egress\",\"Ingress\",\"Egress\"]: may not specify more than two policyTypes",
            ],
        );
    }

    #[test]
    fn policy_types_follow_from_the_rules() {
        for (spec, types) in
            [(json!({}), json!(["Ingress"])), (json!({"egress": [{}]}), json!(["Ingress", "Egress"]))]
        {
            let mut object = json!({ "spec": spec });
            NetworkPolicy.default(&mut object);
            assert_eq!(object["spec"]["policyTypes"], types);
        }
    }
}
