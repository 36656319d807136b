//! Requests and limits of a whole pod.
//!
//! Containers run together, so their amounts add up. Init containers run before them, one after the other, each together with the sidecars
//! (init containers with `restartPolicy: Always`) that started before it. A pod needs the larger of the two sums. Amounts in
//! `spec.resources` replace those of the containers.

use serde_json::Value;

use crate::kinds::builtin::shared::amounts::Amounts;

const COMPUTE: [&str; 2] = ["cpu", "memory"];
/// Prefix of the names of huge pages.
const HUGE_PAGES: &str = "hugepages-";

/// Kind of amounts of a pod: requests or limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AmountKind {
    Requests,
    Limits,
}

impl AmountKind {
    /// Returns the name of the field with these amounts.
    pub(crate) fn field(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }
}

/// Returns the amounts in a pod's spec that LimitRanges compare. Of `spec.resources`, only CPU and memory count.
pub(crate) fn in_spec(pod: &Value, bound: AmountKind) -> Amounts {
    let mut total = of_all_containers(pod, bound);
    replace(&mut total, pod, bound, |name| COMPUTE.contains(&name));
    total
}

/// Returns the amounts of all containers of a pod together.
pub(crate) fn of_all_containers(pod: &Value, bound: AmountKind) -> Amounts {
    of_containers(pod, |container| Amounts::read(&container["resources"][bound.field()]))
}

/// Returns the amounts that quotas count: those of the spec, plus the overhead of the runtime class. During a resize, the larger of the old
/// and the new amounts counts; an infeasible resize does not count.
pub(crate) fn in_use(pod: &Value, bound: AmountKind) -> Amounts {
    let is_infeasible = elements(&pod["status"]["conditions"])
        .find(|condition| condition["type"] == "PodResizePending")
        .is_some_and(|condition| condition["reason"] == "Infeasible");
    let mut total = of_containers(pod, |container| {
        let own = Amounts::read(&container["resources"][bound.field()]);
        let statuses = ["containerStatuses", "initContainerStatuses"].map(|list| &pod["status"][list]);
        let status = statuses
            .into_iter()
            .flat_map(elements)
            .find(|status| status["name"] == container["name"] && status["resources"].is_object());
        let Some(status) = status else { return own };
        let mut used = if is_infeasible { Amounts::default() } else { own };
        used.raise(&Amounts::read(&status["resources"][bound.field()]));
        if bound == AmountKind::Requests {
            // The kubelet has admitted these requests, even if it has not applied them to the container yet.
            used.raise(&Amounts::read(&status["allocatedResources"]));
        }
        used
    });
    replace(&mut total, pod, bound, is_pod_level);
    let overhead = Amounts::read(&pod["spec"]["overhead"]);
    match bound {
        AmountKind::Requests => total.add(&overhead),
        // A zero limit means unlimited, and adding the overhead would turn it into a limit.
        AmountKind::Limits => {
            let limited = total.only(|_, limit| !limit.is_zero());
            total.add(&overhead.only(|name, _| limited.get(name).is_some()));
        }
    }
    total
}

/// Whether `spec.resources` has any amount. If so, quotas do not require amounts in the containers.
pub(crate) fn has_pod_level(pod: &Value) -> bool {
    let lists =
        [AmountKind::Requests, AmountKind::Limits].map(|bound| &pod["spec"]["resources"][bound.field()]);
    lists.into_iter().filter_map(Value::as_object).flatten().any(|(name, _)| is_pod_level(name))
}

/// Sets limits of huge pages and requests in `spec.resources`, if it has any amount. The containers already have their defaults.
pub(super) fn default_pod_level(pod: &mut Value) {
    let own = |pod: &Value, bound: AmountKind| {
        pod["spec"]["resources"][bound.field()].as_object().cloned().unwrap_or_default()
    };
    let (mut limits, mut requests) = (own(pod, AmountKind::Limits), own(pod, AmountKind::Requests));
    if !pod["spec"]["resources"].is_object() || limits.is_empty() && requests.is_empty() {
        return;
    }
    let sum = |bound: AmountKind| of_all_containers(pod, bound);
    for (name, limit) in sum(AmountKind::Limits).iter() {
        if name.starts_with(HUGE_PAGES) && !requests.contains_key(name) {
            limits.entry(name).or_insert_with(|| limit.to_string().into());
        }
    }
    if !limits.is_empty() {
        for (name, request) in sum(AmountKind::Requests).iter() {
            // Huge pages cannot be overcommitted. Their requests equal the limits, which follow below.
            if COMPUTE.contains(&name) {
                requests.entry(name).or_insert_with(|| request.to_string().into());
            }
        }
        for (name, limit) in &limits {
            if is_pod_level(name) {
                requests.entry(name).or_insert_with(|| limit.clone());
            }
        }
    }
    let resources = &mut pod["spec"]["resources"];
    for (field, list) in [("limits", limits), ("requests", requests)] {
        if !list.is_empty() {
            resources[field] = Value::Object(list);
        }
    }
}

/// Whether `spec.resources` may have an amount of the resource.
fn is_pod_level(name: &str) -> bool {
    COMPUTE.contains(&name) || name.starts_with(HUGE_PAGES)
}

/// Replaces amounts by those of `spec.resources`.
fn replace(total: &mut Amounts, pod: &Value, bound: AmountKind, applies: impl Fn(&str) -> bool) {
    for (name, amount) in Amounts::read(&pod["spec"]["resources"][bound.field()]).iter() {
        if applies(name) {
            total.set(name, amount);
        }
    }
}

/// Combines the amounts of containers, init containers and sidecars as the module describes. `amounts` returns those of one container.
fn of_containers(pod: &Value, amounts: impl Fn(&Value) -> Amounts) -> Amounts {
    let mut total = Amounts::default();
    for container in elements(&pod["spec"]["containers"]) {
        total.add(&amounts(container));
    }
    let (mut sidecars, mut initially) = (Amounts::default(), Amounts::default());
    for container in elements(&pod["spec"]["initContainers"]) {
        let mut own = amounts(container);
        if container["restartPolicy"] == "Always" {
            total.add(&own);
            sidecars.add(&own);
            // During its start, a sidecar runs beside the earlier ones only.
            initially.raise(&sidecars);
        } else {
            // Sidecars that started earlier run beside this container.
            own.add(&sidecars);
            initially.raise(&own);
        }
    }
    total.raise(&initially);
    total
}

fn elements(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(cpu: &str) -> Value {
        json!({"name": format!("c{cpu}"), "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}})
    }

    fn sidecar(cpu: &str) -> Value {
        let mut container = container(cpu);
        container["restartPolicy"] = json!("Always");
        container
    }

    #[test]
    fn a_pod_needs_the_larger_of_its_start_and_its_run() {
        for (init, containers, cpu) in [
            (json!([]), json!([container("1"), container("2")]), "cpu=3"),
            (json!([container("5")]), json!([container("1"), container("2")]), "cpu=5"),
            (json!([container("3"), sidecar("1")]), json!([container("1")]), "cpu=3"),
            (json!([sidecar("1"), container("3")]), json!([container("1")]), "cpu=4"),
            (json!([sidecar("1"), sidecar("2")]), json!([container("1")]), "cpu=4"),
        ] {
            let pod = json!({"spec": {"initContainers": init, "containers": containers}});
            assert_eq!(in_spec(&pod, AmountKind::Requests).to_string(), cpu);
            assert_eq!(in_use(&pod, AmountKind::Limits).to_string(), cpu);
        }
    }

    #[test]
    fn amounts_of_the_pod_replace_those_of_its_containers() {
        let pod = json!({"spec": {
            "containers": [container("1")],
            "resources": {"requests": {"cpu": "5", "hugepages-2Mi": "2Mi"}},
        }});
        assert_eq!(in_spec(&pod, AmountKind::Requests).to_string(), "cpu=5");
        assert_eq!(in_use(&pod, AmountKind::Requests).to_string(), "cpu=5,hugepages-2Mi=2Mi");
        assert!(has_pod_level(&pod));
        assert!(!has_pod_level(&json!({"spec": {"resources": {"requests": {}}}})));
    }

    #[test]
    fn resources_of_the_pod_have_defaults() {
        let huge = json!({"name": "h", "resources": {"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"hugepages-2Mi": "4Mi"}}});
        for (resources, expected) in [
            (json!(null), json!(null)),
            (json!({}), json!({})),
            (
                json!({"requests": {"memory": "1Gi"}}),
                json!({
                    "requests": {"cpu": "3", "memory": "1Gi", "hugepages-2Mi": "4Mi"}, "limits": {"hugepages-2Mi": "4Mi"},
                }),
            ),
            (
                json!({"limits": {"cpu": "5", "memory": "1Gi"}}),
                json!({
                    "limits": {"cpu": "5", "memory": "1Gi", "hugepages-2Mi": "4Mi"},
                    "requests": {"cpu": "3", "memory": "1Gi", "hugepages-2Mi": "4Mi"},
                }),
            ),
            (
                json!({"limits": {"cpu": "5"}, "requests": {"cpu": "4", "hugepages-2Mi": "2Mi"}}),
                json!({
                    "limits": {"cpu": "5"}, "requests": {"cpu": "4", "hugepages-2Mi": "2Mi"},
                }),
            ),
        ] {
            let mut pod = json!({"spec": {"containers": [container("1"), container("2"), huge], "resources": resources}});
            default_pod_level(&mut pod);
            assert_eq!(pod["spec"]["resources"], expected);
        }
    }

    #[test]
    fn overhead_counts_and_limits_only_what_is_limited() {
        let pod = json!({"spec": {
            "containers": [{"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi", "cpu": "0"}}}],
            "overhead": {"cpu": "10m", "memory": "1Mi"},
        }});
        assert_eq!(in_use(&pod, AmountKind::Requests).to_string(), "cpu=10m,memory=1025Mi");
        assert_eq!(in_use(&pod, AmountKind::Limits).to_string(), "cpu=0,memory=2049Mi");
        assert_eq!(in_spec(&pod, AmountKind::Requests).to_string(), "memory=1Gi");
    }

    #[test]
    fn a_resized_pod_uses_the_larger_amount() {
        let mut pod = json!({
            "spec": {"containers": [container("2")]},
            "status": {"containerStatuses": [{
                "name": "c2", "allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "1"}},
            }]},
        });
        assert_eq!(in_use(&pod, AmountKind::Requests).to_string(), "cpu=3");
        assert_eq!(in_spec(&pod, AmountKind::Requests).to_string(), "cpu=2");
        pod["status"]["containerStatuses"][0]["allocatedResources"] = json!({"cpu": "1"});
        assert_eq!(in_use(&pod, AmountKind::Requests).to_string(), "cpu=2");
        pod["status"]["conditions"] = json!([{"type": "PodResizePending", "reason": "Infeasible"}]);
        assert_eq!(in_use(&pod, AmountKind::Requests).to_string(), "cpu=1");
    }
}
