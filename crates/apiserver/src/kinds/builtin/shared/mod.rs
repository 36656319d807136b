//! Rules that several builtin kinds share.

pub(crate) mod amounts;
pub(super) mod discouraged;
pub(super) mod domain_checks;
pub(super) mod field_checks;
pub(super) mod fields;
pub(super) mod immutable_fields;
pub(super) mod label_selector;
pub(super) mod pod_spec;
pub(super) mod resource_names;
pub(super) mod rolling_update;
pub(super) mod volume_rules;
pub(super) mod workload;
