//! NetworkPolicies.

use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{elements, set, within};

#[derive(Debug)]
pub(super) struct NetworkPolicy;

impl BuiltinKind for NetworkPolicy {
    fn default(&self, policy: &mut Value) {
        within(policy, "spec", |spec| {
            for direction in ["ingress", "egress"] {
                for rule in elements(spec, direction) {
                    elements(rule, "ports").for_each(|port| set(port, "protocol", json!("TCP")));
                }
            }
            let egress = spec["egress"].as_array().is_some_and(|rules| !rules.is_empty());
            set(spec, "policyTypes", if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
