//! NetworkPolicies.

use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::discouraged;
use super::shared::fields::{elements, list, set, set_pointer, text, within};
use crate::kind::resource::Resource;

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
            let egress = spec["egress"].as_array().is_some_and(|rules| !rules.is_empty());
            set(spec, "policyTypes", if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
        });
    }

    fn warnings(&self, _resource: &Resource, policy: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
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
