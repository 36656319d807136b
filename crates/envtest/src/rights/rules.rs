//! Evaluation of RBAC rules.

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::request_attributes::{About, RequestAttributes, right_about};

/// Returns the permission by which `rule` permits the request, or `None`.
pub(super) fn grant(rule: &PolicyRule, attributes: &RequestAttributes) -> Option<String> {
    let verb = rule.verbs.iter().find(|verb| matches(verb, &attributes.verb))?;
    let about = match &attributes.about {
        About::Resource { group, resource, name } => {
            let given = rule.api_groups.iter().flatten().find(|given| matches(given, group))?;
            let mut resources = rule.resources.iter().flatten();
            let about = resources.find(|given| covers(given, resource))?;
            let names = rule.resource_names.as_deref().unwrap_or_default();
            if !names.is_empty() && !names.contains(name) {
                return None;
            }
            right_about(given, about)
        }
        About::Url(path) => {
            let mut urls = rule.non_resource_urls.iter().flatten();
            urls.find(|url| leads_to(url, path))?.clone()
        }
    };
    Some(format!("{verb} {about}"))
}

fn matches(given: &str, wanted: &str) -> bool {
    given == "*" || given == wanted
}

/// Returns whether a resource in a rule (`pods`, `pods/log`, `*/scale` or `*`) matches `wanted`.
fn covers(given: &str, wanted: &str) -> bool {
    let scope = |of: &str| wanted.split_once('/').is_some_and(|(_, below)| below == of);
    matches(given, wanted) || given.strip_prefix("*/").is_some_and(scope)
}

/// Returns whether a URL in a rule (`/metrics`, `/logs/*` or `*`) matches `path`.
fn leads_to(url: &str, path: &str) -> bool {
    url == path || url.strip_suffix('*').is_some_and(|start| path.starts_with(start))
}

/// Names of all permissions that a rule grants.
pub(super) fn named(rule: &PolicyRule) -> Vec<String> {
    let resources = rule.resources.iter().flatten();
    let groups = rule.api_groups.iter().flatten();
    let about = groups.flat_map(|group| resources.clone().map(move |resource| right_about(group, resource)));
    let about: Vec<_> = about.chain(rule.non_resource_urls.iter().flatten().cloned()).collect();
    rule.verbs.iter().flat_map(|verb| about.iter().map(move |about| format!("{verb} {about}"))).collect()
}

/// Permissions of every authenticated user: the roles `system:discovery`, `system:public-info-viewer` and `system:basic-user`.
pub(super) fn of_everybody() -> [PolicyRule; 3] {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let reviews = |group: &str, resources: &[&str]| PolicyRule {
        verbs: texts(&["create"]),
        api_groups: Some(texts(&[group])),
        resources: Some(texts(resources)),
        ..PolicyRule::default()
    };
    let urls = [
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/",
    ];
    [
        PolicyRule { verbs: texts(&["get"]), non_resource_urls: Some(texts(&urls)), ..PolicyRule::default() },
        reviews("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
        reviews("authentication.k8s.io", &["selfsubjectreviews"]),
    ]
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
        let rule: PolicyRule = serde_json::from_value(whole).expect("a rule");
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
            non_resource_urls: Some(vec!["/metrics".to_owned()]),
            ..PolicyRule::default()
        };
        assert_eq!(named(&rule), ["get /metrics", "post /metrics"]);
    }
}
