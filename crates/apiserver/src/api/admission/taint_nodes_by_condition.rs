//! Plugin `TaintNodesByCondition`: a new node has the taint `node.kubernetes.io/not-ready`, which keeps pods away until its first
//! heartbeat. The node controller removes it.

use kube_apimachinery::status::ApiError;
use serde_json::{Value, json};

use super::rules::WriteRule;
use super::{Attributes, Operation};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

pub(super) struct TaintNodesByCondition;

impl WriteRule for TaintNodesByCondition {
    fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        if attributes.operation == Operation::Create && attributes.is_of("", "nodes") {
            taint(object);
        }
        Ok(())
    }
}

fn taint(node: &mut Value) {
    if !node["spec"].is_object() {
        node["spec"] = json!({});
    }
    if !node["spec"]["taints"].is_array() {
        node["spec"]["taints"] = json!([]);
    }
    if let Some(taints) = node["spec"]["taints"].as_array_mut()
        && !taints.iter().any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule")
    {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_the_taint_once() {
        let mut node = json!({});
        taint(&mut node);
        let once = json!({"spec": {"taints": [{"key": NOT_READY, "effect": "NoSchedule"}]}});
        assert_eq!(node, once);
        taint(&mut node);
        assert_eq!(node, once);
    }
}
