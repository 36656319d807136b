//! A request as a value, and the steps that it passes when it is sent.

pub(super) mod call;
pub(super) mod call_observer;
pub(crate) mod client;
pub(super) mod client_builder;
pub(super) mod client_metrics;
pub(super) mod conflict;
pub(super) mod deadline;
pub(crate) mod declaration_check;
mod declared_rights;
pub(super) mod decode;
pub(super) mod discovery;
pub(crate) mod error;
pub(super) mod exchange;
pub(super) mod interceptor;
mod layers;
pub(super) mod limiter;
pub(super) mod own_writes;
pub(super) mod preconditions;
pub(super) mod rbac;
pub(crate) mod read_body;
pub(super) mod run_record;
mod send_once;
pub(super) mod throttle;
pub(super) mod warnings;
pub(super) mod wrappers;
pub(super) mod write_gate;
pub(super) mod written_object;
