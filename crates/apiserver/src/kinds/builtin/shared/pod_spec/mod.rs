//! Rules of pod specs in pods and templates: defaults, fields behind feature gates, validation, warnings.

mod defaults;
mod disabled;
mod discouraged_fields;
mod image_name;
mod validation;
mod virtual_paths;

use serde_json::Value;

pub(in crate::kinds::builtin) use defaults::{default, default_volume_sources};
pub(in crate::kinds::builtin) use disabled::drop_disabled;
pub(in crate::kinds::builtin) use discouraged_fields::{claim_fractions, warnings};
pub(in crate::kinds::builtin) use validation::{
    GatedValues, is_mirror, node_selector, pod_annotation_updates, validate, validate_limits,
    validate_new_pod, validate_pod, validate_template_metadata, validate_tolerations,
};

/// Path of the pod spec in workloads and Jobs.
pub(in crate::kinds::builtin) const IN_WORKLOAD: &str = "spec.template.spec";

/// Returns the value at a path such as `spec.template`.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() {
        return Some(object);
    }
    path.split('.').try_fold(object, |value, field| value.get(field))
}
