//! ClusterRoles that combine the rules of others.

use serde_json::Value;

use super::policy_rule::PolicyRule;
use crate::metadata;
use crate::selector::LabelSelector;

/// Returns the rules of an aggregated ClusterRole: those of all roles that at least one of its selectors matches, in the order of `roles`,
/// each rule once. `None` if the role has no `aggregationRule`, or if a selector is invalid.
///
/// `roles` are all ClusterRoles, sorted by name. A role passes on the rules that it has now, so a chain of aggregated roles needs a round per
/// role.
#[must_use]
pub fn aggregate(role: &Value, roles: &[Value]) -> Option<Vec<PolicyRule>> {
    let selectors = role["aggregationRule"].as_object()?.get("clusterRoleSelectors");
    let mut rules = Vec::new();
    for selector in selectors.and_then(Value::as_array).into_iter().flatten() {
        let selector = LabelSelector::from_object(selector)?;
        for other in roles.iter().filter(|other| selector.matches(other)) {
            // The rules of the role itself are a result, and never a source: otherwise no rule would ever disappear.
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
