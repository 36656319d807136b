//! Names of the permissions that RBAC rules grant.

use k8s_openapi::api::rbac::v1;
use kube_apimachinery::rbac::{PolicyRule, RulePart};

use super::request_attributes::{RequestAttributes, right_about};

/// Returns the permission by which `rule` permits the request, or `None`.
pub(super) fn grant(rule: &PolicyRule, attributes: &RequestAttributes) -> Option<String> {
    Some(match rule.part_that_allows(&attributes.action())? {
        RulePart::Resource { verb, group, resource } => format!("{verb} {}", right_about(group, resource)),
        RulePart::Path { verb, path } => format!("{verb} {path}"),
    })
}

/// Names of all permissions that a rule grants.
pub(super) fn named(rule: &PolicyRule) -> Vec<String> {
    let about =
        rule.api_groups.iter().flat_map(|group| rule.resources.iter().map(move |it| right_about(group, it)));
    let about: Vec<_> = about.chain(rule.non_resource_urls.iter().cloned()).collect();
    rule.verbs.iter().flat_map(|verb| about.iter().map(move |about| format!("{verb} {about}"))).collect()
}

/// The rule of a role.
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

    use super::{super::request_attributes::tests::asked, *};

    /// Checks which permission of a rule permits a request.
    #[track_caller]
    fn granted(rule: &serde_json::Value, request: &str, expected: Option<&str>) {
        let mut whole = json!({ "verbs": ["get", "list"], "apiGroups": [""] });
        whole.as_object_mut().expect("an object").extend(rule.as_object().expect("a rule").clone());
        let rule = PolicyRule::from_value(&whole);
        assert_eq!(grant(&rule, &asked(request)).as_deref(), expected, "{rule:?} {request}");
    }

    #[test]
    fn a_rule_allows_its_verbs_of_its_resources() {
        let pods = json!({ "resources": ["pods"] });
        granted(&pods, "GET /api/v1/pods", Some("list pods"));
        granted(&pods, "GET /api/v1/pods?watch=true", None);
        granted(&pods, "GET /api/v1/nodes", None);
        granted(&pods, "GET /apis/metrics.k8s.io/v1/pods", None);
        granted(&pods, "GET /api/v1/namespaces/a/pods/x/log", None);
        let any = json!({ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] });
        granted(&any, "GET /apis/metrics.k8s.io/v1/pods", Some("* *.*"));
        granted(&any, "GET /api/v1/namespaces/a/pods/x/log", Some("* *.*"));
        granted(&any, "GET /metrics", None);
    }

    #[test]
    fn a_rule_may_be_about_subresources() {
        let log = json!({ "resources": ["pods/log"] });
        granted(&log, "GET /api/v1/namespaces/a/pods/x/log", Some("get pods/log"));
        granted(&log, "GET /api/v1/namespaces/a/pods/x", None);
        let scale = json!({ "apiGroups": ["apps"], "resources": ["*/scale"] });
        granted(&scale, "GET /apis/apps/v1/namespaces/a/deployments/x/scale", Some("get *.apps/scale"));
        granted(&scale, "GET /apis/apps/v1/namespaces/a/deployments/x/status", None);
        granted(&scale, "GET /apis/apps/v1/namespaces/a/deployments/x", None);
    }

    #[test]
    fn a_rule_with_names_allows_only_these_names() {
        let own = json!({ "resources": ["nodes"], "resourceNames": ["n"], "verbs": ["*"] });
        granted(&own, "GET /api/v1/nodes/n", Some("* nodes"));
        granted(&own, "GET /api/v1/nodes/m", None);
        granted(&own, "GET /api/v1/nodes?watch=1&fieldSelector=metadata.name%3Dn", Some("* nodes"));
        granted(&own, "GET /api/v1/nodes", None);
        granted(&own, "POST /api/v1/nodes", None);
    }

    #[test]
    fn a_rule_of_paths_allows_them_and_paths_that_a_star_matches() {
        let paths = json!({ "apiGroups": [], "nonResourceURLs": ["/metrics", "/logs/*"] });
        granted(&paths, "GET /metrics", Some("get /metrics"));
        granted(&paths, "POST /metrics", None);
        granted(&paths, "GET /metrics/cadvisor", None);
        granted(&paths, "GET /logs/a/b", Some("get /logs/*"));
        granted(&paths, "GET /logs", None);
        granted(&paths, "GET /api/v1/pods", None);
        granted(&json!({ "nonResourceURLs": ["*"] }), "GET /debug/pprof", Some("get *"));
        let rule = PolicyRule {
            verbs: vec!["get".to_owned(), "post".to_owned()],
            non_resource_urls: vec!["/metrics".to_owned()],
            ..PolicyRule::default()
        };
        assert_eq!(named(&rule), ["get /metrics", "post /metrics"]);
    }
}
