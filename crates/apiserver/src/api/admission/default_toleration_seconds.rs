//! Plugin `DefaultTolerationSeconds`: pods tolerate a node that is not ready or unreachable for five minutes.
//!
//! A pod that already tolerates one of the two taints, alone or with all others, gets no second toleration for it.

use kube_apimachinery::status::ApiError;
use serde_json::{Value, json};

use super::Attributes;
use super::rules::WriteRule;

/// Time in seconds that the taints are tolerated.
const TOLERATION_SECONDS: i64 = 300;
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

pub(super) struct DefaultTolerationSeconds;

impl WriteRule for DefaultTolerationSeconds {
    fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        if attributes.is_of("", "pods") && object["spec"].is_object() {
            TAINTS.into_iter().for_each(|taint| tolerate(&mut object["spec"], taint));
        }
        Ok(())
    }
}

/// Adds a toleration of the taint, unless there is one.
fn tolerate(spec: &mut Value, taint: &str) {
    let tolerations = spec["tolerations"].as_array().map_or(&[][..], Vec::as_slice);
    let is_tolerated = tolerations.iter().any(|toleration| {
        let text = |field: &str| toleration[field].as_str().unwrap_or_default();
        [taint, ""].contains(&text("key")) && ["NoExecute", ""].contains(&text("effect"))
    });
    if is_tolerated {
        return;
    }
    if !spec["tolerations"].is_array() {
        spec["tolerations"] = json!([]);
    }
    if let Some(list) = spec["tolerations"].as_array_mut() {
        list.push(json!({
            "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_tolerations_are_added() {
        for (tolerations, added) in [
            (json!(null), &TAINTS[..]),
            (json!([{"operator": "Exists"}]), &[]),
            (json!([{"operator": "Exists", "effect": "NoSchedule"}]), &TAINTS),
            (json!([{"key": TAINTS[0], "operator": "Exists", "effect": "NoExecute"}]), &TAINTS[1..]),
        ] {
            let before = tolerations.as_array().map_or(0, Vec::len);
            let mut spec = json!({ "tolerations": tolerations });
            TAINTS.into_iter().for_each(|taint| tolerate(&mut spec, taint));
            let all = spec["tolerations"].as_array().unwrap();
            let keys: Vec<&str> = all[before..].iter().filter_map(|one| one["key"].as_str()).collect();
            assert_eq!(keys, added);
        }
    }
}
