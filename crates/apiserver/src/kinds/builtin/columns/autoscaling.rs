//! Cells of HorizontalPodAutoscalers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cell_values::{array, plain};
use super::{CellFn, number};
use crate::kinds::builtin::horizontal_pod_autoscaler;

const UNKNOWN: &str = "<unknown>";
/// Go's text for a nil quantity.
const NIL: &str = "<nil>";
/// Maximum number of metrics in a cell.
const SHOWN: usize = 2;

pub(super) fn cell(name: &str) -> Option<CellFn> {
    Some(match name {
        "Reference" => |object, _| {
            let target = &object["spec"]["scaleTargetRef"];
            json!(format!("{}/{}", plain(&target["kind"]), plain(&target["name"])))
        },
        "Targets" => targets,
        "MinPods" => |object, _| {
            json!(object["spec"]["minReplicas"].as_i64().map_or("<unset>".to_owned(), |min| min.to_string()))
        },
        "MaxPods" => |object, _| json!(number(object, "/spec/maxReplicas")),
        "Replicas" => |object, _| json!(number(object, "/status/currentReplicas")),
        _ => return None,
    })
}

/// Lists current and target values of the first two metrics, and the number of others. Both versions have the same table: its cells are
/// computed from the stored form.
fn targets(object: &Value, _: Timestamp) -> Value {
    let stored = horizontal_pod_autoscaler::stored(object);
    let (specs, statuses) = (array(&stored["spec"]["metrics"]), array(&stored["status"]["currentMetrics"]));
    let texts: Vec<String> =
        specs.iter().enumerate().map(|(index, spec)| metric(spec, statuses.get(index))).collect();
    json!(match texts.len() {
        0 => "<none>".to_owned(),
        1..=SHOWN => texts.join(", "),
        all => format!("{} + {} more...", texts[..SHOWN].join(", "), all - SHOWN),
    })
}

/// Formats a metric as `CURRENT/TARGET`, and a resource metric as `NAME: CURRENT/TARGET`. Statuses belong to metrics by their index.
fn metric(spec: &Value, status: Option<&Value>) -> String {
    let (source, is_resource) = match plain(&spec["type"]) {
        "External" => ("external", false),
        "Object" => ("object", false),
        "Pods" => ("pods", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let target = &spec[source]["target"];
    let current = status.and_then(|status| status.get(source)).map(|source| &source["current"]);
    let quantity = |value: &Value| value.as_str().unwrap_or(NIL).to_owned();
    let percent = |value: &Value| value.as_i64().map(|percent| format!("{percent}%"));
    let known = |field: &str| current.map_or(UNKNOWN.to_owned(), |current| quantity(&current[field]));
    // kube-apiserver decides by the fields that are set, not by the type of the target.
    let text = match (target["averageValue"].is_string(), is_resource) {
        (true, _) if matches!(source, "external" | "object") => {
            let average = current.and_then(|current| current["averageValue"].as_str()).unwrap_or(UNKNOWN);
            format!("{average}/{} (avg)", quantity(&target["averageValue"]))
        }
        (false, true) => {
            let used = current.and_then(|current| percent(&current["averageUtilization"]));
            let wanted = percent(&target["averageUtilization"]).unwrap_or("<auto>".to_owned());
            format!("{}/{wanted}", used.unwrap_or(UNKNOWN.to_owned()))
        }
        (true, _) => format!("{}/{}", known("averageValue"), quantity(&target["averageValue"])),
        (false, false) if source == "pods" => {
            format!("{}/{}", known("averageValue"), quantity(&target["averageValue"]))
        }
        (false, false) => format!("{}/{}", known("value"), quantity(&target["value"])),
    };
    if is_resource { format!("{}: {text}", plain(&spec[source]["name"])) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the cell for a spec and a status with that of a kube-apiserver.
    fn check(version: &str, spec: &Value, status: &Value, expected: &str) {
        let object = json!({"apiVersion": version, "kind": "HorizontalPodAutoscaler", "metadata": {}, "spec": spec, "status": status});
        assert_eq!(targets(&object, Timestamp::UNIX_EPOCH), expected);
    }

    #[test]
    fn an_autoscaler_shows_two_targets_and_their_current_values() {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
        let pods = json!({"type": "Pods", "pods": {"metric": {"name": "p"}, "target": {"type": "AverageValue", "averageValue": "1500m"}}});
        let object = json!({"type": "Object", "object": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "2k"}}});
        let average = json!({"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "3"}}});
        let current = json!([
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 30, "averageValue": "1"}}},
            {"type": "Pods", "pods": {"current": {"averageValue": "1"}}},
        ]);
        let v2 = "autoscaling/v2";
        let all = json!({"metrics": [cpu, pods, object]});
        check(v2, &all, &json!({}), "cpu: <unknown>/50%, <unknown>/1500m + 1 more...");
        check(v2, &all, &json!({"currentMetrics": current}), "cpu: 30%/50%, 1/1500m + 1 more...");
        check(v2, &json!({"metrics": [object, average]}), &json!({}), "<unknown>/2k, <unknown>/3 (avg)");
        check(v2, &json!({"metrics": []}), &json!({}), "<none>");
        check(
            "autoscaling/v1",
            &json!({"targetCPUUtilizationPercentage": 70}),
            &json!({"currentCPUUtilizationPercentage": 5}),
            "cpu: 5%/70%",
        );
    }
}
