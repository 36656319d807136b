//! ClusterRoles that combine the rules of others.

use serde_json::Value;

use super::policy_rule::PolicyRule;
use crate::metadata;
use crate::selector::LabelSelector;

/// Returns the rules of an aggregated ClusterRole: those of all roles that at least one of its selectors matches, in the order of `roles`,
/// each rule once. `None` if the role has no `aggregationRule`, or if a selector is invalid.
///
/// `roles` are all ClusterRoles, sorted by name. If roles aggregate each other, all of them have the same rules after two rounds.
#[must_use]
pub fn aggregate(role: &Value, roles: &[Value]) -> Option<Vec<PolicyRule>> {
    let selectors = role["aggregationRule"].as_object()?.get("clusterRoleSelectors");
    let mut rules = Vec::new();
    for selector in selectors.and_then(Value::as_array).into_iter().flatten() {
        let selector = LabelSelector::from_object(selector)?;
        for other in roles.iter().filter(|other| selector.matches(other)) {
            if metadata::text(other, "name") == metadata::text(role, "name") {
                continue;
            }
            for rule in PolicyRule::list(&other["rules"]) {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
    }
    Some(rules)
}
