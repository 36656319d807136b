//! Admission webhooks that misbehave, and connections to them. What kube-apiserver does with ordinary ones was recorded: see
//! `tests/conformance`.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod cluster;
mod empty_lists;
mod hostile;
mod sockets;
