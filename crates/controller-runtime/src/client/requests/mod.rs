//! Requests and their options.

pub(super) mod call_builder;
pub(super) mod client_methods;
pub(super) mod delete;
pub(super) mod dynamic;
pub(super) mod many;
pub(super) mod object_requests;
pub(super) mod patch;
pub(super) mod read;
pub(super) mod status;
pub(super) mod subresource;
pub(super) mod watch;
pub(super) mod write;
