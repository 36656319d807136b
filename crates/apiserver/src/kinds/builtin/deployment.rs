//! Deployments.

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{set, within};
use super::shared::workload::StatusNumbers;
use super::shared::{pod_spec, rolling_update, workload};
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct Deployment;

impl BuiltinKind for Deployment {
    fn default(&self, object: &mut Value) {
        within(object, "spec", |spec| {
            set(spec, "replicas", json!(1));
            set(spec, "revisionHistoryLimit", json!(10));
            set(spec, "progressDeadlineSeconds", json!(600));
            within(spec, "strategy", |strategy| {
                let limits = [("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))];
                workload::default_rolling_update(strategy, &limits);
            });
            within(spec, "template", pod_spec::default);
        });
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let spec = &new["spec"];
        // The errors have kube-apiserver's order.
        let mut errors = workload::validate_numbers(spec, &["replicas"]);
        errors.extend(workload::validate_template("deployment", "invalid label selector", new, old));
        errors.extend(validate_strategy(&spec["strategy"]));
        errors.extend(workload::validate_numbers(
            spec,
            &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"],
        ));
        errors.extend(validate_deadline(spec));
        errors.extend(workload::keep_selector(new, old));
        errors
    }

    fn validate_subresource(&self, subresource: &str, old: &Value, new: &Value) -> Vec<FieldError> {
        const NUMBERS: StatusNumbers = StatusNumbers {
            not_negative: &[
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "terminatingReplicas",
                "collisionCount",
            ],
            up_to_replicas: &["updatedReplicas", "readyReplicas", "availableReplicas"],
            ready: "readyReplicas",
        };
        if subresource == "status" { workload::validate_status(&NUMBERS, old, new) } else { Vec::new() }
    }

    fn pod_spec(&self) -> Option<&'static str> {
        Some(pod_spec::IN_WORKLOAD)
    }

    fn warnings(&self, _resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
        workload::warnings(object, old, pod_spec::IN_WORKLOAD)
    }

    fn status_keeps(&self) -> &'static [&'static str] {
        &["labels"]
    }

    fn resets(&self, subresource: &str) -> Option<&'static [&'static str]> {
        (subresource == "status").then_some(&["spec", "metadata.labels"])
    }
}

/// Validates the strategy. Only rolling updates have limits, and not both limits may be zero.
fn validate_strategy(strategy: &Value) -> Vec<FieldError> {
    const PATH: &str = "spec.strategy";
    let rolling = &strategy["rollingUpdate"];
    match strategy["type"].as_str().unwrap_or_default() {
        "Recreate" if !rolling.is_null() => vec![FieldError::forbidden(
            format!("{PATH}.rollingUpdate"),
            "may not be specified when strategy `type` is 'Recreate'",
        )],
        "RollingUpdate" => rolling_update::of_deployment(rolling, &format!("{PATH}.rollingUpdate")),
        "Recreate" => Vec::new(),
        // The message shows the JSON of Go's internal struct, in which an absent limit is 0.
        other => {
            let limits = if rolling.is_null() {
                Value::Null.to_string()
            } else {
                let [unavailable, surge] =
                    ["maxUnavailable", "maxSurge"].map(|limit| match &rolling[limit] {
                        Value::Null => json!(0),
                        limit => limit.clone(),
                    });
                format!("{{\"MaxUnavailable\":{unavailable},\"MaxSurge\":{surge}}}")
            };
            vec![FieldError {
                reason: "FieldValueNotSupported",
                field: PATH.to_owned(),
                message: format!(
                    "Unsupported value: {{\"Type\":{},\"RollingUpdate\":{limits}}}: supported values: \"Recreate\", \
                     \"RollingUpdate\"",
                    json!(other)
                ),
            }]
        }
    }
}

/// Checks that the progress deadline exceeds `minReadySeconds`: otherwise no rollout could finish in time.
fn validate_deadline(spec: &Value) -> Option<FieldError> {
    let deadline = spec["progressDeadlineSeconds"].as_i64()?;
    let ready = spec["minReadySeconds"].as_i64().unwrap_or_default();
    (deadline <= ready).then(|| {
        FieldError::invalid(
            "spec.progressDeadlineSeconds",
            &deadline.to_string(),
            "must be greater than minReadySeconds",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::{check, served_kind, workload_defaults};

    fn deployment(selector: &Value) -> Value {
        json!({"spec": {
            "replicas": 1, "selector": selector, "strategy": {"type": "Recreate"},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
        }})
    }

    #[test]
    fn defaults_are_the_recorded_ones() {
        workload_defaults(
            "Deployment",
            &json!({"selector": {}}),
            &json!({
                "selector": {}, "replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            }),
        );
        workload_defaults(
            "Deployment",
            &json!({"selector": {}, "replicas": 0, "strategy": {"type": "Recreate"}}),
            &json!({
                "selector": {}, "replicas": 0, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                "strategy": {"type": "Recreate"},
            }),
        );
        // Observed as a webhook receives it, before validation refuses it.
        let recreate = |limits: Value| json!({"type": "Recreate", "rollingUpdate": limits});
        workload_defaults(
            "Deployment",
            &json!({"selector": {}, "replicas": 0, "strategy": recreate(json!({"maxSurge": 80}))}),
            &json!({
                "selector": {}, "replicas": 0, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                "strategy": recreate(json!({"maxSurge": 80, "maxUnavailable": 0})),
            }),
        );
    }

    #[test]
    fn fields_of_a_wrong_type_get_no_defaults() {
        for before in
            [json!("x"), json!({"spec": 5}), json!({"spec": {"strategy": [], "template": {"spec": 1}}})]
        {
            let mut object = before.clone();
            Deployment.default(&mut object);
            assert_eq!(object["spec"]["strategy"], before["spec"]["strategy"]);
            assert_eq!(object["spec"]["template"], before["spec"]["template"]);
        }
    }

    #[test]
    fn the_selector_matches_the_pods_of_the_template() {
        check("Deployment", &deployment(&json!({"matchLabels": {"app": "web"}})), None, &[]);
        check(
            "Deployment",
            &deployment(&json!({"matchLabels": {"app": "other"}})),
            None,
            &[
                "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
            ],
        );
        check(
            "Deployment",
            &deployment(&json!({})),
            None,
            &["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
        );
    }

    #[test]
    fn the_deadline_exceeds_the_ready_time_even_if_both_are_negative() {
        let mut deployment = deployment(&json!({"matchLabels": {"app": "web"}}));
        deployment["spec"]["minReadySeconds"] = json!(-1);
        deployment["spec"]["progressDeadlineSeconds"] = json!(-1);
        let negative = "Invalid value: -1: must be greater than or equal to 0";
        check(
            "Deployment",
            &deployment,
            None,
            &[
                &format!("spec.minReadySeconds: {negative}"),
                &format!("spec.progressDeadlineSeconds: {negative}"),
                "spec.progressDeadlineSeconds: Invalid value: -1: must be greater than minReadySeconds",
            ],
        );
    }

    #[test]
    fn a_strategy_that_can_never_replace_a_pod_is_refused() {
        for (strategy, expected) in [
            (json!({"type": "Recreate"}), &[][..]),
            (
                json!({"type": "Recreate", "rollingUpdate": {}}),
                &[
                    "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
                ],
            ),
            (
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}),
                &[
                    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
                ],
            ),
            (
                json!({"type": "Nope"}),
                &[
                    "spec.strategy: Unsupported value: {\"Type\":\"Nope\",\"RollingUpdate\":null}: supported values: \
                     \"Recreate\", \"RollingUpdate\"",
                ],
            ),
        ] {
            let mut object = deployment(&json!({"matchLabels": {"app": "web"}}));
            object["spec"]["strategy"] = strategy;
            check("Deployment", &object, None, expected);
        }
    }

    #[test]
    fn probable_mistakes_in_the_template_have_a_warning() {
        let served = served_kind("Deployment");
        let mut object = deployment(&json!({}));
        object["metadata"] = json!({"name": "a.b", "generation": 1});
        let pod = &mut object["spec"]["template"]["spec"];
        pod["topologySpreadConstraints"] = json!([{"labelSelector": {}}, {"topologyKey": "zone"}]);
        pod["containers"][0]["env"] = json!([{"name": "A"}, {"name": "B"}, {"name": "A"}]);
        assert_eq!(
            served.strategy.warnings(&served, &object, None, ""),
            [
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is \
                 recommended: [must not contain dots]",
                "spec.template.spec.topologySpreadConstraints[1].labelSelector: a null labelSelector results in \
                 matching no pod",
                "spec.template.spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when \
                 using apply",
            ]
        );
    }

    #[test]
    fn the_selector_is_immutable() {
        let old = deployment(&json!({"matchLabels": {"app": "web"}}));
        let mut new = deployment(&json!({"matchLabels": {"app": "changed"}}));
        new["spec"]["template"]["metadata"]["labels"] = json!({"app": "changed"});
        check(
            "Deployment",
            &new,
            Some(&old),
            &["spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"changed\"}}: field is immutable"],
        );
    }
}
