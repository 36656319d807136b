//! Plugin `PodTopologyLabels`: pods get the zone and the region of their node as labels.
//!
//! The labels are copied to a new pod that names its node, and to a binding, which passes them on to its pod.

use kube_apimachinery::metadata;
use kube_apimachinery::status::ApiError;
use serde_json::{Value, json};

use super::rules::WriteRule;
use super::{Attributes, Operation};
use crate::store::Key;

const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

pub(super) struct PodTopologyLabels;

impl WriteRule for PodTopologyLabels {
    fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        if attributes.operation != Operation::Create || !attributes.is_below("", "pods") {
            return Ok(());
        }
        let name = match attributes.subresource {
            "" => &object["spec"]["nodeName"],
            "binding" if object["target"]["kind"] == "Node" => &object["target"]["name"],
            _ => return Ok(()),
        };
        let Some(name) = name.as_str().filter(|name| !name.is_empty()) else {
            return Ok(());
        };
        if let Some(node) = attributes.get("", "nodes", &Key::new("", name)) {
            copy_labels(&node, object);
        }
        Ok(())
    }
}

/// Copies the labels of a node, replacing those of the object.
fn copy_labels(node: &Value, object: &mut Value) {
    for label in LABELS {
        let value = &node["metadata"]["labels"][label];
        if value.is_string() {
            let labels = metadata::of(object).entry("labels").or_insert_with(|| json!({}));
            if labels.is_null() {
                *labels = json!({});
            }
            labels[label].clone_from(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_and_region_replace_those_of_the_pod() {
        let node = json!({"metadata": {"labels": {LABELS[0]: "z", "other": "x"}}});
        let mut pod = json!({"metadata": {"labels": {LABELS[0]: "old", LABELS[1]: "kept"}}});
        copy_labels(&node, &mut pod);
        assert_eq!(pod["metadata"]["labels"], json!({LABELS[0]: "z", LABELS[1]: "kept"}));
        let mut plain = json!({"metadata": {}});
        copy_labels(&json!({"metadata": {}}), &mut plain);
        assert_eq!(plain, json!({"metadata": {}}));
    }
}
