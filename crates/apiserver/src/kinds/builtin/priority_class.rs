//! PriorityClasses.

use kube_apimachinery::metadata;
use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::field_checks::preemption_policy;
use super::shared::fields::set_pointer;
use super::shared::immutable_fields::{forbidden, immutable};
use crate::kind::resource::Resource;

/// Highest value of a class that is not a system class.
const HIGHEST: i64 = 1_000_000_000;
/// Prefix of the system's classes.
const SYSTEM: &str = "system-";
const CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

#[derive(Debug)]
pub(super) struct PriorityClass;

impl BuiltinKind for PriorityClass {
    fn default(&self, class: &mut Value) {
        set_pointer(class, "preemptionPolicy", json!("PreemptLowerPriority"));
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        match old {
            None => validate_new(new),
            Some(old) => validate_update(old, new),
        }
    }

    /// Refuses to delete a system class.
    fn admit_delete_by_name(&self, name: &str) -> Result<(), ApiError> {
        if CLASSES.iter().any(|(class, _)| *class == name) {
            let why = "this is a system priority class and cannot be deleted";
            return Err(ApiError::forbidden("scheduling.k8s.io", "priorityclasses", name, why));
        }
        Ok(())
    }
}

fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = forbidden(old, new, &["value"], "may not be changed in an update.");
    if old["preemptionPolicy"] != new["preemptionPolicy"] {
        errors.extend(immutable("", old, new, &["preemptionPolicy"]));
    }
    errors
}

fn validate_new(class: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (name, value) = (metadata::text(class, "name"), class["value"].as_i64().unwrap_or(0));
    if name.starts_with(SYSTEM) {
        let known = CLASSES.iter().find(|(known, _)| *known == name);
        let error = match known {
            None => Some(format!("{name} is not a known system priority class")),
            // A client may create a system class, but only with exactly the values of the system.
            Some((_, known)) if *known != value => {
                Some(format!("value of {name} PriorityClass must be {known}"))
            }
            Some(_) if class["globalDefault"] == true => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(error) = error {
            let why = format!(
                "priority class names with '{SYSTEM}' prefix are reserved for system use only. error: {error}"
            );
            errors.push(FieldError::forbidden("metadata.name", &why));
        }
    } else if value > HIGHEST {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        errors.push(FieldError::forbidden("value", &why));
    }
    errors.extend(preemption_policy(class, "preemptionPolicy"));
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::check_update;

    #[test]
    fn the_value_is_immutable() {
        check_update(
            "PriorityClass",
            &json!({"value": 1}),
            &json!({"value": 2}),
            &["value: Forbidden: may not be changed in an update."],
        );
    }
}
