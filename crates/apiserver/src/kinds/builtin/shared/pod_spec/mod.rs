//! Rules of a pod's spec, on its own or in the template of a workload: defaults, validation, warnings.

mod defaults;
mod validation;

pub(in crate::kinds::builtin) use defaults::{default, default_volume_sources};
pub(in crate::kinds::builtin) use validation::{validate, validate_with_volumes, warnings};

/// Path of the pod's spec in workloads and Jobs.
pub(in crate::kinds::builtin) const IN_WORKLOAD: &str = "spec.template.spec";
