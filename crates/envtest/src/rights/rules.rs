//! Names of the permissions that RBAC rules grant.

use k8s_openapi::api::rbac::v1;
use kube_apimachinery::rbac::{PolicyRule, RulePart};

use super::request_attributes::{RequestAttributes, resource_with_group};

/// Returns the permission by which `rule` permits the request, or `None`.
pub(super) fn permission_for(rule: &PolicyRule, attributes: &RequestAttributes) -> Option<String> {
    Some(match rule.part_that_allows(&attributes.action())? {
        RulePart::Resource { verb, group, resource } => {
            format!("{verb} {}", resource_with_group(group, resource))
        }
        RulePart::Path { verb, path } => format!("{verb} {path}"),
    })
}

/// Names of all permissions that a rule grants.
pub(super) fn permission_names(rule: &PolicyRule) -> Vec<String> {
    let targets = rule
        .api_groups
        .iter()
        .flat_map(|group| rule.resources.iter().map(move |it| resource_with_group(group, it)));
    let targets: Vec<_> = targets.chain(rule.non_resource_urls.iter().cloned()).collect();
    rule.verbs.iter().flat_map(|verb| targets.iter().map(move |target| format!("{verb} {target}"))).collect()
}

/// Converts a rule of a role to the form that `kube_apimachinery` evaluates.
pub(super) fn of_role(rule: &v1::PolicyRule) -> PolicyRule {
    let texts = |texts: &Option<Vec<String>>| texts.clone().unwrap_or_default();
    PolicyRule {
        verbs: rule.verbs.clone(),
        api_groups: texts(&rule.api_groups),
        resources: texts(&rule.resources),
        resource_names: texts(&rule.resource_names),
        non_resource_urls: texts(&rule.non_resource_urls),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::request_attributes::tests::attributes_of, *};

    /// Checks which permission of a rule permits a request, if any.
    #[track_caller]
    fn check(rule: &serde_json::Value, request: &str, expected: Option<&str>) {
        let mut whole = json!({ "verbs": ["get", "list"], "apiGroups": [""] });
        whole.as_object_mut().expect("an object").extend(rule.as_object().expect("a rule").clone());
        let rule = PolicyRule::from_value(&whole);
        assert_eq!(permission_for(&rule, &attributes_of(request)).as_deref(), expected, "{rule:?} {request}");
    }

    #[test]
    fn a_rule_allows_its_verbs_on_its_resources() {
        let pods = json!({ "resources": ["pods"] });
        check(&pods, "GET /api/v1/pods", Some("list pods"));
        check(&pods, "GET /api/v1/pods?watch=true", None);
        check(&pods, "GET /api/v1/nodes", None);
        check(&pods, "GET /apis/metrics.k8s.io/v1/pods", None);
        check(&pods, "GET /api/v1/namespaces/a/pods/x/log", None);
        let any = json!({ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] });
        check(&any, "GET /apis/metrics.k8s.io/v1/pods", Some("* *.*"));
        check(&any, "GET /api/v1/namespaces/a/pods/x/log", Some("* *.*"));
        check(&any, "GET /metrics", None);
    }

    #[test]
    fn a_rule_may_name_subresources() {
        let log = json!({ "resources": ["pods/log"] });
        check(&log, "GET /api/v1/namespaces/a/pods/x/log", Some("get pods/log"));
        check(&log, "GET /api/v1/namespaces/a/pods/x", None);
        let scale = json!({ "apiGroups": ["apps"], "resources": ["*/scale"] });
        check(&scale, "GET /apis/apps/v1/namespaces/a/deployments/x/scale", Some("get *.apps/scale"));
        check(&scale, "GET /apis/apps/v1/namespaces/a/deployments/x/status", None);
        check(&scale, "GET /apis/apps/v1/namespaces/a/deployments/x", None);
    }

    #[test]
    fn a_rule_with_names_allows_only_these_names() {
        let own = json!({ "resources": ["nodes"], "resourceNames": ["n"], "verbs": ["*"] });
        check(&own, "GET /api/v1/nodes/n", Some("* nodes"));
        check(&own, "GET /api/v1/nodes/m", None);
        check(&own, "GET /api/v1/nodes?watch=1&fieldSelector=metadata.name%3Dn", Some("* nodes"));
        check(&own, "GET /api/v1/nodes", None);
        check(&own, "POST /api/v1/nodes", None);
    }

    #[test]
    fn a_rule_of_paths_allows_them_and_paths_that_a_star_matches() {
        let paths = json!({ "apiGroups": [], "nonResourceURLs": ["/metrics", "/logs/*"] });
        check(&paths, "GET /metrics", Some("get /metrics"));
        check(&paths, "POST /metrics", None);
        check(&paths, "GET /metrics/cadvisor", None);
        check(&paths, "GET /logs/a/b", Some("get /logs/*"));
        check(&paths, "GET /logs", None);
        check(&paths, "GET /api/v1/pods", None);
        check(&json!({ "nonResourceURLs": ["*"] }), "GET /debug/pprof", Some("get *"));
        let rule = PolicyRule {
            verbs: vec!["get".to_owned(), "post".to_owned()],
            non_resource_urls: vec!["/metrics".to_owned()],
            ..PolicyRule::default()
        };
        assert_eq!(permission_names(&rule), ["get /metrics", "post /metrics"]);
    }
}
