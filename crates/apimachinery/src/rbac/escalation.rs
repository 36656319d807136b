//! Checks that users grant only permissions that they hold.

use std::collections::{BTreeMap, BTreeSet};

use super::policy_rule::{PolicyRule, contains, quoted, url_covers};
use super::role::{Identity, Unresolved};
use crate::go::{join_errors, quote};

/// Maximum number of single permissions (a verb on a resource of a group, with a name) into which the granted rules are divided.
/// A rule beyond it counts as not held, unless a single rule of the user covers it.
pub const MAX_PERMISSIONS: usize = 1 << 16;

/// Returns the permissions of `granted` that no rule of `held` covers, each with one verb, one resource and one name.
///
/// A permission is covered by a single rule: two rules that cover it only together do not count, as in Kubernetes.
#[must_use]
pub fn missing(held: &[PolicyRule], granted: &[PolicyRule]) -> Vec<PolicyRule> {
    let mut left = MAX_PERMISSIONS;
    let mut missing = Vec::new();
    for rule in granted {
        // A rule that is covered as a whole need not be divided.
        if held.iter().any(|owner| covers(owner, rule)) {
            continue;
        }
        let Some(rest) = left.checked_sub(permissions(rule)) else {
            missing.push(rule.clone());
            continue;
        };
        left = rest;
        missing.extend(divided(rule).filter(|single| !held.iter().any(|owner| covers(owner, single))));
    }
    missing
}

/// Returns the message that refuses a role or binding which grants more than the user holds; `None` if the user holds all of it. `errors`
/// are bindings of the user that could not be evaluated; `plural` is the resource of the request.
#[must_use]
pub fn refusal(
    user: Identity<'_>,
    (held, errors): &(Vec<PolicyRule>, Vec<Unresolved>),
    granted: &[PolicyRule],
    plural: &str,
) -> Option<String> {
    let missing = missing(held, granted);
    if missing.is_empty() {
        return None;
    }
    let shown: BTreeSet<String> = compact(missing).iter().map(ToString::to_string).collect();
    let shown: Vec<String> = shown.into_iter().collect();
    let mut message = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quote(user.name),
        quoted(user.groups),
        shown.join("\n")
    );
    if !errors.is_empty() {
        let errors: Vec<String> =
            errors.iter().map(|error| error.clone().into_error(plural).message().to_owned()).collect();
        message += &format!("; resolution errors: [{}]", join_errors(&errors));
    }
    Some(message)
}

/// Returns the number of single permissions of a rule.
fn permissions(rule: &PolicyRule) -> usize {
    let names = rule.resource_names.len().max(1);
    let objects = rule.api_groups.len().saturating_mul(rule.resources.len()).saturating_mul(names);
    objects.saturating_add(rule.non_resource_urls.len()).saturating_mul(rule.verbs.len())
}

/// Divides a rule into single permissions.
fn divided(rule: &PolicyRule) -> impl Iterator<Item = PolicyRule> {
    let names: Vec<Option<&String>> = if rule.resource_names.is_empty() {
        vec![None]
    } else {
        rule.resource_names.iter().map(Some).collect()
    };
    let objects = rule.api_groups.iter().flat_map(move |group| {
        let names = names.clone();
        rule.resources.iter().flat_map(move |resource| {
            let names = names.clone();
            rule.verbs.iter().flat_map(move |verb| {
                names.clone().into_iter().map(move |name| PolicyRule {
                    verbs: vec![verb.clone()],
                    api_groups: vec![group.clone()],
                    resources: vec![resource.clone()],
                    resource_names: name.cloned().into_iter().collect(),
                    non_resource_urls: Vec::new(),
                })
            })
        })
    });
    let paths = rule.non_resource_urls.iter().flat_map(move |url| {
        rule.verbs.iter().map(move |verb| PolicyRule {
            verbs: vec![verb.clone()],
            non_resource_urls: vec![url.clone()],
            ..PolicyRule::default()
        })
    });
    objects.chain(paths)
}

/// Whether `owner` permits every action that `rule` permits.
fn covers(owner: &PolicyRule, rule: &PolicyRule) -> bool {
    let all = |owner: &[String], rule: &[String]| rule.iter().all(|one| contains(owner, one));
    all(&owner.verbs, &rule.verbs)
        && all(&owner.api_groups, &rule.api_groups)
        && rule.resources.iter().all(|resource| covers_resource(&owner.resources, resource))
        && rule
            .non_resource_urls
            .iter()
            .all(|path| owner.non_resource_urls.iter().any(|url| url_covers(url, path)))
        && (owner.resource_names.is_empty()
            || !rule.resource_names.is_empty()
                && rule.resource_names.iter().all(|name| owner.resource_names.contains(name)))
}

/// Whether resources of a rule include a resource: by `*`, by its name, or `pods/log` by `*/log`.
fn covers_resource(owner: &[String], resource: &str) -> bool {
    let any_parent = resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
    contains(owner, resource) || any_parent.is_some_and(|pattern| owner.contains(&pattern))
}

/// Merges the verbs of rules about one resource and name. As in Kubernetes, rules with several groups, resources or names, or with paths stay
/// as they are.
fn compact(rules: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut merged: Vec<PolicyRule> = Vec::new();
    let mut positions: BTreeMap<(String, String, Option<String>), usize> = BTreeMap::new();
    for rule in rules {
        let ([group], [resource], [] | [_], []) = (
            rule.api_groups.as_slice(),
            rule.resources.as_slice(),
            rule.resource_names.as_slice(),
            rule.non_resource_urls.as_slice(),
        ) else {
            merged.push(rule);
            continue;
        };
        let key = (group.clone(), resource.clone(), rule.resource_names.first().cloned());
        match positions.get(&key) {
            Some(at) => merged[*at].verbs.extend(rule.verbs),
            None => {
                positions.insert(key, merged.len());
                merged.push(rule);
            }
        }
    }
    merged
}
