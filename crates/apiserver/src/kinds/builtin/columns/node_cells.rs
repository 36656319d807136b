//! Cells of nodes.

use serde_json::{Value, json};

use super::cell_values::{NONE, UNKNOWN, array, condition, or, plain};
use super::{CellFn, text_at};

pub(super) fn cell(name: &str) -> CellFn {
    match name {
        "Status" => |object, _| {
            let ready = match condition(object, "Ready") {
                Some(("True", _)) => "Ready",
                // This includes the status `Unknown`. Only a node without the condition shows `Unknown`.
                Some(_) => "NotReady",
                None => "Unknown",
            };
            let closed = object["spec"]["unschedulable"] == true;
            json!(if closed { format!("{ready},SchedulingDisabled") } else { ready.to_owned() })
        },
        "Roles" => |object, _| {
            let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
            let mut roles: Vec<&str> = labels
                .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                    Some(role) => Some(role),
                    // This older label has the role as its value instead of in its name.
                    None => value.as_str().filter(|_| key == "kubernetes.io/role"),
                })
                .filter(|role| !role.is_empty())
                .collect();
            roles.sort_unstable();
            roles.dedup();
            json!(if roles.is_empty() { NONE.to_owned() } else { roles.join(",") })
        },
        "Version" => |object, _| or(object, "/status/nodeInfo/kubeletVersion", ""),
        "Internal-IP" => |object, _| address(object, "InternalIP"),
        "External-IP" => |object, _| address(object, "ExternalIP"),
        "OS-Image" => |object, _| or(object, "/status/nodeInfo/osImage", UNKNOWN),
        "Kernel-Version" => |object, _| {
            let kernel = or(object, "/status/nodeInfo/kernelVersion", UNKNOWN);
            match text_at(object, "/status/nodeInfo/architecture").filter(|text| !text.is_empty()) {
                Some(architecture) => json!(format!("{} ({architecture})", plain(&kernel))),
                None => kernel,
            }
        },
        _ => |object, _| or(object, "/status/nodeInfo/containerRuntimeVersion", UNKNOWN),
    }
}

fn address(node: &Value, kind: &str) -> Value {
    let found = array(&node["status"]["addresses"]).iter().find(|address| address["type"] == kind);
    json!(found.map_or(NONE, |address| plain(&address["address"])))
}

#[cfg(test)]
mod tests {
    use super::super::recorded::tests::shown;
    use super::*;

    #[test]
    fn nodes_show_whether_they_are_ready_and_schedulable() {
        let mut node = json!({"metadata": {"labels": {
            "kubernetes.io/role": "extra", "node-role.kubernetes.io/worker": "",
        }}});
        assert_eq!(
            shown("Node", &node),
            ["Unknown", "extra,worker", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"]
        );
        node["spec"] = json!({"unschedulable": true});
        node["status"] = json!({
            "conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.36.0", "kernelVersion": "6.1", "architecture": "amd64", "osImage": "Linux"},
        });
        assert_eq!(
            shown("Node", &node),
            [
                "Ready,SchedulingDisabled",
                "extra,worker",
                "v1.36.0",
                "10.0.0.1",
                "<none>",
                "Linux",
                "6.1 (amd64)",
                "<unknown>"
            ]
        );
    }

    #[test]
    fn an_unknown_kernel_has_an_architecture() {
        let node = json!({"status": {"nodeInfo": {"architecture": "arm64"}}});
        assert_eq!(shown("Node", &node)[6], "<unknown> (arm64)");
    }
}
