//! Configurations that a manager applies.

use super::*;
use k8s_openapi::api::core::v1::ConfigMap;

#[test]
fn configurations_name_the_paths_rules_and_definitions_of_all_webhooks() {
    let (webhooks, _) = webhooks();
    let rule = Rule::of::<ConfigMap>().path("/check_config").failure_policy(FailurePolicy::Ignore);
    webhooks
        .validating(rule.timeout(Duration::from_millis(1500)), async |_| Ok(()))
        .expect("the path is free");
    let service = WebhookService::new("system", "hooks").ca_bundle("PEM");
    let all = webhooks.configurations(&service);
    let conversions = serde_json::to_value(&all.conversions).expect("JSON");
    let at = |path: &str| json!({ "caBundle": "UEVN", "service": { "namespace": "system", "name": "hooks", "path": path, "port": 443 } });
    assert_eq!(
        conversions,
        json!({ "carts.example.com": { "strategy": "Webhook", "webhook": {
        "clientConfig": at("/convert"), "conversionReviewVersions": ["v1"],
    } } })
    );
    let validating = serde_json::to_value(all.validating.expect("there are two")).expect("JSON");
    assert_eq!(validating["metadata"]["name"], "system-hooks");
    assert_eq!(
        validating["webhooks"],
        json!([
            {
                "name": "check-config.configmaps.core", "admissionReviewVersions": ["v1"], "clientConfig": at("/check_config"),
                "failurePolicy": "Ignore", "matchPolicy": "Equivalent", "sideEffects": "None", "timeoutSeconds": 2,
                "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"], "scope": "Namespaced" }],
            },
            {
                "name": "validate-example-com-v2-cart.carts.example.com", "admissionReviewVersions": ["v1"], "clientConfig": at(VALIDATE),
                "failurePolicy": "Fail", "matchPolicy": "Equivalent", "sideEffects": "None", "timeoutSeconds": 10,
                "rules": [{ "apiGroups": ["example.com"], "apiVersions": ["v2"], "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["carts"], "scope": "Namespaced" }],
            },
        ])
    );
    let mutating = all.mutating.expect("there is one").webhooks.expect("it has webhooks");
    assert_eq!(
        mutating.iter().map(|webhook| &*webhook.name).collect::<Vec<_>>(),
        ["mutate-example-com-v2-cart.carts.example.com"]
    );
}

#[test]
fn options_of_rules_are_in_the_configurations() {
    let (webhooks, _) = webhooks();
    let rule = Rule::of::<ConfigMap>()
        .match_policy(MatchPolicy::Exact)
        .side_effects(SideEffects::NoneOnDryRun)
        .reinvocation_policy(ReinvocationPolicy::IfNeeded)
        .match_condition("named", "object.metadata.name != ''");
    webhooks.mutating(rule.clone(), async |_| Ok(None)).expect("the path is free");
    let error = webhooks.mutating(rule.match_policy(MatchPolicy::Equivalent), async |_| Ok(None));
    let taken = RegisterError::PathTaken { path: "/mutate--v1-configmap".into(), by: "configmaps".into() };
    assert_eq!(error, Err(taken), "one entry of a configuration has one match policy");
    let all = webhooks.configurations(&WebhookService::new("system", "hooks"));
    let mutating = serde_json::to_value(all.mutating.expect("there are two")).expect("JSON");
    assert_eq!(
        mutating["webhooks"][0],
        json!({
            "name": "mutate--v1-configmap.configmaps.core", "admissionReviewVersions": ["v1"],
            "clientConfig": { "service": { "namespace": "system", "name": "hooks", "path": "/mutate--v1-configmap", "port": 443 } },
            "failurePolicy": "Fail", "matchPolicy": "Exact", "sideEffects": "NoneOnDryRun", "timeoutSeconds": 10,
            "matchConditions": [{ "name": "named", "expression": "object.metadata.name != ''" }],
            "reinvocationPolicy": "IfNeeded",
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"], "scope": "Namespaced" }],
        })
    );
}
