//! Deprecated annotations with AppArmor profiles of containers. A new pod gets the fields that replace them.

use serde_json::{Value, json};

use crate::kinds::builtin::shared::fields::{elements, put, set, text, within};

const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
/// Maximum length of the path of a profile.
const MAX_PATH: usize = 4095;

/// Copies annotated profiles to containers without a profile. Returns a warning for each annotation that says more than the fields do.
pub(super) fn copy(pod: &mut Value) -> Vec<String> {
    // AppArmor exists on Linux only, and validation refuses the field for Windows pods.
    if pod["spec"]["os"]["name"] == "windows" {
        return Vec::new();
    }
    let annotations = pod["metadata"]["annotations"].clone();
    let of_pod = pod["spec"]["securityContext"]["appArmorProfile"].clone();
    let mut warnings = Vec::new();
    within(pod, "spec", |spec| {
        for kind in ["initContainers", "containers", "ephemeralContainers"] {
            for container in elements(spec, kind) {
                let key = format!("{PREFIX}{}", text(container, "name"));
                let Some(annotated) = annotations[&key].as_str() else { continue };
                // A profile in the field takes precedence. Validation compares it with the annotation.
                if !container["securityContext"]["appArmorProfile"].is_null() {
                    continue;
                }
                let profile = profile(annotated);
                // The container inherits this profile from the pod already.
                if profile.as_ref() == Some(&of_pod) {
                    continue;
                }
                if let Some(profile) = profile {
                    set(container, "securityContext", json!({}));
                    within(container, "securityContext", |context| put(context, "appArmorProfile", profile));
                }
                let why = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
                warnings.push(format!("metadata.annotations[{key}]: {why}"));
            }
        }
    });
    warnings
}

/// Returns the field for an annotation; `None` if the annotation is invalid.
fn profile(annotated: &str) -> Option<Value> {
    match annotated {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        _ => {
            let file = annotated.strip_prefix("localhost/")?;
            let is_valid = !file.is_empty() && file.trim() == file && file.len() <= MAX_PATH;
            is_valid.then(|| json!({"type": "Localhost", "localhostProfile": file}))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotation: &str, of_pod: &Value, of_container: &Value) -> Value {
        json!({
            "metadata": {"annotations": {format!("{PREFIX}c"): annotation}},
            "spec": {"securityContext": of_pod, "containers": [{"name": "c", "securityContext": of_container}]},
        })
    }

    /// The first case is recorded from kube-apiserver v1.36.3, the others are read in its source.
    #[test]
    fn annotated_profiles_become_fields() {
        let default = json!({"appArmorProfile": {"type": "RuntimeDefault"}});
        for (annotation, of_pod, of_container, expected, warns) in [
            ("runtime/default", &json!({}), &Value::Null, &default, true),
            ("runtime/default", &default, &Value::Null, &Value::Null, false),
            ("localhost/ x", &json!({}), &Value::Null, &Value::Null, true),
            ("unconfined", &json!({}), &default, &default, false),
        ] {
            let mut pod = pod(annotation, of_pod, of_container);
            let warnings = copy(&mut pod);
            assert_eq!(&pod["spec"]["containers"][0]["securityContext"], expected, "{annotation} {of_pod}");
            let warning = format!(
                "metadata.annotations[{PREFIX}c]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
            );
            assert_eq!(warnings, if warns { vec![warning] } else { vec![] }, "{annotation} {of_pod}");
        }
    }
}
