//! Defaults of cluster configuration: storage, networks, roles, limits, admission, flow control.

use serde_json::{Value, json};

use super::defaults::{elements, set, within};
use super::{node, pod_template};

/// Sets defaults of a kind after its fields were completed.
pub(super) fn default(group: &str, kind: &str, object: &mut Value) {
    match (group, kind) {
        ("", "Endpoints") => {
            for subset in elements(object, "subsets") {
                elements(subset, "ports").for_each(|port| set(port, "protocol", json!("TCP")));
            }
        }
        ("", "LimitRange") => within(object, "spec", |spec| elements(spec, "limits").for_each(limit)),
        ("", "Node") => {
            node::default(object);
            within(object, "status", |status| {
                let capacity = status["capacity"].clone();
                if capacity.is_object() {
                    set(status, "allocatable", capacity);
                }
            });
        }
        ("", "PersistentVolume") => volume(object),
        ("", "PersistentVolumeClaim") => {
            within(object, "spec", |spec| set(spec, "volumeMode", json!("Filesystem")));
            within(object, "status", |status| set(status, "phase", json!("Pending")));
        }
        ("discovery.k8s.io", "EndpointSlice") => {
            for port in elements(object, "ports") {
                if port["name"].is_null() {
                    port["name"] = json!("");
                }
                set(port, "protocol", json!("TCP"));
            }
        }
        ("networking.k8s.io", "IngressClass") => within(object, "spec", |spec| {
            within(spec, "parameters", |parameters| set(parameters, "scope", json!("Cluster")));
        }),
        ("networking.k8s.io", "NetworkPolicy") => within(object, "spec", network_policy),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => binding(object),
        ("scheduling.k8s.io", "PriorityClass") => {
            set(object, "preemptionPolicy", json!("PreemptLowerPriority"));
        }
        ("storage.k8s.io", "StorageClass") => {
            set(object, "reclaimPolicy", json!("Delete"));
            set(object, "volumeBindingMode", json!("Immediate"));
        }
        ("storage.k8s.io", "CSIDriver") => within(object, "spec", csi_driver),
        ("apiregistration.k8s.io", "APIService") => within(object, "spec", |spec| {
            within(spec, "service", |service| set(service, "port", json!(443)));
        }),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy") => {
            within(object, "spec", |spec| {
                set(spec, "failurePolicy", json!("Fail"));
                within(spec, "matchConstraints", match_resources);
            });
        }
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding",
        ) => within(object, "spec", |spec| within(spec, "matchResources", match_resources)),
        ("admissionregistration.k8s.io", _) => {
            let mutating = kind.starts_with("Mutating");
            elements(object, "webhooks").for_each(|hook| webhook(hook, mutating));
        }
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => within(object, "spec", |spec| {
            if spec["matchingPrecedence"].as_i64().unwrap_or(0) == 0 {
                spec["matchingPrecedence"] = json!(1000);
            }
        }),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => {
            within(object, "spec", priority_level);
        }
        _ => {}
    }
}

/// Derives limits of containers: the default from the maximum, the default request from the default or the minimum.
fn limit(item: &mut Value) {
    if item["type"] != "Container" {
        return;
    }
    // In this order, because the default request may come from a default that was derived from the maximum.
    for (target, source) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
        let Some(amounts) = item[source].as_object().cloned() else {
            continue;
        };
        if item[target].is_null() {
            item[target] = json!({});
        }
        for (name, amount) in amounts {
            set(&mut item[target], &name, amount);
        }
    }
}

fn volume(object: &mut Value) {
    within(object, "status", |status| set(status, "phase", json!("Pending")));
    within(object, "spec", |spec| {
        set(spec, "persistentVolumeReclaimPolicy", json!("Retain"));
        set(spec, "volumeMode", json!("Filesystem"));
        pod_template::volume_sources(spec);
    });
}

fn network_policy(spec: &mut Value) {
    for direction in ["ingress", "egress"] {
        for rule in elements(spec, direction) {
            elements(rule, "ports").for_each(|port| set(port, "protocol", json!("TCP")));
        }
    }
    let egress = spec["egress"].as_array().is_some_and(|rules| !rules.is_empty());
    set(spec, "policyTypes", if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
}

fn binding(object: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    within(object, "roleRef", |role| set(role, "apiGroup", json!(GROUP)));
    for subject in elements(object, "subjects") {
        if ["User", "Group"].contains(&subject["kind"].as_str().unwrap_or_default()) {
            set(subject, "apiGroup", json!(GROUP));
        }
    }
}

fn csi_driver(spec: &mut Value) {
    set(spec, "attachRequired", json!(true));
    set(spec, "podInfoOnMount", json!(false));
    set(spec, "storageCapacity", json!(false));
    set(spec, "fsGroupPolicy", json!("ReadWriteOnceWithFSType"));
    set(spec, "volumeLifecycleModes", json!(["Persistent"]));
    set(spec, "requiresRepublish", json!(false));
    set(spec, "seLinuxMount", json!(false));
}

/// Sets defaults of a policy's match criteria.
fn match_resources(about: &mut Value) {
    set(about, "matchPolicy", json!("Equivalent"));
    set(about, "namespaceSelector", json!({}));
    set(about, "objectSelector", json!({}));
    for rules in ["resourceRules", "excludeResourceRules"] {
        elements(about, rules).for_each(|rule| set(rule, "scope", json!("*")));
    }
}

fn webhook(hook: &mut Value, mutating: bool) {
    set(hook, "failurePolicy", json!("Fail"));
    set(hook, "matchPolicy", json!("Equivalent"));
    set(hook, "namespaceSelector", json!({}));
    set(hook, "objectSelector", json!({}));
    set(hook, "timeoutSeconds", json!(10));
    if mutating {
        set(hook, "reinvocationPolicy", json!("Never"));
    }
    elements(hook, "rules").for_each(|rule| set(rule, "scope", json!("*")));
    within(hook, "clientConfig", |config| {
        within(config, "service", |service| set(service, "port", json!(443)));
    });
}

fn priority_level(spec: &mut Value) {
    within(spec, "exempt", |exempt| {
        set(exempt, "nominalConcurrencyShares", json!(0));
        set(exempt, "lendablePercent", json!(0));
    });
    within(spec, "limited", |limited| {
        set(limited, "nominalConcurrencyShares", json!(30));
        set(limited, "lendablePercent", json!(0));
        within(limited, "limitResponse", |response| {
            set(response, "type", json!("Reject"));
            within(response, "queuing", |queuing| {
                for (field, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
                    if queuing[field].as_i64().unwrap_or(0) == 0 {
                        queuing[field] = json!(value);
                    }
                }
            });
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(group: &str, kind: &str, mut object: Value, expected: &Value) {
        default(group, kind, &mut object);
        assert_eq!(object, *expected);
        default(group, kind, &mut object);
        assert_eq!(object, *expected, "defaults change nothing that they set");
    }

    #[test]
    fn requests_of_containers_follow_from_their_limits() {
        check(
            "",
            "LimitRange",
            json!({"spec": {"limits": [
                {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}, {"type": "Pod", "max": {"cpu": "2"}},
            ]}}),
            &json!({"spec": {"limits": [
                {
                    "type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}, "default": {"cpu": "2"},
                    "defaultRequest": {"cpu": "2", "memory": "1Mi"},
                },
                {"type": "Pod", "max": {"cpu": "2"}},
            ]}}),
        );
    }

    #[test]
    fn policies_are_of_the_types_that_their_rules_have() {
        for (spec, types) in
            [(json!({}), json!(["Ingress"])), (json!({"egress": [{}]}), json!(["Ingress", "Egress"]))]
        {
            let mut object = json!({ "spec": spec });
            default("networking.k8s.io", "NetworkPolicy", &mut object);
            assert_eq!(object["spec"]["policyTypes"], types);
        }
    }

    #[test]
    fn users_and_groups_are_subjects_of_the_group_of_roles() {
        let group = "rbac.authorization.k8s.io";
        check(
            group,
            "RoleBinding",
            json!({"roleRef": {"kind": "Role"}, "subjects": [{"kind": "User"}, {"kind": "ServiceAccount"}]}),
            &json!({
                "roleRef": {"kind": "Role", "apiGroup": group},
                "subjects": [{"kind": "User", "apiGroup": group}, {"kind": "ServiceAccount"}],
            }),
        );
    }
}
