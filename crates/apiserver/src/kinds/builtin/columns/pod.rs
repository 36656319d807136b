//! Columns of pods, which summarize the state of their containers.

use jiff::Timestamp;
use kube_apimachinery::table::Column;
use kube_apimachinery::table::age::since;
use serde_json::{Value, json};

use super::{age, first_text, number, string, text_at, wide};

pub(super) fn pod() -> Vec<Column> {
    vec![
        string("Ready", "The aggregate readiness state of this pod for accepting traffic.", |pod, _| {
            json!(format!("{}/{}", summary(pod).ready, list(pod, "/spec/containers").len()))
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

struct Summary {
    reason: String,
    ready: usize,
    restarts: i64,
}

/// Summarizes the pod. The reason is that of the first init container that has not succeeded, or else that of the first container with a
/// problem, or else the phase.
fn summary(pod: &Value) -> Summary {
    let reason = first_text(pod, &["/status/reason", "/status/phase"]);
    let mut reason = reason.as_str().unwrap_or_default().to_owned();
    let gated = list(pod, "/status/conditions")
        .iter()
        .any(|condition| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated");
    if gated {
        "SchedulingGated".clone_into(&mut reason);
    }
    let (mut ready, mut restarts, mut running) = (0, 0, false);
    if let Some(initializing) = initializing(pod, &mut restarts) {
        reason = initializing;
    } else {
        // Restarts of init containers no longer count.
        restarts = 0;
        // In reverse order, so that the first container with a problem decides.
        for container in list(pod, "/status/containerStatuses").iter().rev() {
            restarts += number(container, "/restartCount");
            if let Some(trouble) = trouble(container) {
                reason = trouble;
            } else if container["ready"] == true && container["state"]["running"].is_object() {
                running = true;
                ready += 1;
            }
        }
        if reason == "Completed" && running {
            let ready = has_condition(pod, Some("Ready"));
            (if ready { "Running" } else { "NotReady" }).clone_into(&mut reason);
        }
    }
    if pod["metadata"]["deletionTimestamp"].is_string() {
        let ended = ["Succeeded", "Failed"].contains(&text_at(pod, "/status/phase").unwrap_or_default());
        if text_at(pod, "/status/reason") == Some("NodeLost") {
            "Unknown".clone_into(&mut reason);
        } else if !ended {
            "Terminating".clone_into(&mut reason);
        }
    }
    Summary { reason, ready, restarts }
}

/// Returns the state of the first init container that has not succeeded, if there is one.
fn initializing(pod: &Value, restarts: &mut i64) -> Option<String> {
    let containers = list(pod, "/status/initContainerStatuses");
    for (index, container) in containers.iter().enumerate() {
        *restarts += number(container, "/restartCount");
        let state = &container["state"];
        let ended_well = state["terminated"].is_object() && number(state, "/terminated/exitCode") == 0;
        if ended_well || container["started"] == true {
            continue;
        }
        return Some(match trouble(container).filter(|trouble| trouble != "PodInitializing") {
            Some(trouble) => format!("Init:{trouble}"),
            None => format!("Init:{index}/{}", list(pod, "/spec/initContainers").len()),
        });
    }
    None
}

/// Returns the reason why a container does not run.
fn trouble(container: &Value) -> Option<String> {
    let state = &container["state"];
    let waiting = text_at(state, "/waiting/reason").filter(|reason| !reason.is_empty());
    if let Some(reason) = waiting {
        return Some(reason.to_owned());
    }
    let ended = state.get("terminated").filter(|ended| ended.is_object())?;
    Some(match (text_at(ended, "/reason").unwrap_or_default(), number(ended, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(ended, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    })
}

fn restarts(pod: &Value, now: Timestamp) -> Value {
    let count = summary(pod).restarts;
    let last = ["/status/initContainerStatuses", "/status/containerStatuses"]
        .into_iter()
        .flat_map(|pointer| list(pod, pointer))
        .filter_map(|container| {
            text_at(container, "/lastState/terminated/finishedAt")?.parse::<Timestamp>().ok()
        })
        .max();
    json!(match last {
        Some(time) if count > 0 => format!("{count} ({} ago)", since(time, now)),
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
        let Summary { reason, ready, restarts } = summary(pod);
        assert_eq!(format!("{ready} {reason} {restarts}"), expected);
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
}
