//! Admission webhooks that misbehave, and connections to them. What kube-apiserver does with ordinary ones was recorded: see
//! `tests/conformance`.

mod cluster;
mod empty_lists;
mod hostile;
mod sockets;
