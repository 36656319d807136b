//! Columns of pods, which summarize the state of their containers.

use jiff::Timestamp;
use kube_apimachinery::table::Column;
use kube_apimachinery::table::age::since;
use serde_json::{Value, json};

use super::{age, first_text, number, string, text_at, wide};

pub(super) fn pod() -> Vec<Column> {
    vec![
        string("Ready", "The aggregate readiness state of this pod for accepting traffic.", |pod, _| {
            let summary = summary(pod);
            json!(format!("{}/{}", summary.ready, summary.containers))
        }),
        string("Status", "The aggregate status of the containers in this pod.", |pod, _| {
            json!(summary(pod).reason)
        }),
        string(
            "Restarts",
            "The number of times the containers in this pod have been restarted and when the last container in this pod \
             has restarted.",
            restarts,
        ),
        age(),
        wide(
            "IP",
            "podIP address allocated to the pod. Routable at least within the cluster. Empty if not yet allocated.",
            |pod, _| or_none(&first_text(pod, &["/status/podIPs/0/ip", "/status/podIP"])),
        ),
        wide(
            "Node",
            "NodeName indicates in which node this pod is scheduled. If empty, this pod is a candidate for scheduling by \
             the scheduler defined in schedulerName. Once this field is set, the kubelet for this node becomes \
             responsible for the lifecycle of this pod. This field should not be used to express a desire for the pod to \
             be scheduled on a specific node. \
             https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodename",
            |pod, _| or_none(&first_text(pod, &["/spec/nodeName"])),
        ),
        wide(
            "Nominated Node",
            "nominatedNodeName is set only when this pod preempts other pods on the node, but it cannot be scheduled \
             right away as preemption victims receive their graceful termination periods. This field does not guarantee \
             that the pod will be scheduled on this node. Scheduler may decide to place the pod elsewhere if other nodes \
             become available sooner. Scheduler may also decide to give the resources on this node to a higher priority \
             pod that is created after preemption. As a result, this field may be different than PodSpec.nodeName when \
             the pod is scheduled.",
            |pod, _| or_none(&first_text(pod, &["/status/nominatedNodeName"])),
        ),
        wide(
            "Readiness Gates",
            "If specified, all readiness gates will be evaluated for pod readiness. A pod is ready when all its \
             containers are ready AND all conditions specified in the readiness gates have status equal to \"True\" More \
             info: https://git.k8s.io/enhancements/keps/sig-network/580-pod-readiness-gates",
            |pod, _| {
                let gates = list(pod, "/spec/readinessGates");
                let open =
                    gates.iter().filter(|gate| has_condition(pod, gate["conditionType"].as_str())).count();
                json!(if gates.is_empty() { "<none>".to_owned() } else { format!("{open}/{}", gates.len()) })
            },
        ),
    ]
}

#[derive(Debug, Default)]
struct Summary {
    reason: String,
    ready: usize,
    /// Number of containers, including sidecars: init containers with `restartPolicy: Always`.
    containers: usize,
    restarts: Restarts,
}

/// Number of restarts, and the time of the last one.
#[derive(Debug, Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += number(container, "/restartCount");
        let last = text_at(container, "/lastState/terminated/finishedAt").and_then(|time| time.parse().ok());
        self.last = self.last.max(last);
    }
}

/// Summarizes a pod. The reason is that of the first init container that has not succeeded. Otherwise it is that of the first container
/// that does not run, or the phase. A deletion overrides them all.
fn summary(pod: &Value) -> Summary {
    let reason = first_text(pod, &["/status/reason", "/status/phase"]);
    let mut summary = Summary {
        reason: reason.as_str().unwrap_or_default().to_owned(),
        containers: list(pod, "/spec/containers").len() + sidecars(pod).count(),
        ..Summary::default()
    };
    let gated = list(pod, "/status/conditions")
        .iter()
        .any(|condition| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated");
    if gated {
        "SchedulingGated".clone_into(&mut summary.reason);
    }
    let mut of_sidecars = Restarts::default();
    let initializing = initializing(pod, &mut summary, &mut of_sidecars);
    let initialized =
        list(pod, "/status/conditions").iter().find(|condition| condition["type"] == "Initialized");
    if !initializing || initialized.is_some_and(|condition| condition["status"] == "True") {
        // Once the pod is initialized, restarts of init containers other than sidecars no longer count.
        summary.restarts = of_sidecars;
        add_containers(pod, &mut summary);
    }
    if pod["metadata"]["deletionTimestamp"].is_string() {
        let ended = ["Succeeded", "Failed"].contains(&text_at(pod, "/status/phase").unwrap_or_default());
        if text_at(pod, "/status/reason") == Some("NodeLost") {
            // The node no longer reports, so whether the containers have ended is unknown.
            "Unknown".clone_into(&mut summary.reason);
        } else if !ended {
            // A pod whose containers have all ended shows its result instead, even while it is deleted.
            "Terminating".clone_into(&mut summary.reason);
        }
    }
    summary
}

/// Adds the regular containers to the summary.
fn add_containers(pod: &Value, summary: &mut Summary) {
    let (mut running, mut failure) = (false, None);
    // Each container with a problem replaces the reason. In reverse order, the first one wins.
    for container in list(pod, "/status/containerStatuses").iter().rev() {
        summary.restarts.add(container);
        if let Some(trouble) = trouble(container) {
            // The failure replaces the reason `Completed` below. Only a termination with another exit code than 0 counts as one.
            let is_waiting =
                text_at(container, "/state/waiting/reason").is_some_and(|reason| !reason.is_empty());
            if !is_waiting && number(container, "/state/terminated/exitCode") != 0 {
                failure = Some(trouble.clone());
            }
            summary.reason = trouble;
        } else if container["ready"] == true && container["state"]["running"].is_object() {
            running = true;
            summary.ready += 1;
        }
    }
    // The first container that does not run has completed, but others may still run or have failed.
    if summary.reason == "Completed" {
        if running && has_condition(pod, Some("Ready")) {
            "Running".clone_into(&mut summary.reason);
        } else if let Some(failure) = failure {
            summary.reason = failure;
        } else if running {
            "NotReady".clone_into(&mut summary.reason);
        }
    }
}

/// Returns the init containers with `restartPolicy: Always`.
fn sidecars(pod: &Value) -> impl Iterator<Item = &Value> {
    list(pod, "/spec/initContainers").iter().filter(|container| container["restartPolicy"] == "Always")
}

/// Whether any init container has neither succeeded nor started as a sidecar. Adds the init containers up to that one to the summary.
fn initializing(pod: &Value, summary: &mut Summary, of_sidecars: &mut Restarts) -> bool {
    let containers = list(pod, "/status/initContainerStatuses");
    for (index, container) in containers.iter().enumerate() {
        summary.restarts.add(container);
        let is_sidecar = sidecars(pod).any(|sidecar| sidecar["name"] == container["name"]);
        if is_sidecar {
            of_sidecars.add(container);
        }
        let state = &container["state"];
        if state["terminated"].is_object() && number(state, "/terminated/exitCode") == 0 {
            continue;
        }
        // A started sidecar does not hold up the next init container.
        if is_sidecar && container["started"] == true {
            summary.ready += usize::from(container["ready"] == true);
            continue;
        }
        summary.reason = match init_trouble(state) {
            Some(trouble) => format!("Init:{trouble}"),
            None => format!("Init:{index}/{}", list(pod, "/spec/initContainers").len()),
        };
        return true;
    }
    false
}

/// Returns the reason why an init container does not run. Unlike in [`trouble`], a termination takes precedence over waiting.
fn init_trouble(state: &Value) -> Option<String> {
    if state["terminated"].is_object() {
        return Some(end(&state["terminated"]));
    }
    // Every init container has the reason `PodInitializing` until its turn comes, so it says nothing about a problem.
    let waiting =
        text_at(state, "/waiting/reason").filter(|reason| !["", "PodInitializing"].contains(reason));
    waiting.map(str::to_owned)
}

/// Returns the reason why a container does not run, or `None` if it runs.
fn trouble(container: &Value) -> Option<String> {
    let state = &container["state"];
    let waiting = text_at(state, "/waiting/reason").filter(|reason| !reason.is_empty());
    waiting.map(str::to_owned).or_else(|| state["terminated"].is_object().then(|| end(&state["terminated"])))
}

/// Returns the reason of a termination, or else its signal or exit code.
fn end(ended: &Value) -> String {
    match (text_at(ended, "/reason").unwrap_or_default(), number(ended, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(ended, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn restarts(pod: &Value, now: Timestamp) -> Value {
    let Restarts { count, last } = summary(pod).restarts;
    json!(match last {
        Some(time) if count != 0 => format!("{count} ({} ago)", since(time, now)),
        _ => count.to_string(),
    })
}

fn has_condition(pod: &Value, kind: Option<&str>) -> bool {
    list(pod, "/status/conditions")
        .iter()
        .any(|condition| condition["type"].as_str() == kind && condition["status"] == "True")
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn or_none(text: &Value) -> Value {
    if *text == "" { json!("<none>") } else { text.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pod: &Value, expected: &str) {
        let Summary { reason, ready, restarts, .. } = summary(pod);
        assert_eq!(format!("{ready} {reason} {}", restarts.count), expected);
    }

    #[test]
    fn a_pod_shows_the_state_of_its_containers() {
        let running = json!({"ready": true, "restartCount": 2, "state": {"running": {}}});
        let waiting = json!({"restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let ended = json!({"state": {"terminated": {"exitCode": 3}}});
        check(&json!({"status": {"phase": "Pending"}}), "0 Pending 0");
        check(&json!({"status": {"phase": "Running", "containerStatuses": [running]}}), "1 Running 2");
        check(
            &json!({"status": {"phase": "Running", "containerStatuses": [running, waiting]}}),
            "1 CrashLoopBackOff 3",
        );
        check(&json!({"status": {"phase": "Failed", "containerStatuses": [ended]}}), "0 ExitCode:3 0");
        check(
            &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Running"}}),
            "0 Terminating 0",
        );
    }

    #[test]
    fn init_containers_come_first() {
        let done = json!({"state": {"terminated": {"exitCode": 0}}});
        let waiting = json!({"state": {"waiting": {"reason": "PodInitializing"}}});
        check(
            &json!({
                "spec": {"initContainers": [{}, {}]},
                "status": {"phase": "Pending", "initContainerStatuses": [done, waiting]},
            }),
            "0 Init:1/2 0",
        );
    }

    #[test]
    fn sidecars_count_as_containers() {
        let spec = json!({
            "containers": [{"name": "c"}], "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
        });
        let ended = |time: &str| json!({"terminated": {"exitCode": 1, "finishedAt": time}});
        let init = json!({
            "name": "i", "restartCount": 5, "state": {"terminated": {"exitCode": 0}},
            "lastState": ended("2026-01-01T00:00:09Z"),
        });
        let sidecar = json!({
            "name": "s", "restartCount": 2, "started": true, "ready": true, "state": {"running": {}},
            "lastState": ended("2026-01-01T00:00:05Z"),
        });
        let container = json!({
            "name": "c", "restartCount": 1, "ready": true, "state": {"running": {}}, "lastState": ended("2026-01-01T00:00:02Z"),
        });
        let pod = json!({"spec": spec, "status": {
            "phase": "Running", "initContainerStatuses": [init, sidecar], "containerStatuses": [container],
        }});
        check(&pod, "2 Running 3");
        assert_eq!(summary(&pod).containers, 2);
        // The last restart of the init container no longer counts.
        assert_eq!(restarts(&pod, "2026-01-01T00:00:10Z".parse().unwrap()), "3 (5s ago)");
        // For an init container that is not a sidecar, having started does not mean that it is done.
        let mut started = pod.clone();
        started["status"]["initContainerStatuses"][0]["state"] = json!({"running": {}});
        started["status"]["initContainerStatuses"][0]["started"] = json!(true);
        check(&started, "0 Init:0/2 5");
        // The condition says that the pod was already initialized.
        started["status"]["conditions"] = json!([{"type": "Initialized", "status": "True"}]);
        check(&started, "1 Init:0/2 1");
    }

    #[test]
    fn a_completed_container_does_not_hide_the_others() {
        let running = json!({"ready": true, "state": {"running": {}}});
        let done = json!({"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
        let failed = json!({"state": {"terminated": {"exitCode": 2, "reason": "Error"}}});
        let ready = json!([{"type": "Ready", "status": "True"}]);
        for (containers, conditions, expected) in [
            (json!([done, running]), json!([]), "1 NotReady 0"),
            (json!([done, running]), ready.clone(), "1 Running 0"),
            (json!([done, failed]), json!([]), "0 Error 0"),
            (json!([done, failed, running]), json!([]), "1 Error 0"),
            (json!([done, failed, running]), ready, "1 Running 0"),
            (json!([done]), json!([]), "0 Completed 0"),
        ] {
            check(
                &json!({"status": {"phase": "Running", "containerStatuses": containers, "conditions": conditions}}),
                expected,
            );
        }
    }
}
