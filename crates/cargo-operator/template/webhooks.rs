//! The webhooks of Widgets: the API server calls them before it stores an object.

// --defaulting
use controller_runtime::webhook::Defaulter;
// --validation
use controller_runtime::webhook::{FieldErrors, Validator};
// --
use controller_runtime::webhook::{Admission, Verdict};
use kube::ResourceExt;

use super::Widget;

// --defaulting
/// Label of the program that manages an object, for tools that group objects by it.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

impl Defaulter for Widget {
    /// Sets fields that a new or changed object leaves out.
    async fn set_defaults(&mut self, _: &Admission) -> Verdict {
        let label = self.labels_mut().entry(MANAGED_BY.to_owned());
        label.or_insert_with(|| "widget-operator".to_owned());
        Ok(())
    }
}
// --validation

/// Longest name: children of the object have it with a prefix, and names have at most 63 characters in labels.
const MAX_NAME: usize = 40;

impl Validator for Widget {
    /// Accepts or refuses a new object.
    async fn validate_create(&self, _: &Admission) -> Verdict {
        let mut errors = FieldErrors::new();
        let name = self.name_any();
        if name.len() > MAX_NAME {
            let reason = format!("must have at most {MAX_NAME} characters");
            errors.invalid("metadata.name", name, reason);
        }
        errors.into_verdict()
    }

    /// Accepts or refuses a changed object, by the same rules.
    async fn validate_update(&self, _: &Self, cx: &Admission) -> Verdict {
        self.validate_create(cx).await
    }
}
// --
