//! Builtin kinds: the data files, and the rules that the data files do not contain.
//!
//! Each kind has a file or folder of its own with an implementation of [`BuiltinKind`](builtin_kind::BuiltinKind): defaults, fields that
//! the server sets, validation, immutable fields, warnings. `kind_table` assigns the implementations to kinds. A kind without a file has
//! no such rules. `shared` holds rules of several kinds, such as those of pod specs. Namespaces and CustomResourceDefinitions are in
//! [`kinds`](super), because they also have rules for deletion.

// Shared by all kinds.
mod builtin_kind;
mod columns;
pub(crate) mod data;
mod kind_table;
mod served_kinds;
pub(crate) mod shared;
#[cfg(test)]
mod test_helpers;
#[cfg(test)]
mod tests;

// One module per kind.
pub(crate) mod admission_policy;
mod api_service;
pub(crate) mod certificate_signing_request;
mod component_status;
mod config_map;
mod controller_revision;
mod cron_job;
mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod daemon_set;
mod deployment;
mod endpoint_slice;
mod endpoints;
mod event;
mod flow_schema;
mod horizontal_pod_autoscaler;
mod ingress;
mod ingress_class;
mod ip_address;
mod job;
mod lease;
mod limit_range;
mod network_policy;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
pub(crate) mod pod;
mod pod_disruption_budget;
mod pod_template;
mod priority_class;
mod priority_level_configuration;
mod replica_set;
mod replication_controller;
mod resource_claim;
pub(crate) mod resource_quota;
mod role;
mod role_binding;
mod runtime_class;
mod secret;
pub(crate) mod service;
mod service_account;
mod service_cidr;
mod stateful_set;
mod storage_class;
mod tls_key_pair;
mod volume_attachment;
mod volume_attributes_class;
mod webhook_configuration;

pub(crate) use builtin_kind::Plain;
pub(crate) use columns::of_scale as scale_columns;
pub(crate) use persistent_volume::VOLUME_PROTECTION;
pub(crate) use persistent_volume_claim::CLAIM_PROTECTION;
pub(crate) use resource_claim::{ADMIN_ACCESS, admin_access};
#[cfg(test)]
pub(crate) use served_kinds::served;
pub(crate) use served_kinds::{delete_options, group_rank, registry};
